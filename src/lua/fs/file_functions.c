/*
 * lua/fs.lua has checked all arguments.  A path may be followed by the stream of an open directory:
 * then it is relative to that.
 */
#include "lua/fs/file_functions.h"

#include "lua/fs/file_operation.h"
#include "lua/isolate.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/random.h>
#include <unistd.h>

/* The path at an index; the one behind it may be an open directory. */
static struct orr_path path_at(lua_State *L, int index, int directory)
{
    struct orr_path path = { .text = luaL_checkstring(L, index) };
    if (!directory || lua_isnoneornil(L, directory))
        return path;
    path.at = true;
    path.directory = orr_file_descriptor(stream_object_check(L, directory)->stream);
    return path;
}

/* What runs a request on the path at index 1. */
static int run(lua_State *L, const char *name, const struct orr_file_request *request,
               int (*finish)(lua_State *, struct file_operation *, const struct orr_file_answer *))
{
    return file_operation_run(L, &(struct file_operation){ .name = name, .path = lua_tostring(L, 1), .finish = finish },
                              request);
}

/* --- Opening ---------------------------------------------------------------------------------- */

static int push_opened(lua_State *L, struct file_operation *self, const struct orr_file_answer *answer)
{
    (void)self;
    (void)answer;
    lua_pushvalue(L, 5);
    return 1;
}

/* open(path, flags, permissions, directory or nil) -> stream */
static int fs_open(lua_State *L)
{
    lua_settop(L, 4);
    struct orr_file_request request = {
        .call = ORR_FILE_OPEN,
        .path = path_at(L, 1, 4),
        .flags = (int)luaL_checkinteger(L, 2),
        .mode = (unsigned)luaL_checkinteger(L, 3),
    };
    struct file_operation what = { .name = "open", .path = request.path.text, .finish = push_opened };
    what.opens = stream_object_new(L);
    return file_operation_run(L, &what, &request);
}

/* --- What is known ---------------------------------------------------------------------------- */

static const char *type_name(enum orr_file_type type)
{
    switch (type) {
    case ORR_TYPE_REGULAR:
        return "file";
    case ORR_TYPE_DIRECTORY:
        return "directory";
    case ORR_TYPE_SYMLINK:
        return "symlink";
    case ORR_TYPE_FIFO:
        return "fifo";
    case ORR_TYPE_SOCKET:
        return "socket";
    case ORR_TYPE_CHARACTER:
        return "character device";
    case ORR_TYPE_BLOCK:
        return "block device";
    default:
        return "unknown";
    }
}

static void set_integer(lua_State *L, const char *key, uint64_t value)
{
    lua_pushinteger(L, (lua_Integer)value);
    lua_setfield(L, -2, key);
}

int file_push_stat(lua_State *L, const struct orr_file_answer *answer)
{
    const struct orr_file_stat *stat = &answer->stat;
    lua_createtable(L, 0, 9);
    lua_pushstring(L, type_name(stat->type));
    lua_setfield(L, -2, "type");
    lua_pushnumber(L, (lua_Number)stat->modified_ns / 1e6);
    lua_setfield(L, -2, "modified");
    set_integer(L, "size", stat->size);
    set_integer(L, "mode", stat->mode);
    set_integer(L, "uid", stat->uid);
    set_integer(L, "gid", stat->gid);
    set_integer(L, "inode", stat->inode);
    set_integer(L, "device", stat->device);
    set_integer(L, "links", stat->links);
    return 1;
}

static int push_stat(lua_State *L, struct file_operation *self, const struct orr_file_answer *answer)
{
    (void)self;
    return file_push_stat(L, answer);
}

/* stat(path, do not follow, directory or nil) -> table */
static int fs_stat(lua_State *L)
{
    bool no_follow = lua_toboolean(L, 2);
    struct orr_file_request request = {
        .call = ORR_FILE_STAT,
        .path = path_at(L, 1, 3),
        .flags = no_follow ? AT_SYMLINK_NOFOLLOW : 0,
    };
    return run(L, no_follow ? "lstat" : "stat", &request, push_stat);
}

static int push_bytes(lua_State *L, struct file_operation *self, const struct orr_file_answer *answer)
{
    (void)self;
    lua_pushlstring(L, answer->bytes, (size_t)answer->result);
    return 1;
}

static int fs_read_link(lua_State *L)
{
    return run(L, "read_link", &(struct orr_file_request){ .call = ORR_FILE_READ_LINK, .path = path_at(L, 1, 0) },
               push_bytes);
}

/* [names] -> [names] [types], each a list */
static int push_names(lua_State *L, struct file_operation *self, const struct orr_file_answer *answer)
{
    if (!answer->result) {
        lua_pushnil(L);
        return 1;
    }
    lua_newtable(L);
    lua_newtable(L);
    size_t cursor = 0;
    const char *name;
    enum orr_file_type type;
    for (lua_Integer i = 1; orr_file_next_name(self->work, &cursor, &name, &type); i++) {
        lua_pushstring(L, name);
        lua_rawseti(L, -3, i);
        lua_pushstring(L, type_name(type));
        lua_rawseti(L, -2, i);
    }
    return 2;
}

/* list(directory) -> the next names, their types; nil after the last */
static int fs_list(lua_State *L)
{
    enum { NAMES_BYTES = 32 * 1024 }; /* some thousand names at most: a part of a turn */
    struct orr_stream *directory = stream_object_check(L, 1)->stream;
    struct orr_file_request request = { .call = ORR_FILE_LIST, .file = directory, .size = NAMES_BYTES };
    struct file_operation what = { .name = "list", .path = orr_file_path(directory), .finish = push_names };
    return file_operation_run(L, &what, &request);
}

/* --- Changes ---------------------------------------------------------------------------------- */

/* make_dir(path, permissions, directory or nil) */
static int fs_make_dir(lua_State *L)
{
    struct orr_file_request request = {
        .call = ORR_FILE_MAKE_DIR,
        .path = path_at(L, 1, 3),
        .mode = (unsigned)luaL_checkinteger(L, 2),
    };
    return run(L, "make_dir", &request, NULL);
}

/* remove(path, whether it is a directory, directory or nil) */
static int fs_remove(lua_State *L)
{
    struct orr_file_request request = {
        .call = ORR_FILE_REMOVE,
        .path = path_at(L, 1, 3),
        .flags = lua_toboolean(L, 2) ? AT_REMOVEDIR : 0,
    };
    return run(L, "remove", &request, NULL);
}

/* rename(from, to) */
static int fs_rename(lua_State *L)
{
    struct orr_file_request request = {
        .call = ORR_FILE_RENAME,
        .path = path_at(L, 1, 0),
        .to = path_at(L, 2, 0),
    };
    return run(L, "rename", &request, NULL);
}

/* link(target, link) */
static int fs_link(lua_State *L)
{
    struct orr_file_request request = { .call = ORR_FILE_LINK, .path = path_at(L, 1, 0), .to = path_at(L, 2, 0) };
    return run(L, "link", &request, NULL);
}

/* symlink(target, link) */
static int fs_symlink(lua_State *L)
{
    struct orr_file_request request = { .call = ORR_FILE_SYMLINK, .to = path_at(L, 2, 0) };
    request.bytes = luaL_checklstring(L, 1, &request.size);
    return file_operation_run(L, &(struct file_operation){ .name = "symlink", .path = request.to.text }, &request);
}

static int push_count(lua_State *L, struct file_operation *self, const struct orr_file_answer *answer)
{
    (void)self;
    lua_pushinteger(L, answer->result);
    return 1;
}

/* copy(from, to, offset) -> how many bytes of the file were copied; 0 at the end */
static int fs_copy(lua_State *L)
{
    enum { PIECE = 8 << 20 }; /* a cancelled copy ends after at most so much */
    struct orr_file_request request = {
        .call = ORR_FILE_COPY,
        .file = stream_object_check(L, 1)->stream,
        .other = stream_object_check(L, 2)->stream,
        .offset = (uint64_t)luaL_checkinteger(L, 3),
        .size = PIECE,
    };
    struct file_operation what = { .name = "copy", .path = orr_file_path(request.file), .finish = push_count };
    return file_operation_run(L, &what, &request);
}

/* --- What does not touch a disk --------------------------------------------------------------- */

/* A name that nobody guesses. */
static int random_name(lua_State *L)
{
    unsigned char bytes[12];
    if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
        return luaL_error(L, "the system has no random numbers");
    char text[2 * sizeof bytes + 1];
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(text + 2 * i, 3, "%02x", bytes[i]);
    lua_pushstring(L, text);
    return 1;
}

static int working_directory(lua_State *L)
{
    char *path = getcwd(NULL, 0);
    if (!path)
        return io_error_push(L, &(struct io_failure){ .error = -errno, .operation = "absolute" });
    lua_pushstring(L, path); /* may raise, and leak a path: memory is out */
    free(path);
    return 1;
}

static int temp_folder(lua_State *L)
{
    const char *folder = secure_getenv("TMPDIR");
    lua_pushstring(L, folder && *folder ? folder : "/tmp");
    return 1;
}

static const struct {
    const char *name;
    lua_Integer value;
} flags[] = {
    { "RDONLY", O_RDONLY },       { "WRONLY", O_WRONLY },   { "RDWR", O_RDWR },     { "CREAT", O_CREAT },
    { "EXCL", O_EXCL },           { "TRUNC", O_TRUNC },     { "APPEND", O_APPEND }, { "NOFOLLOW", O_NOFOLLOW },
    { "DIRECTORY", O_DIRECTORY }, { "TMPFILE", O_TMPFILE },
};

void file_functions_open(struct orr_isolate *iso, lua_State *L)
{
    static const luaL_Reg functions[] = {
        { "open", fs_open },
        { "stat", fs_stat },
        { "read_link", fs_read_link },
        { "list", fs_list },
        { "make_dir", fs_make_dir },
        { "remove", fs_remove },
        { "rename", fs_rename },
        { "link", fs_link },
        { "symlink", fs_symlink },
        { "copy", fs_copy },
        { "random_name", random_name },
        { "working_directory", working_directory },
        { "temp_folder", temp_folder },
        { NULL, NULL },
    };
    isolate_register(iso, L, functions);
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        lua_pushinteger(L, flags[i].value);
        lua_setfield(L, -2, flags[i].name);
    }
}
