/*
 * `events`, the part in C: what starts handlers as tasks, and the host's side.  The registry is in lua/events.lua.
 *
 * A host's event starts its handlers soon, as tasks in their order; they run in the turn.  While the isolate is held, or a script was loaded whose
 * body, which registers handlers, has not begun, events are queued;
 * events_flush() starts them when it is not any more, behind the tasks that were parked meanwhile.
 */
#include "lua/api/events.h"

#include "lua/isolate.h"
#include "lua/task/callback.h"
#include "lua/task/create.h"
#include "lua/task/handler.h"
#include "lua/task/hold.h"
#include "lua/task/report.h"
#include "lua/task/run.h"
#include "lua/task/script.h"
#include "lua/task/task.h"

#include <errno.h>
#include <string.h>

#define HANDLER "orrery.handler"

enum { EMITS_MAX = 32 }; /* inside one another */

static const char host_key; /* in the registry: the functions for the host */

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
    const struct handler *self = isolate_check(L, 1, OBJECT_HANDLER, HANDLER);
    lua_pushboolean(L, self->disabled);
    return 1;
}

static int enable(lua_State *L)
{
    struct handler *self = isolate_check(L, 1, OBJECT_HANDLER, HANDLER);
    self->strikes = 0;
    self->disabled = false;
    return 0;
}

static int started(lua_State *L, int status, lua_KContext context)
{
    (void)status;
    (void)context;
    lua_pushboolean(L, true);
    return 1;
}

/* Says where the script emits it: events:emit, which is ours, has called us. */
static int refuse_to_nest(lua_State *L, const char *name)
{
    report_push_location(L, L, 2);
    lua_pushfstring(L, "%s%sevents:emit: '%s': events are emitted inside one another's handlers, more than %d deep",
                    lua_tostring(L, -1), *lua_tostring(L, -1) ? ": " : "", name, EMITS_MAX);
    return lua_error(L);
}

/* [handler] [soon] [name] [function] [arguments...] -> whether it was started */
static int start(lua_State *L)
{
    struct orr_isolate *iso = isolate_of(L);
    const struct handler *handler = isolate_check(L, 1, OBJECT_HANDLER, HANDLER);
    bool soon = lua_toboolean(L, 2);
    struct ltask_options options = { .name = lua_tostring(L, 3),
                                     .detached = true,
                                     .entry = ORR_LUA_HANDLER,
                                     .handler = 1,
                                     .script = handler->script,
                                     .name_at = 3 };
    if (handler->disabled) {
        lua_pushboolean(L, false);
        return 1;
    }
    if (soon) {
        ltask_start_soon(iso, L, lua_gettop(L) - 4, &options);
        return started(L, LUA_OK, 0);
    }
    int depth = iso->execution.current ? iso->execution.current->emit_depth + 1 : 1;
    if (depth > EMITS_MAX)
        return refuse_to_nest(L, options.name);
    ltask_check_depth(L);
    options.pooled = true;
    struct ltask *task = ltask_new(iso, L, lua_gettop(L) - 4, &options);
    task->emit_depth = (uint8_t)depth;
    return ltask_run_first(L, task, started, 0);
}

/* where() -> where the script is that has called us, if it is to be remembered. */
static int where(lua_State *L)
{
    if (!isolate_of(L)->debug)
        return 0;
    report_push_location(L, L, 1);
    return 1;
}

/* is_of(handler, script) */
static int is_of(lua_State *L)
{
    const struct handler *self = isolate_check(L, 1, OBJECT_HANDLER, HANDLER);
    lua_pushboolean(L, self->script == lua_tointeger(L, 2));
    return 1;
}

/* is_own(handler): whether it belongs to the script that runs now. */
static int is_own(lua_State *L)
{
    const struct handler *self = isolate_check(L, 1, OBJECT_HANDLER, HANDLER);
    lua_pushboolean(L, self->script == script_running(isolate_of(L)));
    return 1;
}

static int is_held(lua_State *L)
{
    struct orr_isolate *iso = isolate_of(L);
    lua_pushboolean(L, isolate_is_held(iso) || script_any_loading(&iso->scripts));
    return 1;
}

/* --- The host ------------------------------------------------------------------------------------------------------ */

static void push_host_function(lua_State *L, const char *name)
{
    lua_rawgetp(L, LUA_REGISTRYINDEX, &host_key);
    lua_getfield(L, -1, name);
    lua_remove(L, -2);
}

/* Starts the handlers of events that were queued while the isolate was held. */
static void events_flush(struct orr_isolate *iso);

/* Counts what became of an event; answers the host. */
static int judge(struct orr_isolate *iso, const char *answer)
{
    struct event_queue *figures = &iso->events;
    figures->emitted++;
    if (!strcmp(answer, "refused")) {
        figures->refused++;
        return -ENOBUFS;
    }
    figures->dropped += !strcmp(answer, "dropped");
    figures->coalesced += !strcmp(answer, "coalesced");
    if (strcmp(answer, "started") != 0)
        hold_call_on_release(&iso->hold, events_flush);
    return 0;
}

/* Calls one of the functions for the host with what is on the stack above; answers a negative errno, or leaves one result. */
static int call_host_function(struct orr_isolate *iso, lua_State *L, int arguments)
{
    int error = isolate_visit(iso);
    if (error) {
        lua_pop(L, arguments + 1);
        return error;
    }
    int status = lua_pcall(L, arguments, 1, 0);
    isolate_leave(iso);
    if (status == LUA_OK)
        return 0;
    log_line(&iso->rt->log, ORR_LOG_ERROR, "events: %s", lua_tostring(L, -1));
    lua_pop(L, 1);
    return status == LUA_ERRMEM ? -ENOMEM : -EINVAL;
}

/* [function's name] [arguments...]; an argument that is a light userdata is a text of C's. */
static int call_protected(lua_State *L)
{
    push_host_function(L, lua_touserdata(L, 1));
    lua_replace(L, 1);
    if (lua_islightuserdata(L, 2)) {
        lua_pushstring(L, lua_touserdata(L, 2));
        lua_replace(L, 2);
    }
    lua_call(L, lua_gettop(L) - 1, 1);
    return 1;
}

static struct orr_isolate *usable(lua_State *L)
{
    struct orr_isolate *iso = L ? isolate_find(L) : NULL;
    return iso && !iso->closing && lua_checkstack(L, 6) ? iso : NULL;
}

int orr_events_emit(lua_State *L, const char *name)
{
    struct orr_isolate *iso = usable(L);
    if (!iso || !name || !*name || strchr(name, '*') || lua_gettop(L) < 1)
        return -EINVAL;
    lua_pushcfunction(L, call_protected);
    lua_pushlightuserdata(L, (void *)"emit");
    lua_pushlightuserdata(L, (void *)name);
    lua_rotate(L, -4, 3); /* below the data */
    int error = call_host_function(iso, L, 3);
    if (error)
        return error;
    error = judge(iso, lua_tostring(L, -1));
    lua_pop(L, 1);
    return error;
}

int orr_events_reserve(lua_State *L, const char *name)
{
    struct orr_isolate *iso = usable(L);
    if (!iso || !name || !*name)
        return -EINVAL;
    lua_pushcfunction(L, call_protected);
    lua_pushlightuserdata(L, (void *)"reserve");
    lua_pushlightuserdata(L, (void *)name);
    int error = call_host_function(iso, L, 2);
    if (!error)
        lua_pop(L, 1);
    return error;
}

int orr_events_enable(lua_State *L, int64_t id)
{
    struct orr_isolate *iso = usable(L);
    if (!iso)
        return -EINVAL;
    lua_pushcfunction(L, call_protected);
    lua_pushlightuserdata(L, (void *)"enable");
    lua_pushinteger(L, id);
    int error = call_host_function(iso, L, 2);
    if (error)
        return error;
    bool found = lua_toboolean(L, -1);
    lua_pop(L, 1);
    return found ? 0 : -ENOENT;
}

int64_t orr_events_disabled(lua_State *L)
{
    const struct orr_isolate *iso = L ? isolate_find(L) : NULL;
    return iso ? iso->notices.disabled : 0;
}

void events_remove(struct orr_isolate *iso, uint32_t script)
{
    lua_State *L = iso->L;
    if (!lua_checkstack(L, 6))
        return;
    lua_pushcfunction(L, call_protected);
    lua_pushlightuserdata(L, (void *)"remove");
    lua_pushinteger(L, script);
    if (!call_host_function(iso, L, 2))
        lua_pop(L, 1);
}

void events_list(lua_State *L, uint32_t script)
{
    luaL_checkstack(L, 4, NULL);
    push_host_function(L, "list_of");
    lua_pushinteger(L, script);
    lua_pushvalue(L, -3);
    lua_call(L, 2, 0);
}

static void events_flush(struct orr_isolate *iso)
{
    lua_State *L = iso->L;
    if (iso->closing || !lua_checkstack(L, 6))
        return;
    lua_pushcfunction(L, call_protected);
    lua_pushlightuserdata(L, (void *)"flush");
    if (!call_host_function(iso, L, 1))
        lua_pop(L, 1);
}

/* --- Opening ---------------------------------------------------------------------------------------------------------- */

/* [module] [private] -> [module]; `run` has made private.host of it. */
void events_keep_host(lua_State *L)
{
    lua_getfield(L, -1, "host");
    lua_rawsetp(L, LUA_REGISTRYINDEX, &host_key);
}

void events_forget_host(lua_State *L)
{
    lua_pushnil(L);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &host_key);
}

void events_push_private(struct orr_isolate *iso, lua_State *L)
{
    static const luaL_Reg functions[] = {
        { "new_handler", new_handler },
        { "is_disabled", is_disabled },
        { "enable", enable },
        { "start", start },
        { "is_of", is_of },
        { "is_own", is_own },
        { "is_held", is_held },
        { "where", where },
        { NULL, NULL },
    };
    static const luaL_Reg none[] = { { NULL, NULL } };
    static const char *const policies[] = {
        [ORR_EVENTS_REFUSE] = "refuse", [ORR_EVENTS_DROP_OLDEST] = "drop", [ORR_EVENTS_COALESCE] = "coalesce"
    };
    isolate_object_class(iso, L, OBJECT_HANDLER, HANDLER, none);
    lua_newtable(L);
    isolate_register(iso, L, functions);
    lua_pushinteger(L, iso->limits.events_limit);
    lua_setfield(L, -2, "limit");
    lua_pushstring(L, policies[iso->limits.events_policy]);
    lua_setfield(L, -2, "policy");
}
