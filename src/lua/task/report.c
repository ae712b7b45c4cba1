#include "lua/task/report.h"

#include "exec/tree.h"
#include "lua/isolate/charge.h"
#include "lua/isolate/execution.h"
#include "lua/limits/stack_trace.h"
#include "lua/limits/timeout_report.h"
#include "lua/task/cancellation.h"
#include "lua/task/task_finalizer.h"

#include <stdio.h>
#include <string.h>

/* The most tasks shown of a chain, and the most errors shown after the first. */
enum { CHAIN_SHOWN = 16, OTHERS_SHOWN = 16 };

/* [error] -> [text].  May run a script's `__tostring`, so it may raise. */
static int describe(lua_State *L)
{
    luaL_tolstring(L, 1, NULL);
    return 1;
}

static void push_text(lua_State *L, int index)
{
    index = lua_absindex(L, index);
    if (lua_type(L, index) == LUA_TSTRING) {
        lua_pushvalue(L, index);
        return;
    }
    lua_pushcfunction(L, describe);
    lua_pushvalue(L, index);
    if (lua_pcall(L, 1, 1, 0) != LUA_OK) {
        lua_pop(L, 1);
        lua_pushfstring(L, "(error object is a %s value)", luaL_typename(L, index));
    }
}

void report_keep(struct ltask *self, lua_State *L, int index)
{
    push_text(L, index);
    stack_trace_cut(L, REPORT_TEXT);
    lua_pushliteral(L, "\n");
    stack_trace_push_chain(L, execution_chain(&self->iso->execution), 1);
    lua_concat(L, 3);
    isolate_push_anchored(self->iso, L, self->anchor);
    struct task_finalizer *task_finalizer = task_finalizer_make(L, self);
    charge_free_text(self->iso, &task_finalizer->report);
    task_finalizer->report = charge_copy(self->iso, lua_tostring(L, -2));
    lua_pop(L, 2);
}

/* The stack trace in a task's stored report, or an empty text. */
static const char *stack_of(const struct ltask *self)
{
    const char *report = self->task_finalizer ? self->task_finalizer->report : NULL;
    const char *stack = report ? strstr(report, "stack traceback:") : NULL;
    return stack ? stack : "";
}

static void add_heading(luaL_Buffer *text, const struct orr_task *task)
{
    luaL_addstring(text, "\ntask '");
    luaL_addstring(text, orr_task_name(task) ? orr_task_name(task) : "(unnamed)");
    luaL_addstring(text, "'");
    struct ltask *lua = ltask_of(task);
    if (lua && lua->task_finalizer && lua->task_finalizer->created) {
        luaL_addstring(text, ", created at ");
        luaL_addstring(text, lua->task_finalizer->created);
    }
}

/* Adds the stack trace of `co`.  Adds nothing for NULL. */
static void add_stack(lua_State *L, luaL_Buffer *text, lua_State *co)
{
    if (!co)
        return;
    luaL_addstring(text, "\n");
    stack_trace_push(L, co, 0);
    stack_trace_cut(L, STACK_TRACE_MAX);
    luaL_addvalue(text);
}

/* Adds the stack trace of a task that is not over. */
static void add_task(lua_State *L, luaL_Buffer *text, struct orr_isolate *iso, const struct orr_task *task)
{
    struct ltask *lua = ltask_of(task);
    if (lua && lua == execution_task(&iso->execution) && execution_running(&iso->execution) != lua->co) {
        lua_pushliteral(L, "\n");
        stack_trace_push_chain(L, execution_chain(&iso->execution), 0);
        lua_concat(L, 2);
        luaL_addvalue(text);
    } else if (lua) {
        add_stack(L, text, ltask_is_over(lua) ? NULL : lua->co);
    }
}

/* A task, followed by all tasks that it waits for, directly or through others, nearest first. */
struct awaited {
    struct orr_task *tasks[CHAIN_SHOWN];
    struct orr_task *by[CHAIN_SHOWN]; /* the task that waits for it */
    int count, looked_at;
    bool more; /* there was no room for all of them */
};

static bool add_awaited(void *data, struct orr_task *task)
{
    struct awaited *awaited = data;
    for (int i = 0; i < awaited->count; i++)
        if (awaited->tasks[i] == task)
            return true;
    awaited->more = awaited->count == CHAIN_SHOWN;
    if (awaited->more)
        return false;
    awaited->by[awaited->count] = awaited->tasks[awaited->looked_at];
    awaited->tasks[awaited->count++] = task;
    return true;
}

/* Adds the tasks that a task waits for, directly or through others, farthest first. */
static void add_those_below(lua_State *L, luaL_Buffer *text, struct orr_isolate *iso, struct orr_task *task)
{
    struct awaited awaited = { .tasks = { task }, .count = 1 };
    for (; awaited.looked_at < awaited.count && !awaited.more; awaited.looked_at++)
        tree_awaited(awaited.tasks[awaited.looked_at], add_awaited, &awaited);
    if (awaited.more)
        luaL_addstring(text, "\n... and more tasks that are waited for");
    for (int i = awaited.count; --i > 0;) {
        add_heading(text, awaited.tasks[i]);
        luaL_addstring(text, ", awaited by '");
        luaL_addstring(text, orr_task_name(awaited.by[i]) ? orr_task_name(awaited.by[i]) : "(unnamed)");
        luaL_addstring(text, "'");
        add_task(L, text, iso, awaited.tasks[i]);
    }
}

void report_push_traceback(lua_State *L, struct ltask *self, const char *message)
{
    struct orr_isolate *iso = self->iso;
    luaL_Buffer text;
    luaL_buffinit(L, &text);
    luaL_addstring(&text, message ? message : "");
    if (self->task_finalizer && self->task_finalizer->report) {
        if (self->task)
            add_heading(&text, self->task);
        luaL_addstring(&text, "\n");
        luaL_addstring(&text, stack_of(self));
    }
    struct orr_task *at = self->task;
    if (at && !orr_task_done(at))
        add_those_below(L, &text, iso, at);
    int shown = 0;
    for (; at && !orr_task_done(at) && shown < CHAIN_SHOWN; shown++) {
        add_heading(&text, at);
        add_task(L, &text, iso, at);
        at = task_parent(at);
    }
    if (at && !orr_task_done(at))
        luaL_addstring(&text, "\n... and tasks above it");
    luaL_pushresult(&text);
}

static const char *words_of(const struct orr_result *result)
{
    return result->message ? result->message : strerror(-result->error);
}

/*
 * Adds the tasks that an error went through, from the task that raised it up to `task`.  Of a long
 * chain, only ENDS tasks at each end are added.
 */
static void add_chain(luaL_Buffer *text, struct orr_task *task)
{
    enum { ENDS = 8 };
    size_t length = 0;
    for (struct orr_task *at = task; at; at = orr_task_cause(at))
        length++;
    for (size_t i = length; i-- > 0;) { /* the chain is linked from `task` down */
        if (i >= ENDS && length - i > ENDS)
            continue;
        struct orr_task *at = task;
        for (size_t steps = 0; steps < i; steps++)
            at = orr_task_cause(at);
        add_heading(text, at);
        if (i + 1 == length)
            continue; /* the error's text includes its stack trace */
        const char *stack = ltask_of(at) ? stack_of(ltask_of(at)) : "";
        luaL_addstring(text, " failed because of it");
        luaL_addstring(text, *stack ? "\n" : "");
        luaL_addstring(text, stack);
    }
}

struct others {
    luaL_Buffer *text;
    bool first; /* the next error is the first one, which the report has shown already */
    unsigned count;
};

static void add_other(void *data, struct orr_task *origin, const struct orr_result *result)
{
    struct others *others = data;
    if (!others->first && others->count++ < OTHERS_SHOWN) {
        luaL_addstring(others->text, "\nand in ");
        luaL_addstring(others->text, orr_task_name(origin) ? orr_task_name(origin) : "(unnamed)");
        luaL_addstring(others->text, ": ");
        luaL_addstring(others->text, words_of(result));
    }
    others->first = false;
}

void report_push_failure(lua_State *L, struct orr_task *task)
{
    luaL_Buffer text;
    luaL_buffinit(L, &text);
    struct others others = { .text = &text, .first = task_has_failed(task) };
    if (task_has_failed(task)) {
        luaL_addstring(&text, words_of(outcome_of(task)));
        add_chain(&text, task);
    } else {
        luaL_addstring(&text, "a task has ended, with errors below it");
        add_heading(&text, task);
    }
    orr_task_errors(task, add_other, &others);
    if (others.count > OTHERS_SHOWN) {
        char more[48];
        snprintf(more, sizeof more, "\nand %u more errors", others.count - OTHERS_SHOWN);
        luaL_addstring(&text, more);
    }
    luaL_pushresult(&text);
}

/* --- Time-outs -------------------------------------------------------------------------------- */

void report_describe(const struct orr_isolate *iso, const struct ltask *task, struct timeout_subject *out)
{
    uint32_t script = task ? task->script : script_running(iso);
    *out = (struct timeout_subject){ .script = script_name(iso, script), .ignored_where = "" };
    if (!task)
        return;
    const char *where = cancellation_ignored(task->iso, task);
    bool more = task->cancellations == UINT8_MAX;
    out->name = orr_task_name(task->task);
    out->ignored = where ? task->cancellations - more : 0;
    out->ignored_more = more;
    out->ignored_where = where ? where : "";
}
