/* orr_lua_load() and orr_lua_register(): the host loads source text, and registers modules. */
#include "lua/isolate/roots.h"
#include "lua/limits/level.h"
#include "lua/limits/slice.h"
#include "lua/sandbox/sandbox.h"
#include "lua/sandbox/source.h"
#include "lua/task/script.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

/* --- Loading ---------------------------------------------------------------------------------- */

struct request {
    const struct orr_lua_source *source;
    int error;
};

static const char *push_name(lua_State *L, const struct orr_lua_source *source)
{
    const char *name = source->name ? source->name : source->path ? source->path : "script";
    return lua_pushfstring(L, *name == '@' || *name == '=' ? "%s" : "@%s", name);
}

/* [request] -> [function] or [error message] or nothing, as `request->error` says. */
static int load_requested(lua_State *L)
{
    struct request *request = lua_touserdata(L, 1);
    const struct orr_lua_source *source = request->source;
    struct orr_isolate *iso = isolate_find(L);
    bool bounded = isolate_is_sandboxed(iso);
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
        source_set_globals(L);
        script_number_chunk(iso, L);
    }
    return !request->error || request->error == -EPROTO;
}

/* [function] [argument]: calls the function, under the deadline of a script. */
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
    if (source->own_globals && !isolate_is_sandboxed(iso))
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
    log_line(&iso->log, ORR_LOG_ERROR, "orr_lua_load: cannot load the script: %s", lua_tostring(L, -1));
    lua_settop(L, top);
    return -ENOMEM;
}

/* --- Registering ------------------------------------------------------------------------------ */

/* [value] [name]: registers the value as a module. */
static int register_protected(lua_State *L)
{
    const char *name = lua_touserdata(L, 2);
    lua_settop(L, 1);
    sandbox_register(isolate_find(L), L, name);
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
