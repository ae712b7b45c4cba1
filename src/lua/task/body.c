#include "lua/task/body.h"

#include "lua/isolate/charge.h"
#include "lua/isolate/memory_lack.h"
#include "lua/limits/notices.h"
#include "lua/limits/statistics.h"
#include "lua/limits/timeout_report.h"
#include "lua/task/body_watch.h"
#include "lua/task/cancellation.h"
#include "lua/task/hint.h"
#include "lua/task/report.h"
#include "lua/task/result.h"
#include "lua/task/task.h"
#include "lua/task/task_finalizer.h"

#include <string.h>

/* --- The bottom of a coroutine ---------------------------------------------------------------- */

/* [message handler] [results...]; or [message handler] [error] */
static int base_over(lua_State *L, int status, lua_KContext context)
{
    (void)context;
    execution_level(&isolate_of(L)->execution)->raised = status != LUA_OK && status != LUA_YIELD;
    return lua_gettop(L) - 1;
}

/* [message handler] [function] [arguments...] */
static int base(lua_State *L)
{
    return base_over(L, lua_pcallk(L, lua_gettop(L) - 2, LUA_MULTRET, 1, 0, base_over), 0);
}

/*
 * [message handler] [next], where `next` answers the next step.  Each step is called from here: so
 * one C function is below it, as below a script in `lua`.
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

static int base_of_steps(lua_State *L)
{
    return go_on_with_steps(L, LUA_OK, STEP_IS_OVER);
}

#define NO_MEMORY "not enough memory"

static bool is_text(lua_State *L, int index, const char *text)
{
    return lua_type(L, index) == LUA_TSTRING && !strcmp(lua_tostring(L, index), text);
}

/*
 * [error]: keeps its report, which needs the stack that it was raised on.  Cancellation has none.
 */
static int handle_message(lua_State *L)
{
    struct orr_isolate *iso = isolate_of(L);
    struct ltask *self = execution_task(&iso->execution);
    if (execution_is_ending(&iso->execution) ||
        (self && task_is_cancelled_here(self->task) && cancellation_is_error(L, 1)))
        return 1;
    hint_add(iso, L, 1, true);
    if (!self)
        return 1;
    lua_settop(L, 1);
    report_keep(self, L);
    if (self->watched)
        body_is_failing(self);
    lua_settop(L, 1);
    return 1;
}

static int keep_function(struct orr_isolate *iso, lua_State *L, lua_CFunction function)
{
    lua_pushlightuserdata(L, iso);
    lua_pushcclosure(L, function, 1);
    return luaL_ref(L, LUA_REGISTRYINDEX);
}

void body_open(struct orr_isolate *iso, lua_State *L)
{
    iso->body.base = keep_function(iso, L, base);
    iso->body.message_handler = keep_function(iso, L, handle_message);
}

void body_push_base(const struct body_functions *self, lua_State *co)
{
    lua_rawgeti(co, LUA_REGISTRYINDEX, self->base);
    lua_rawgeti(co, LUA_REGISTRYINDEX, self->message_handler);
}

void body_push_base_of_steps(struct orr_isolate *iso, lua_State *L, lua_State *co)
{
    lua_pushlightuserdata(L, iso);
    lua_pushcclosure(L, base_of_steps, 1);
    lua_xmove(L, co, 1);
    lua_rawgeti(co, LUA_REGISTRYINDEX, iso->body.message_handler);
}

/* --- The end of a body ------------------------------------------------------------------------ */

/* Whether the error at the top is that of the child whose failure the task was told of last. */
static bool is_childs_error(lua_State *co, struct ltask *self)
{
    struct orr_task *child = orr_task_failed_child(self->task);
    const struct orr_result *result = child ? outcome_of(child) : NULL;
    return result && result_is_error(co, result);
}

/* The trace of `not enough memory`: Lua calls no message handler for it. */
static struct trace *trace_lack(struct orr_isolate *iso)
{
    char text[320];
    memory_lack_describe(iso, text, sizeof text);
    bool before = charge_begin_report(&iso->charge);
    struct trace *trace = trace_new(iso, (struct piece){ text, strlen(text) }, &(struct trace_sections){ 0 });
    charge_end_report(&iso->charge, before);
    return trace;
}

/* Takes the trace of the error out of the task; NULL for none. */
static struct trace *take_trace(struct ltask *self)
{
    struct task_finalizer *finalizer = self->task_finalizer;
    struct trace *trace = finalizer ? finalizer->trace : NULL;
    if (trace)
        finalizer->trace = NULL;
    return trace;
}

/* Ends the task with an error, its user value.  `kept` is NULL if there was no memory for it. */
static enum orr_poll finish_with_failure(struct ltask *self, int error, struct kept_error *kept, const char *otherwise)
{
    if (!kept)
        return orr_task_finish(self->task, (struct orr_result){ .error = -ENOMEM, .message = NO_MEMORY });
    const char *text = kept->trace ? kept->trace->text : otherwise;
    return orr_task_finish(
        self->task, (struct orr_result){ .error = error, .message = text, .value = kept, .drop = kept_error_drop });
}

static enum orr_poll finish_with_error(struct ltask *self)
{
    lua_State *co = self->co;
    struct orr_task *task = self->task;
    int error = -ESCRIPT;
    if (task_is_cancelled(task) && cancellation_is_error(co, -1))
        error = -ECANCELED;
    else if (is_childs_error(co, self))
        error = -ECHILD;
    lua_pushvalue(co, -1);
    result_set_value(co, self);
    if (error != -ESCRIPT)
        return orr_task_fail(task, error);
    /* Lua calls no message handler when there is no memory. */
    bool no_memory = is_text(co, -1, NO_MEMORY);
    struct trace *trace = no_memory ? trace_lack(self->iso) : take_trace(self);
    return finish_with_failure(self, error, ltask_keep_error(self, trace), no_memory ? NO_MEMORY : "a Lua error");
}

enum orr_poll body_over(struct ltask *self, bool failed, int results)
{
    enum orr_poll answer = ORR_DONE;
    self->phase = LTASK_OVER;
    if (failed) {
        answer = finish_with_error(self);
        self->co = NULL; /* a coroutine that has failed is not used again */
    } else if (ltask_is_provisional(self)) {
        result_keep_provisional(self, results);
    } else if (self->pooled) {
        self->results = 0; /* the coroutine goes back to the pool with the handle */
    } else if (task_is_cancelled(self->task) && !self->completed_with) {
        answer = orr_task_fail(self->task, -ECANCELED); /* it was closed, whatever it returns */
        lua_settop(self->co, 0);
        result_keep(self, self->co, 0);
    } else if (!self->completed_with) {
        for (int i = 0; i < self->stack_base; i++)
            lua_remove(self->co, 1);
        result_keep(self, self->co, results - self->stack_base);
    } else {
        if (!self->exposed)
            isolate_recycle(self->iso, self->co);
        self->co = NULL;
    }
    if (self->completed_with)
        result_keep_completed(self);
    return answer;
}

void body_leave_waiting(struct ltask *self)
{
    lua_State *L = self->iso->L;
    self->phase = LTASK_OVER;
    self->co = self->suspended = NULL;
    lua_pushnil(L);
    result_set_value(L, self); /* the handle lets go of the coroutine */
    if (self->completed_with)
        result_keep_completed(self);
}

enum orr_poll body_timed_out(struct ltask *self, struct level *level, int status)
{
    struct orr_isolate *iso = self->iso;
    struct trace *trace = NULL;
    if (level->report) {
        bool before = charge_begin_report(&iso->charge);
        trace = trace_new(iso, (struct piece){ level->report, strlen(level->report) }, &(struct trace_sections){ 0 });
        charge_end_report(&iso->charge, before);
    }
    if (status != LUA_YIELD) {
        self->phase = LTASK_OVER;
        self->co = NULL;
        if (self->completed_with)
            result_keep_completed(self);
    }
    statistics_count_timeout(&iso->statistics);
    bool told = notices_add_timeout(iso, trace ? trace->text : TIMEOUT_TEXT);
    struct kept_error *kept = ltask_keep_error(self, trace);
    if (kept)
        kept->timeout_told = told;
    return finish_with_failure(self, -ETIME, kept, TIMEOUT_TEXT);
}

bool body_timeout_was_told(const struct orr_result *result)
{
    return result->drop == kept_error_drop && ((const struct kept_error *)result->value)->timeout_told;
}

enum orr_poll body_foreign_yield(struct ltask *self)
{
    self->suspended = self->co; /* it is closed when the children are done */
    return orr_task_finish(self->task,
                           (struct orr_result){ .error = -EPROTO, .message = "a C function yielded in a task's body" });
}
