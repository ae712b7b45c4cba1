/*
 * A timer of a script is a timer of the core with a callback.  It goes on when the script drops its
 * handle: the handle is anchored while the timer is started, and while callbacks are due.  A
 * runner calls them (runner.h).
 *
 * A callback that is due when the timer is stopped or started again becomes stale: it does not run.
 * Callbacks begin in the order in which they became due, so two counters are enough: how many are
 * stale, which come first, and how many are due behind them.
 */
#include "lua/api/script_timers.h"

#include "base/clear.h"
#include "base/text.h"
#include "lua/api/creation.h"
#include "lua/api/duration.h"
#include "lua/api/schedule.h"
#include "lua/isolate.h"
#include "lua/isolate/charge.h"
#include "lua/task/callback.h"
#include "lua/task/handler.h"
#include "lua/task/hold.h"
#include "lua/task/report.h"
#include "lua/task/runner.h"
#include "lua/task/script.h"

#include <errno.h>
#include <string.h>

#define TIMER_CLASS "orrery.timer"

/* User values of a timer. */
enum { FUNCTION_SLOT = 1, CREATION_SLOT };

struct timer_object {
    struct handler handler;   /* first: see handler.h */
    struct callback callback; /* anchored while the timer is started or callbacks are due */
    struct orr_isolate *iso;
    struct timer_object *next, **at; /* in the isolate's list of timers that are not closed */
    struct orr_timer *timer;         /* NULL once the timer is closed */
    uint64_t repeat;                 /* nanoseconds; 0 for a timer that fires once */
    uint32_t stale;                  /* callbacks that will not run; these come first */
    uint32_t due;                    /* callbacks behind them that will run */
    bool repeats;                    /* whether it repeated when it was last started */
    bool started;                    /* it is still to fire */
};

static struct timer_object *timer_check(lua_State *L)
{
    struct timer_object *self = isolate_check(L, 1, OBJECT_TIMER, TIMER_CLASS);
    if (!self->timer)
        luaL_error(L, "the timer is closed; make a new one with loop.new_timer()");
    return self;
}

/* Drops the anchor, unless something still needs it.  `runner` as in callback_unanchor(). */
static void let_go(struct timer_object *self, lua_State *runner)
{
    if (!self->callback.anchor || self->started || self->callback.pending)
        return;
    callback_unanchor(&self->callback, runner);
    self->callback.anchor = 0;
}

/* --- Calling back ----------------------------------------------------------------------------- */

static struct timer_object *timer_of(struct callback *callback)
{
    return container_of(callback, struct timer_object, callback);
}

/* The first callback begins, or never will.  True if it is not stale. */
static bool take_due(struct timer_object *self)
{
    bool stale = self->stale;
    self->stale -= stale;
    self->due -= !stale;
    return !stale;
}

/* A callback that was due when an earlier one disabled the timer does not run. */
static int push_callback(struct callback *callback, lua_State *co)
{
    struct timer_object *self = timer_of(callback);
    if (!take_due(self) || handler_is_disabled(&self->handler))
        return -ENOENT;
    callback_push_object(callback, co);
    lua_getiuservalue(co, -1, FUNCTION_SLOT);
    return 0;
}

static void push_timer(const struct callback *callback, lua_State *L)
{
    isolate_push_anchored(callback->iso, L, callback->anchor);
}

static void skip_callback(struct callback *callback)
{
    take_due(timer_of(callback));
}

static void callbacks_over(struct callback *callback, lua_State *runner)
{
    let_go(timer_of(callback), runner);
}

static const struct callback_kind timer_kind = { .name = "timer",
                                                 .entry = ORR_LUA_TIMER,
                                                 .push = push_callback,
                                                 .push_handler = push_timer,
                                                 .skip = skip_callback,
                                                 .let_go = callbacks_over };

static void stop(struct timer_object *self);

static void set_started(struct timer_object *self, bool started)
{
    struct timer_figures *figures = &self->iso->timers.figures;
    figures->pending += (uint64_t)started - self->started;
    self->started = started;
}

static void timer_fires(struct orr_timer *timer, void *data, int status)
{
    struct timer_object *self = data;
    struct orr_isolate *iso = self->iso;
    (void)timer;
    if (status || !self->started || (isolate_ends(iso) && grace_period_refuses(iso, self->callback.script)))
        return;
    if (handler_is_disabled(&self->handler) || ban_is_imposed(&iso->ban)) {
        iso->timers.figures.dropped++; /* no callback would run */
        stop(self);
        return;
    }
    if (self->repeats && self->due && isolate_is_held(iso))
        return; /* one callback waits for the end of the slice; a second would follow it at once */
    set_started(self, self->repeats);
    if (runner_call_soon(&self->callback)) {
        iso->timers.figures.dropped++;
        let_go(self, NULL);
    } else {
        iso->timers.figures.fired++;
        self->due++;
    }
}

static int loop_new_timer(lua_State *L)
{
    struct orr_isolate *iso = isolate_of(L);
    objects_check(iso, L);
    struct timer_object *self = lua_newuserdatauv(L, sizeof *self, FUNCTION_SLOT + creation_slots(iso));
    uint32_t script = script_running(iso);
    clear_bytes(self, sizeof *self);
    self->iso = iso;
    self->handler.script = self->callback.script = script;
    self->callback.kind = &timer_kind;
    self->callback.iso = iso;
    self->callback.handler = &self->handler;
    isolate_set_class(L, OBJECT_TIMER);
    objects_made(iso);
    creation_keep(iso, L, CREATION_SLOT);
    if (charge_take(iso, TIMER_BYTES))
        return charge_raise(L);
    int error = orr_timer_new(iso->rt, &(struct orr_timer_options){ .fire = timer_fires, .data = self, .local = true },
                              &self->timer);
    if (error) {
        charge_give(iso, TIMER_BYTES);
        return luaL_error(L, "loop.new_timer: %s", strerror(-error));
    }
    self->next = iso->timers.first;
    self->at = &iso->timers.first;
    if (self->next)
        self->next->at = &self->next;
    iso->timers.first = self;
    return 1;
}

/*
 * A timer that is due at once takes the time that the worker has read last: that saves a reading.
 */
static int start_core(const struct timer_object *self, uint64_t delay)
{
    if (!delay && !self->repeat)
        return orr_timer_start_at(self->timer, worker_last_now(self->iso->worker), 0);
    return orr_timer_start(self->timer, delay, self->repeat);
}

static int start(lua_State *L, struct timer_object *self, uint64_t delay)
{
    struct orr_isolate *iso = self->iso;
    if (!self->callback.anchor) {
        lua_pushvalue(L, 1);
        self->callback.anchor = isolate_anchor(iso, L);
        lua_pop(L, 1);
    }
    int error = isolate_visit(iso);
    if (!error) {
        error = start_core(self, delay);
        self->repeats = self->repeat;
        isolate_leave(iso);
    }
    iso->timers.figures.rearmed += !error && self->started;
    set_started(self, !error);
    if (error) {
        let_go(self, NULL);
        return luaL_error(L, "timer:start: %s", strerror(-error));
    }
    lua_pushvalue(L, 1);
    return 1;
}

/* Callbacks that are due will not run. */
static void forget_due(struct timer_object *self)
{
    self->stale += self->due;
    self->due = 0;
}

/* timer:start(delay, repeat, fn) */
static int timer_start(lua_State *L)
{
    struct timer_object *self = timer_check(L);
    uint64_t delay = duration_check(L, 2);
    uint64_t repeat = duration_check(L, 3);
    luaL_checktype(L, 4, LUA_TFUNCTION);
    lua_pushvalue(L, 4);
    lua_setiuservalue(L, 1, FUNCTION_SLOT);
    self->repeat = repeat;
    forget_due(self);
    handler_enable(&self->handler);
    return start(L, self, delay);
}

static int timer_again(lua_State *L)
{
    struct timer_object *self = timer_check(L);
    if (!self->repeat || lua_getiuservalue(L, 1, FUNCTION_SLOT) != LUA_TFUNCTION)
        return luaL_error(L, "timer:again: the timer does not repeat, or was never started; use timer:start()");
    forget_due(self);
    return start(L, self, self->repeat);
}

static void stop(struct timer_object *self)
{
    forget_due(self);
    set_started(self, false);
    if (!isolate_visit(self->iso)) {
        orr_timer_cancel(self->timer);
        isolate_leave(self->iso);
    }
    let_go(self, NULL);
}

/* The script stops the timer. */
static void cancel(struct timer_object *self)
{
    self->iso->timers.figures.cancelled += self->started;
    stop(self);
}

/* A closed timer may be stopped: that does nothing. */
static int timer_stop(lua_State *L)
{
    struct timer_object *self = isolate_check(L, 1, OBJECT_TIMER, TIMER_CLASS);
    if (self->timer)
        cancel(self);
    lua_settop(L, 1);
    return 1;
}

static void close_timer(struct timer_object *self)
{
    stop(self);
    if (!isolate_visit(self->iso)) {
        orr_timer_free(self->timer);
        isolate_leave(self->iso);
    }
    self->timer = NULL;
    charge_give(self->iso, TIMER_BYTES);
    *self->at = self->next;
    if (self->next)
        self->next->at = self->at;
}

int script_timers_no_callback(lua_State *L)
{
    (void)L;
    return 0;
}

/* close([callback]): the callback is called in the next turn. */
static int timer_close(lua_State *L)
{
    struct timer_object *self = isolate_check(L, 1, OBJECT_TIMER, TIMER_CLASS);
    bool calls_back = !lua_isnoneornil(L, 2) && lua_tocfunction(L, 2) != script_timers_no_callback;
    if (calls_back)
        luaL_checktype(L, 2, LUA_TFUNCTION);
    if (self->timer) {
        cancel(self);
        close_timer(self);
    }
    if (calls_back) {
        lua_settop(L, 2);
        lua_remove(L, 1);
        schedule_callback(L);
    }
    return 0;
}

static int timer_gc(lua_State *L)
{
    objects_gone(isolate_of(L));
    lua_settop(L, 1);
    return timer_close(L);
}

void script_timers_close(struct orr_isolate *iso, uint32_t script)
{
    for (struct timer_object *at = iso->timers.first, *next; at; at = next) {
        next = at->next;
        if (script == EVERY_SCRIPT || at->callback.script == script) {
            iso->timers.figures.dropped += at->started;
            close_timer(at);
        }
    }
}

bool script_timers_any_active(const struct orr_isolate *iso)
{
    for (const struct timer_object *at = iso->timers.first; at; at = at->next)
        if (orr_timer_due_in(at->timer) != ORR_NEVER)
            return true;
    return false;
}

void script_timers_list(struct orr_isolate *iso, lua_State *L, uint32_t script)
{
    for (struct timer_object *at = iso->timers.first; at; at = at->next) {
        if (at->callback.script != script || !at->started)
            continue;
        lua_createtable(L, 0, 3);
        lua_pushliteral(L, "timer");
        lua_setfield(L, -2, "kind");
        char time[TEXT_DURATION_ROOM];
        text_duration(time, at->repeats ? at->repeat : orr_timer_due_in(at->timer));
        lua_pushfstring(L, "%s %s", at->repeats ? "repeats every" : "fires in", time);
        lua_setfield(L, -2, "state");
        creation_append(iso, L, at->callback.anchor, CREATION_SLOT);
    }
}

static int timer_is_closing(lua_State *L)
{
    struct timer_object *self = isolate_check(L, 1, OBJECT_TIMER, TIMER_CLASS);
    lua_pushboolean(L, !self->timer);
    return 1;
}

static int timer_is_active(lua_State *L)
{
    struct timer_object *self = isolate_check(L, 1, OBJECT_TIMER, TIMER_CLASS);
    lua_pushboolean(L, self->timer && orr_timer_due_in(self->timer) != ORR_NEVER);
    return 1;
}

static int timer_get_due_in(lua_State *L)
{
    uint64_t due = orr_timer_due_in(timer_check(L)->timer);
    if (due == ORR_NEVER)
        lua_pushnil(L);
    else
        duration_push(L, due);
    return 1;
}

/* A started timer next fires when it would have anyway, and repeats as told from then on. */
static int timer_set_repeat(lua_State *L)
{
    struct timer_object *self = timer_check(L);
    self->repeat = duration_check(L, 2);
    uint64_t due = orr_timer_due_in(self->timer);
    if (due != ORR_NEVER)
        return start(L, self, due);
    lua_settop(L, 1);
    return 1;
}

static int timer_get_repeat(lua_State *L)
{
    duration_push(L, timer_check(L)->repeat);
    return 1;
}

void script_timers_open(struct orr_isolate *iso, lua_State *L)
{
    static const luaL_Reg methods[] = {
        { "start", timer_start },
        { "again", timer_again },
        { "stop", timer_stop },
        { "close", timer_close },
        { "is_closing", timer_is_closing },
        { "is_active", timer_is_active },
        { "get_due_in", timer_get_due_in },
        { "set_repeat", timer_set_repeat },
        { "get_repeat", timer_get_repeat },
        { "__gc", timer_gc },
        { NULL, NULL },
    };
    static const luaL_Reg functions[] = { { "new_timer", loop_new_timer }, { NULL, NULL } };
    runner_let_fire(&iso->runners, timer_fires);
    isolate_object_class(iso, L, OBJECT_TIMER, TIMER_CLASS, methods);
    isolate_register(iso, L, functions);
}
