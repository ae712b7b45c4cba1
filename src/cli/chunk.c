#include "cli/chunk.h"

#include "base/nearest.h"

#include <orrery.h>

#include <lauxlib.h>
#include <lua.h>

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static void push_source(lua_State *L, const struct orr_lua_source *source)
{
    int error = orr_lua_load(L, source);
    if (error == -EPROTO)
        lua_error(L);
    if (error)
        luaL_error(L, "cannot load %s: %s", source->name + 1, strerror(-error));
}

void chunk_push_text(lua_State *L, const char *text, const char *name)
{
    push_source(L, &(struct orr_lua_source){ .text = text, .name = name });
}

/* --- Files ------------------------------------------------------------------------------------ */

/* Pushes a hint about what may have been meant: a command, or the same path with Lua's ending. */
static const char *push_hint(lua_State *L, const char *path)
{
    static const char *const commands[] = { "info", "repl", "test" };
    const char *command = nearest(path, commands, sizeof commands / sizeof *commands);
    const char *with_ending = lua_pushfstring(L, "%s.lua", path);
    if (!access(with_ending, R_OK))
        return lua_pushfstring(L, "; did you mean '%s'?", with_ending);
    return command ? lua_pushfstring(L, "; did you mean 'orrery %s'?", command) : "";
}

static int refuse(lua_State *L, const char *path, int error)
{
    const char *hint = error == ENOENT ? push_hint(L, path) : "";
    return luaL_error(L, "cannot open '%s': %s%s", path, strerror(error), hint);
}

/* Reads the whole file into a buffer that Lua owns, and leaves the string on the stack. */
static void push_contents(lua_State *L, int fd, const char *path)
{
    enum { PIECE = 8192 };
    luaL_Buffer buffer;
    luaL_buffinit(L, &buffer);
    for (;;) {
        char *space = luaL_prepbuffsize(&buffer, PIECE);
        ssize_t size = read(fd, space, PIECE);
        int error = errno;
        if (size < 0 && fd != STDIN_FILENO)
            close(fd);
        if (size < 0)
            refuse(L, path, error);
        if (size <= 0)
            break;
        luaL_addsize(&buffer, (size_t)size);
    }
    luaL_pushresult(&buffer);
    if (fd != STDIN_FILENO)
        close(fd);
}

/*
 * Skips the byte order mark that editors put before UTF-8, and a first line for the shell, but not
 * its newline, so that lines are counted right.
 */
static const char *skip_first(const char *text, size_t *size)
{
    static const char mark[] = "\xEF\xBB\xBF";
    const char *start = text, *end = text + *size;
    if (*size >= strlen(mark) && !memcmp(start, mark, strlen(mark)))
        start += strlen(mark);
    if (start < end && *start == '#') {
        const char *newline = memchr(start, '\n', (size_t)(end - start));
        start = newline ? newline : end;
    }
    *size = (size_t)(end - start);
    return start;
}

void chunk_push_file(lua_State *L, const char *path)
{
    bool standard = !strcmp(path, "-");
    int fd = standard ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        refuse(L, path, errno);
    push_contents(L, fd, path);
    size_t size;
    const char *text = lua_tolstring(L, -1, &size);
    text = skip_first(text, &size);
    bool compiled = size && *text == *LUA_SIGNATURE;
    if (!compiled && memchr(text, '\0', size))
        luaL_error(L, "'%s' is not a Lua script: it holds binary data", path);
    const char *name = standard ? "=stdin" : lua_pushfstring(L, "@%s", path);
    push_source(L, &(struct orr_lua_source){ .text = size ? text : "", .size = size, .name = name });
}
