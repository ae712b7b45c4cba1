/*
 * The module `loop`: timers with callbacks, on the core's timers.  A timer goes on when its handle is collected: it is anchored
 * while it is started.  A callback runs as a task of its own.
 */
#include "lua/loop.h"

#include "lua/modules.h"
#include "lua/report.h"
#include "lua/script.h"
#include "lua/task.h"

#include <errno.h>
#include <string.h>

#define TIMER "orrery.timer"

struct timer_object {
    struct handler handler;
    struct orr_isolate *iso;
    struct timer_object *next, **at; /* in the isolate's list of those not closed */
    uint32_t script;                 /* whose it is */
    struct orr_timer *timer;         /* NULL once closed */
    int anchor;                      /* 0 while it is not started */
    uint64_t repeat;
    bool repeats;         /* as it was last started */
    lua_Integer restarts; /* and stops: what fired before one of them, and has not called back yet, does not */
};

static struct timer_object *timer_check(lua_State *L)
{
    struct timer_object *self = luaL_checkudata(L, 1, TIMER);
    if (!self->timer)
        luaL_error(L, "the timer is closed");
    return self;
}

static int called_back(lua_State *L, int status, lua_KContext context)
{
    (void)L;
    (void)status;
    (void)context;
    return 0;
}

/* The task: [timer] [its restarts when it fired] */
static int call_back(lua_State *L)
{
    const struct timer_object *self = lua_touserdata(L, 1);
    if (lua_tointeger(L, 2) != self->restarts)
        return 0;
    lua_getiuservalue(L, 1, 1);
    lua_callk(L, 0, 0, 0, called_back);
    return 0;
}

/* Starts the callback of the timer at 1. */
static int start_callback(lua_State *L)
{
    struct timer_object *self = lua_touserdata(L, 1);
    lua_pushcfunction(L, call_back);
    lua_pushvalue(L, 1);
    lua_pushinteger(L, self->restarts);
    ltask_start_soon(
        self->iso, L, 2,
        &(struct ltask_options){
            .name = "timer", .detached = true, .handler = 1, .entry = ORR_LUA_TIMER, .script = self->script });
    return 0;
}

static void let_go(struct timer_object *self)
{
    if (!self->anchor)
        return;
    int anchor = self->anchor;
    self->anchor = 0;
    isolate_unanchor(self->iso, self->iso->L, anchor);
}

static void stop(struct timer_object *self);

static void timer_fires(struct orr_timer *timer, void *data, int status)
{
    struct timer_object *self = data;
    struct orr_isolate *iso = self->iso;
    lua_State *L = iso->L;
    (void)timer;
    if (status || iso->closing || !self->anchor || !lua_checkstack(L, 8))
        return;
    if (self->handler.disabled) {
        stop(self);
        return;
    }
    if (self->repeats && isolate_is_held(iso))
        return; /* it could not be called now, and is not called twice then */
    lua_pushcfunction(L, start_callback);
    isolate_push_anchored(iso, L, self->anchor);
    if (!self->repeats)
        let_go(self);
    if (lua_pcall(L, 1, 0, 0) != LUA_OK) {
        log_line(&iso->rt->log, ORR_LOG_ERROR, "timer: %s", lua_tostring(L, -1));
        lua_pop(L, 1);
    }
}

static int loop_new_timer(lua_State *L)
{
    struct orr_isolate *iso = isolate_of(L);
    struct timer_object *self = lua_newuserdatauv(L, sizeof *self, iso->debug ? 2 : 1);
    *self = (struct timer_object){ .iso = iso, .script = script_running(iso) };
    luaL_setmetatable(L, TIMER);
    if (iso->debug) { /* where it was made */
        report_push_place(L, L, 1);
        lua_setiuservalue(L, -2, 2);
    }
    int error = orr_timer_new(iso->rt, &(struct orr_timer_options){ .fire = timer_fires, .data = self, .local = true },
                              &self->timer);
    if (error)
        return luaL_error(L, "loop.new_timer: %s", strerror(-error));
    self->next = iso->timers;
    self->at = &iso->timers;
    if (self->next)
        self->next->at = &self->next;
    iso->timers = self;
    return 1;
}

static int start(lua_State *L, struct timer_object *self, uint64_t delay)
{
    struct orr_isolate *iso = self->iso;
    if (!self->anchor) {
        lua_pushvalue(L, 1);
        self->anchor = isolate_anchor(iso, L);
        lua_pop(L, 1);
    }
    int error = isolate_visit(iso);
    if (!error) {
        error = orr_timer_start(self->timer, delay, self->repeat);
        self->repeats = self->repeat;
        isolate_leave(iso);
    }
    if (error) {
        let_go(self);
        return luaL_error(L, "timer:start: %s", strerror(-error));
    }
    lua_settop(L, 1);
    return 1;
}

/* timer:start(delay, repeat, fn) */
static int timer_start(lua_State *L)
{
    struct timer_object *self = timer_check(L);
    uint64_t delay = check_ms(L, 2);
    uint64_t repeat = check_ms(L, 3);
    luaL_checktype(L, 4, LUA_TFUNCTION);
    lua_pushvalue(L, 4);
    lua_setiuservalue(L, 1, 1);
    self->repeat = repeat;
    self->restarts++;
    self->handler = (struct handler){ .script = self->script }; /* a new start */
    return start(L, self, delay);
}

static int timer_again(lua_State *L)
{
    struct timer_object *self = timer_check(L);
    if (!self->repeat || lua_getiuservalue(L, 1, 1) != LUA_TFUNCTION)
        return luaL_error(L, "timer:again: the timer does not repeat, or was never started");
    self->restarts++;
    return start(L, self, self->repeat);
}

static void stop(struct timer_object *self)
{
    self->restarts++;
    if (!isolate_visit(self->iso)) {
        orr_timer_cancel(self->timer);
        isolate_leave(self->iso);
    }
    let_go(self);
}

static int timer_stop(lua_State *L)
{
    stop(timer_check(L));
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
    *self->at = self->next;
    if (self->next)
        self->next->at = self->at;
}

static int timer_close(lua_State *L)
{
    struct timer_object *self = luaL_checkudata(L, 1, TIMER);
    if (self->timer)
        close_timer(self);
    return 0;
}

void loop_close_timers(struct orr_isolate *iso, uint32_t script)
{
    for (struct timer_object *at = iso->timers, *next; at; at = next) {
        next = at->next;
        if (at->script == script)
            close_timer(at);
    }
}

void loop_list_timers(struct orr_isolate *iso, lua_State *L, uint32_t script)
{
    for (struct timer_object *at = iso->timers; at; at = at->next) {
        if (at->script != script || !at->anchor)
            continue;
        lua_createtable(L, 0, 3);
        lua_pushliteral(L, "timer");
        lua_setfield(L, -2, "kind");
        if (at->repeats)
            lua_pushfstring(L, "repeats every %f ms", (lua_Number)at->repeat / 1e6);
        else
            lua_pushfstring(L, "fires in %f ms", (lua_Number)orr_timer_due_in(at->timer) / 1e6);
        lua_setfield(L, -2, "state");
        isolate_push_anchored(iso, L, at->anchor);
        lua_getiuservalue(L, -1, 2);
        lua_setfield(L, -3, "created");
        lua_pop(L, 1);
        lua_rawseti(L, -2, luaL_len(L, -2) + 1);
    }
}

static int timer_is_closing(lua_State *L)
{
    struct timer_object *self = luaL_checkudata(L, 1, TIMER);
    lua_pushboolean(L, !self->timer);
    return 1;
}

static int timer_is_active(lua_State *L)
{
    struct timer_object *self = luaL_checkudata(L, 1, TIMER);
    lua_pushboolean(L, self->timer && orr_timer_due_in(self->timer) != ORR_NEVER);
    return 1;
}

static int timer_get_due_in(lua_State *L)
{
    uint64_t due = orr_timer_due_in(timer_check(L)->timer);
    if (due == ORR_NEVER)
        lua_pushnil(L);
    else
        lua_pushnumber(L, (lua_Number)due / 1e6);
    return 1;
}

/* A timer that is started fires when it was to, and has the new repeat from then on. */
static int timer_set_repeat(lua_State *L)
{
    struct timer_object *self = timer_check(L);
    self->repeat = check_ms(L, 2);
    uint64_t due = orr_timer_due_in(self->timer);
    if (due != ORR_NEVER)
        return start(L, self, due);
    lua_settop(L, 1);
    return 1;
}

static int timer_get_repeat(lua_State *L)
{
    lua_pushnumber(L, (lua_Number)timer_check(L)->repeat / 1e6);
    return 1;
}

static int loop_now(lua_State *L)
{
    lua_pushnumber(L, (lua_Number)orr_runtime_now(isolate_of(L)->rt) / 1e6);
    return 1;
}

static int loop_hrtime(lua_State *L)
{
    lua_pushinteger(L, (lua_Integer)orr_runtime_now(isolate_of(L)->rt));
    return 1;
}

void loop_open(struct orr_isolate *iso, lua_State *L)
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
        { "__gc", timer_close },
        { NULL, NULL },
    };
    static const luaL_Reg functions[] = {
        { "new_timer", loop_new_timer }, { "now", loop_now }, { "hrtime", loop_hrtime }, { NULL, NULL }
    };
    isolate_class(iso, L, TIMER, methods);
    lua_newtable(L);
    isolate_register(iso, L, functions);
    lua_setfield(L, -2, "loop");
}
