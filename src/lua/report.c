#include "lua/report.h"

#include "lua/estate.h"

#include <string.h>

/* The text of the error at the top of the stack, pushed.  Scripts may have their say in __tostring. */
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

/* The stack of the running coroutine, and of those inside which it was resumed. */
static void push_stacks(lua_State *L, struct orr_isolate *iso, int level)
{
    luaL_traceback(L, L, NULL, level);
    for (struct chain *at = iso->chain; at; at = at->outer) {
        lua_pushliteral(L, "\n  inside:\n");
        luaL_traceback(L, at->L, NULL, 0);
        lua_concat(L, 3);
    }
}

void report_keep(struct ltask *self, lua_State *L, int index)
{
    push_text(L, index);
    lua_pushliteral(L, "\n");
    push_stacks(L, self->iso, 1);
    lua_concat(L, 3);
    isolate_push_anchored(self->iso, L, self->anchor);
    struct estate *estate = estate_make(L, self);
    estate_free_text(self->iso, &estate->report);
    estate->report = alloc_copy(&self->iso->alloc, lua_tostring(L, -2));
    lua_pop(L, 2);
}

/* The part of a kept report that is the stack. */
static const char *stack_of(const struct ltask *self)
{
    const char *report = self->estate ? self->estate->report : NULL;
    const char *stack = report ? strstr(report, "stack traceback:") : NULL;
    return stack ? stack : "";
}

static void add_heading(luaL_Buffer *text, const struct orr_task *task)
{
    luaL_addstring(text, "\ntask '");
    luaL_addstring(text, task->name ? task->name : "(unnamed)");
    luaL_addstring(text, "'");
    struct ltask *lua = ltask_of(task);
    if (lua && lua->estate && lua->estate->created) {
        luaL_addstring(text, ", created at ");
        luaL_addstring(text, lua->estate->created);
    }
}

/* Adds the stack of a coroutine that does not run now. */
static void add_stack(lua_State *L, luaL_Buffer *text, lua_State *co)
{
    if (!co)
        return;
    luaL_traceback(L, co, NULL, 0);
    lua_pushliteral(L, "\n");
    lua_insert(L, -2);
    lua_concat(L, 2);
    luaL_addvalue(text);
}

void report_push_traceback(lua_State *L, struct ltask *self, const char *message)
{
    struct orr_isolate *iso = self->iso;
    luaL_Buffer text;
    luaL_buffinit(L, &text);
    luaL_addstring(&text, message ? message : "");
    if (self->estate && self->estate->report) {
        if (self->task)
            add_heading(&text, self->task);
        luaL_addstring(&text, "\n");
        luaL_addstring(&text, stack_of(self));
    }
    struct orr_task *at = self->task;
    while (at && at->life != TASK_DONE) {
        struct ltask *lua = ltask_of(at);
        add_heading(&text, at);
        if (lua && lua == iso->current && iso->running != lua->co) {
            lua_pushliteral(L, "\n");
            push_stacks(L, iso, 0);
            lua_concat(L, 2);
            luaL_addvalue(&text);
        } else if (lua) {
            add_stack(L, &text, lua->over ? NULL : lua->co);
        }
        at = at->parent ? nest_task(at->parent) : NULL;
    }
    luaL_pushresult(&text);
}

static const char *words_of(const struct orr_result *result)
{
    return result->message ? result->message : strerror(-result->error);
}

/* The way that an error took, from the task in which it arose up to `task`; of a very long one, the ends. */
static void add_chain(luaL_Buffer *text, struct orr_task *task)
{
    enum { ENDS = 8 };
    size_t length = 0;
    for (struct orr_task *at = task; at; at = orr_task_cause(at))
        length++;
    for (size_t i = length; i-- > 0;) { /* it is linked from the top down */
        if (i >= ENDS && length - i > ENDS)
            continue;
        struct orr_task *at = task;
        for (size_t steps = 0; steps < i; steps++)
            at = orr_task_cause(at);
        add_heading(text, at);
        if (i + 1 == length)
            continue; /* its stack comes with the error */
        const char *stack = ltask_of(at) ? stack_of(ltask_of(at)) : "";
        luaL_addstring(text, " failed because of it");
        luaL_addstring(text, *stack ? "\n" : "");
        luaL_addstring(text, stack);
    }
}

struct others {
    luaL_Buffer *text;
    bool first; /* it has been told already */
};

static void add_other(void *data, struct orr_task *origin, const struct orr_result *result)
{
    struct others *others = data;
    if (!others->first) {
        luaL_addstring(others->text, "\nand in ");
        luaL_addstring(others->text, origin->name ? origin->name : "(unnamed)");
        luaL_addstring(others->text, ": ");
        luaL_addstring(others->text, words_of(result));
    }
    others->first = false;
}

void report_push_failure(lua_State *L, struct orr_task *task)
{
    luaL_Buffer text;
    luaL_buffinit(L, &text);
    struct others others = { .text = &text, .first = task->failed };
    if (task->failed) {
        luaL_addstring(&text, words_of(outcome_of(task)));
        add_chain(&text, task);
    } else {
        luaL_addstring(&text, "a task has ended, with errors below it");
        add_heading(&text, task);
    }
    orr_task_errors(task, add_other, &others);
    luaL_pushresult(&text);
}
