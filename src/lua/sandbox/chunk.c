#include "lua/sandbox/chunk.h"

#include "lua/limits/level.h"
#include "lua/limits/slice.h"

#include "lua/isolate/roots.h"
#include "lua/isolate/settings.h"
#include "lua/sandbox/sandbox.h"
#include "lua/sandbox/source.h"
#include "lua/task/script.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

/* --- load ------------------------------------------------------------------------------------------------------ */

/* Pushes what becomes of source text at an index: the function; or nil and why not. */
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

/* Lua takes the square of the length for some texts, and there is no stopping it: see docs/threats.md. */
enum { LOAD_MAX = 64 << 10 };

/* [text] [name] [mode] [globals], the last if there is one.  `unnamed` is a chunk without a name. */
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
    lua_pushvalue(L, lua_isnone(L, 4) ? lua_upvalueindex(3) : 4);
    int results = push_loaded(L, 1, &options);
    if (results != 1)
        return results;
    lua_insert(L, -2);
    if (!lua_setupvalue(L, -2, 1))
        lua_pop(L, 1);
    return 1;
}

/* [text, or nil] [what was called with, but its first] [error]: the source was read. */
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
    lua_pushvalue(L, lua_upvalueindex(2));
    lua_pushvalue(L, 1);
    lua_callk(L, 1, 2, arguments, load_read);
    return load_read(L, LUA_OK, arguments);
}

/* --- Modules ------------------------------------------------------------------------------------------------------ */

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
}

/* Words with dots between them, and nothing that means something to a file system. */
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

/* The function is at the top, if there is one.  The globals are at 2. */
static int finish_module(lua_State *L, const char *name, const char *path, int error)
{
    if (error) {
        const char *why = error == -EPROTO ? lua_tostring(L, -1) : strerror(-error);
        lua_pushfstring(L, "error loading module '%s' from file '%s':\n\t%s", name, path, why);
        return lua_error(L); /* which has its place in the message */
    }
    lua_pushvalue(L, 2);
    if (!lua_setupvalue(L, -2, 1))
        lua_pop(L, 1);
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
        lua_pushliteral(L, "\n\tnot a name of a module: words of letters, digits, _ and -, with dots between them");
        return 2;
    }
    const char *base = luaL_gsub(L, name, ".", "/");
    lua_pushstring(L,
                   roots_count(iso->settings->roots) ? "" : "\n\tthere are no folders for this script to require from");
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

/* --- The host's ------------------------------------------------------------------------------------------------------- */

struct request {
    const struct orr_lua_source *source;
    int error;
};

static const char *push_name(lua_State *L, const struct orr_lua_source *source)
{
    const char *name = source->name ? source->name : source->path ? source->path : "script";
    return lua_pushfstring(L, *name == '@' || *name == '=' ? "%s" : "@%s", name);
}

/* [request] -> [function, or the message] */
static int load_requested(lua_State *L)
{
    struct request *request = lua_touserdata(L, 1);
    const struct orr_lua_source *source = request->source;
    struct orr_isolate *iso = isolate_find(L);
    bool bounded = sandbox_applies(iso);
    if (source->own_globals)
        sandbox_push_globals(L);
    struct source_options options = { .iso = iso,
                                      .name = push_name(L, source),
                                      .mode = bounded ? "t" : NULL,
                                      .limit = bounded ? iso->limits.longest_source : 0 };
    if (source->path) {
        int fd = roots_open_any(source->path);
        request->error = fd < 0 ? fd : source_load_file(L, fd, &options);
        if (fd >= 0)
            close(fd);
    } else {
        size_t size = source->size ? source->size : strlen(source->text);
        request->error = source_load_text(L, source->text, size, &options);
    }
    if (!request->error && source->own_globals) {
        lua_pushvalue(L, 2);
        if (!lua_setupvalue(L, -2, 1))
            lua_pop(L, 1);
        script_number_chunk(iso, L);
    }
    return !request->error || request->error == -EPROTO;
}

/* Compiling has the deadline of a script: [function] [argument] */
static int pcall_watched(struct orr_isolate *iso, lua_State *L)
{
    if (iso->limits.mode != ORR_LUA_SIGNAL) /* the parser runs no instructions */
        return lua_pcall(L, 1, LUA_MULTRET, 0);
    struct level level = {
        .co = L, .host_waits = true, .entry = ORR_LUA_SCRIPT, .limit = iso->limits.deadline_ns[ORR_LUA_SCRIPT]
    };
    bool outermost = slice_begin(iso);
    level_enter(iso, &level, NULL);
    int status = lua_pcall(L, 1, LUA_MULTRET, 0);
    level_leave(iso, &level);
    if (outermost)
        slice_end(iso);
    return status;
}

int orr_lua_load(lua_State *L, const struct orr_lua_source *source)
{
    struct orr_isolate *iso = L ? isolate_find(L) : NULL;
    if (!iso || !source || !source->path == !source->text)
        return -EINVAL;
    if (source->own_globals && !sandbox_applies(iso))
        return -ENOTSUP;
    if (!lua_checkstack(L, 4))
        return -ENOMEM;
    int error = isolate_visit(iso);
    if (error)
        return error;
    struct request request = { .source = source };
    int top = lua_gettop(L);
    lua_pushcfunction(L, load_requested);
    lua_pushlightuserdata(L, &request);
    int status = pcall_watched(iso, L);
    isolate_leave(iso);
    if (status == LUA_OK)
        return request.error;
    log_line(&iso->rt->log, ORR_LOG_ERROR, "no script: %s", lua_tostring(L, -1));
    lua_settop(L, top);
    return -ENOMEM;
}

/* [value] [name] */
static int register_protected(lua_State *L)
{
    struct orr_isolate *iso = isolate_find(L);
    if (sandbox_applies(iso))
        sandbox_push_registered(L);
    else
        luaL_getsubtable(L, LUA_REGISTRYINDEX, lua_isfunction(L, 1) ? LUA_PRELOAD_TABLE : LUA_LOADED_TABLE);
    lua_pushvalue(L, 1);
    lua_setfield(L, -2, lua_touserdata(L, 2));
    return 0;
}

int orr_lua_register(lua_State *L, const char *name)
{
    struct orr_isolate *iso = L ? isolate_find(L) : NULL;
    if (!iso || !name || !*name || !lua_gettop(L) || lua_isnil(L, -1))
        return -EINVAL;
    if (!lua_checkstack(L, 4)) {
        lua_pop(L, 1);
        return -ENOMEM;
    }
    lua_pushcfunction(L, register_protected);
    lua_insert(L, -2);
    lua_pushlightuserdata(L, (void *)name);
    if (lua_pcall(L, 2, 0, 0) == LUA_OK)
        return 0;
    lua_pop(L, 1);
    return -ENOMEM;
}
