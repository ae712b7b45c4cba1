/* What a task's body is called by, and what becomes of what it returns, raises, or never comes to. */
#include "lua/task/body_watch.h"
#include "lua/task/task_parts.h"

#include "lua/isolate/charge.h"
#include "lua/task/report.h"
#include "lua/task/task_finalizer.h"

#include <string.h>

/* --- What a task has come to ---------------------------------------------------------------------------------- */

/* Pushes the user value of a task's handle, which is anchored. */
static void push_value(lua_State *L, struct ltask *self)
{
    isolate_push_anchored(self->iso, L, self->anchor);
    lua_getiuservalue(L, -1, 1);
    lua_remove(L, -2);
}

/* Makes the value at the top of L the handle's. */
static void set_value(lua_State *L, struct ltask *self)
{
    registry_push_anchors(&self->iso->registry, L);
    lua_rawgeti(L, -1, self->anchor);
    lua_pushvalue(L, -3);
    lua_setiuservalue(L, -2, 1);
    lua_pop(L, 3);
}

/* What an error of the core, or of a C task, is to Lua. */
static const char *error_text(const struct orr_result *result)
{
    if (result->error == -ECANCELED)
        return "closed";
    if (result->error == -ETIME)
        return TIMEOUT_TEXT; /* the message is the report */
    return result->message ? result->message : strerror(-result->error);
}

void push_error_of(lua_State *L, struct orr_isolate *iso, const struct orr_result *result)
{
    struct ltask *origin = result->error == -ESCRIPT ? result->value : NULL;
    if (origin && origin->iso == iso)
        push_value(L, origin);
    else
        lua_pushstring(L, error_text(result));
}

static void push_error(lua_State *L, struct orr_isolate *iso, struct orr_task *task)
{
    push_error_of(L, iso, outcome_of(task));
}

/* The results of a task that ended well; `handle` is where it is on L. */
static int push_results(lua_State *L, struct ltask *self, int handle)
{
    lua_pushboolean(L, true);
    if (self->results == 0)
        return 1;
    if (self->results == 1) {
        lua_getiuservalue(L, handle, 1);
        return 2;
    }
    luaL_checkstack(L, self->results + 1, "too many results");
    for (int i = 1; i <= self->results; i++) {
        lua_pushvalue(self->co, i);
        lua_xmove(self->co, L, 1);
    }
    return self->results + 1;
}

int ltask_push_outcome(lua_State *L, struct ltask *self, int handle)
{
    handle = lua_absindex(L, handle);
    if (self->task)
        scope_observe(self->task);
    if (self->state == LTASK_FAILED) {
        lua_pushboolean(L, false);
        if (self->task)
            push_error(L, self->iso, self->task);
        else
            lua_getiuservalue(L, handle, 1);
        return 2;
    }
    if (self->state == LTASK_OK)
        return push_results(L, self, handle);
    lua_pushboolean(L, false);
    lua_pushliteral(L, "closed");
    return 2;
}

/* The same as an error, or nil, and the results. */
int ltask_push_results(lua_State *L, struct ltask *self, int handle)
{
    int first = lua_gettop(L) + 1;
    int count = ltask_push_outcome(L, self, handle);
    if (!lua_toboolean(L, first)) {
        lua_remove(L, first);
        return count - 1;
    }
    lua_pushnil(L);
    lua_replace(L, first);
    return count;
}

void wait_push_error(lua_State *L, int error)
{
    struct orr_isolate *iso = isolate_of(L);
    struct orr_task *child = error == -ECHILD ? orr_task_failed_child(execution_task(&iso->execution)->task) : NULL;
    if (error == -ECANCELED && execution_task(&iso->execution))
        shutdown_note_told(execution_task(&iso->execution), L);
    if (child) {
        push_error(L, iso, child);
    } else if (error == -ECANCELED) {
        lua_pushliteral(L, "closed");
    } else if (error == -ETIMEDOUT) {
        lua_pushliteral(L, "timeout");
    } else {
        luaL_where(L, 1);
        lua_pushstring(L, error == -EDEADLK
                              ? "a task cannot await itself or a task that it is part of: that would never end"
                              : "cannot wait: ");
        lua_pushstring(L, error == -EDEADLK ? "" : strerror(-error));
        lua_concat(L, 3);
    }
}

int wait_raise(lua_State *L, int error)
{
    wait_push_error(L, error);
    return lua_error(L);
}

/* --- The body --------------------------------------------------------------------------------------------------- */

/* The bottom of the coroutine: [1] the message handler, then the body's results or its error. */
static int base_over(lua_State *L, int status, lua_KContext context)
{
    (void)context;
    execution_level(&isolate_of(L)->execution)->raised = status != LUA_OK && status != LUA_YIELD;
    return lua_gettop(L) - 1;
}

int ltask_base(lua_State *L)
{
    return base_over(L, lua_pcallk(L, lua_gettop(L) - 2, LUA_MULTRET, 1, 0, base_over), 0);
}

/*
 * The same for a body in steps: [1] the message handler, [2] a function that answers the next step, as a function and its arguments, or
 * nothing when there is none.  It is called first, and then after each step.  Each step is called from here, so there is one C function
 * below it, as there is below a script in `lua`.
 */
enum { STEP_IS_OVER, STEP_IS_KNOWN };

static int go_on_with_steps(lua_State *L, int status, lua_KContext stage)
{
    while (status == LUA_OK || status == LUA_YIELD) {
        if (stage == STEP_IS_OVER) {
            lua_settop(L, 2);
            lua_pushvalue(L, 2);
            stage = STEP_IS_KNOWN;
            status = lua_pcallk(L, 0, LUA_MULTRET, 1, stage, go_on_with_steps);
        } else if (lua_gettop(L) > 2) {
            stage = STEP_IS_OVER;
            status = lua_pcallk(L, lua_gettop(L) - 3, 0, 1, stage, go_on_with_steps);
        } else {
            execution_level(&isolate_of(L)->execution)->raised = false;
            return 0;
        }
    }
    execution_level(&isolate_of(L)->execution)->raised = true;
    return 1;
}

int ltask_base_of_steps(lua_State *L)
{
    return go_on_with_steps(L, LUA_OK, STEP_IS_OVER);
}

#define NO_MEMORY "not enough memory"

static bool is_text(lua_State *L, int index, const char *text)
{
    return lua_type(L, index) == LUA_TSTRING && !strcmp(lua_tostring(L, index), text);
}

static bool is_closed(lua_State *L, int index)
{
    return is_text(L, index, "closed");
}

/* The text of an error is made where it is raised, before the stack unwinds; for those that are not errors, not. */
int ltask_handle_message(lua_State *L)
{
    struct orr_isolate *iso = isolate_of(L);
    struct ltask *self = execution_task(&iso->execution);
    if (!self || execution_is_ending(&iso->execution) || (task_is_cancelled_here(self->task) && is_closed(L, 1)))
        return 1;
    report_keep(self, L, 1);
    if (self->watched)
        body_is_failing(self);
    lua_settop(L, 1);
    return 1;
}

/* Whether the error at the top is the one that the task was told of last. */
static bool is_childs_error(lua_State *co, struct ltask *self)
{
    struct orr_task *child = orr_task_failed_child(self->task);
    const struct orr_result *result = child ? outcome_of(child) : NULL;
    if (!result)
        return false;
    if (result->error != -ESCRIPT) /* not pushed: that might need memory */
        return lua_type(co, -1) == LUA_TSTRING && !strcmp(lua_tostring(co, -1), error_text(result));
    push_value(co, result->value);
    bool same = lua_rawequal(co, -1, -2);
    lua_pop(co, 1);
    return same;
}

static void give_up_error(void *value)
{
    struct ltask *self = value;
    self->keeps_error = false;
    ltask_release(self);
}

static enum orr_poll finish_with_error(struct ltask *self)
{
    lua_State *co = self->co;
    struct orr_task *task = self->task;
    int error = -ESCRIPT;
    if (task_is_cancelled(task) && is_closed(co, -1))
        error = -ECANCELED;
    else if (is_childs_error(co, self))
        error = -ECHILD;
    lua_pushvalue(co, -1);
    set_value(co, self);
    if (error != -ESCRIPT)
        return orr_task_fail(task, error);
    self->keeps_error = true;
    const char *text = self->task_finalizer && self->task_finalizer->report ? self->task_finalizer->report
                       : is_text(co, -1, NO_MEMORY) ? NO_MEMORY /* for which no handler was called */
                                                    : "a Lua error";
    return orr_task_finish(
        task, (struct orr_result){ .error = -ESCRIPT, .message = text, .value = self, .drop = give_up_error });
}

/* What the coroutine has returned becomes what the task has come to. */
static void keep_results(struct ltask *self, lua_State *co, int results)
{
    self->results = results;
    self->co = co;
    if (results > 1)
        return;
    if (!results)
        lua_pushnil(co);
    set_value(co, self);
    self->co = NULL;
    if (!self->exposed)
        isolate_recycle(self->iso, co);
}

/* What it was completed with from outside is on a coroutine, too. */
void ltask_keep_given(struct ltask *self)
{
    struct orr_isolate *iso = self->iso;
    int given = self->given;
    self->given = 0;
    isolate_push_anchored(iso, iso->L, given);
    lua_State *co = lua_tothread(iso->L, -1);
    set_value(iso->L, self);
    isolate_unanchor(iso, iso->L, given);
    keep_results(self, co, lua_gettop(co));
}

/* The coroutine has returned, with so many values on it. */
enum orr_poll ltask_body_over(struct ltask *self, bool failed, int results)
{
    enum orr_poll answer = ORR_DONE;
    self->over = true;
    if (failed) {
        answer = finish_with_error(self);
        self->co = NULL; /* and not used again */
    } else if (self->hidden) {
        self->results = 0; /* which is nobody's, and the coroutine goes on to the next */
    } else if (task_is_cancelled(self->task) && !self->given) {
        answer = orr_task_fail(self->task, -ECANCELED); /* it was shut down, and stays so, whatever it returns */
        lua_settop(self->co, 0);
        keep_results(self, self->co, 0);
    } else if (!self->given) {
        for (int i = 0; i < self->below; i++)
            lua_remove(self->co, 1);
        keep_results(self, self->co, results - self->below);
    } else {
        if (!self->exposed)
            isolate_recycle(self->iso, self->co);
        self->co = NULL;
    }
    if (self->given)
        ltask_keep_given(self);
    return answer;
}

/*
 * Its time is up, wherever it stands.  It is not resumed any more, and closed when its children are done; what it may have
 * returned or raised meanwhile does not count.
 */
enum orr_poll ltask_timed_out(struct ltask *self, struct level *level, int status)
{
    struct orr_isolate *iso = self->iso;
    struct task_finalizer *task_finalizer = level->report ? task_finalizer_try(self) : NULL;
    const char *text = TIMEOUT_TEXT;
    if (task_finalizer) {
        charge_free_text(iso, &task_finalizer->report);
        task_finalizer->report = level->report;
        level->report = NULL;
        text = task_finalizer->report;
    }
    if (status != LUA_YIELD) {
        self->over = true;
        self->co = NULL;
        if (self->given)
            ltask_keep_given(self);
    }
    statistics_count_timeout(&iso->statistics);
    notices_add(iso, ORR_LUA_TIMED_OUT, text);
    self->keeps_error = true;
    return orr_task_finish(
        self->task, (struct orr_result){ .error = -ETIME, .message = text, .value = self, .drop = give_up_error });
}

int ltask_complete(lua_State *L, struct ltask *self)
{
    struct orr_isolate *iso = self->iso;
    lua_pushvalue(L, 2);
    self->given = isolate_anchor(iso, L);
    self->completed = true;
    int error = isolate_visit(iso);
    if (!error) {
        error = orr_task_complete(self->task, (struct orr_result){ 0 });
        isolate_leave(iso);
    }
    if (error)
        return luaL_error(L, "task:complete: %s",
                          error == -EALREADY ? "the task is completed already" : strerror(-error));
    if (self->over)
        ltask_keep_given(self);
    return 0;
}

/* A C function that is not ours has yielded in the body: there is nobody who would resume it. */
enum orr_poll ltask_foreign_yield(struct ltask *self)
{
    self->suspended = self->co; /* and closed when its children are done */
    return orr_task_finish(self->task,
                           (struct orr_result){ .error = -EPROTO, .message = "a C function yielded in a task's body" });
}
