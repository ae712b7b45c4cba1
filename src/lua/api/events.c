/*
 * An event of the host takes this path.  Every step runs in the thread of the isolate's worker.
 *
 *   C    orr_events_emit()      checks the name, enters the isolate, calls emit() protected
 *   C    emit()                 looks up the list of handlers, and has them called soon; or calls
 *   Lua  host.emit()            if the list is to be made, a handler is called once, or the event
 *                               must be queued
 *   C    count_answer()         counts the answer, and turns it into what the host gets
 *   ...
 *   C    a runner               in the turn: calls each handler, unless it was removed or disabled
 *   C    ltask_drop()           a call that needed a task is over: task/handler.c counts time-outs
 *
 * host.emit() queues the event instead while the isolate is held, or while a script is loaded whose
 * body has not begun: the body is what registers handlers.  events_flush() starts the handlers of
 * queued events once neither is the case, behind the tasks that were parked meanwhile.
 *
 * A script's own events:emit() has a runner call the handlers at once, before it returns: call().
 */
#include "lua/api/events.h"

#include "base/text.h"
#include "lua/api/creation.h"
#include "lua/api/lua_part.h"
#include "lua/isolate.h"
#include "lua/isolate/embedded.h"
#include "lua/isolate/interrupt.h"
#include "lua/limits/preempt.h"
#include "lua/limits/stack_trace.h"
#include "lua/task/callback.h"
#include "lua/task/create.h"
#include "lua/task/handler.h"
#include "lua/task/hold.h"
#include "lua/task/run.h"
#include "lua/task/runner.h"
#include "lua/task/script.h"
#include "lua/task/suspend.h"
#include "lua/task/task.h"

#include <errno.h>
#include <string.h>

#define HANDLER "orrery.handler"

enum { EMITS_MAX = 32 }; /* handlers that emit inside one another */

/* What host.emit() answers. */
enum answer {
    STARTED,
    QUEUED,
    DROPPED,   /* queued, and the oldest event was dropped */
    COALESCED, /* the data of a queued event of the same name was replaced */
    REFUSED,   /* the queue is full */
};

static const char part_key; /* in the registry: the functions of lua/events.lua */

/* --- Functions for lua/events.lua ------------------------------------------------------------- */

static struct handler *check_handler(lua_State *L)
{
    return isolate_check(L, 1, OBJECT_HANDLER, HANDLER);
}

/* new_handler(id, once) */
static int new_handler(lua_State *L)
{
    struct handler *self = lua_newuserdatauv(L, sizeof *self, 0);
    *self = (struct handler){ .id = lua_tointeger(L, 1),
                              .script = script_running(isolate_of(L)),
                              .once = lua_toboolean(L, 2) };
    isolate_set_class(L, OBJECT_HANDLER);
    return 1;
}

static int id_of(lua_State *L)
{
    lua_pushinteger(L, check_handler(L)->id);
    return 1;
}

static int forget(lua_State *L)
{
    check_handler(L)->gone = true;
    return 0;
}

static int is_disabled(lua_State *L)
{
    lua_pushboolean(L, handler_is_disabled(check_handler(L)));
    return 1;
}

static int enable(lua_State *L)
{
    handler_enable(check_handler(L));
    return 0;
}

/* Says where the script has called events:emit, which has called us. */
static int refuse_to_nest(lua_State *L, const char *name)
{
    stack_trace_push_location(L, L, 2);
    lua_pushfstring(L,
                    "%s%sevents:emit: '%s': handlers emit events inside one another, more than %d deep; "
                    "emit it later, with schedule()",
                    lua_tostring(L, -1), *lua_tostring(L, -1) ? ": " : "", name, EMITS_MAX);
    return lua_error(L);
}

/* [handler] [name] [function] [arguments...] */
static int start_soon(lua_State *L)
{
    struct ltask_options options = { .name = lua_tostring(L, 2),
                                     .detached = true,
                                     .entry = ORR_LUA_HANDLER,
                                     .handler = 1,
                                     .script = check_handler(L)->script,
                                     .name_at = 2 };
    ltask_start_soon(isolate_of(L), L, lua_gettop(L) - 3, &options);
    return 0;
}

/* --- Calling handlers now --------------------------------------------------------------------- */

/* The frame of call(): its arguments.  FIRST and COUNT say how far it has come. */
enum { LIST = 1, FIRST, COUNT, NAME, DATA, FORCED, FRAME = FORCED };

enum { SKIPS_MAX = 256 }; /* handlers that are passed over without a look at the time */

/* The handlers of an emit that are called while its frame is there, and not suspended. */
struct emission {
    struct callback callback;
    lua_State *L; /* whose frame has the list and the data */
    lua_Integer first, next, last;
    lua_Integer count; /* handlers called */
    bool forced;       /* the first is called although it was removed */
    bool stopped;      /* the next must be removed before it is called */
};

/* The handler at a position of the list at an index of L, which has room. */
static struct handler *handler_at(lua_State *L, int list, lua_Integer position)
{
    lua_rawgeti(L, list, 2 * position - 1);
    struct handler *handler = lua_touserdata(L, -1);
    lua_pop(L, 1);
    return handler;
}

static bool is_forced(const struct emission *self)
{
    return self->forced && self->next == self->first;
}

/* Passes over handlers that are not called.  The next that is; NULL if there is none, so far. */
static struct handler *find_next(struct emission *self)
{
    for (int skips = 0; self->next <= self->last && skips < SKIPS_MAX; self->next++, skips++) {
        struct handler *handler = handler_at(self->L, LIST, self->next);
        if (!handler_is_disabled(handler) && (!handler->gone || is_forced(self)))
            return handler;
    }
    return NULL;
}

/* Whether the handler that was found must be removed before it is called. */
static bool must_be_removed(const struct emission *self, const struct handler *handler)
{
    return handler->once && !is_forced(self);
}

static struct emission *emission_of(const struct callback *callback)
{
    return container_of((struct callback *)callback, struct emission, callback);
}

static int push_emitted(struct callback *callback, lua_State *co)
{
    struct emission *self = emission_of(callback);
    struct handler *handler = find_next(self);
    self->stopped = handler && must_be_removed(self, handler);
    if (!handler || self->stopped)
        return -ENOENT;
    lua_rawgeti(self->L, LIST, 2 * self->next - 1);
    lua_rawgeti(self->L, LIST, 2 * self->next);
    lua_pushvalue(self->L, DATA);
    lua_xmove(self->L, co, 3);
    callback->handler = handler;
    self->next++;
    self->count++;
    return 1;
}

static bool has_more_emitted(const struct callback *callback)
{
    const struct emission *self = emission_of(callback);
    return self->next <= self->last && !self->stopped;
}

static void push_emitted_handler(const struct callback *callback, lua_State *L)
{
    const struct emission *self = emission_of(callback);
    lua_rawgeti(self->L, LIST, 2 * self->next - 3);
    lua_xmove(self->L, L, 1);
}

static void emission_over(struct callback *callback)
{
    (void)callback;
}

static const struct callback_kind emission_kind = { .name = "events:emit",
                                                    .entry = ORR_LUA_HANDLER,
                                                    .push = push_emitted,
                                                    .has_more = has_more_emitted,
                                                    .push_handler = push_emitted_handler,
                                                    .let_go = emission_over };

/* How many events:emit calls a handler would run inside; raises if these are too many. */
static uint8_t check_nesting(lua_State *L, const struct orr_isolate *iso)
{
    const struct ltask *task = execution_task(&iso->execution);
    int depth = task ? task->emit_depth + 1 : 1;
    if (depth > EMITS_MAX)
        refuse_to_nest(L, lua_tostring(L, NAME));
    ltask_check_depth(L);
    return (uint8_t)depth;
}

/* The name of a task is no longer than others can show. */
static const char *short_name(lua_State *L, int index)
{
    size_t length;
    const char *name = lua_tolstring(L, index, &length);
    if (length <= TEXT_NAME)
        return name;
    char room[TEXT_NAME_ROOM];
    text_name(room, name);
    lua_pushstring(L, room);
    lua_replace(L, index);
    return lua_tostring(L, index);
}

/* Writes how far the emit has come into its frame, before that is suspended. */
static void save(const struct emission *self, lua_State *L)
{
    lua_pushinteger(L, self->next);
    lua_replace(L, FIRST);
    lua_pushinteger(L, self->count);
    lua_replace(L, COUNT);
    lua_pushboolean(L, is_forced(self));
    lua_replace(L, FORCED);
}

static int go_on(lua_State *L, int status, lua_KContext context);

/* How many handlers were called, and which must be removed before the others are. */
static int push_answer(lua_State *L, const struct emission *self)
{
    lua_pushinteger(L, self->count);
    if (!self->stopped)
        return 1;
    lua_pushinteger(L, self->next);
    return 2;
}

/* Where no more polls may be nested: the next handler is a task that runs when L is suspended. */
static int call_apart(lua_State *L, struct emission *self, const struct handler *handler)
{
    struct ltask_options options = { .name = lua_tostring(L, NAME),
                                     .pooled = true,
                                     .detached = true,
                                     .entry = ORR_LUA_HANDLER,
                                     .handler = FRAME + 1,
                                     .script = handler->script,
                                     .name_at = NAME };
    lua_rawgeti(L, LIST, 2 * self->next - 1);
    lua_rawgeti(L, LIST, 2 * self->next);
    lua_pushvalue(L, DATA);
    struct ltask *task = ltask_new(isolate_of(L), L, 1, &options);
    task->emit_depth = self->callback.emit_depth & 63;
    self->next++;
    self->count++;
    save(self, L);
    return ltask_run_first(L, task, go_on, 0);
}

/* [list] [first] [count] [name] [data] [forced] */
static int go_on(lua_State *L, int status, lua_KContext context)
{
    (void)status;
    (void)context;
    struct orr_isolate *iso = isolate_of(L);
    lua_settop(L, FRAME);
    struct emission self = { .L = L,
                             .first = lua_tointeger(L, FIRST),
                             .last = (lua_Integer)lua_rawlen(L, LIST) / 2,
                             .count = lua_tointeger(L, COUNT),
                             .forced = lua_toboolean(L, FORCED) };
    self.next = self.first;
    self.callback = (struct callback){
        .kind = &emission_kind, .iso = iso, .script = script_running(iso), .name = short_name(L, NAME)
    };
    while (self.next <= self.last) {
        if (interrupt_is_requested(&iso->interrupt) && preempt_is_due(L)) {
            save(&self, L);
            return preempt_yield(L, go_on, 0);
        }
        self.callback.emit_depth = check_nesting(L, iso);
        if (!ltask_can_nest(L)) {
            const struct handler *handler = find_next(&self);
            self.stopped = handler && must_be_removed(&self, handler);
            if (self.stopped)
                break;
            if (handler)
                return call_apart(L, &self, handler);
            continue;
        }
        lua_Integer before = self.next;
        bool goes_on = runner_call_now(L, &self.callback);
        if (!goes_on) {
            save(&self, L);
            return suspend(L, go_on, 0);
        }
        if (self.stopped || self.next == before) /* or all tasks are cancelled */
            break;
    }
    return push_answer(L, &self);
}

/* call(list, first, count, name, data, forced) -> count, or count and a position */
static int call(lua_State *L)
{
    return go_on(L, LUA_OK, 0);
}

/* --- Calling handlers soon -------------------------------------------------------------------- */

/* An event of the host whose handlers are called soon. */
struct event {
    struct callback callback; /* anchored until all handlers are called */
    lua_Integer next, last;
};

/* User values of an event. */
enum { LIST_SLOT = 1, DATA_SLOT, NAME_SLOT, EVENT_SLOTS = NAME_SLOT };

static struct event *event_of(const struct callback *callback)
{
    return container_of((struct callback *)callback, struct event, callback);
}

/* [list]: passes over handlers that are not called.  The next that is; NULL for none, so far. */
static struct handler *find_next_of_event(struct event *self, lua_State *co)
{
    const struct orr_isolate *iso = self->callback.iso;
    bool ends = isolate_ends(iso);
    for (int skips = 0; self->next <= self->last && skips < SKIPS_MAX; self->next++, skips++) {
        struct handler *handler = handler_at(co, lua_gettop(co), self->next);
        if (!handler->gone && !handler_is_disabled(handler) && !(ends && grace_period_refuses(iso, handler->script)))
            return handler;
    }
    return NULL;
}

static int push_of_event(struct callback *callback, lua_State *co)
{
    struct event *self = event_of(callback);
    callback_push_object(callback, co);
    lua_getiuservalue(co, -1, LIST_SLOT);
    struct handler *handler = find_next_of_event(self, co);
    if (!handler)
        return -ENOENT;
    lua_rawgeti(co, -1, 2 * self->next);
    lua_replace(co, -2);
    lua_getiuservalue(co, -2, DATA_SLOT);
    callback->handler = handler;
    self->next++;
    return 1;
}

static bool event_has_more(const struct callback *callback)
{
    const struct event *self = event_of(callback);
    return self->next <= self->last;
}

static void push_handler_of_event(const struct callback *callback, lua_State *L)
{
    isolate_push_anchored(callback->iso, L, callback->anchor);
    lua_getiuservalue(L, -1, LIST_SLOT);
    lua_rawgeti(L, -1, 2 * event_of(callback)->next - 3);
    lua_replace(L, -3);
    lua_pop(L, 1);
}

static void event_over(struct callback *callback)
{
    isolate_unanchor(callback->iso, callback->iso->L, callback->anchor);
}

static const struct callback_kind event_kind = { .name = "event",
                                                 .entry = ORR_LUA_HANDLER,
                                                 .push = push_of_event,
                                                 .has_more = event_has_more,
                                                 .push_handler = push_handler_of_event,
                                                 .let_go = event_over };

/* Has the handlers from `next` to `last` called soon.  May raise. */
static void call_list_soon(lua_State *L, int list, lua_Integer next, lua_Integer last, int name, int data)
{
    struct orr_isolate *iso = isolate_find(L);
    if (next > last)
        return;
    luaL_checkstack(L, 8, NULL);
    struct event *self = lua_newuserdatauv(L, sizeof *self, EVENT_SLOTS);
    *self = (struct event){ .callback = { .kind = &event_kind, .iso = iso }, .next = next, .last = last };
    lua_pushvalue(L, list);
    lua_setiuservalue(L, -2, LIST_SLOT);
    lua_pushvalue(L, data);
    lua_setiuservalue(L, -2, DATA_SLOT);
    lua_pushvalue(L, name);
    self->callback.name = short_name(L, lua_gettop(L));
    lua_setiuservalue(L, -2, NAME_SLOT);
    self->callback.anchor = isolate_anchor(iso, L);
    lua_pop(L, 1);
    int error = runner_call_soon(&self->callback);
    if (error) {
        isolate_unanchor(iso, L, self->callback.anchor);
        luaL_error(L, "no task for the handlers: %s", strerror(-error));
    }
}

/* call_soon(list, first, last, name, data) */
static int call_soon(lua_State *L)
{
    lua_settop(L, 5);
    call_list_soon(L, 1, lua_tointeger(L, 2), lua_tointeger(L, 3), 4, 5);
    return 0;
}

/* --- Other functions for lua/events.lua ------------------------------------------------------- */

/* is_of(handler, script) */
static int is_of(lua_State *L)
{
    const struct handler *self = check_handler(L);
    lua_pushboolean(L, self->script == lua_tointeger(L, 2));
    return 1;
}

/* is_own(handler): whether it belongs to the script that runs now. */
static int is_own(lua_State *L)
{
    const struct handler *self = check_handler(L);
    lua_pushboolean(L, self->script == script_running(isolate_of(L)));
    return 1;
}

/* Whether the host's events have to be queued. */
static bool must_queue(const struct orr_isolate *iso)
{
    return isolate_is_held(iso) || script_any_loading(&iso->scripts);
}

static int is_held(lua_State *L)
{
    lua_pushboolean(L, must_queue(isolate_of(L)));
    return 1;
}

/* Starts the handlers of the events that were queued while the isolate was held.  Never raises. */
static void events_flush(struct orr_isolate *iso);

/* --- Calling lua/events.lua ------------------------------------------------------------------- */

/* [name of a function] [arguments...]; a first argument that is a light userdata is a C string. */
static int call_part(lua_State *L)
{
    lua_part_push(L, &part_key, lua_touserdata(L, 1));
    lua_replace(L, 1);
    if (lua_islightuserdata(L, 2)) {
        lua_pushstring(L, lua_touserdata(L, 2));
        lua_replace(L, 2);
    }
    lua_call(L, lua_gettop(L) - 1, 1);
    return 1;
}

/*
 * Calls a function of the Lua part with the arguments at the top, which are popped; call_part() and
 * the name are below them.  Leaves one result; or nothing, and returns a negative errno.  Never
 * raises.
 */
static int call_protected(struct orr_isolate *iso, lua_State *L, int arguments)
{
    int error = isolate_visit(iso);
    if (error) {
        lua_pop(L, arguments + 2);
        return error;
    }
    int status = lua_pcall(L, arguments + 1, 1, 0);
    isolate_leave(iso);
    if (status == LUA_OK)
        return 0;
    log_line(&iso->log, ORR_LOG_ERROR, "a call of the host on events has failed: %s", lua_tostring(L, -1));
    lua_pop(L, 1);
    return status == LUA_ERRMEM ? -ENOMEM : -EINVAL;
}

static void push_call(lua_State *L, const char *function)
{
    lua_pushcfunction(L, call_part);
    lua_pushlightuserdata(L, (void *)function);
}

/* Calls a function whose result does not matter. */
static int call_and_pop(struct orr_isolate *iso, lua_State *L, int arguments)
{
    int error = call_protected(iso, L, arguments);
    if (!error)
        lua_pop(L, 1);
    return error;
}

/* --- The host --------------------------------------------------------------------------------- */

/* The isolate of a state that is open and has room for a call; or NULL. */
static struct orr_isolate *usable(lua_State *L)
{
    struct orr_isolate *iso = L ? isolate_find(L) : NULL;
    return iso && !iso->closing && lua_checkstack(L, 6) ? iso : NULL;
}

static int count_answer(struct orr_isolate *iso, enum answer answer)
{
    struct event_figures *figures = &iso->events.figures;
    figures->emitted++;
    figures->refused += answer == REFUSED;
    figures->dropped += answer == DROPPED;
    figures->coalesced += answer == COALESCED;
    if (answer == REFUSED)
        return -ENOBUFS;
    if (answer != STARTED) {
        iso->events.queued = true;
        hold_call_on_release(&iso->hold, events_flush);
    }
    return 0;
}

/*
 * [isolate] [name as a C string] [data] -> an enum answer.  Where nothing has to be made, removed
 * or queued, the handlers are called without Lua.  There are no lists before the API is made.
 */
static int emit(lua_State *L)
{
    struct orr_isolate *iso = lua_touserdata(L, 1);
    lua_pushstring(L, lua_touserdata(L, 2));
    lua_replace(L, 2);
    if (iso->events.lists && !iso->events.queued && !must_queue(iso)) {
        lua_rawgeti(L, LUA_REGISTRYINDEX, iso->events.lists);
        lua_rawgeti(L, -1, 1);
        lua_pushvalue(L, 2);
        lua_rawget(L, -2); /* [isolate] [name] [data] [lists] [by name] [list] */
        bool known = lua_istable(L, -1);
        if (known)
            lua_rawgeti(L, -1, 0); /* whether any is called once */
        if (known && lua_isnil(L, -1)) {
            call_list_soon(L, 6, 1, (lua_Integer)lua_rawlen(L, 6) / 2, 2, 3);
            lua_pushinteger(L, STARTED);
            return 1;
        }
        lua_settop(L, 3);
    }
    lua_part_push(L, &part_key, "emit");
    lua_replace(L, 1);
    lua_call(L, 2, 1);
    return 1;
}

int orr_events_emit(lua_State *L, const char *name)
{
    struct orr_isolate *iso = usable(L);
    if (!iso || !name || !*name || strchr(name, '*') || lua_gettop(L) < 1)
        return -EINVAL;
    lua_pushcfunction(L, emit);
    lua_pushlightuserdata(L, iso);
    lua_pushlightuserdata(L, (void *)name);
    lua_rotate(L, -4, 3); /* below the data */
    int error = call_protected(iso, L, 2);
    if (error)
        return error;
    error = count_answer(iso, (enum answer)lua_tointeger(L, -1));
    lua_pop(L, 1);
    return error;
}

int orr_events_reserve(lua_State *L, const char *name)
{
    struct orr_isolate *iso = usable(L);
    if (!iso || !name || !*name)
        return -EINVAL;
    push_call(L, "reserve");
    lua_pushlightuserdata(L, (void *)name);
    return call_and_pop(iso, L, 1);
}

int orr_events_enable(lua_State *L, int64_t id)
{
    struct orr_isolate *iso = usable(L);
    if (!iso)
        return -EINVAL;
    push_call(L, "enable");
    lua_pushinteger(L, id);
    int error = call_protected(iso, L, 1);
    if (error)
        return error;
    bool found = lua_toboolean(L, -1);
    lua_pop(L, 1);
    return found ? 0 : -ENOENT;
}

int64_t orr_events_disabled(lua_State *L)
{
    const struct orr_isolate *iso = L ? isolate_find(L) : NULL;
    return iso ? notices_disabled_handler(&iso->notices) : 0;
}

void events_remove(struct orr_isolate *iso, uint32_t script)
{
    lua_State *L = iso->L;
    if (!lua_checkstack(L, 6) || !lua_part_is_open(L, &part_key))
        return;
    push_call(L, "remove");
    lua_pushinteger(L, script);
    call_and_pop(iso, L, 1);
}

void events_list(lua_State *L, uint32_t script)
{
    if (!lua_part_is_open(L, &part_key))
        return;
    lua_part_push(L, &part_key, "list_of");
    lua_pushinteger(L, script);
    lua_pushvalue(L, -3);
    lua_call(L, 2, 0);
}

static void events_flush(struct orr_isolate *iso)
{
    lua_State *L = iso->L;
    if (iso->closing || !lua_checkstack(L, 6) || !lua_part_is_open(L, &part_key))
        return;
    push_call(L, "flush");
    if (!call_and_pop(iso, L, 0))
        iso->events.queued = false;
}

/* --- Opening ---------------------------------------------------------------------------------- */

static void set_integer(lua_State *L, const char *field, lua_Integer value)
{
    lua_pushinteger(L, value);
    lua_setfield(L, -2, field);
}

static void set_boolean(lua_State *L, const char *field, bool value)
{
    lua_pushboolean(L, value);
    lua_setfield(L, -2, field);
}

void events_open(struct orr_isolate *iso, lua_State *L)
{
    static const luaL_Reg functions[] = {
        { "new_handler", new_handler },
        { "is_disabled", is_disabled },
        { "enable", enable },
        { "id_of", id_of },
        { "forget", forget },
        { "call", call },
        { "call_soon", call_soon },
        { "start_soon", start_soon },
        { "is_of", is_of },
        { "is_own", is_own },
        { "is_held", is_held },
        { "where", creation_where },
        { NULL, NULL },
    };
    static const luaL_Reg none[] = { { NULL, NULL } };
    isolate_object_class(iso, L, OBJECT_HANDLER, HANDLER, none);
    lua_newtable(L);
    isolate_register(iso, L, functions);
    set_integer(L, "STARTED", STARTED);
    set_integer(L, "QUEUED", QUEUED);
    set_integer(L, "DROPPED", DROPPED);
    set_integer(L, "COALESCED", COALESCED);
    set_integer(L, "REFUSED", REFUSED);
    lua_newtable(L);
    lua_pushvalue(L, -1);
    iso->events.lists = luaL_ref(L, LUA_REGISTRYINDEX);
    lua_setfield(L, -2, "lists");
    set_integer(L, "limit", iso->limits.events_limit);
    set_boolean(L, "drops_oldest", iso->limits.events_policy == ORR_EVENTS_DROP_OLDEST);
    set_boolean(L, "coalesces", iso->limits.events_policy == ORR_EVENTS_COALESCE);
    lua_part_open(L, &embedded_events, 1, &part_key);
}

void events_forget(lua_State *L)
{
    lua_part_forget(L, &part_key);
}
