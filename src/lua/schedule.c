/*
 * schedule(fn, ...): callbacks that run in the next turn, first come, first served, some in each turn.
 *
 * They wait in a table of handles, from `first` to `last`.  While there are any, a task of ours takes its turns: in each it starts a
 * number of them as tasks of their own, after what was ready before it; none in the turn in which it was scheduled.
 */
#include "lua/budget.h"
#include "lua/modules.h"
#include "lua/report.h"
#include "lua/script.h"
#include "lua/task.h"

#include <string.h>

#define SCHEDULED "orrery.scheduled"

/* The user values are the function and its arguments, in a table. */
struct scheduled {
    struct orr_isolate *iso;
    uint32_t script; /* whose it is */
    uint64_t turn;   /* in which it was scheduled, or after which */
    int arguments;
    bool waiting;
};

static const char queue_key; /* in the registry */

/* [handle] -> []: starts it. */
static int start_one(lua_State *L)
{
    struct scheduled *self = lua_touserdata(L, 1);
    luaL_checkstack(L, self->arguments + 8, "too many arguments");
    lua_getiuservalue(L, 1, 2);
    lua_getiuservalue(L, 1, 1);
    for (int i = 1; i <= self->arguments; i++)
        lua_rawgeti(L, 2, i);
    ltask_start_soon(self->iso, L, self->arguments,
                     &(struct ltask_options){
                         .name = "scheduled", .detached = true, .entry = ORR_LUA_SCHEDULED, .script = self->script });
    return 0;
}

/* The next of the queue, pushed, if there is one that is not of this turn.  Never allocates. */
static struct scheduled *take_next(struct orr_isolate *iso, lua_State *L)
{
    struct schedule *queue = &iso->schedule;
    lua_rawgetp(L, LUA_REGISTRYINDEX, &queue_key);
    while (queue->first <= queue->last) {
        lua_rawgeti(L, -1, queue->first);
        struct scheduled *next = lua_touserdata(L, -1);
        if (next->waiting && next->turn == counter_read(&iso->worker->turns))
            break;
        lua_pushnil(L);
        lua_rawseti(L, -3, queue->first++);
        if (next->waiting) {
            lua_remove(L, -2);
            return next;
        }
        lua_pop(L, 1); /* it was cancelled */
    }
    lua_settop(L, lua_gettop(L) - 1 - (queue->first <= queue->last));
    return NULL;
}

static void start_next(struct orr_isolate *iso, lua_State *L, struct scheduled *next)
{
    next->waiting = false;
    iso->schedule.count--;
    if (lua_pcall(L, 1, 0, 0) != LUA_OK) {
        log_line(&iso->rt->log, ORR_LOG_ERROR, "schedule: %s", lua_tostring(L, -1));
        lua_pop(L, 1);
    }
}

static enum orr_poll dispatch(struct orr_task *task, void *data)
{
    struct orr_isolate *iso = data;
    struct schedule *queue = &iso->schedule;
    lua_State *L = iso->L;
    if (!L || iso->closing || queue->first > queue->last || !lua_checkstack(L, 4)) {
        queue->first = 1;
        queue->last = 0;
        queue->dispatching = false;
        return ORR_DONE;
    }
    for (unsigned started = 0; started < iso->limits.schedule_per_turn; started++) {
        lua_pushcfunction(L, start_one);
        struct scheduled *next = take_next(iso, L);
        if (!next) {
            lua_pop(L, 1);
            break;
        }
        start_next(iso, L, next);
    }
    orr_task_yield(task);
    return ORR_PENDING;
}

static void unref_isolate(void *data)
{
    isolate_unref(data);
}

static int wake_dispatcher(struct orr_isolate *iso)
{
    if (iso->schedule.dispatching)
        return 0;
    struct orr_spawn what = {
        .poll = dispatch, .data = iso, .drop = unref_isolate, .name = "schedule", .detached = true
    };
    int error = isolate_visit(iso);
    if (error)
        return error;
    error = orr_spawn(iso->rt, &what);
    isolate_leave(iso);
    if (error)
        return error;
    iso->references++;
    iso->schedule.dispatching = true;
    return 0;
}

/* [function] [arguments...] -> [handle] */
static int schedule(lua_State *L)
{
    struct orr_isolate *iso = isolate_of(L);
    struct schedule *queue = &iso->schedule;
    luaL_checktype(L, 1, LUA_TFUNCTION);
    if (queue->count >= iso->limits.schedule_limit)
        return luaL_error(L, "Schedule queue full (max %d callbacks)", (int)iso->limits.schedule_limit);
    if (iso->closing)
        return luaL_error(L, "schedule: the isolate is closing");
    int arguments = lua_gettop(L) - 1;
    struct scheduled *self = lua_newuserdatauv(L, sizeof *self, iso->debug ? 3 : 2);
    *self = (struct scheduled){ .iso = iso, .script = script_running(iso), .arguments = arguments };
    luaL_setmetatable(L, SCHEDULED);
    if (iso->debug) { /* where it was made */
        report_push_place(L, L, 1);
        lua_setiuservalue(L, -2, 3);
    }
    lua_insert(L, 1);
    if (arguments) {
        lua_createtable(L, arguments, 0);
        lua_insert(L, 3);
        for (int i = arguments; i; i--)
            lua_rawseti(L, 3, i);
        lua_setiuservalue(L, 1, 2);
    }
    lua_setiuservalue(L, 1, 1);
    lua_rawgetp(L, LUA_REGISTRYINDEX, &queue_key);
    lua_pushvalue(L, 1);
    lua_rawseti(L, 2, queue->last + 1); /* may raise: then nothing has changed */
    int error = wake_dispatcher(iso);
    if (error) {
        lua_pushnil(L);
        lua_rawseti(L, 2, queue->last + 1);
        return luaL_error(L, "schedule: %s", strerror(-error));
    }
    queue->last++;
    queue->count++;
    self->turn = counter_read(&iso->worker->turns);
    self->waiting = true;
    lua_settop(L, 1);
    return 1;
}

/* handle:cancel() -> whether it was in time */
static int scheduled_cancel(lua_State *L)
{
    struct scheduled *self = luaL_checkudata(L, 1, SCHEDULED);
    lua_pushboolean(L, self->waiting);
    if (self->waiting) {
        self->waiting = false;
        self->iso->schedule.count--;
        for (int i = 1; i <= 2; i++) {
            lua_pushnil(L);
            lua_setiuservalue(L, 1, i);
        }
    }
    return 1;
}

void schedule_cancel(struct orr_isolate *iso, uint32_t script)
{
    lua_State *L = iso->L;
    struct schedule *queue = &iso->schedule;
    if (queue->first > queue->last || !lua_checkstack(L, 2))
        return;
    lua_rawgetp(L, LUA_REGISTRYINDEX, &queue_key);
    for (int i = queue->first; i <= queue->last; i++) {
        lua_rawgeti(L, -1, i);
        struct scheduled *at = lua_touserdata(L, -1);
        if (at->waiting && at->script == script) {
            at->waiting = false;
            queue->count--;
        }
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
}

void schedule_list(struct orr_isolate *iso, lua_State *L, uint32_t script)
{
    const struct schedule *queue = &iso->schedule;
    luaL_checkstack(L, 4, NULL);
    lua_rawgetp(L, LUA_REGISTRYINDEX, &queue_key);
    for (int i = queue->first; i <= queue->last; i++) {
        lua_rawgeti(L, -1, i);
        const struct scheduled *at = lua_touserdata(L, -1);
        if (at->waiting && at->script == script) {
            lua_createtable(L, 0, 2);
            lua_pushliteral(L, "scheduled callback");
            lua_setfield(L, -2, "kind");
            lua_getiuservalue(L, -2, 3);
            lua_setfield(L, -2, "created");
            lua_rawseti(L, -4, luaL_len(L, -4) + 1);
        }
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
}

void schedule_open(struct orr_isolate *iso, lua_State *L)
{
    static const luaL_Reg methods[] = { { "cancel", scheduled_cancel }, { NULL, NULL } };
    static const luaL_Reg functions[] = { { "schedule", schedule }, { NULL, NULL } };
    isolate_class(iso, L, SCHEDULED, methods);
    lua_newtable(L);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &queue_key);
    iso->schedule.first = 1;
    isolate_register(iso, L, functions);
}
