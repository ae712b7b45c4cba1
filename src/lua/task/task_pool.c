#include "lua/task/task_pool.h"

#include "base/clear.h"
#include "lua/isolate/charge.h"
#include "lua/task/body.h"
#include "lua/task/handle.h"
#include "lua/task/task.h"

enum {
    POOLED_MAX = 64,
    BOTTOM = POOL_HANDLE + BODY_BASE, /* values on the coroutine of a handle in the pool */
};

/* May raise. */
static struct ltask *make(struct orr_isolate *iso, lua_State *L)
{
    struct ltask *self = handle_new(iso, L, LTASK_USER_VALUES);
    handle_take_coroutine(L, self);
    self->pooled = true;
    if (!lua_checkstack(self->co, POOL_ROOM))
        luaL_error(L, "not enough memory");
    lua_pushvalue(L, -1);
    lua_xmove(L, self->co, 1);
    body_push_base(&iso->body, self->co);
    self->anchor = isolate_anchor(iso, L);
    lua_pop(L, 1);
    return self;
}

struct ltask *task_pool_take(struct orr_isolate *iso, lua_State *L)
{
    struct ltask *self = iso->task_pool.first;
    if (!self || iso->debug) /* a handle remembers for good where it was made */
        return make(iso, L);
    iso->task_pool.first = self->next;
    iso->task_pool.count--;
    lua_State *co = self->co;
    int anchor = self->anchor;
    clear_bytes(self, offsetof(struct ltask, wait)); /* the wait is idle */
    self->iso = iso;
    self->co = co;
    self->anchor = anchor;
    self->pooled = true;
    return self;
}

static int take_protected(lua_State *L)
{
    struct orr_isolate *iso = lua_touserdata(L, 1);
    lua_pushlightuserdata(L, task_pool_take(iso, L));
    return 1;
}

struct ltask *task_pool_try_take(struct orr_isolate *iso)
{
    lua_State *L = iso->L;
    if (iso->task_pool.first && !iso->debug)
        return task_pool_take(iso, L);
    if (!lua_checkstack(L, 4))
        return NULL;
    lua_pushcfunction(L, take_protected);
    lua_pushlightuserdata(L, iso);
    /* Else Lua would run a full collection for every callback. */
    size_t patience = charge_overdraw_begin(iso);
    struct ltask *self = lua_pcall(L, 1, 1, 0) == LUA_OK ? lua_touserdata(L, -1) : NULL;
    charge_overdraw_end(iso, patience);
    lua_pop(L, 1);
    return self;
}

bool task_pool_give_back(struct ltask *self)
{
    struct orr_isolate *iso = self->iso;
    lua_State *co = self->co;
    if (iso->closing || iso->task_pool.count >= POOLED_MAX)
        return false;
    lua_settop(co, BOTTOM);
    if (lua_gethook(co))
        lua_sethook(co, NULL, 0, 0); /* the next task has none */
    if (self->handles) {
        lua_pushnil(co);
        lua_setiuservalue(co, POOL_HANDLE, LTASK_HANDLER);
    }
    self->phase = LTASK_NEW;
    self->next = iso->task_pool.first;
    iso->task_pool.first = self;
    iso->task_pool.count++;
    return true;
}

bool task_pool_keep(struct ltask *self)
{
    bool usable = self->phase == LTASK_OK && self->co && !self->exposed && !self->task_finalizer && !self->held &&
                  self->wait.state == WAIT_IDLE && !self->wait.grouped;
    if (!usable || task_pool_give_back(self))
        return usable;
    isolate_recycle(self->iso, self->co); /* the pool is full: only the coroutine is kept */
    self->co = NULL;
    return false;
}

void task_pool_push_base(struct ltask *self)
{
    self->stack_base = lua_gettop(self->co) & 7;
    for (int i = 1; i <= BODY_BASE; i++)
        lua_pushvalue(self->co, POOL_HANDLE + i);
}

void task_pool_copy_name(struct ltask *self)
{
    self->name_on_stack = false;
    size_t size = task_copy_name(self->task);
    if (size)
        charge_force(self->iso, size);
}
