#include "lua/task/report.h"

#include "exec/tree.h"
#include "lua/isolate/charge.h"
#include "lua/isolate/execution.h"
#include "lua/limits/stack_trace.h"
#include "lua/limits/timeout_report.h"
#include "lua/task/cancellation.h"
#include "lua/task/error_text.h"
#include "lua/task/result.h"
#include "lua/task/task_finalizer.h"
#include "lua/task/told.h"

#include <stdio.h>
#include <string.h>

/* The most tasks shown of a chain, and the most errors shown after the first. */
enum { CHAIN_SHOWN = 16, OTHERS_SHOWN = 16 };

#define IN_A_JOB "in a job of a worker"

/* --- The tasks that an error came through ----------------------------------------------------- */

static const char *words_of(const struct orr_result *result)
{
    return result->message ? result->message : strerror(-result->error);
}

/* The trace of a done task's failure, or that of a task that failed because of a child. */
static const struct trace *trace_of(const struct orr_task *task)
{
    const struct kept_error *kept = kept_error_of((struct orr_task *)task);
    const struct ltask *lua = ltask_of(task);
    return kept ? kept->trace : lua ? task_finalizer_trace(lua) : NULL;
}

static const char *created_of(const struct orr_task *task)
{
    const struct ltask *lua = ltask_of(task);
    return lua ? task_finalizer_created(lua) : NULL;
}

/* Adds the task in which an error arose, and those whose awaits the error has passed. */
static void add_origin(struct trace_sections *all, const struct orr_task *task)
{
    const struct trace *trace = trace_of(task);
    if (trace)
        trace_add_all(all, trace, task, created_of(task));
    else
        trace_add(all, &(struct trace_section){ .task = task, .created = created_of(task), .how = TRACE_RAISED });
}

/* Adds a task that has failed because of a child. */
static void add_because(struct trace_sections *all, const struct orr_task *task)
{
    const struct trace *trace = trace_of(task);
    const struct trace_part *own = trace && trace->count ? &trace->parts[trace->count - 1] : NULL;
    bool written = trace && trace->count > 1; /* its name is in the text */
    trace_add(all, &(struct trace_section){
                       .stack = { own ? trace->text + own->start : NULL, own ? own->length : 0 },
                       .task = task,
                       .created = created_of(task),
                       .how = written ? TRACE_WRITTEN : TRACE_BECAUSE,
                   });
}

/*
 * Lists the tasks that an error went through, from the task that raised it up to `task`.  The tasks
 * are linked from `task` down, and there may be very many: so one walk notes both ends of the
 * chain.  Answers the error's text.  Never allocates; the list is good until the collector runs.
 */
static struct piece gather(struct trace_sections *all, struct orr_task *task)
{
    const struct orr_task *top[TRACE_ENDS], *bottom[TRACE_ENDS], *origin = task;
    size_t length = 0;
    for (const struct orr_task *at = task; at; at = orr_task_cause(at), length++) {
        if (length < TRACE_ENDS)
            top[length] = at;
        bottom[length % TRACE_ENDS] = origin = at;
    }
    add_origin(all, origin);
    for (size_t i = length - 1; i-- > 0;) {
        if (i + TRACE_ENDS >= length) {
            add_because(all, bottom[i % TRACE_ENDS]);
        } else if (i < TRACE_ENDS) {
            add_because(all, top[i]);
        } else {
            all->left_out += (unsigned)(i + 1 - TRACE_ENDS);
            i = TRACE_ENDS;
        }
    }
    const struct trace *trace = trace_of(origin);
    const char *words = words_of(outcome_of(task));
    return trace ? trace_message(trace) : (struct piece){ words, strlen(words) };
}

/*
 * Pushes the error of a failed task and the tasks that it went through.  The list is made twice,
 * because making the buffer may run the collector, which frees traces.  It cannot become longer.
 */
static void push_failure(lua_State *L, struct orr_task *task)
{
    struct trace_sections all = { 0 }, again = { 0 };
    struct piece message = gather(&all, task);
    char *text = lua_newuserdatauv(L, trace_write(&all, message, NULL, NULL) + 1, 0);
    message = gather(&again, task);
    size_t length = trace_write(&again, message, text, NULL);
    lua_pushlstring(L, text, length);
    lua_remove(L, -2);
}

/*
 * --- Errors that were awaited ------------------------------------------------------------------
 */

/*
 * Whether the string at an index, the top, was raised just now, by the function at a level or a
 * little further out: then it is no error of another task, even if that had the same text.  Lua's
 * own errors and those of error() begin with the place of that function.  But a function of the
 * library that was called there raises errors of other tasks.
 */
static bool is_raised_here(struct orr_isolate *iso, lua_State *L, int index, int level)
{
    enum { LEVELS = 4 }; /* with a message handler, and what calls it */
    bool raises_others = false;
    lua_Debug at;
    if (lua_type(L, index) != LUA_TSTRING)
        return false;
    for (int i = level; i < level + LEVELS && lua_getstack(L, i, &at); i++) {
        lua_getinfo(L, "nSlf", &at);
        if (*at.what == 'C') {
            raises_others = at.name && lua_getupvalue(L, -1, 1) && lua_touserdata(L, -1) == iso;
            lua_settop(L, index);
            continue;
        }
        lua_settop(L, index);
        char place[LUA_IDSIZE + 24];
        snprintf(place, sizeof place, "%s:%d:", at.short_src, at.currentline);
        if (!raises_others && !strncmp(lua_tostring(L, index), place, strlen(place)))
            return true;
        raises_others = false;
    }
    return false;
}

/* Whether the value at an index is the error of the failure at the top. */
static bool is_error_of(lua_State *L, int index)
{
    bool same;
    if (told_elsewhere_at_top(L)) {
        lua_getiuservalue(L, -1, 1);
        same = lua_rawequal(L, -1, index);
    } else {
        const struct ltask *failed = lua_touserdata(L, -1);
        lua_pushvalue(L, index);
        same = failed->task && result_is_error(L, outcome_of(failed->task));
    }
    lua_pop(L, 1);
    return same;
}

/*
 * Pushes the last failure with the error at an index, the top, of which a script was told.  False,
 * with nothing pushed, if there is none.  `level` is that of the function that raises the error
 * now.
 */
static bool push_told(struct orr_isolate *iso, lua_State *L, int index, int level)
{
    if (is_raised_here(iso, L, index, level))
        return false;
    for (unsigned i = 0; i < TOLD_MAX; i++) {
        if (told_push(iso, L, i) == LUA_TNIL)
            continue;
        if (is_error_of(L, index))
            return true;
        lua_pop(L, 1);
    }
    return false;
}

void report_forget(struct orr_isolate *iso, lua_State *L)
{
    int index = lua_gettop(L);
    for (unsigned i = 0; i < TOLD_MAX && lua_checkstack(L, 4); i++) {
        if (told_push(iso, L, i) == LUA_TNIL)
            continue;
        if (is_error_of(L, index))
            told_forget(iso, L, i);
        lua_settop(L, index);
    }
}

/* Lists the tasks that a failure, at the top, went through.  Answers the error's text. */
static struct piece gather_told(struct trace_sections *all, lua_State *L)
{
    const struct told_elsewhere *elsewhere = told_elsewhere_at_top(L);
    if (!elsewhere)
        return gather(all, ((struct ltask *)lua_touserdata(L, -1))->task);
    const char *stack = elsewhere->text + elsewhere->message;
    stack += *stack == '\n';
    trace_add(all, &(struct trace_section){ .stack = { stack, strlen(stack) }, .how = TRACE_WRITTEN });
    trace_add(all, &(struct trace_section){ .stack = { IN_A_JOB, strlen(IN_A_JOB) }, .how = TRACE_WRITTEN });
    return (struct piece){ elsewhere->text, elsewhere->message };
}

/* [text] [stack]: the trace of an error that the task has raised itself, without names. */
static struct trace *trace_raised(struct orr_isolate *iso, lua_State *L)
{
    struct piece message, stack;
    message.text = lua_tolstring(L, -2, &message.length);
    stack.text = lua_tolstring(L, -1, &stack.length);
    return trace_new(iso, message,
                     &(struct trace_sections){ .items = { { .stack = stack, .how = TRACE_RAISED } }, .count = 1 });
}

/* [stack] [failure]: the trace of an error that the task has awaited. */
static struct trace *trace_awaited(struct orr_isolate *iso, lua_State *L, const struct ltask *self)
{
    struct trace_sections all = { 0 };
    struct piece message = gather_told(&all, L);
    struct trace_section own = { .task = self->task, .created = task_finalizer_created(self), .how = TRACE_AWAITED };
    own.stack.text = lua_tolstring(L, -2, &own.stack.length);
    trace_add(&all, &own);
    return trace_new(iso, message, &all);
}

/* Whether the error at the top is that of a child, whose failure the core keeps. */
static bool is_childs_error(lua_State *L, const struct ltask *self)
{
    struct orr_task *child = orr_task_failed_child(self->task);
    return child && result_is_error(L, outcome_of(child));
}

void report_keep(struct ltask *self, lua_State *L)
{
    struct orr_isolate *iso = self->iso;
    int error = lua_gettop(L);
    luaL_checkstack(L, 16, NULL);
    bool told = !is_childs_error(L, self) && push_told(iso, L, error, 1); /* [failure], if so */
    if (told) {
        stack_trace_push_chain(L, execution_chain(&iso->execution), 1);
        stack_trace_cut(L, TRACE_AWAIT_MAX);
        lua_insert(L, -2);
    } else {
        error_text_push(iso, L, error);
        stack_trace_cut(L, REPORT_TEXT);
        stack_trace_push_chain(L, execution_chain(&iso->execution), 1);
    }
    ltask_push_handle(L, self);
    struct task_finalizer *finalizer = task_finalizer_make(L, self);
    lua_pop(L, 1);
    trace_free(iso, &finalizer->trace);
    finalizer->trace = told ? trace_awaited(iso, L, self) : trace_raised(iso, L);
    lua_settop(L, error);
}

/* [error] -> [error] [text]: pushes the report of an error that a failure in the list explains. */
static bool push_told_report(struct orr_isolate *iso, lua_State *L, int level)
{
    if (!push_told(iso, L, lua_gettop(L), level))
        return false;
    struct trace_sections all = { 0 }, again = { 0 };
    struct piece message = gather_told(&all, L);
    char *text = lua_newuserdatauv(L, trace_write(&all, message, NULL, NULL) + 1, 0);
    lua_insert(L, -2);
    message = gather_told(&again, L);
    size_t length = trace_write(&again, message, text, NULL);
    lua_pop(L, 1);
    lua_pushlstring(L, text, length);
    lua_remove(L, -2);
    return true;
}

void report_push_caught(struct orr_isolate *iso, lua_State *L, int level)
{
    int error = lua_gettop(L);
    luaL_checkstack(L, 16, NULL);
    const struct ltask *self = execution_task(&iso->execution);
    bool interrupted = self && is_childs_error(L, self);
    bool told = interrupted || push_told_report(iso, L, level);
    if (interrupted)
        push_failure(L, orr_task_failed_child(self->task));
    if (!told) {
        error_text_push(iso, L, error);
        stack_trace_cut(L, REPORT_TEXT);
    }
    const char *name = self ? orr_task_name(self->task) : NULL;
    if (told && self)
        lua_pushfstring(L, "\ntask '%s' %s it\n", name ? name : "(unnamed)",
                        interrupted ? "failed because of" : "awaited");
    else
        lua_pushliteral(L, "\n");
    stack_trace_push_chain(L, execution_chain(&iso->execution), level);
    lua_concat(L, 3);
}

/*
 * --- The tasks around a task -------------------------------------------------------------------
 */

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

/* Adds the stacks that the error of a failed task came through. */
static void add_own_trace(lua_State *L, luaL_Buffer *text, const struct ltask *self)
{
    const struct trace *trace = self->task && orr_task_done(self->task) ? trace_of(self->task) : NULL;
    if (!trace)
        return;
    bool named = trace->count > 1; /* the tasks' names are in the trace */
    if (self->task && !named)
        add_heading(text, self->task);
    const char *stacks = trace->text + trace->message;
    lua_pushfstring(L, *stacks ? "%s" : "\n%s", stacks);
    luaL_addvalue(text);
}

void report_push_traceback(lua_State *L, struct ltask *self, const char *message)
{
    struct orr_isolate *iso = self->iso;
    luaL_Buffer text;
    luaL_buffinit(L, &text);
    luaL_addstring(&text, message ? message : "");
    add_own_trace(L, &text, self);
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

/* --- Failures --------------------------------------------------------------------------------- */

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

/* [text]: adds the other errors below a task. */
static void add_others(lua_State *L, struct orr_task *task)
{
    luaL_Buffer text;
    luaL_buffinit(L, &text);
    struct others others = { .text = &text, .first = task_has_failed(task) };
    orr_task_errors(task, add_other, &others);
    if (others.count > OTHERS_SHOWN) {
        char more[48];
        snprintf(more, sizeof more, "\nand %u more errors", others.count - OTHERS_SHOWN);
        luaL_addstring(&text, more);
    }
    luaL_pushresult(&text);
    lua_concat(L, 2);
}

/* [] -> [text]: a task that ended well, with errors below it. */
static void push_ended(lua_State *L, const struct orr_task *task)
{
    luaL_Buffer text;
    luaL_buffinit(L, &text);
    luaL_addstring(&text, "a task has ended, with errors below it");
    add_heading(&text, task);
    luaL_pushresult(&text);
}

void report_push_failure(lua_State *L, struct orr_task *task)
{
    if (task_has_failed(task))
        push_failure(L, task);
    else
        push_ended(L, task);
    add_others(L, task);
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
