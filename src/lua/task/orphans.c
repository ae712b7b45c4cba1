#include "lua/task/orphans.h"

#include "lua/task/task.h"
#include "lua/task/task_finalizer.h"

static const char waiters_key, weak_key, sentinel_key;

/*
 * The sentinel is made again whenever it is collected: so the isolate learns of every cycle of the
 * collector.
 */
static int sentinel_gc(lua_State *L)
{
    struct orr_isolate *iso = isolate_find(L);
    if (!iso || iso->closing)
        return 0;
    iso->orphans.due = true;
    lua_newuserdatauv(L, 0, 0);
    lua_rawgetp(L, LUA_REGISTRYINDEX, &sentinel_key);
    lua_setmetatable(L, -2);
    return 0;
}

static void push_table(lua_State *L, const char *key)
{
    lua_rawgetp(L, LUA_REGISTRYINDEX, key);
}

static void make_table(lua_State *L, const char *key, const char *mode)
{
    lua_newtable(L);
    lua_createtable(L, 0, 1);
    lua_pushstring(L, mode);
    lua_setfield(L, -2, "__mode");
    lua_setmetatable(L, -2);
    lua_rawsetp(L, LUA_REGISTRYINDEX, key);
}

void orphans_open(struct orr_isolate *iso, lua_State *L)
{
    (void)iso;
    make_table(L, &waiters_key, "k");
    make_table(L, &weak_key, "v");
    lua_createtable(L, 0, 1);
    lua_pushcfunction(L, sentinel_gc);
    lua_setfield(L, -2, "__gc");
    lua_pushvalue(L, -1);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &sentinel_key);
    lua_newuserdatauv(L, 0, 0);
    lua_insert(L, -2);
    lua_setmetatable(L, -2);
    lua_pop(L, 1);
}

/*
 * Pushes the object that a task waits for.  False if nothing in Lua decides whether the wait ends.
 */
static bool push_awaited(lua_State *L, const struct ltask *self)
{
    lua_State *co = self->suspended;
    if (!co || self->wait.state != WAIT_WAITING || self->wait.kind->ends_by_itself || lua_gettop(co) < 1 ||
        !lua_checkstack(co, 1))
        return false;
    lua_pushvalue(co, 1);
    lua_xmove(co, L, 1);
    int type = lua_type(L, -1);
    if (type == LUA_TUSERDATA || type == LUA_TFUNCTION)
        return true;
    lua_pop(L, 1);
    return false;
}

static void lost(lua_State *L, struct ltask *self);

/* [task] [awaited] -> []: the task is held by the object that it waits for.  May raise. */
static void hold_weakly(lua_State *L, struct ltask *self)
{
    lua_pushvalue(L, -2);
    task_finalizer_make(L, self);
    task_finalizer_watch(self, lost);
    lua_pop(L, 1);
    push_table(L, &waiters_key);
    lua_pushvalue(L, -2);
    if (lua_rawget(L, -2) != LUA_TTABLE) { /* no other task waits for it */
        lua_pop(L, 1);
        lua_newtable(L);
        lua_pushvalue(L, -3);
        lua_pushvalue(L, -2);
        lua_rawset(L, -4);
    }
    lua_pushvalue(L, -4);
    lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1);
    push_table(L, &weak_key);
    lua_pushvalue(L, -5);
    lua_rawseti(L, -2, self->anchor);
    lua_pop(L, 5);
    isolate_set_anchor(self->iso, L, self->anchor, false);
    self->reach = REACH_WEAK;
}

/* A task that waits.  Only one that was seen in the same wait before is held weakly. */
static void consider(struct ltask *self, lua_State *L)
{
    if (self->reach == REACH_ANCHORED)
        self->reach = REACH_SEEN_WAITING; /* until it goes on */
    else if (self->reach == REACH_SEEN_WAITING && self->held != HELD_PAUSED) {
        isolate_push_anchored(self->iso, L, self->anchor);
        if (push_awaited(L, self))
            hold_weakly(L, self);
        else
            lua_pop(L, 1);
    }
}

/*
 * Looks at some tasks, since there may be a million.  May raise for lack of memory: one task is
 * passed over then.
 */
static int scan(lua_State *L)
{
    enum { AT_A_TIME = 4096, LIVE = 32 }; /* a free slot costs 1, a live task LIVE more */
    struct orr_isolate *iso = isolate_find(L);
    luaL_checkstack(L, 16, NULL);
    for (int cost = 0; cost < AT_A_TIME && iso->orphans.next < worker_slots(iso->worker); cost++) {
        struct orr_task *task = worker_task_in(iso->worker, iso->orphans.next++);
        struct ltask *self = task_is_live(task) ? ltask_of(task) : NULL;
        if (self && self->iso == iso && self->phase != LTASK_NEW && !task_is_running(task)) {
            consider(self, L);
            cost += LIVE;
        }
    }
    if (iso->orphans.next >= worker_slots(iso->worker)) {
        iso->orphans.next = 0;
        iso->orphans.due = false;
    }
    return 0;
}

void orphans_scan(struct orr_isolate *iso)
{
    lua_State *L = iso->L;
    if (!lua_checkstack(L, 4))
        return;
    lua_pushcfunction(L, scan);
    if (lua_pcall(L, 0, 0, 0) != LUA_OK)
        lua_pop(L, 1);
}

void orphans_anchor(struct ltask *self)
{
    struct orr_isolate *iso = self->iso;
    lua_State *L = iso->L;
    self->reach = REACH_SEEN_WAITING;
    push_table(L, &weak_key);
    if (lua_rawgeti(L, -1, self->anchor) == LUA_TNIL) { /* collected, not finalized */
        lua_pop(L, 1);
        task_finalizer_revive(L, self);
    }
    task_finalizer_watch(self, NULL);
    isolate_set_anchor(iso, L, self->anchor, true);
    lua_pushnil(L);
    lua_rawseti(L, -2, self->anchor);
    lua_pop(L, 1);
}

/* A task that nobody could reach: its handle is at the top of L, and is taken off. */
static void lost(lua_State *L, struct ltask *self)
{
    struct orr_isolate *iso = self->iso;
    const char *name = orr_task_name(self->task);
    const char *kind = self->wait.state == WAIT_WAITING ? self->wait.kind->name : "";
    isolate_set_anchor(iso, L, self->anchor, true);
    self->reach = REACH_SEEN_WAITING;
    if (iso->closing || self->wait.state != WAIT_WAITING)
        return; /* it was woken, and is about to go on */
    log_line(&iso->log, ORR_LOG_WARNING,
             "task %s waits for %s that nobody can reach any more: it can never go on, and is closed",
             name ? name : "(unnamed)", kind);
    if (!isolate_visit(iso)) {
        task_cancel(self->task, "nobody can reach what it waits for");
        isolate_leave(iso);
    }
}
