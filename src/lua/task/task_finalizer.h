/*
 * What remains of a task when its handle is collected: a reference to the core's task, and texts
 * for people.
 *
 * The task finalizer is a userdata of its own.  A table with weak keys keeps it as long as the
 * handle.  Its user value is the handle, so the handle is there until the finalizer has cut its
 * ties to the core's task.
 *
 * The handle itself has no finalizer.  Lua keeps an object with a finalizer for another cycle of
 * the collector, and counts it as in use when it decides when that cycle begins: if every handle
 * had one, the garbage of a busy script would grow without end.  Only some tasks have a task
 * finalizer: tasks that have failed, tasks that are held weakly (orphans.h), and tasks that
 * remember where they were made.
 *
 * The isolate's worker's thread.
 */
#ifndef ORR_LUA_TASK_TASK_FINALIZER_H
#define ORR_LUA_TASK_TASK_FINALIZER_H

#include "lua/task/task.h"
#include "lua/task/trace.h"

/*
 * The handle, at the top of L, was collected while its task lives: the function takes it off and
 * revives it.
 */
typedef void task_lost_fn(lua_State *L, struct ltask *self);

struct task_finalizer {
    struct orr_task *task; /* a reference, or NULL */
    struct trace *trace;   /* of its error; owned; NULL for none */
    char *created;         /* where it was made; charged; NULL unless debugging */
    task_lost_fn *on_lost; /* the handle is held weakly; NULL if it is anchored */
    bool revived;          /* the handle was anchored again after it was collected */
};

/* May raise. */
void task_finalizer_open(struct orr_isolate *iso, lua_State *L);

/*
 * The finalizer of the task whose handle is at the top of L.  Makes it if there is none; may raise
 * then.
 */
struct task_finalizer *task_finalizer_make(lua_State *L, struct ltask *self);

/*
 * The finalizer of a task, made if there is none, outside Lua.  NULL for lack of memory.  Never
 * raises.
 */
struct task_finalizer *task_finalizer_try(struct ltask *self);

/*
 * From now on the handle is held weakly; with NULL, no more.  The task has a finalizer.  Never
 * allocates.
 */
void task_finalizer_watch(struct ltask *self, task_lost_fn *on_lost);

/*
 * Pushes the handle after the collector has given it up, and before it has called the finalizer,
 * which does nothing then.  Searches all task finalizers.  The task has one.  Never allocates.
 */
void task_finalizer_revive(lua_State *L, struct ltask *self);

/* The trace of a task's error; NULL for none. */
static inline const struct trace *task_finalizer_trace(const struct ltask *self)
{
    return self->task_finalizer ? self->task_finalizer->trace : NULL;
}

/* Where a task was made: "file:line"; NULL if that was not remembered. */
static inline const char *task_finalizer_created(const struct ltask *self)
{
    return self->task_finalizer ? self->task_finalizer->created : NULL;
}

#endif
