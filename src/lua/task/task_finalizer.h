/*
 * What a task's handle leaves behind when it is collected: a reference to the core's task, and texts for people.  It has a userdata
 * of its own, which lives as long as the handle (by a table with weak keys), has that as its user value (so that what the core's task
 * refers to is there until the finalizer has told it), and has the finalizer that the handle
 * itself has not.  For Lua keeps what is to be finalized for another cycle, and counts it as in use when it chooses the time of
 * that: if every handle had a finalizer, the garbage of a busy script would grow and grow.  Only tasks that fail, that are held
 * weakly (reach.c), or that remember where they were made have an task_finalizer.
 */
#ifndef ORR_LUA_TASK_TASK_FINALIZER_H
#define ORR_LUA_TASK_TASK_FINALIZER_H

#include "lua/task/task.h"

struct task_finalizer {
    struct orr_task *task; /* a reference, or NULL */
    char *report;          /* of its error: the message and the stack; charged; NULL for none */
    char *created;         /* where; charged; NULL unless debugging */
    struct ltask *lost;    /* the handle, if it is held weakly */
    bool revived;          /* the handle was anchored again after the collector had given it up: it is not gone */
};

/* May raise. */
void task_finalizer_open(struct orr_isolate *iso, lua_State *L);

/* The task_finalizer of the task whose handle is at the top of L.  May raise, if it has none yet. */
struct task_finalizer *task_finalizer_make(lua_State *L, struct ltask *self);

/* The same from outside Lua; NULL for lack of memory. */
struct task_finalizer *task_finalizer_try(struct ltask *self);

/* The handle, which has an task_finalizer, is held weakly from now on; or no more.  Never allocates. */
void task_finalizer_watch(struct ltask *self, bool weak);

/*
 * Pushes the handle, which has an task_finalizer, after the collector has given it up and before it calls the task_finalizer's finalizer, which does
 * nothing then.  It looks for it among all task_finalizers.  Never allocates.
 */
void task_finalizer_revive(lua_State *L, struct ltask *self);

#endif
