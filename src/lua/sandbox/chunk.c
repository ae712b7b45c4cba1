#include "lua/sandbox/chunk.h"

#include "lua/isolate/roots.h"
#include "lua/isolate/settings.h"
#include "lua/sandbox/bounded.h"
#include "lua/sandbox/source.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

/* --- load ------------------------------------------------------------------------------------- */

/*
 * For some texts the compiler takes time in proportion to the square of their length, and nothing
 * can interrupt it in between: see docs/threats.md.
 */
enum { LOAD_MAX = 64 << 10 };

/* Compiles the text at an index.  Pushes the function; or nil and the reason.  Answers how many. */
static int push_loaded(lua_State *L, int index, const struct source_options *options)
{
    size_t size;
    const char *text = lua_tolstring(L, index, &size);
    int error = source_load_text(L, text, size, options);
    if (!error)
        return 1;
    if (error == -ENOMEM)
        return luaL_error(L, "not enough memory");
    lua_pushnil(L);
    if (error == -EPROTO)
        lua_insert(L, -2);
    else
        lua_pushliteral(L, "chunk is too long");
    return 2;
}

/*
 * [text] [name] [mode] [globals]; the last may be missing.  `unnamed` is the name of a chunk
 * without one.
 */
static int load_text(lua_State *L, const char *unnamed)
{
    const char *mode = luaL_optstring(L, 3, "bt");
    const char *text = lua_tostring(L, 1);
    if (!strchr(mode, 't')) {
        lua_pushnil(L);
        lua_pushfstring(L, "attempt to load a %s chunk (mode is '%s')", *text == LUA_SIGNATURE[0] ? "binary" : "text",
                        mode);
        return 2;
    }
    struct source_options options = {
        .iso = isolate_of(L), .name = luaL_optstring(L, 2, unnamed), .mode = "t", .limit = LOAD_MAX
    };
    lua_pushvalue(L, lua_isnone(L, 4) ? lua_upvalueindex(2) : 4);
    int results = push_loaded(L, 1, &options);
    if (results != 1)
        return results;
    lua_insert(L, -2);
    source_set_globals(L);
    return 1;
}

/* [reader] [other arguments of load...] [text, or nil] [error]: the source was read. */
static int load_read(lua_State *L, int status, lua_KContext arguments)
{
    (void)status;
    if (lua_isnil(L, -2))
        return 2;
    lua_pop(L, 1);
    lua_replace(L, 1);
    lua_settop(L, (int)arguments);
    return load_text(L, "=(load)");
}

int chunk_load(lua_State *L)
{
    if (lua_isstring(L, 1))
        return load_text(L, lua_tostring(L, 1));
    luaL_optstring(L, 3, "");
    luaL_optstring(L, 2, "");
    luaL_checktype(L, 1, LUA_TFUNCTION);
    int arguments = lua_gettop(L);
    bounded_push_in_lua(L, LUA_GNAME, "read_all");
    lua_pushvalue(L, 1);
    lua_callk(L, 1, 2, arguments, load_read);
    return load_read(L, LUA_OK, arguments);
}

/* --- Modules ---------------------------------------------------------------------------------- */

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
}

/* Words with dots between them: nothing that means something to a file system. */
static bool is_module_name(const char *name, size_t size)
{
    bool in_word = false;
    for (size_t i = 0; i < size; i++) {
        if (!is_word(name[i]) && !(name[i] == '.' && in_word))
            return false;
        in_word = name[i] != '.';
    }
    return in_word;
}

/* The function, or its error message, is at the top.  The globals are at 2. */
static int finish_module(lua_State *L, const char *name, const char *path, int error)
{
    if (error) {
        const char *why = error == -EPROTO ? lua_tostring(L, -1) : strerror(-error);
        lua_pushfstring(L, "error loading module '%s' from file '%s':\n\t%s", name, path, why);
        return lua_error(L); /* the message has its position already */
    }
    lua_pushvalue(L, 2);
    source_set_globals(L);
    lua_pushstring(L, path);
    return 2;
}

int chunk_load_module(lua_State *L)
{
    static const char *const forms[] = { "%s.lua", "%s/init.lua" };
    struct orr_isolate *iso = isolate_of(L);
    size_t size;
    const char *name = luaL_checklstring(L, 1, &size);
    lua_settop(L, 2);
    if (size > 256 || !is_module_name(name, size)) {
        lua_pushnil(L);
        lua_pushliteral(L, "\n\tnot a module name; expected words of letters, digits, _ and -, with dots between them");
        return 2;
    }
    const char *base = luaL_gsub(L, name, ".", "/");
    lua_pushstring(
        L, roots_count(iso->settings->roots) ? "" : "\n\tthe host has given this script no folders to require from");
    for (unsigned i = 0; i < 2 * roots_count(iso->settings->roots); i++) {
        const char *path = lua_pushfstring(L, forms[i % 2], base);
        lua_pushfstring(L, "@%s", path);
        int fd = roots_open_file(iso->settings->roots, i / 2, path);
        if (fd >= 0) {
            struct source_options options = {
                .iso = iso, .name = lua_tostring(L, -1), .mode = "t", .limit = iso->limits.longest_source
            };
            int error = source_load_file(L, fd, &options);
            close(fd);
            return finish_module(L, name, path, error);
        }
        lua_pop(L, 1);
        const char *why = fd == -ENOENT ? "" : strerror(-fd);
        lua_pushfstring(L, "\n\tno file '%s'%s%s", path, *why ? ": " : "", why);
        lua_remove(L, -2);
        lua_concat(L, 2);
    }
    lua_pushnil(L);
    lua_insert(L, -2);
    return 2;
}
