/*
 * Callbacks wait in a list, each anchored until it has begun.  While there are any, a task of the
 * core, the dispatcher, takes its turns: in each turn it has a runner call some callbacks
 * (runner.h), behind what was ready before it.  No callback begins in the turn in which it
 * was scheduled.
 *
 * Callbacks begin in the order in which they were scheduled.  So two numbers tell which have begun:
 * how many were ever scheduled, and how many of these, from the first on, are settled.  A task that
 * lets others run first, by async.checkpoint() or async.sleep(), waits for a mark: a number of
 * settled ones.
 */
#include "lua/api/schedule.h"

#include "base/clear.h"
#include "lua/api/creation.h"
#include "lua/isolate.h"
#include "lua/task/callback.h"
#include "lua/task/hold.h"
#include "lua/task/report.h"
#include "lua/task/runner.h"
#include "lua/task/script.h"
#include "lua/task/shutdown.h"
#include "lua/task/suspend.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#define SCHEDULED_CLASS "orrery.scheduled"

/* A handle.  Its user values: the function, its arguments, and where it was scheduled. */
struct scheduled {
    struct callback callback;
    struct scheduled *next;
    uint64_t turn; /* the turn of the worker in which it was scheduled */
    int arguments;
    bool waiting; /* in the list, and not cancelled */
};

static struct scheduled *scheduled_of(struct callback *callback)
{
    return container_of(callback, struct scheduled, callback);
}

static int push_scheduled(struct callback *callback, lua_State *co)
{
    int arguments = scheduled_of(callback)->arguments;
    callback->iso->schedule.settled++;
    if (!lua_checkstack(co, arguments + 8))
        return -ENOMEM;
    callback->iso->schedule.run++;
    callback_push_object(callback, co);
    int handle = lua_gettop(co);
    for (int i = 0; i <= arguments; i++)
        lua_getiuservalue(co, handle, 1 + i);
    return arguments;
}

static void scheduled_over(struct callback *callback, lua_State *runner)
{
    callback_unanchor(callback, runner);
}

/* The callback will not begin. */
static void skip_scheduled(struct callback *callback)
{
    callback->iso->schedule.settled++;
}

static const struct callback_kind scheduled_kind = { .name = "scheduled",
                                                     .entry = ORR_LUA_SCHEDULED,
                                                     .push = push_scheduled,
                                                     .skip = skip_scheduled,
                                                     .let_go = scheduled_over };

static struct scheduled *take_first(struct schedule *queue)
{
    struct scheduled *first = queue->first;
    queue->first = first->next;
    if (!queue->first)
        queue->last = NULL;
    return first;
}

/* The next callback that was not scheduled in this turn, or NULL.  Releases cancelled ones. */
static struct scheduled *take_next(struct orr_isolate *iso)
{
    struct schedule *queue = &iso->schedule;
    while (queue->first) {
        if (queue->first->waiting && queue->first->turn == worker_turn_number(iso->worker))
            break;
        struct scheduled *next = take_first(queue);
        if (next->waiting)
            return next;
        skip_scheduled(&next->callback);
        scheduled_over(&next->callback, NULL);
    }
    return NULL;
}

static void start_next(struct orr_isolate *iso, struct scheduled *next)
{
    next->waiting = false;
    iso->schedule.count--;
    if (runner_call_soon(&next->callback)) {
        skip_scheduled(&next->callback);
        scheduled_over(&next->callback, NULL);
    }
}

/* None of the callbacks begins any more; Lua frees them with the state. */
static void forget_all(struct schedule *queue)
{
    if (queue->first)
        queue->settled = queue->made;
    queue->first = queue->last = NULL;
}

static enum orr_poll dispatch(struct orr_task *task, void *data)
{
    struct housekeeper *dispatcher = data;
    struct orr_isolate *iso = dispatcher->iso;
    struct schedule *queue = &iso->schedule;
    if (!iso->L || iso->closing || !queue->first) {
        forget_all(queue);
        return ORR_DONE;
    }
    if (isolate_is_held(iso)) /* nothing of the isolate begins before the held task has gone on */
        return orr_task_yield(task);
    for (unsigned started = 0; started < iso->limits.schedule_per_turn; started++) {
        struct scheduled *next = take_next(iso);
        if (!next)
            break;
        start_next(iso, next);
    }
    orr_task_yield(task);
    return ORR_PENDING;
}

/* Starts the dispatcher unless it is there. */
static int wake_dispatcher(struct orr_isolate *iso)
{
    struct housekeeper *dispatcher = &iso->schedule.dispatcher;
    if (housekeeper_is_there(dispatcher))
        return 0;
    int error = isolate_visit(iso);
    if (error)
        return error;
    error = housekeeper_start(dispatcher, iso, dispatch, "schedule");
    isolate_leave(iso);
    return error;
}

void schedule_close(struct schedule *self)
{
    forget_all(self);
    housekeeper_end(&self->dispatcher);
}

/* An upvalue of schedule(): the metatable of handles. */
enum { CLASS = FIRST_ANCHORS + 1 };

/* [function] [arguments...] -> ... [handle]; `near`: schedule() itself runs. */
static int add(lua_State *L, bool near)
{
    struct orr_isolate *iso = isolate_of(L);
    struct schedule *queue = &iso->schedule;
    luaL_checktype(L, 1, LUA_TFUNCTION);
    if (queue->count >= iso->limits.schedule_limit)
        return luaL_error(L, "Schedule queue full (max %d callbacks)", (int)iso->limits.schedule_limit);
    if (grace_period_refuses(iso, script_running(iso)))
        return luaL_error(L, "schedule: %s", iso->closing ? "the isolate is closing" : "the script is being ended");
    int arguments = lua_gettop(L) - 1;
    if (arguments >= USHRT_MAX - 2)
        return luaL_error(L, "schedule: too many arguments; pass a table instead");
    struct scheduled *self = lua_newuserdatauv(L, sizeof *self, arguments + 1 + creation_slots(iso));
    clear_bytes(self, sizeof *self);
    self->callback.kind = &scheduled_kind;
    self->callback.iso = iso;
    self->callback.script = script_running(iso);
    self->turn = worker_turn_number(iso->worker);
    self->arguments = arguments;
    if (near) {
        lua_pushvalue(L, lua_upvalueindex(CLASS));
        lua_setmetatable(L, -2);
    } else {
        isolate_set_class(L, OBJECT_SCHEDULED);
    }
    creation_keep(iso, L, arguments + 2);
    for (int i = 1; i <= arguments + 1; i++) {
        lua_pushvalue(L, i);
        lua_setiuservalue(L, -2, i);
    }
    int error = wake_dispatcher(iso);
    if (error)
        return luaL_error(L, "schedule: %s", strerror(-error));
    self->callback.anchor = near ? isolate_anchor_near(iso, L)
                                 : isolate_anchor(iso, L); /* may raise: then nothing has changed */
    self->waiting = true;
    if (queue->last)
        queue->last->next = self;
    else
        queue->first = self;
    queue->last = self;
    queue->count++;
    queue->made++;
    return 1;
}

static int schedule(lua_State *L)
{
    return add(L, true);
}

void schedule_callback(lua_State *L)
{
    struct orr_isolate *iso = isolate_of(L);
    if (!grace_period_refuses(iso, script_running(iso)))
        add(L, false);
    lua_settop(L, 0);
}

/* handle:cancel() -> whether the callback had not begun */
static int scheduled_cancel(lua_State *L)
{
    struct scheduled *self = isolate_check(L, 1, OBJECT_SCHEDULED, SCHEDULED_CLASS);
    lua_pushboolean(L, self->waiting);
    if (self->waiting) {
        self->waiting = false;
        self->callback.iso->schedule.count--;
        for (int i = 1; i <= self->arguments + 1; i++) {
            lua_pushnil(L);
            lua_setiuservalue(L, 1, i);
        }
    }
    return 1;
}

void schedule_cancel(struct orr_isolate *iso, uint32_t script)
{
    struct schedule *queue = &iso->schedule;
    for (struct scheduled *at = queue->first; at; at = at->next) {
        if (at->waiting && (script == EVERY_SCRIPT || at->callback.script == script)) {
            at->waiting = false;
            queue->count--;
        }
    }
}

uint64_t schedule_next_mark(const struct orr_isolate *iso)
{
    const struct schedule *queue = &iso->schedule;
    uint64_t waiting = queue->made > queue->settled ? queue->made - queue->settled : 0;
    uint64_t most = iso->limits.schedule_per_turn;
    return queue->settled + (waiting < most ? waiting : most);
}

uint64_t schedule_last_mark(const struct orr_isolate *iso)
{
    return iso->schedule.made;
}

int schedule_pass(lua_State *L, int status, lua_KContext mark)
{
    (void)status;
    struct ltask *self = ltask_current(L, "async.checkpoint");
    int error = orr_checkpoint(self->task);
    if (error)
        return wait_raise(L, error);
    if (self->iso->schedule.settled >= (uint64_t)mark)
        return 0;
    orr_task_yield(self->task);
    return suspend(L, schedule_pass, mark);
}

int schedule_yield(lua_State *L, struct ltask *self, uint64_t mark)
{
    int error = orr_checkpoint(self->task);
    if (error)
        return wait_raise(L, error);
    orr_task_yield(self->task);
    return suspend(L, schedule_pass, (lua_KContext)mark);
}

void schedule_list(struct orr_isolate *iso, lua_State *L, uint32_t script)
{
    luaL_checkstack(L, 4, NULL);
    for (const struct scheduled *at = iso->schedule.first; at; at = at->next) {
        if (!at->waiting || at->callback.script != script)
            continue;
        lua_createtable(L, 0, 2);
        lua_pushliteral(L, "scheduled callback");
        lua_setfield(L, -2, "kind");
        creation_append(iso, L, at->callback.anchor, at->arguments + 2);
    }
}

void schedule_open(struct orr_isolate *iso, lua_State *L)
{
    static const luaL_Reg methods[] = { { "cancel", scheduled_cancel }, { NULL, NULL } };
    runner_let_poll(&iso->runners, dispatch);
    isolate_object_class(iso, L, OBJECT_SCHEDULED, SCHEDULED_CLASS, methods);
    lua_pushlightuserdata(L, iso);
    registry_push_first_table(&iso->registry, L);
    luaL_getmetatable(L, SCHEDULED_CLASS);
    lua_pushcclosure(L, schedule, CLASS);
    lua_setfield(L, -2, "schedule");
}
