/*
 * What a task's handle leaves behind when it is collected: a reference to the core's task, and texts for people.  It has a userdata
 * of its own, which lives as long as the handle (by a table with weak keys), has that as its user value (so that what the core's task
 * refers to is there until the finalizer has told it), and has the finalizer that the handle
 * itself has not.  For Lua keeps what is to be finalized for another cycle, and counts it as in use when it chooses the time of
 * that: if every handle had a finalizer, the garbage of a busy script would grow and grow.  Only tasks that fail, that are held
 * weakly (reach.c), or that remember where they were made have an estate.
 */
#ifndef ORR_LUA_ESTATE_H
#define ORR_LUA_ESTATE_H

#include "lua/task.h"

struct estate {
    struct orr_task *task; /* a reference, or NULL */
    char *report;          /* of its error: the message and the stack; charged; NULL for none */
    char *created;         /* where; charged; NULL unless debugging */
    struct ltask *lost;    /* the handle, if it is held weakly */
    bool revived;          /* the handle was anchored again after the collector had given it up: it is not gone */
};

/* May raise. */
void estate_open(struct orr_isolate *iso, lua_State *L);

/* The estate of the task whose handle is at the top of L.  May raise, if it has none yet. */
struct estate *estate_make(lua_State *L, struct ltask *self);

/* The same from outside Lua; NULL for lack of memory. */
struct estate *estate_try(struct ltask *self);

/* The handle, which has an estate, is held weakly from now on; or no more.  Never allocates. */
void estate_watch(struct ltask *self, bool weak);

/*
 * Pushes the handle, which has an estate, after the collector has given it up and before it calls the estate's finalizer, which does
 * nothing then.  It looks for it among all estates.  Never allocates.
 */
void estate_revive(lua_State *L, struct ltask *self);

#endif
