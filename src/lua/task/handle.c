#include "lua/task/handle.h"

#include "base/clear.h"
#include "lua/isolate/charge.h"
#include "lua/limits/stack_trace.h"
#include "lua/task/task_finalizer.h"

/* [handle]: remembers where the script is that makes the task, if a script does.  May raise. */
static void remember_creation(lua_State *L, struct ltask *self)
{
    stack_trace_push_location(L, L, 1);
    if (lua_rawlen(L, -1)) {
        lua_pushvalue(L, -2);
        struct task_finalizer *finalizer = task_finalizer_make(L, self);
        finalizer->created = charge_copy(self->iso, lua_tostring(L, -2));
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
}

struct ltask *handle_new(struct orr_isolate *iso, lua_State *L, int user_values)
{
    luaL_checkstack(L, 8, NULL);
    struct ltask *self = lua_newuserdatauv(L, sizeof *self, user_values);
    clear_bytes(self, sizeof *self);
    self->iso = iso;
    lua_rawgeti(L, LUA_REGISTRYINDEX, iso->tasks.class);
    lua_setmetatable(L, -2);
    if (iso->debug)
        remember_creation(L, self);
    return self;
}

void handle_take_coroutine(lua_State *L, struct ltask *self)
{
    self->co = isolate_coroutine(self->iso, L);
    lua_setiuservalue(L, -2, LTASK_VALUE);
}

bool handle_take_seat(lua_State *L, struct ltask *self)
{
    struct registry *registry = &self->iso->registry;
    int anchor = isolate_reserve_anchor(self->iso, L);
    int seat = isolate_take_seat(registry);
    if (!seat) {
        isolate_unreserve_anchor(self->iso, anchor);
        return false;
    }
    self->anchor = anchor;
    self->seat = (uint8_t)seat;
    self->co = isolate_seated(registry, seat);
    self->creator = L;
    return true;
}
