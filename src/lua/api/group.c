/*
 * A group object holds a group of the core and one wait for each task, so tasks come out in the
 * order in which they are done.  Its user values are the list of tasks, and a heap of the tasks
 * that were done when the wait began, in the order in which they were done.  A heap, because no
 * step may take long, however many tasks there are.
 */
#include "lua/api/group.h"

#include "lua/api/wait_step.h"
#include "lua/isolate.h"
#include "lua/task/suspend.h"
#include "lua/task/task.h"

#include <errno.h>
#include <string.h>

#define GROUP_CLASS "orrery.group"

struct group_object {
    struct orr_group group;
    struct ltask *owner; /* the task that waits; NULL until one does */
    size_t count;        /* tasks in the list */
    size_t done_count;   /* tasks in the heap: these come first */
    struct done *done;   /* the heap, in the second user value; NULL for none */
    struct orr_wait waits[];
};

struct done {
    uint64_t order; /* the lower, the earlier it was done */
    size_t index;   /* in the list, from 0 */
};

/* --- The heap --------------------------------------------------------------------------------- */

static bool is_before(const struct done *one, const struct done *other)
{
    return one->order < other->order || (one->order == other->order && one->index < other->index);
}

/* Moves the item at an index down until both of its children come after it. */
static void sink(struct done *heap, size_t count, size_t at)
{
    struct done item = heap[at];
    for (size_t child; (child = 2 * at + 1) < count; at = child) {
        child += child + 1 < count && is_before(&heap[child + 1], &heap[child]);
        if (!is_before(&heap[child], &item))
            break;
        heap[at] = heap[child];
    }
    heap[at] = item;
}

static void make_heap(struct done *heap, size_t count)
{
    for (size_t at = count / 2; at-- > 0;)
        sink(heap, count, at);
}

/* Removes the first task from the heap, and returns its index in the list. */
static size_t pop_first(struct group_object *self)
{
    size_t index = self->done[0].index;
    self->done[0] = self->done[--self->done_count];
    if (self->done_count)
        sink(self->done, self->done_count, 0);
    return index;
}

/* --- The group -------------------------------------------------------------------------------- */

/* Pushes the task at an index, from 1, of the list at a stack index.  Raises if it is no task. */
static struct ltask *push_member(lua_State *L, int list, size_t index)
{
    lua_rawgeti(L, list, (lua_Integer)index);
    struct ltask *task = ltask_test(L, -1);
    if (!task)
        luaL_error(L, "item %d of the list is not a task, but a %s", (int)index, luaL_typename(L, -1));
    return task;
}

/* The task at an index, from 1, of the list at 2. */
static struct ltask *member(lua_State *L, size_t index)
{
    struct ltask *task = push_member(L, 2, index);
    lua_pop(L, 1);
    return task;
}

/* async._group(list) -> group */
static int async_group(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    size_t count = lua_rawlen(L, 1);
    lua_settop(L, 1);
    struct group_object *self = lua_newuserdatauv(L, sizeof *self + count * sizeof *self->waits, 2);
    memset(self, 0, sizeof *self + count * sizeof *self->waits);
    self->count = count;
    luaL_setmetatable(L, GROUP_CLASS);
    objects_made(isolate_of(L));
    lua_createtable(L, (int)count, 0);
    for (size_t i = 1; i <= count; i++) {
        push_member(L, 1, i);
        lua_rawseti(L, -2, (lua_Integer)i);
    }
    lua_setiuservalue(L, -2, 1);
    return 1;
}

static bool is_done(const struct ltask *task)
{
    return !task->task || orr_task_done(task->task);
}

/* Makes the heap of the tasks that are done: [group] [list].  May raise. */
static void find_done(lua_State *L, struct group_object *self)
{
    size_t count = 0;
    for (size_t i = 0; i < self->count; i++)
        count += is_done(member(L, i + 1));
    if (!count)
        return;
    self->done = lua_newuserdatauv(L, count * sizeof *self->done, 0);
    lua_setiuservalue(L, 1, 2);
    for (size_t i = 0; i < self->count; i++) {
        const struct ltask *other = member(L, i + 1);
        if (is_done(other))
            self->done[self->done_count++] = (struct done){ .order = other->apart.done_as, .index = i };
    }
    make_heap(self->done, self->done_count);
}

/* Begins to wait for all tasks: [group] [list].  Negative errno.  May raise. */
static int begin(lua_State *L, struct group_object *self, struct ltask *task)
{
    find_done(L, self);
    self->owner = task;
    for (size_t i = 0; i < self->count; i++) {
        struct ltask *other = member(L, i + 1);
        if (is_done(other))
            continue; /* in the heap */
        orr_group_add(&self->group, &self->waits[i]);
        int error = orr_task_await(task->task, &self->waits[i], other->task);
        if (error && error != -EAGAIN) {
            orr_group_clear(&self->group);
            return error;
        }
    }
    return 0;
}

/* Returns index and handle of the next task that is done, or nothing at the end: [group] [list]. */
static int next_member(lua_State *L, int status, lua_KContext context)
{
    (void)status;
    struct group_object *self = luaL_checkudata(L, 1, GROUP_CLASS);
    struct ltask *task = ltask_current(L, "await");
    struct orr_wait *wait;
    int error = orr_group_next(task->task, &self->group, &wait);
    if (error)
        return wait_step(L, error, next_member, context);
    if (!wait)
        return 0;
    size_t index = (size_t)(wait - self->waits);
    error = orr_task_await(task->task, wait, wait->source);
    if (error)
        return wait_raise(L, error);
    lua_pushinteger(L, (lua_Integer)index + 1);
    lua_rawgeti(L, 2, (lua_Integer)index + 1);
    return 2;
}

static int group_next(lua_State *L)
{
    struct group_object *self = luaL_checkudata(L, 1, GROUP_CLASS);
    struct ltask *task = ltask_waiting(L, "await");
    lua_settop(L, 1);
    lua_getiuservalue(L, 1, 1);
    if (self->owner && self->owner != task)
        return luaL_error(L, "another task goes through this list of tasks already; make a list for each");
    int error = orr_checkpoint(task->task);
    if (!error && !self->owner)
        error = begin(L, self, task);
    if (error)
        return wait_raise(L, error);
    if (!self->done_count)
        return next_member(L, LUA_OK, 0);
    lua_Integer done = (lua_Integer)pop_first(self) + 1;
    lua_pushinteger(L, done);
    lua_rawgeti(L, 2, done);
    return 2;
}

/* Gives up the waits that are left. */
static int group_close(lua_State *L)
{
    struct group_object *self = luaL_checkudata(L, 1, GROUP_CLASS);
    orr_group_clear(&self->group);
    self->count = self->done_count = 0;
    return 0;
}

static int group_gc(lua_State *L)
{
    objects_gone(isolate_of(L));
    return group_close(L);
}

void group_open(struct orr_isolate *iso, lua_State *L)
{
    static const luaL_Reg methods[] = {
        { "next", group_next }, { "__close", group_close }, { "__gc", group_gc }, { NULL, NULL }
    };
    static const luaL_Reg functions[] = { { "_group", async_group }, { NULL, NULL } };
    isolate_class(iso, L, GROUP_CLASS, methods);
    isolate_register(iso, L, functions);
}
