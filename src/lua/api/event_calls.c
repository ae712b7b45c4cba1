/*
 * Calling the handlers of an event.  A list of handlers has for each its handler and its function;
 * it never changes (lua/events.lua makes it).
 *
 * A script's events:emit() is emit(), below: it looks up the list, and has a runner call the
 * handlers at once, before it returns.  The frame of emit() has all that is needed to go on after
 * it was suspended.  An event of the host is an object that a runner takes handlers from, soon.
 */
#include "lua/api/event_calls.h"

#include "base/text.h"
#include "lua/isolate.h"
#include "lua/isolate/interrupt.h"
#include "lua/limits/preempt.h"
#include "lua/limits/stack_trace.h"
#include "lua/task/callback.h"
#include "lua/task/create.h"
#include "lua/task/handler.h"
#include "lua/task/run.h"
#include "lua/task/runner.h"
#include "lua/task/script.h"
#include "lua/task/suspend.h"
#include "lua/task/task.h"

#include <errno.h>
#include <string.h>

enum { EMITS_MAX = 32 }; /* handlers that emit inside one another */

/* Says where the script has called events:emit, which runs. */
static int refuse_to_nest(lua_State *L, const char *name)
{
    stack_trace_push_location(L, L, 1);
    lua_pushfstring(L,
                    "%s%sevents:emit: '%s': handlers emit events inside one another, more than %d deep; "
                    "emit it later, with schedule()",
                    lua_tostring(L, -1), *lua_tostring(L, -1) ? ": " : "", name, EMITS_MAX);
    return lua_error(L);
}

/* --- Calling handlers now --------------------------------------------------------------------- */

/*
 * The frame of emit(): its arguments, and the list.  Before emit() is suspended, it says how far it
 * has come.
 */
enum { SELF = 1, NAME, DATA, LIST, FRAME = LIST, FIRST, COUNT, FORCED };

/* Upvalues of emit(), after the isolate: see event_calls.h. */
enum { OPEN = 2, CHECK_SELF, FIND_OPEN, REMOVE, IDENTITY, UPVALUES = IDENTITY };

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

/* Pushes the handler at a position of the list at an index of L, which has room. */
static struct handler *push_handler_at(lua_State *L, int list, lua_Integer position)
{
    lua_rawgeti(L, list, 2 * position - 1);
    return lua_touserdata(L, -1);
}

static bool is_forced(const struct emission *self)
{
    return self->forced && self->next == self->first;
}

/* Pushes the next handler that is called, and passes over others; NULL, and none, so far. */
static struct handler *push_next(struct emission *self)
{
    for (int skips = 0; self->next <= self->last && skips < SKIPS_MAX; self->next++, skips++) {
        struct handler *handler = push_handler_at(self->L, LIST, self->next);
        if (!handler_is_disabled(handler) && (!handler->gone || is_forced(self)))
            return handler;
        lua_pop(self->L, 1);
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
    struct handler *handler = push_next(self);
    self->stopped = handler && must_be_removed(self, handler);
    if (self->stopped)
        lua_pop(self->L, 1);
    if (!handler || self->stopped)
        return -ENOENT;
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

static void emission_over(struct callback *callback, lua_State *runner)
{
    (void)callback;
    (void)runner;
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
    if (!ltask_is_shallow(iso))
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
    lua_settop(L, FRAME);
    lua_pushinteger(L, self->next);
    lua_pushinteger(L, self->count);
    lua_pushboolean(L, is_forced(self));
}

static int go_on(lua_State *L, int status, lua_KContext context);
static int call_handlers(lua_State *L, lua_Integer first, lua_Integer count, bool forced);

/* The next handler is called once: it is removed, and called then. */
static int remove_next(lua_State *L, struct emission *self)
{
    self->forced = true;
    self->first = self->next;
    save(self, L);
    lua_pushvalue(L, lua_upvalueindex(REMOVE));
    push_handler_at(L, LIST, self->next);
    lua_callk(L, 1, 0, 0, go_on);
    return go_on(L, LUA_OK, 0);
}

/* Where no more polls may be nested: the next handler is a task that runs when L is suspended. */
static int call_apart(lua_State *L, struct emission *self, const struct handler *handler)
{
    struct ltask_options options = { .name = lua_tostring(L, NAME),
                                     .pooled = true,
                                     .detached = true,
                                     .entry = ORR_LUA_HANDLER,
                                     .handler = lua_gettop(L),
                                     .script = handler->script,
                                     .name_at = NAME };
    lua_rawgeti(L, LIST, 2 * self->next);
    lua_pushvalue(L, DATA);
    struct ltask *task = ltask_new(isolate_of(L), L, 1, &options);
    task->emit_depth = self->callback.emit_depth & 63;
    self->next++;
    self->count++;
    save(self, L);
    return ltask_run_first(L, task, go_on, 0);
}

/*
 * [self] [name] [data] [list]: calls handlers from `first` on, and answers how many in all.
 */
static int call_handlers(lua_State *L, lua_Integer first, lua_Integer count, bool forced)
{
    struct orr_isolate *iso = isolate_of(L);
    struct emission self; /* set field by field: to clear it first would take as long again */
    self.callback.kind = &emission_kind;
    self.callback.iso = iso;
    self.callback.handler = NULL;
    self.callback.name = short_name(L, NAME);
    self.callback.script = script_running(iso);
    self.callback.anchor = 0;
    self.L = L;
    self.first = self.next = first;
    self.last = (lua_Integer)lua_rawlen(L, LIST) / 2;
    self.count = count;
    self.forced = forced;
    self.stopped = false;
    while (self.next <= self.last) {
        if (interrupt_is_requested(&iso->interrupt) && preempt_is_due(L)) {
            save(&self, L);
            return preempt_yield(L, go_on, 0);
        }
        self.callback.emit_depth = check_nesting(L, iso);
        if (!ltask_is_shallow(iso) && !ltask_can_nest(L)) {
            const struct handler *handler = push_next(&self);
            if (handler && must_be_removed(&self, handler))
                return remove_next(L, &self);
            if (handler)
                return call_apart(L, &self, handler);
            continue;
        }
        lua_Integer before = self.next;
        if (!runner_call_now(L, &self.callback)) {
            save(&self, L);
            return suspend(L, go_on, 0);
        }
        if (self.stopped)
            return remove_next(L, &self);
        if (self.next == before) /* all tasks are cancelled */
            break;
    }
    lua_pushinteger(L, self.count);
    return 1;
}

/* [self] [name] [data] [list] [first] [count] [forced] */
static int go_on(lua_State *L, int status, lua_KContext context)
{
    (void)status;
    (void)context;
    lua_Integer first = lua_tointeger(L, FIRST), count = lua_tointeger(L, COUNT);
    bool forced = lua_toboolean(L, FORCED);
    lua_settop(L, FRAME);
    return call_handlers(L, first, count, forced);
}

/* [self] [name] [data] [list] */
static int list_is_found(lua_State *L, int status, lua_KContext context)
{
    (void)status;
    (void)context;
    return call_handlers(L, 1, 0, false);
}

/* Raises if the first argument is not the table `events`, or a view of it. */
static void check_self(lua_State *L)
{
    if (lua_topointer(L, SELF) == lua_touserdata(L, lua_upvalueindex(IDENTITY)))
        return;
    lua_pushvalue(L, lua_upvalueindex(CHECK_SELF));
    lua_pushvalue(L, SELF);
    lua_pushliteral(L, "emit");
    lua_call(L, 2, 0);
}

/*
 * events:emit(name, data) -> how many handlers were called.  A handler gets one value, from a
 * script as from the host.
 */
static int emit(lua_State *L)
{
    check_self(L);
    if (lua_gettop(L) != DATA) {
        if (!lua_isnoneornil(L, DATA + 1))
            return luaL_error(L, "events:emit: expected a name and one value, got more; put the values into a table: "
                                 "events:emit(name, { a, b })");
        lua_settop(L, DATA);
    }
    lua_pushvalue(L, NAME);
    if (lua_rawget(L, lua_upvalueindex(OPEN)) == LUA_TTABLE)
        return call_handlers(L, 1, 0, false);
    lua_pop(L, 1);
    lua_pushvalue(L, lua_upvalueindex(FIND_OPEN));
    lua_pushvalue(L, NAME);
    lua_callk(L, 1, 1, 0, list_is_found);
    return call_handlers(L, 1, 0, false);
}

int event_calls_new_emit(lua_State *L)
{
    const void *identity = lua_topointer(L, 1); /* of `events`, which lives as long as check_self */
    lua_settop(L, REMOVE);
    lua_pushlightuserdata(L, isolate_of(L));
    lua_replace(L, 1);
    lua_pushlightuserdata(L, (void *)identity);
    lua_pushcclosure(L, emit, UPVALUES);
    return 1;
}

int event_calls_set_open(lua_State *L)
{
    lua_settop(L, 2);
    lua_setupvalue(L, 1, OPEN);
    return 0;
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
        struct handler *handler = push_handler_at(co, lua_gettop(co), self->next);
        lua_pop(co, 1);
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

static void event_over(struct callback *callback, lua_State *runner)
{
    callback_unanchor(callback, runner);
}

static const struct callback_kind event_kind = { .name = "event",
                                                 .entry = ORR_LUA_HANDLER,
                                                 .push = push_of_event,
                                                 .has_more = event_has_more,
                                                 .push_handler = push_handler_of_event,
                                                 .let_go = event_over };

void event_calls_soon(lua_State *L, int list, lua_Integer next, lua_Integer last, int name, int data)
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
