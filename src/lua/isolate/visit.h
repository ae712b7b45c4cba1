/* Entering an isolate from outside: from its Lua state, and from plain code of the host. */
#ifndef ORR_LUA_ISOLATE_VISIT_H
#define ORR_LUA_ISOLATE_VISIT_H

#include "lua/isolate/compat.h"

struct orr_isolate;

struct visits {
    /* Nested visits; the outermost has entered the worker. 0 in ordinary turns */
    unsigned depth;
};

/*
 * The isolate whose slice this thread runs, the innermost one; NULL outside slices.  limits/slice.c
 * sets it.
 */
extern _Thread_local struct orr_isolate *isolate_in_slice __attribute__((tls_model("initial-exec")));

/* The isolate of a state; NULL if the state has none. */
struct orr_isolate *isolate_find(lua_State *L);

/* Lets isolate_find() find the isolate by its state from now on.  May raise. */
void isolate_publish(struct orr_isolate *iso, lua_State *L);

/* An isolate is made or freed: no thread may rely on the isolate that it found last. */
void isolate_forget_found(void);

/* Undoes isolate_publish().  Never allocates. */
void isolate_unpublish(lua_State *L);

/*
 * Between the two calls the calling thread drives the isolate's worker, if it did not before.  For
 * calls that come from plain code of the host.  Returns -EBUSY if a turn of the worker is under way
 * or another thread drives it, and -EPERM if only its own thread can drive it, since it is not
 * worker 1.  Nothing in between may raise.  After a failure isolate_leave() must not be called.
 */
int isolate_visit(struct orr_isolate *iso);
void isolate_leave(struct orr_isolate *iso);

/* Whether the calling thread drives the worker because of isolate_visit(). */
static inline bool visits_any(const struct visits *self)
{
    return self->depth;
}

#endif
