#include "lua/api/runtime_info.h"

#include "lua/api/duration.h"
#include "lua/api/events.h"
#include "lua/api/schedule.h"
#include "lua/api/script_timers.h"
#include "lua/isolate.h"
#include "lua/limits/level.h"
#include "lua/task/task.h"

#include <string.h>

static int stats(lua_State *L)
{
    const struct orr_isolate *iso = isolate_of(L);
    const struct event_figures *events = events_figures(&iso->events);
    const struct timer_figures *timers = script_timers_figures(&iso->timers);
    struct limit_statistics limits = statistics_read(&iso->statistics);
    lua_createtable(L, 0, 17);
    const struct {
        const char *name;
        uint64_t value;
    } figures[] = {
        { "tasks", task_set_count(&iso->tasks) },
        { "memory_used", account_used(&iso->account) },
        { "memory_peak", account_peak(&iso->account) },
        { "preemptions", limits.preemptions },
        { "timeouts", limits.timeouts },
        { "scheduled", schedule_count(&iso->schedule) },
        { "schedule_errors", task_set_scheduled_failed(&iso->tasks) },
        { "schedule_run", schedule_run(&iso->schedule) },
        { "timers_pending", timers->pending },
        { "timers_fired", timers->fired },
        { "timers_cancelled", timers->cancelled },
        { "timers_rearmed", timers->rearmed },
        { "timers_migrated", 0 }, /* a timer stays with the worker of its isolate */
        { "timers_dropped", timers->dropped },
        { "events_refused", events->refused },
        { "events_dropped", events->dropped },
        { "events_coalesced", events->coalesced },
    };
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++) {
        lua_pushinteger(L, (lua_Integer)figures[i].value);
        lua_setfield(L, -2, figures[i].name);
    }
    return 1;
}

/* __index: computes a field when it is read.  [runtime] [name] */
static int read_field(lua_State *L)
{
    struct orr_isolate *iso = isolate_of(L);
    const struct level *level = execution_level(&iso->execution);
    const char *name = luaL_checkstring(L, 2);
    bool counts = iso->limits.mode == ORR_LUA_COUNT;
    if (!strcmp(name, "memory_used"))
        lua_pushinteger(L, (lua_Integer)account_used(&iso->account));
    else if (!strcmp(name, "memory_limit"))
        lua_pushinteger(L, (lua_Integer)iso->limits.memory);
    else if (!strcmp(name, "execution_limit"))
        lua_pushinteger(L, counts ? (lua_Integer)iso->limits.max_instructions : 0);
    else if (!strcmp(name, "instructions_used"))
        lua_pushinteger(L, counts && level ? (lua_Integer)level->used : 0);
    else if (!strcmp(name, "check_interval"))
        lua_pushinteger(L, iso->limits.check_interval);
    else if (!strcmp(name, "strikes"))
        lua_pushinteger(L, iso->limits.strikes);
    else if (!strcmp(name, "schedule_limit"))
        lua_pushinteger(L, iso->limits.schedule_limit);
    else if (!strcmp(name, "schedule_per_turn"))
        lua_pushinteger(L, iso->limits.schedule_per_turn);
    else if (!strcmp(name, "time_limit"))
        duration_push(L, !counts && level ? level->limit : 0);
    else if (!strcmp(name, "time_used"))
        duration_push(L, !counts && level ? level_used(iso, level) : 0);
    else
        missing_note(iso, L, 1, 2);
    return lua_gettop(L) - 2; /* nothing for a field that does not exist */
}

static int refuse_to_write(lua_State *L)
{
    return luaL_error(L, "runtime.%s: the fields of runtime can only be read", luaL_tolstring(L, 2, NULL));
}

void runtime_info_open(struct orr_isolate *iso, lua_State *L)
{
    static const luaL_Reg functions[] = { { "stats", stats }, { NULL, NULL } };
    static const luaL_Reg special[] = { { "__index", read_field }, { "__newindex", refuse_to_write }, { NULL, NULL } };
    lua_newtable(L);
    isolate_register(iso, L, functions);
    lua_newtable(L);
    isolate_register(iso, L, special);
    lua_pushboolean(L, false);
    lua_setfield(L, -2, "__metatable");
    lua_setmetatable(L, -2);
    lua_setfield(L, -2, "runtime");
}
