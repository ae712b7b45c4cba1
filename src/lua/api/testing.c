/*
 * Everything that a script makes carries the number of that script (script.h).  A test takes a
 * number of its own when it begins.  So what is left of it in the end is what carries its number,
 * and it can be taken away like a script.
 */
#include "lua/api/testing.h"

#include "exec/shuffle.h"
#include "lua/api/duration.h"
#include "lua/api/eventloop.h"
#include "lua/api/registrations.h"
#include "lua/api/schedule.h"
#include "lua/isolate.h"
#include "lua/limits/stack_trace.h"
#include "lua/task/report.h"
#include "lua/task/script.h"
#include "lua/task/shutdown.h"
#include "lua/task/suspend.h"
#include "lua/task/task.h"
#include "lua/task/task_finalizer.h"

#include <errno.h>
#include <string.h>

/* The number at an argument; by default the number of the running task. */
static uint32_t check_owner(lua_State *L, int index)
{
    return (uint32_t)luaL_optinteger(L, index, script_running(isolate_of(L)));
}

/* mark([owner]) -> owner: from now on the running task makes things for it, or for a new one. */
static int mark(lua_State *L)
{
    struct orr_isolate *iso = isolate_of(L);
    struct ltask *self = ltask_current(L, "testing.mark");
    self->script = lua_isnoneornil(L, 1) ? script_new_number(&iso->scripts) : (uint32_t)luaL_checkinteger(L, 1);
    lua_pushinteger(L, self->script);
    return 1;
}

/* --- Leaks ------------------------------------------------------------------------------------ */

struct listing {
    lua_State *L; /* with the list at the top */
    const struct orr_isolate *iso;
    uint32_t owner;
};

static void set_text(lua_State *L, const char *key, const char *text)
{
    if (!text || !*text)
        return;
    lua_pushstring(L, text);
    lua_setfield(L, -2, key);
}

/* Sets `at`: where a suspended task stands. */
static void set_place(lua_State *L, const struct ltask *self)
{
    lua_State *co = ltask_innermost(self);
    if (self->phase != LTASK_BEGUN || !co || task_is_running(self->task))
        return;
    stack_trace_push_location(L, co, 0);
    lua_setfield(L, -2, "at");
}

static void add_task(void *data, const struct orr_task_info *info)
{
    const struct listing *listing = data;
    lua_State *L = listing->L;
    const struct ltask *self = ltask_of(info->task);
    if (!self || self->iso != listing->iso || self->script != listing->owner)
        return;
    static const char *const states[] = { "running", "ready", "waiting", "waiting for its children", "ending its I/O" };
    lua_createtable(L, 0, 8);
    set_text(L, "kind", "task");
    set_text(L, "name", info->name);
    set_text(L, "state", states[info->state]);
    set_text(L, "waits_for", info->state == ORR_TASK_WAITING ? info->waits_for : NULL);
    set_text(L, "created", task_finalizer_created(self));
    set_place(L, self);
    lua_pushinteger(L, info->depth);
    lua_setfield(L, -2, "depth");
    lua_rawseti(L, -2, luaL_len(L, -2) + 1);
}

/* tasks([owner]) -> list of the tasks that are not done, each in front of its children */
static int tasks(lua_State *L)
{
    struct orr_isolate *iso = isolate_of(L);
    struct listing listing = { .L = L, .iso = iso, .owner = check_owner(L, 1) };
    lua_newtable(L);
    luaL_checkstack(L, 8, NULL);
    if (worker_current == iso->worker)
        orr_tree_visit(NULL, add_task, &listing);
    return 1;
}

/* leaks([owner]) -> list of tasks, registrations, what private loops hold, and what is open */
static int leaks(lua_State *L)
{
    struct orr_isolate *iso = isolate_of(L);
    uint32_t owner = check_owner(L, 1);
    tasks(L);
    registrations_list(iso, L, owner);
    eventloop_list(L, owner);
    open_objects_list(iso, L, owner);
    return 1;
}

/* close([owner]): removes what calls back, and cancels the tasks. */
static int close_all(lua_State *L)
{
    struct orr_isolate *iso = isolate_of(L);
    uint32_t owner = check_owner(L, 1);
    registrations_remove(iso, owner);
    eventloop_dispose(L, owner);
    shutdown_cancel(iso, owner);
    return 0;
}

/* forget([owner]): its tasks are over.  Closes what it has left open, and forgets its loops. */
static int forget(lua_State *L)
{
    uint32_t owner = check_owner(L, 1);
    open_objects_close(isolate_of(L), owner);
    eventloop_forget(L, owner);
    return 0;
}

/* drop([owner]): ends its tasks by force. */
static int drop(lua_State *L)
{
    struct orr_isolate *iso = isolate_of(L);
    struct shutdown shutdown;
    shutdown_begin(&shutdown, iso, check_owner(L, 1), worker_grace_ns(iso->worker));
    shutdown_drop(&shutdown);
    shutdown_end(&shutdown);
    open_objects_close(iso, check_owner(L, 1));
    return 0;
}

/* report(task) -> the report of its failure */
static int report(lua_State *L)
{
    struct ltask *self = ltask_check(L, 1);
    if (self->task)
        report_push_failure(L, self->task);
    else
        lua_pushnil(L);
    return 1;
}

/* timed_out(task) -> whether it has failed because something ran past its deadline */
static int timed_out(lua_State *L)
{
    struct ltask *self = ltask_check(L, 1);
    bool failed = self->task && orr_task_done(self->task) && task_has_failed(self->task);
    lua_pushboolean(L, failed && outcome_of(self->task)->error == -ETIME);
    return 1;
}

/* --- Time and order --------------------------------------------------------------------------- */

static int is_virtual(lua_State *L)
{
    lua_pushboolean(L, !worker_has_real_clock(isolate_of(L)->worker));
    return 1;
}

/* advance(ms): moves the virtual clock, as if the process had been stopped for that long. */
static int advance(lua_State *L)
{
    uint64_t ns = duration_check(L, 1);
    if (orr_runtime_advance(isolate_of(L)->rt, ns) == -EPERM)
        return luaL_error(
            L,
            "testing.advance: the clock is the machine's, and does not obey; make the runtime with ORR_CLOCK_MANUAL or "
            "ORR_CLOCK_VIRTUAL");
    return 0;
}

static int pass_schedule(lua_State *L)
{
    struct ltask *self = ltask_waiting(L, "testing.flush");
    return schedule_yield(L, self, schedule_last_mark(self->iso));
}

/* [count] */
static int flush_over(lua_State *L, int status, lua_KContext context)
{
    (void)L;
    (void)status;
    (void)context;
    return 1;
}

/* flush() -> count: waits until all callbacks scheduled by now have run up to their first wait. */
static int flush(lua_State *L)
{
    struct ltask *self = ltask_waiting(L, "testing.flush");
    lua_settop(L, 0);
    lua_pushinteger(L, schedule_count(&self->iso->schedule));
    lua_pushlightuserdata(L, self->iso);
    lua_pushcclosure(L, pass_schedule, 1);
    lua_callk(L, 0, 0, 0, flush_over);
    return flush_over(L, LUA_OK, 0);
}

/* shuffle(seed): only the seed decides the order of ready tasks; 0 for first come, first served. */
static int shuffle(lua_State *L)
{
    shuffle_start(isolate_of(L)->worker, (uint64_t)luaL_checkinteger(L, 1));
    return 0;
}

void testing_open(struct orr_isolate *iso, lua_State *L)
{
    static const luaL_Reg functions[] = {
        { "mark", mark },       { "tasks", tasks },         { "leaks", leaks },           { "close", close_all },
        { "drop", drop },       { "report", report },       { "is_virtual", is_virtual }, { "advance", advance },
        { "shuffle", shuffle }, { "timed_out", timed_out }, { "flush", flush },           { "forget", forget },
        { NULL, NULL },
    };
    iso->debug = true;
    lua_newtable(L);
    isolate_register(iso, L, functions);
    lua_getfield(L, -2, "loop");
    lua_getfield(L, -1, "now");
    lua_setfield(L, -3, "now");
    lua_pop(L, 1);
    lua_setfield(L, -2, "testing");
}
