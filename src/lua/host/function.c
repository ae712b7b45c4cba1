/*
 * Functions by path, such as `game.on_tick`, from the table of globals.  The host calls functions
 * of scripts with values, and sets functions that scripts call.
 */
#include "lua/host/call.h"
#include "lua/host/global_path.h"
#include "lua/host/host_call.h"
#include "lua/host/value.h"
#include "lua/task/hold.h"
#include "lua/task/task.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

/* --- Calling scripts -------------------------------------------------------------------------- */

struct calling {
    struct orr_isolate *iso;
    const char *path;              /* of the function to call, if `function` is NULL */
    struct orr_function *function; /* the function to call, or NULL */
    const struct orr_value *arguments;
    size_t count;
    int error;
};

/* [calling] -> [function] [arguments...] */
static int prepare(lua_State *L)
{
    struct calling *calling = lua_touserdata(L, 1);
    if (calling->function)
        lua_rawgeti(L, LUA_REGISTRYINDEX, calling->function->reference);
    else
        global_path_push(L, calling->path);
    if (!lua_isfunction(L, -1)) {
        calling->error = -ENOENT;
        return 0;
    }
    int function = lua_gettop(L);
    calling->error = value_push_all(calling->iso, L, calling->arguments, calling->count);
    return calling->error ? 0 : lua_gettop(L) - function + 1;
}

static int run(lua_State *L, struct calling *calling, uint64_t deadline_ns)
{
    if (calling->count > INT_MAX - 8 || !lua_checkstack(L, 4))
        return -ENOMEM;
    lua_pushcfunction(L, prepare);
    lua_pushlightuserdata(L, calling);
    if (lua_pcall(L, 1, LUA_MULTRET, 0) != LUA_OK)
        return -ENOMEM;
    if (calling->error)
        return calling->error;
    uint32_t script = calling->function ? calling->function->script : script_sole(&calling->iso->scripts);
    return call_for(script, L, (int)calling->count, LUA_MULTRET, deadline_ns);
}

/* Whether a call that failed with `error` leaves an error message on the stack. */
static bool says_why(int error)
{
    return error == -ESCRIPT || error == -ETIME || error == -ENOMEM;
}

/*
 * Calls a function, inside isolate_visit().  `*room` is the capacity of `results`; on return it is
 * the number of results.
 */
static int call(lua_State *L, struct calling *calling, struct orr_value *results, size_t *room, uint64_t deadline_ns)
{
    int top = lua_gettop(L);
    int error = isolate_is_held(calling->iso) ? -EBUSY : run(L, calling, deadline_ns);
    size_t count = error && !says_why(error) ? 0 : (size_t)(lua_gettop(L) - top);
    count = count < *room ? count : *room;
    int lost = count ? value_copy_all(calling->iso, L, top + 1, count, false, results) : 0;
    lua_settop(L, top);
    *room = lost ? 0 : count;
    return error ? error : lost;
}

/* Sets all results to nil and their count to 0.  Returns the capacity of `results`. */
static size_t clear_results(struct orr_value *results, size_t *result_count)
{
    size_t room = results && result_count ? *result_count : 0;
    if (room)
        memset(results, 0, room * sizeof *results);
    if (result_count)
        *result_count = 0;
    return room;
}

int orr_lua_call_values(lua_State *L, const char *path, const struct orr_value *arguments, size_t count,
                        struct orr_value *results, size_t *result_count, uint64_t deadline_ns)
{
    size_t room = clear_results(results, result_count);
    struct calling calling = { .path = path, .arguments = arguments, .count = count };
    if (!global_path_is_valid(path) || (count && !arguments))
        return -EINVAL;
    int error;
    calling.iso = value_visit(L, &error);
    if (!calling.iso)
        return error;
    error = call(L, &calling, results, &room, deadline_ns);
    isolate_leave(calling.iso);
    if (result_count)
        *result_count = room;
    return error;
}

int orr_function_call(struct orr_function *function, const struct orr_value *arguments, size_t count,
                      struct orr_value *results, size_t *result_count, uint64_t deadline_ns)
{
    size_t room = clear_results(results, result_count);
    if (!function || function->iso->closing || (count && !arguments))
        return -EINVAL;
    struct orr_isolate *iso = function->iso;
    struct calling calling = { .iso = iso, .function = function, .arguments = arguments, .count = count };
    int error = isolate_visit(iso);
    if (error)
        return error;
    error = call(execution_running(&iso->execution), &calling, results, &room, deadline_ns);
    isolate_leave(iso);
    if (result_count)
        *result_count = room;
    return error;
}

/* --- Functions that scripts call -------------------------------------------------------------- */

/* A function of the host: the second upvalue of the function that scripts call. */
struct host_function {
    orr_call_fn *fn;
    void *data;
    char path[];
};

/* [isolate] [call] -> [results...].  Raises if a value cannot be pushed. */
static int push_results(lua_State *L)
{
    struct orr_isolate *iso = lua_touserdata(L, 1);
    const struct orr_call *call = lua_touserdata(L, 2);
    lua_settop(L, 0);
    int error = value_push_all(iso, L, call->results, call->result_count);
    if (error)
        return luaL_error(L, "it returned a value that cannot be converted to Lua: %s", strerror(-error));
    return lua_gettop(L);
}

/* Pushes the results of the host's function.  On an error, sets the message of the call. */
static int answer(struct orr_isolate *iso, lua_State *L, struct orr_call *call)
{
    if (call->result_count > ORR_CALL_RESULTS)
        return orr_call_fail(call, -EINVAL, "it returned more than %d results", ORR_CALL_RESULTS);
    if (!lua_checkstack(L, 4))
        return -ENOMEM;
    lua_pushcfunction(L, push_results);
    lua_pushlightuserdata(L, iso);
    lua_pushlightuserdata(L, call);
    if (lua_pcall(L, 2, LUA_MULTRET, 0) == LUA_OK)
        return 0;
    return orr_call_fail(call, -EINVAL, "%s", lua_tostring(L, -1));
}

/* Calls the host's function while the arguments are there, and pushes its results. */
static int run_function(void *data, struct orr_isolate *iso, lua_State *L, struct orr_call *call)
{
    const struct host_function *function = data;
    int error = function->fn(function->data, call);
    error = error ? error : answer(iso, L, call);
    if (call->drop)
        call->drop(call->drop_data);
    return error;
}

/* [arguments...] -> [results...] */
static int call_host(lua_State *L)
{
    struct host_function *function = lua_touserdata(L, lua_upvalueindex(2));
    struct orr_call call = { .L = L };
    int top = lua_gettop(L);
    int error = host_call_run(isolate_of(L), L, 1, &call, run_function, function);
    return error ? host_call_raise(L, function->path, &call, error) : lua_gettop(L) - top;
}

struct setting {
    struct orr_isolate *iso;
    const char *path;
    orr_call_fn *fn;
    void *data;
};

static void push_host_function(lua_State *L, void *data)
{
    const struct setting *setting = data;
    size_t size = strlen(setting->path) + 1;
    lua_pushlightuserdata(L, setting->iso);
    struct host_function *function = lua_newuserdatauv(L, sizeof *function + size, 0);
    *function = (struct host_function){ .fn = setting->fn, .data = setting->data };
    memcpy(function->path, setting->path, size);
    lua_pushcclosure(L, call_host, 2);
}

int orr_lua_set_function(lua_State *L, const char *path, orr_call_fn *fn, void *data)
{
    if (!fn || !global_path_is_valid(path))
        return -EINVAL;
    int error;
    struct setting setting = { .iso = value_visit(L, &error), .path = path, .fn = fn, .data = data };
    if (!setting.iso)
        return error;
    error = global_path_set(L, path, push_host_function, &setting);
    isolate_leave(setting.iso);
    return error;
}
