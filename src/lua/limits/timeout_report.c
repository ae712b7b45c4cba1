#include "lua/limits/timeout_report.h"

#include "base/text.h"
#include "lua/isolate.h"
#include "lua/isolate/ban.h"
#include "lua/isolate/charge.h"
#include "lua/isolate/execution.h"
#include "lua/isolate/interrupt.h"
#include "lua/limits/grace_period.h"
#include "lua/limits/level.h"
#include "lua/limits/stack_trace.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

/* Arguments of write_slow() and write_report(), which run in protected mode. */
struct writing {
    struct orr_isolate *iso;
    const struct level *expired;
    lua_Debug *returning; /* the return event of a C function */
};

/* --- The slow function ------------------------------------------------------------------------ */

enum { SLOW_NS = 1000000 }; /* shorter calls are not reported as slow */

/* [writing]: writes the name of the C function that returns, and its time, to `slow`. */
static int write_slow(lua_State *L)
{
    const struct writing *writing = lua_touserdata(L, 1);
    struct timeout_report *self = &writing->iso->timeout_report;
    uint64_t ns = moment_passed(interrupt_over(&writing->iso->interrupt));
    int fields = INT_MAX;
    lua_getinfo(L, "nSf", writing->returning);
    if (*writing->returning->what != 'C' || ns < SLOW_NS)
        return 0;
    bool known = stack_trace_push_name(L, &fields);
    const char *name = known ? lua_tostring(L, -1) : writing->returning->name;
    char spent[TEXT_DURATION_ROOM];
    text_duration(spent, ns);
    snprintf(self->slow, sizeof self->slow, "%s%s%s, a C function, for %s", known ? "'" : "", name ? name : "one",
             known ? "'" : "", spent);
    return 0;
}

void timeout_report_note_slow(struct orr_isolate *iso, lua_State *L, lua_Debug *event)
{
    struct writing writing = { .iso = iso, .returning = event };
    if (!lua_checkstack(L, 2))
        return;
    lua_pushcfunction(L, write_slow);
    lua_pushlightuserdata(L, &writing);
    if (lua_pcall(L, 1, 0, 0) != LUA_OK)
        lua_pop(L, 1);
}

/* --- The report ------------------------------------------------------------------------------- */

static void add_who(lua_State *L, const struct level *level, const struct timeout_subject *subject)
{
    static const char *const kinds[ORR_LUA_ENTRIES] = {
        [ORR_LUA_TASK] = "task",       [ORR_LUA_SCRIPT] = "script",        [ORR_LUA_CALL] = "call from the host",
        [ORR_LUA_HANDLER] = "handler", [ORR_LUA_TIMER] = "timer callback", [ORR_LUA_SCHEDULED] = "scheduled callback",
        [ORR_LUA_JOB] = "job",
    };
    bool named = subject->name &&
                 (level->entry == ORR_LUA_TASK || level->entry == ORR_LUA_SCRIPT || level->entry == ORR_LUA_HANDLER);
    const char *script = subject->script;
    if (script && named && !strcmp(script, subject->name))
        script = NULL;
    lua_pushfstring(L, TIMEOUT_TEXT ": the %s %s%s%s%s%s%s", kinds[level->entry], named ? "'" : "",
                    named ? subject->name : "", named ? "' " : "", script ? "of '" : "", script ? script : "",
                    script ? "' " : "");
}

static void add_how_long(lua_State *L, const struct orr_isolate *iso, const struct level *level,
                         const struct timeout_subject *subject)
{
    uint64_t used = level_used(iso, level);
    char text[LUA_IDSIZE + 160], time[TEXT_DURATION_ROOM], most[TEXT_DURATION_ROOM];
    text_duration(time, used);
    text_duration(most, level->limit);
    if (subject->ignored)
        snprintf(text, sizeof text, "was cancelled, has swallowed that %s%u times%s, and has run on for %s\n",
                 subject->ignored_more ? "over " : "", subject->ignored, subject->ignored_where, time);
    else if (grace_period_is_over(iso, level->script))
        snprintf(text, sizeof text, "has not ended in its grace period\n");
    else if (iso->limits.mode == ORR_LUA_COUNT)
        snprintf(text, sizeof text, "has run %" PRIu64 " instructions without waiting; the limit is %" PRIu64 "\n",
                 used, level->limit);
    else
        snprintf(text, sizeof text, "has run for %s without waiting; the limit is %s\n", time, most);
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

/* [writing] -> [text] */
static int write_report(lua_State *L)
{
    const struct writing *writing = lua_touserdata(L, 1);
    struct orr_isolate *iso = writing->iso;
    struct timeout_report *self = &iso->timeout_report;
    const struct chain *chain = execution_chain(&iso->execution);
    luaL_checkstack(L, 16, NULL);
    if (ban_is_imposed(&iso->ban)) {
        lua_pushfstring(L, "Script ended: %s\n", ban_reason(&iso->ban));
        add_where(L);
        stack_trace_push_chain(L, chain, 1);
        lua_concat(L, 3);
        return 1;
    }
    struct timeout_subject subject = { 0 };
    self->describe(iso, writing->expired->task, &subject);
    add_who(L, writing->expired, &subject);
    add_how_long(L, iso, writing->expired, &subject);
    add_where(L);
    lua_pushfstring(L, *self->slow ? "time went into %s\n" : "", self->slow);
    lua_pushstring(L, subject.ignored ? "a task that catches the error 'closed' must clean up and return\n"
                                      : "waiting resets the deadline: call async.checkpoint() regularly\n");
    stack_trace_push_chain(L, chain, 1);
    lua_concat(L, 6);
    return 1;
}

void timeout_report_keep(struct orr_isolate *iso, lua_State *L, const struct level *expired)
{
    struct writing writing = { .iso = iso, .expired = expired };
    if (!lua_checkstack(L, 4))
        return;
    bool before = charge_begin_report(&iso->charge);
    lua_pushcfunction(L, write_report);
    lua_pushlightuserdata(L, &writing);
    if (lua_pcall(L, 1, 1, 0) == LUA_OK)
        execution_level(&iso->execution)->report = charge_copy(iso, lua_tostring(L, -1));
    lua_pop(L, 1);
    charge_end_report(&iso->charge, before);
}
