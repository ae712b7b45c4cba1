/*
 * Functions by path, such as `game.on_tick`, from the table of globals.  The host calls functions
 * of scripts with values, and sets functions that scripts call.  Path lookup uses no metamethods,
 * so it runs no code of scripts.
 */
#include "lua/host/call.h"
#include "lua/host/value.h"
#include "lua/task/hold.h"
#include "lua/task/task.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Pushes the first part of a path, and returns the rest; NULL after the last part.  May raise. */
static const char *push_part(lua_State *L, const char *path)
{
    size_t length = strcspn(path, ".");
    lua_pushlstring(L, path, length);
    return path[length] ? path + length + 1 : NULL;
}

static bool is_path(const char *path)
{
    if (!path || !*path || *path == '.')
        return false;
    return path[strlen(path) - 1] != '.' && !strstr(path, "..");
}

/* --- Calling scripts -------------------------------------------------------------------------- */

struct calling {
    struct orr_isolate *iso;
    const char *path;              /* of the function to call, if `function` is NULL */
    struct orr_function *function; /* the function to call, or NULL */
    const struct orr_value *arguments;
    size_t count;
    int error;
};

/* Pushes the value at a path, or nil.  May raise. */
static void push_at(lua_State *L, const char *path)
{
    lua_pushglobaltable(L);
    while (path) {
        if (!lua_istable(L, -1)) {
            lua_pushnil(L);
            return;
        }
        path = push_part(L, path);
        lua_rawget(L, -2);
        lua_remove(L, -2);
    }
}

/* [calling] -> [function] [arguments...] */
static int prepare(lua_State *L)
{
    struct calling *calling = lua_touserdata(L, 1);
    if (calling->function)
        lua_rawgeti(L, LUA_REGISTRYINDEX, calling->function->reference);
    else
        push_at(L, calling->path);
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
    if (!is_path(path) || (count && !arguments))
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

enum { FEW_ARGUMENTS = 8 };

/* A function of the host: the second upvalue of the function that scripts call. */
struct host_function {
    orr_call_fn *fn;
    void *data;
    char path[];
};

int orr_call_fail(struct orr_call *call, int error, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(call->message, sizeof call->message, format, arguments);
    va_end(arguments);
    return error;
}

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

/* Calls the host's function.  Never raises, so that the arguments are always freed. */
static int invoke(struct orr_isolate *iso, lua_State *L, const struct host_function *function, struct orr_call *call)
{
    struct orr_value few[FEW_ARGUMENTS];
    struct alloc alloc = charge_alloc(iso);
    size_t count = (size_t)lua_gettop(L);
    size_t size = count * sizeof *few;
    struct orr_value *arguments = count <= FEW_ARGUMENTS ? few : alloc_new(&alloc, size);
    if (!arguments)
        return -ENOMEM;
    int error = value_copy_all(iso, L, 1, count, true, arguments);
    if (error == -ELOOP || error == -EFBIG)
        orr_call_fail(call, error, "an argument is %s", error == -ELOOP ? "nested too deep" : "too large");
    if (!error) {
        call->arguments = arguments;
        call->count = count;
        execution_begin_call(&iso->execution);
        error = function->fn(function->data, call);
        execution_end_call(&iso->execution);
        error = error ? error : answer(iso, L, call);
        if (call->drop)
            call->drop(call->drop_data);
        value_return_all(arguments, count);
    }
    if (arguments != few)
        alloc_free(&alloc, arguments, size);
    return error;
}

/* [arguments...] -> [results...] */
static int call_host(lua_State *L)
{
    const struct host_function *function = lua_touserdata(L, lua_upvalueindex(2));
    struct orr_call call = { .L = L };
    int top = lua_gettop(L);
    int error = invoke(isolate_of(L), L, function, &call);
    if (error)
        return luaL_error(L, "%s: %s", function->path,
                          *call.message ? call.message : strerror(error < 0 ? -error : error));
    return lua_gettop(L) - top;
}

struct setting {
    struct orr_isolate *iso;
    const char *path;
    orr_call_fn *fn;
    void *data;
    int error;
};

static void push_host_function(lua_State *L, const struct setting *setting)
{
    size_t size = strlen(setting->path) + 1;
    lua_pushlightuserdata(L, setting->iso);
    struct host_function *function = lua_newuserdatauv(L, sizeof *function + size, 0);
    *function = (struct host_function){ .fn = setting->fn, .data = setting->data };
    memcpy(function->path, setting->path, size);
    lua_pushcclosure(L, call_host, 2);
}

/*
 * [table] [key] -> [table at the key], which is created if it is missing.  False if the value at
 * the key is not a table.
 */
static bool enter_table(lua_State *L)
{
    lua_pushvalue(L, -1);
    int type = lua_rawget(L, -3);
    if (type == LUA_TNIL) {
        lua_pop(L, 1);
        lua_newtable(L);
        lua_pushvalue(L, -2);
        lua_pushvalue(L, -2);
        lua_rawset(L, -5);
    }
    lua_replace(L, -3);
    lua_pop(L, 1);
    return type == LUA_TNIL || type == LUA_TTABLE;
}

/* [setting]: sets the host's function at its path. */
static int set_protected(lua_State *L)
{
    struct setting *setting = lua_touserdata(L, 1);
    const char *path = setting->path;
    lua_pushglobaltable(L);
    while ((path = push_part(L, path))) {
        if (!enter_table(L)) {
            setting->error = -ENOTDIR;
            return 0;
        }
    }
    push_host_function(L, setting);
    lua_rawset(L, -3);
    return 0;
}

int orr_lua_set_function(lua_State *L, const char *path, orr_call_fn *fn, void *data)
{
    if (!fn || !is_path(path))
        return -EINVAL;
    int error;
    struct setting setting = { .iso = value_visit(L, &error), .path = path, .fn = fn, .data = data };
    if (!setting.iso)
        return error;
    setting.error = -ENOMEM;
    if (lua_checkstack(L, 2)) {
        setting.error = 0;
        lua_pushcfunction(L, set_protected);
        lua_pushlightuserdata(L, &setting);
        if (lua_pcall(L, 1, 0, 0) != LUA_OK) {
            lua_pop(L, 1);
            setting.error = -ENOMEM;
        }
    }
    isolate_leave(setting.iso);
    return setting.error;
}
