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
 * A script's own events:emit() is in event_calls.c, as is all that calls handlers.
 */
#include "lua/api/events.h"

#include "lua/api/creation.h"
#include "lua/api/event_calls.h"
#include "lua/api/lua_part.h"
#include "lua/isolate.h"
#include "lua/isolate/embedded.h"
#include "lua/task/create.h"
#include "lua/task/handler.h"
#include "lua/task/hold.h"
#include "lua/task/script.h"

#include <errno.h>
#include <string.h>

#define HANDLER "orrery.handler"

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

/* call_soon(list, first, last, name, data) */
static int call_soon(lua_State *L)
{
    lua_settop(L, 5);
    event_calls_soon(L, 1, lua_tointeger(L, 2), lua_tointeger(L, 3), 4, 5);
    return 0;
}

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
        lua_rawgeti(L, -1, EVENT_LISTS);
        lua_pushvalue(L, 2);
        lua_rawget(L, -2); /* [isolate] [name] [data] [lists] [by name] [list] */
        bool known = lua_istable(L, -1);
        if (known)
            lua_rawgeti(L, -1, 0); /* whether any is called once */
        if (known && lua_isnil(L, -1)) {
            event_calls_soon(L, 6, 1, (lua_Integer)lua_rawlen(L, 6) / 2, 2, 3);
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
        { "new_emit", event_calls_new_emit },
        { "set_open", event_calls_set_open },
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
