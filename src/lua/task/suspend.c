#include "lua/task/suspend.h"

#include "lua/isolate/execution.h"
#include "lua/limits/stack_trace.h"
#include "lua/task/cancellation.h"
#include "lua/task/report.h"
#include "lua/task/result.h"

#include <limits.h>
#include <string.h>

/*
 * Whether Lua can suspend the function at the top: it is ours.  Ours have the isolate as their
 * first upvalue.
 */
static bool can_be_suspended(lua_State *L, struct orr_isolate *iso)
{
    if (!lua_getupvalue(L, -1, 1))
        return false;
    bool ours = lua_touserdata(L, -1) == iso;
    lua_pop(L, 1);
    return ours;
}

/* Pushes the name of the C function that keeps a coroutine from yielding. */
static const char *push_c_function(lua_State *L, struct orr_isolate *iso, lua_State *stuck)
{
    lua_Debug info;
    int fields = INT_MAX;
    for (int level = 0; lua_getstack(stuck, level, &info) && lua_checkstack(stuck, 2); level++) {
        lua_getinfo(stuck, "Snf", &info);
        lua_xmove(stuck, L, 1);
        bool candidate = *info.what == 'C' && !can_be_suspended(L, iso);
        const char *name = info.name;
        if (!candidate) {
            lua_pop(L, 1);
        } else if (stack_trace_push_name(L, &fields)) {
            name = lua_tostring(L, -1);
            if (strcmp(name, "pcall") != 0 && strcmp(name, "xpcall") != 0)
                return lua_pushfstring(L, "'%s'", name);
            lua_pop(L, 1);
        } else if (name) {
            return lua_pushfstring(L, "'%s'", name);
        }
    }
    return lua_pushliteral(L, "one");
}

static int refuse_to_suspend(lua_State *L, struct orr_isolate *iso)
{
    if (L != execution_running(&iso->execution))
        return luaL_error(L, "cannot wait here: this coroutine was resumed by something other than coroutine.resume");
    luaL_checkstack(L, 16, NULL);
    const char *name = push_c_function(L, iso, chain_find_stuck(L, execution_chain(&iso->execution)));
    return luaL_error(L, "cannot wait here: %s, a C function, is on the stack and cannot be suspended", name);
}

static inline bool can_suspend_in(const struct orr_isolate *iso, const lua_State *L)
{
    return execution_task(&iso->execution) && execution_can_yield(&iso->execution, L);
}

bool can_suspend(lua_State *L)
{
    return can_suspend_in(isolate_of(L), L);
}

struct ltask *ltask_waiting(lua_State *L, const char *what)
{
    struct orr_isolate *iso = isolate_of(L);
    struct ltask *self = ltask_current(L, what);
    if (!can_suspend_in(iso, L))
        refuse_to_suspend(L, iso);
    return self;
}

static inline int suspend_as(lua_State *L, lua_KFunction k, lua_KContext context, enum yield_reason reason)
{
    struct orr_isolate *iso = isolate_of(L);
    if (!can_suspend_in(iso, L)) {
        orr_wait_withdraw(&execution_task(&iso->execution)->wait);
        return refuse_to_suspend(L, iso);
    }
    execution_begin_yield(&iso->execution, reason, L);
    return lua_yieldk(L, 0, context, k);
}

int suspend(lua_State *L, lua_KFunction k, lua_KContext context)
{
    return suspend_as(L, k, context, YIELD_WAIT);
}

int suspend_simply(lua_State *L, lua_KFunction k, lua_KContext context)
{
    return suspend_as(L, k, context, YIELD_WAIT_SIMPLE);
}

void wait_push_error(lua_State *L, int error)
{
    struct orr_isolate *iso = isolate_of(L);
    struct ltask *self = execution_task(&iso->execution);
    struct orr_task *child = error == -ECHILD ? orr_task_failed_child(self->task) : NULL;
    if (error == -ECANCELED && self)
        cancellation_note(self, L);
    if (child) {
        push_error_of(L, iso, outcome_of(child));
    } else if (error == -ECANCELED) {
        lua_pushliteral(L, CANCELLATION_TEXT);
    } else if (error == -ETIMEDOUT) {
        lua_pushliteral(L, "timeout");
        report_forget(iso, L);
    } else if (error == -EDEADLK) {
        luaL_where(L, 1);
        lua_pushliteral(L, "a task cannot await itself or a task that it is part of: that would never end");
        lua_concat(L, 2);
    } else {
        luaL_where(L, 1);
        lua_pushfstring(L, "cannot wait: %s", strerror(-error));
        lua_concat(L, 2);
    }
}

int wait_raise(lua_State *L, int error)
{
    wait_push_error(L, error);
    return lua_error(L);
}
