#include "lua/fs/file_methods.h"

#include "lua/api/primitive.h"
#include "lua/fs/file_functions.h"
#include "lua/fs/file_operation.h"
#include "lua/isolate.h"
#include "lua/net/address_argument.h"

#include <errno.h>
#include <sys/file.h>

enum { AT_ONCE_MOST = 16 << 20 }; /* bytes of one pread or pwrite: they are copied in a turn */

typedef int finish_fn(lua_State *L, struct file_operation *self, const struct orr_file_answer *answer);

static int refuse(lua_State *L, const char *name, const struct orr_stream *stream, int error)
{
    return io_error_push(L, &(struct io_failure){
                                .error = error,
                                .operation = name,
                                .path = orr_file_path(stream),
                                .message = error == -ESPIPE ? "the stream is not a file that is open by fs.open" : NULL,
                            });
}

/* Runs a request on the file at index 1; `name` is that of the method. */
static int run(lua_State *L, const char *name, struct orr_file_request *request, finish_fn *finish)
{
    const struct stream_object *self = stream_object_check(L, 1);
    request->file = self->stream;
    int descriptor = self->stream ? VISITED(isolate_of(L), orr_file_descriptor(self->stream)) : -EBADF;
    if (descriptor < 0)
        return refuse(L, name, self->stream, descriptor);
    struct file_operation what = { .name = name, .path = orr_file_path(self->stream), .finish = finish };
    return file_operation_run(L, &what, request);
}

static int push_self(lua_State *L, struct file_operation *self, const struct orr_file_answer *answer)
{
    (void)self;
    (void)answer;
    lua_pushvalue(L, 1);
    return 1;
}

static uint64_t check_offset(lua_State *L, int index, const char *what)
{
    if (!lua_isinteger(L, index) || lua_tointeger(L, index) < 0)
        argument_raise(L, "%s: expected a position, a whole number from 0 on, got %s", what,
                       luaL_tolstring(L, index, NULL));
    return (uint64_t)lua_tointeger(L, index);
}

static int push_bytes(lua_State *L, struct file_operation *self, const struct orr_file_answer *answer)
{
    (void)self;
    if (answer->result)
        lua_pushlstring(L, answer->bytes, (size_t)answer->result);
    else
        lua_pushnil(L);
    return 1;
}

/* pread(count, offset) -> bytes; nil at the end */
static int file_pread(lua_State *L)
{
    stream_object_check(L, 1);
    if (!lua_isinteger(L, 2) || lua_tointeger(L, 2) < 1 || lua_tointeger(L, 2) > AT_ONCE_MOST)
        argument_raise(L, "stream:pread: expected a number of bytes from 1 to %d, got %s", AT_ONCE_MOST,
                       luaL_tolstring(L, 2, NULL));
    struct orr_file_request request = {
        .call = ORR_FILE_READ,
        .size = (size_t)lua_tointeger(L, 2),
        .offset = check_offset(L, 3, "stream:pread"),
    };
    return run(L, "pread", &request, push_bytes);
}

/* pwrite(bytes, offset) -> self */
static int file_pwrite(lua_State *L)
{
    stream_object_check(L, 1);
    struct orr_file_request request = { .call = ORR_FILE_WRITE, .offset = check_offset(L, 3, "stream:pwrite") };
    if (lua_type(L, 2) != LUA_TSTRING)
        argument_raise(L, "stream:pwrite: expected a string, got %s", luaL_typename(L, 2));
    request.bytes = lua_tolstring(L, 2, &request.size);
    if (request.size > AT_ONCE_MOST)
        argument_raise(L, "stream:pwrite: at most %d bytes in one call; write it in pieces", AT_ONCE_MOST);
    return run(L, "pwrite", &request, push_self);
}

/* truncate(size) -> self */
static int file_truncate(lua_State *L)
{
    stream_object_check(L, 1);
    struct orr_file_request request = { .call = ORR_FILE_TRUNCATE, .offset = check_offset(L, 2, "stream:truncate") };
    return run(L, "truncate", &request, push_self);
}

/* sync() -> self */
static int file_sync(lua_State *L)
{
    return run(L, "sync", &(struct orr_file_request){ .call = ORR_FILE_SYNC }, push_self);
}

static int push_stat(lua_State *L, struct file_operation *self, const struct orr_file_answer *answer)
{
    (void)self;
    return file_push_stat(L, answer);
}

/* stat() -> table */
static int file_stat(lua_State *L)
{
    return run(L, "stat", &(struct orr_file_request){ .call = ORR_FILE_STAT }, push_stat);
}

/* try_lock(stream, "shared" or "exclusive" or "none") -> self; the code EAGAIN if it is taken */
static int try_lock(lua_State *L)
{
    static const char *const names[] = { "shared", "exclusive", "none", NULL };
    static const int flags[] = { LOCK_SH, LOCK_EX, LOCK_UN };
    struct orr_file_request request = { .call = ORR_FILE_LOCK };
    request.flags = flags[luaL_checkoption(L, 2, NULL, names)];
    return run(L, "lock", &request, push_self);
}

/* tell(stream) -> position */
static int tell(lua_State *L)
{
    struct orr_stream *stream = stream_object_check(L, 1)->stream;
    uint64_t position;
    int error = stream ? VISITED(isolate_of(L), orr_file_tell(stream, &position)) : -EBADF;
    if (error)
        return refuse(L, "seek", stream, error);
    lua_pushinteger(L, (lua_Integer)position);
    return 1;
}

/* go(stream, position) -> position */
static int go(lua_State *L)
{
    struct orr_stream *stream = stream_object_check(L, 1)->stream;
    uint64_t position = check_offset(L, 2, "stream:seek");
    int error = stream ? VISITED(isolate_of(L), orr_file_seek(stream, position)) : -EBADF;
    if (error == -EBUSY)
        return argument_raise(L, "stream:seek: another task reads from this file or writes to it");
    if (error)
        return refuse(L, "seek", stream, error);
    lua_settop(L, 2);
    return 1;
}

void file_methods_open(struct orr_isolate *iso, lua_State *L)
{
    static const luaL_Reg functions[] = {
        { "pread", file_pread },
        { "pwrite", file_pwrite },
        { "truncate", file_truncate },
        { "sync", file_sync },
        { "file_stat", file_stat },
        { "try_lock", try_lock },
        { "tell", tell },
        { "go", go },
        { NULL, NULL },
    };
    isolate_register(iso, L, functions);
}
