/*
 * An event of the host takes this path.  Every step runs in the thread of the isolate's worker.
 *
 *   C    orr_events_emit()      checks the name, enters the isolate, calls Lua protected
 *   C    call_part()            turns the name into a Lua string
 *   Lua  host.emit()            looks up the handlers; each is started by
 *   C    start()                which makes a task of the handler, ready for this turn
 *   Lua  host.emit()            returns an enum answer
 *   C    count_answer()         counts it, and turns it into what the host gets
 *   ...
 *   C    ltask_poll()           in the turn: runs the task
 *   Lua  run_entry()            calls the handler, unless it was removed or disabled meanwhile
 *   C    ltask_drop()           the call is over: task/handler.c counts time-outs in a row
 *
 * host.emit() queues the event instead while the isolate is held, or while a script is loaded whose
 * body has not begun: the body is what registers handlers.  events_flush() starts the handlers of
 * queued events once neither is the case, behind the tasks that were parked meanwhile.
 *
 * A script's own events:emit() starts the handlers at once, before it returns.
 */
#include "lua/api/events.h"

#include "lua/api/creation.h"
#include "lua/api/lua_part.h"
#include "lua/isolate.h"
#include "lua/isolate/embedded.h"
#include "lua/limits/stack_trace.h"
#include "lua/task/callback.h"
#include "lua/task/create.h"
#include "lua/task/handler.h"
#include "lua/task/hold.h"
#include "lua/task/run.h"
#include "lua/task/script.h"
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

/* new_handler(id) */
static int new_handler(lua_State *L)
{
    struct handler *self = lua_newuserdatauv(L, sizeof *self, 0);
    *self = (struct handler){ .id = lua_tointeger(L, 1), .script = script_running(isolate_of(L)) };
    isolate_set_class(L, OBJECT_HANDLER);
    return 1;
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

static int started(lua_State *L, int status, lua_KContext context)
{
    (void)status;
    (void)context;
    lua_pushboolean(L, true);
    return 1;
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

/* [handler] [soon] [name] [function] [arguments...] -> whether it was not disabled, and started */
static int start(lua_State *L)
{
    struct orr_isolate *iso = isolate_of(L);
    const struct handler *handler = check_handler(L);
    bool soon = lua_toboolean(L, 2);
    struct ltask_options options = { .name = lua_tostring(L, 3),
                                     .detached = true,
                                     .entry = ORR_LUA_HANDLER,
                                     .handler = 1,
                                     .script = handler->script,
                                     .name_at = 3 };
    if (handler_is_disabled(handler)) {
        lua_pushboolean(L, false);
        return 1;
    }
    if (soon) {
        ltask_start_soon(iso, L, lua_gettop(L) - 4, &options);
        return started(L, LUA_OK, 0);
    }
    int depth = execution_task(&iso->execution) ? execution_task(&iso->execution)->emit_depth + 1 : 1;
    if (depth > EMITS_MAX)
        return refuse_to_nest(L, options.name);
    ltask_check_depth(L);
    options.pooled = true;
    struct ltask *task = ltask_new(iso, L, lua_gettop(L) - 4, &options);
    task->emit_depth = (uint8_t)depth;
    return ltask_run_first(L, task, started, 0);
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
static int is_held(lua_State *L)
{
    struct orr_isolate *iso = isolate_of(L);
    lua_pushboolean(L, isolate_is_held(iso) || script_any_loading(&iso->scripts));
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
    if (answer != STARTED)
        hold_call_on_release(&iso->hold, events_flush);
    return 0;
}

int orr_events_emit(lua_State *L, const char *name)
{
    struct orr_isolate *iso = usable(L);
    if (!iso || !name || !*name || strchr(name, '*') || lua_gettop(L) < 1)
        return -EINVAL;
    push_call(L, "emit");
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
    call_and_pop(iso, L, 0);
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
        { "start", start },
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
    set_integer(L, "limit", iso->limits.events_limit);
    set_boolean(L, "drops_oldest", iso->limits.events_policy == ORR_EVENTS_DROP_OLDEST);
    set_boolean(L, "coalesces", iso->limits.events_policy == ORR_EVENTS_COALESCE);
    lua_part_open(L, &embedded_events, 1, &part_key);
}

void events_forget(lua_State *L)
{
    lua_part_forget(L, &part_key);
}
