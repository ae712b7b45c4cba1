#include "lua/task/report.h"

#include "base/clock.h"
#include "base/text.h"
#include "exec/tree.h"
#include "lua/isolate/charge.h"
#include "lua/limits/budget.h"
#include "lua/task/cancellation.h"
#include "lua/task/shutdown.h"
#include "lua/task/suspend.h"
#include "lua/task/task_finalizer.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Of a chain of tasks, and of errors beside the first, so many are shown. */
enum { CHAIN_SHOWN = 16, OTHERS_SHOWN = 16 };

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

bool report_is_of_script(const lua_Debug *at)
{
    return strncmp(at->source, "=orrery/", strlen("=orrery/")) != 0;
}

/* Cuts the text at the top to a length, and says so: "... (7340032 bytes)". */
static void cut_text(lua_State *L, size_t most)
{
    size_t length;
    const char *text = lua_tolstring(L, -1, &length);
    if (length <= most)
        return;
    lua_pushlstring(L, text, text_cut(text, length, most));
    lua_pushfstring(L, "... (%I bytes)", (lua_Integer)length);
    lua_concat(L, 2);
    lua_remove(L, -2);
}

void report_push_location(lua_State *L, lua_State *co, int level)
{
    lua_Debug at;
    for (; lua_getstack(co, level, &at); level++) {
        lua_getinfo(co, "Sl", &at);
        if (at.currentline <= 0 || !report_is_of_script(&at))
            continue;
        lua_pushfstring(L, "%s:%d", at.short_src, at.currentline);
        return;
    }
    lua_pushliteral(L, "");
}

/* --- Stacks ---------------------------------------------------------------------------------------------------------- */

/*
 * As luaL_traceback() writes them, but for two things that a script could make it take any time for: names are cut, and the name that a
 * loaded module has for a function is looked for among so many fields only.
 */
enum {
    LEVELS_TOP = 10, /* shown at each end of a deep stack */
    LEVELS_BOTTOM = 11,
    FIELDS_LOOKED_AT = 4096, /* for one stack */
};

/* The function at the top is replaced by its name in a loaded module; or taken off, and the answer is false. */
static bool push_known_name(lua_State *L, int *fields)
{
    int function = lua_gettop(L);
    lua_getfield(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
    for (lua_pushnil(L); *fields > 0 && lua_next(L, function + 1); lua_settop(L, function + 2)) {
        --*fields;
        if (!lua_istable(L, -1) || lua_type(L, -2) != LUA_TSTRING)
            continue;
        for (lua_pushnil(L); --*fields > 0 && lua_next(L, function + 3); lua_pop(L, 1)) {
            if (lua_type(L, -2) != LUA_TSTRING || !lua_rawequal(L, -1, function))
                continue;
            char module[TEXT_NAME_ROOM], name[TEXT_NAME_ROOM];
            text_name(module, lua_tostring(L, function + 2));
            text_name(name, lua_tostring(L, -2));
            bool global = !strcmp(module, LUA_GNAME);
            lua_pushfstring(L, "%s%s%s", global ? "" : module, global ? "" : ".", name);
            lua_replace(L, function);
            lua_settop(L, function);
            return true;
        }
    }
    lua_settop(L, function - 1);
    return false;
}

/* Replaces the function at the top by what it is called in the stack of a coroutine. */
static void name_function(lua_State *L, const lua_Debug *at, int *fields)
{
    char name[TEXT_NAME_ROOM];
    if (push_known_name(L, fields)) {
        lua_pushfstring(L, "function '%s'", lua_tostring(L, -1));
        lua_remove(L, -2);
    } else if (*at->namewhat) {
        text_name(name, at->name);
        lua_pushfstring(L, "%s '%s'", at->namewhat, name);
    } else if (*at->what == 'm') {
        lua_pushliteral(L, "main chunk");
    } else if (*at->what != 'C') {
        lua_pushfstring(L, "function <%s:%d>", at->short_src, at->linedefined);
    } else {
        lua_pushliteral(L, "?");
    }
}

static int count_levels(lua_State *co)
{
    lua_Debug at;
    int below = 0, above = 1;
    while (lua_getstack(co, above, &at)) {
        below = above;
        above *= 2;
    }
    while (below + 1 < above) {
        int middle = below + (above - below) / 2;
        *(lua_getstack(co, middle, &at) ? &below : &above) = middle;
    }
    return lua_getstack(co, 0, &at) ? below + 1 : 0;
}

/* [text] [function] becomes the text with one line more. */
static void add_level(lua_State *L, const lua_Debug *at, int *fields)
{
    name_function(L, at, fields);
    if (at->currentline > 0)
        lua_pushfstring(L, "\n\t%s:%d: in ", at->short_src, at->currentline);
    else
        lua_pushfstring(L, "\n\t%s: in ", at->short_src);
    lua_insert(L, -2);
    lua_pushstring(L, at->istailcall ? "\n\t(...tail calls...)" : "");
    lua_concat(L, 4);
}

/*
 * Pushes the stack of a coroutine from a level on.  The text grows as a string on the Lua stack.  The C stack may be nearly used up
 * here, and a luaL_Buffer has a variable to close, which lua_settop() of 5.4.4 closes too early when the Lua stack has moved.
 */
static void push_stack(lua_State *L, lua_State *co, int level)
{
    luaL_checkstack(L, 16, NULL);
    int levels = count_levels(co), fields = FIELDS_LOOKED_AT;
    bool deep = levels - level > LEVELS_TOP + LEVELS_BOTTOM;
    int skipped = deep ? levels - level - LEVELS_TOP - LEVELS_BOTTOM : 0;
    int first_skipped = level + LEVELS_TOP;
    lua_pushliteral(L, "stack traceback:");
    lua_Debug at;
    for (; lua_checkstack(co, 1) && lua_getstack(co, level, &at); level++) {
        if (skipped && level == first_skipped) {
            lua_pushfstring(L, "\n\t...\t(skipping %d levels)", skipped);
            lua_concat(L, 2);
            level += skipped - 1;
            continue;
        }
        lua_getinfo(co, "Slntf", &at);
        lua_xmove(co, L, 1);
        add_level(L, &at, &fields);
    }
}

/* The stack of the running coroutine, and of those inside which it was resumed, as far as there is room. */
static void push_stacks(lua_State *L, struct orr_isolate *iso, int level)
{
    push_stack(L, L, level);
    for (struct chain *at = iso->execution.chain; at && lua_rawlen(L, -1) <= REPORT_STACK; at = at->outer) {
        lua_pushliteral(L, "\n  inside:\n");
        push_stack(L, at->L, 0);
        lua_concat(L, 3);
    }
    cut_text(L, REPORT_STACK);
}

void report_keep(struct ltask *self, lua_State *L, int index)
{
    push_text(L, index);
    cut_text(L, REPORT_TEXT);
    lua_pushliteral(L, "\n");
    push_stacks(L, self->iso, 1);
    lua_concat(L, 3);
    isolate_push_anchored(self->iso, L, self->anchor);
    struct task_finalizer *task_finalizer = task_finalizer_make(L, self);
    charge_free_text(self->iso, &task_finalizer->report);
    task_finalizer->report = charge_copy(self->iso, lua_tostring(L, -2));
    lua_pop(L, 2);
}

/* The part of a kept report that is the stack. */
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

/* Adds the stack of a coroutine that does not run now. */
static void add_stack(lua_State *L, luaL_Buffer *text, lua_State *co)
{
    if (!co)
        return;
    luaL_addstring(text, "\n");
    push_stack(L, co, 0);
    cut_text(L, REPORT_STACK);
    luaL_addvalue(text);
}

/* A task, and where it stands. */
static void add_task(lua_State *L, luaL_Buffer *text, struct orr_isolate *iso, const struct orr_task *task)
{
    struct ltask *lua = ltask_of(task);
    if (lua && lua == iso->execution.current && iso->execution.running != lua->co) {
        lua_pushliteral(L, "\n");
        push_stacks(L, iso, 0);
        lua_concat(L, 2);
        luaL_addvalue(text);
    } else if (lua) {
        add_stack(L, text, ltask_is_over(lua) ? NULL : lua->co);
    }
}

/* The tasks that one waits for, those that these wait for, and so on, the nearest first.  The first is that one itself. */
struct awaited {
    struct orr_task *tasks[CHAIN_SHOWN];
    struct orr_task *by[CHAIN_SHOWN];
    int count, looked_at;
    bool more;
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

/* Those that a task waits for, the farthest first. */
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

/* --- Timeouts --------------------------------------------------------------------------------------------------------- */

struct timeout {
    struct orr_isolate *iso;
    const struct level *expired;
    lua_Debug *returning; /* of a C function */
};

/* "string.rep" of the C function that returns: [timeout]. */
static int write_culprit(lua_State *L)
{
    const struct timeout *timeout = lua_touserdata(L, 1);
    struct orr_isolate *iso = timeout->iso;
    uint64_t ns = clock_now() - iso->preemption.requested_at;
    lua_getinfo(L, "nSf", timeout->returning);
    if (*timeout->returning->what != 'C' || ns < 1000000)
        return 0;
    const char *name = push_function_name(L) ? lua_tostring(L, -1) : timeout->returning->name;
    char spent[TEXT_DURATION_ROOM];
    text_duration(spent, ns);
    snprintf(iso->preemption.culprit, sizeof iso->preemption.culprit, "%s, a C function, for %s", name ? name : "one",
             spent);
    return 0;
}

void report_note_culprit(struct orr_isolate *iso, lua_State *L, lua_Debug *event)
{
    struct timeout timeout = { .iso = iso, .returning = event };
    if (!lua_checkstack(L, 2))
        return;
    lua_pushcfunction(L, write_culprit);
    lua_pushlightuserdata(L, &timeout);
    if (lua_pcall(L, 1, 0, 0) != LUA_OK)
        lua_pop(L, 1);
}

static void add_who(lua_State *L, const struct level *level)
{
    static const char *const kinds[ORR_LUA_ENTRIES] = {
        [ORR_LUA_TASK] = "task",       [ORR_LUA_SCRIPT] = "script",        [ORR_LUA_CALL] = "call from the host",
        [ORR_LUA_HANDLER] = "handler", [ORR_LUA_TIMER] = "timer callback", [ORR_LUA_SCHEDULED] = "scheduled callback",
        [ORR_LUA_JOB] = "job",
    };
    const struct orr_task *task = level->self ? level->self->task : NULL;
    bool named = orr_task_name(task) &&
                 (level->entry == ORR_LUA_TASK || level->entry == ORR_LUA_SCRIPT || level->entry == ORR_LUA_HANDLER);
    lua_pushfstring(L, TIMEOUT_TEXT ": the %s %s%s%s", kinds[level->entry], named ? "'" : "",
                    named ? orr_task_name(task) : "", named ? "' " : "");
}

static void add_how_long(lua_State *L, const struct orr_isolate *iso, const struct level *level)
{
    uint64_t used = budget_used(iso, level);
    char text[LUA_IDSIZE + 160], times[16], time[TEXT_DURATION_ROOM], most[TEXT_DURATION_ROOM];
    text_duration(time, used);
    text_duration(most, level->limit);
    if (cancellation_ignored(iso, level->self))
        snprintf(text, sizeof text, "was cancelled, has swallowed that %s times%s, and has run on for %s\n",
                 cancellation_count(level->self, times), cancellation_ignored(iso, level->self), time);
    else if (shutdown_is_over(iso, level->self ? level->self->script : 0))
        snprintf(text, sizeof text, "has not ended in its grace period\n");
    else if (iso->limits.mode == ORR_LUA_COUNT)
        snprintf(text, sizeof text, "has run %" PRIu64 " instructions without waiting, and may run %" PRIu64 "\n", used,
                 level->limit);
    else
        snprintf(text, sizeof text, "has run for %s without waiting, and may for %s\n", time, most);
    lua_pushstring(L, text);
}

static void add_where(lua_State *L)
{
    lua_Debug info;
    char name[TEXT_NAME_ROOM] = "";
    bool found = lua_getstack(L, 1, &info) && lua_getinfo(L, "nSl", &info);
    if (found && info.name)
        text_name(name, info.name);
    if (!found) {
        lua_pushliteral(L, "");
    } else if (info.currentline > 0) {
        lua_pushfstring(L, "it was at %s:%d%s%s%s\n", info.short_src, info.currentline,
                        info.name ? ", in function '" : "", name, info.name ? "'" : "");
    } else {
        lua_pushfstring(L, "it was in '%s', a C function\n", info.name ? name : "?");
    }
}

/* [timeout] -> the text. */
static int write_timeout(lua_State *L)
{
    const struct timeout *timeout = lua_touserdata(L, 1);
    struct orr_isolate *iso = timeout->iso;
    luaL_checkstack(L, 16, NULL);
    if (iso->verdict.condemned) {
        lua_pushfstring(L, "Script ended: %s\n", iso->verdict.reason);
        add_where(L);
        push_stacks(L, iso, 1);
        lua_concat(L, 3);
        return 1;
    }
    add_who(L, timeout->expired);
    add_how_long(L, iso, timeout->expired);
    add_where(L);
    lua_pushfstring(L, *iso->preemption.culprit ? "time went into %s\n" : "", iso->preemption.culprit);
    lua_pushstring(L, cancellation_ignored(iso, timeout->expired->self)
                          ? "a task that catches the error 'closed' is to clean up and return\n"
                          : "waiting gives it its time anew: call async.checkpoint() now and then\n");
    push_stacks(L, iso, 1);
    lua_concat(L, 6);
    return 1;
}

void report_timeout(struct orr_isolate *iso, lua_State *L, const struct level *expired)
{
    struct timeout timeout = { .iso = iso, .expired = expired };
    if (!lua_checkstack(L, 4))
        return;
    iso->charge.reports = true;
    lua_pushcfunction(L, write_timeout);
    lua_pushlightuserdata(L, &timeout);
    if (lua_pcall(L, 1, 1, 0) == LUA_OK)
        iso->execution.level->report = charge_copy(iso, lua_tostring(L, -1));
    lua_pop(L, 1);
    iso->charge.reports = false;
}
