/* Ways from outside into an isolate: by its Lua state, and from plain code of the host. */
#ifndef ORR_LUA_ISOLATE_VISIT_H
#define ORR_LUA_ISOLATE_VISIT_H

#include "lua/isolate/compat.h"

struct orr_isolate;

struct visits {
    /* Nested visits, the outermost of which has entered the worker; 0 in ordinary turns */
    unsigned depth;
};

/* The isolate of a state; NULL if it has none. */
struct orr_isolate *isolate_find(lua_State *L);

/* isolate_find() finds the isolate by its state from now on.  May raise. */
void isolate_publish(struct orr_isolate *iso, lua_State *L);

/* The isolate comes or goes: no thread may rely on the isolate that it found last. */
void isolate_forget_found(void);

/* Takes back isolate_publish().  Never allocates. */
void isolate_unpublish(lua_State *L);

/*
 * Between the two, the calling thread drives the isolate's worker, if it did not before: for calls
 * that come from plain code of the host.  -EBUSY if another thread drives it.  Nothing in between
 * may raise. After a failure there is nothing to leave.
 */
int isolate_visit(struct orr_isolate *iso);
void isolate_leave(struct orr_isolate *iso);

#endif
