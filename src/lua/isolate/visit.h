/* Entering an isolate from outside: from its Lua state, and from plain code of the host. */
#ifndef ORR_LUA_ISOLATE_VISIT_H
#define ORR_LUA_ISOLATE_VISIT_H

#include "lua/isolate/compat.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

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

/*
 * A host asks for the same isolate again and again, by its main thread.  So each thread remembers
 * the last isolate that it found, until any isolate of the process is made or freed: then the
 * address may belong to another state.
 */
struct found_isolate {
    lua_State *L; /* the main thread */
    struct orr_isolate *iso;
    uint64_t as_of; /* `isolate_comings_and_goings` when it was found */
};

extern _Thread_local struct found_isolate isolate_found_last __attribute__((tls_model("initial-exec")));
extern _Atomic uint64_t isolate_comings_and_goings;

/* Asks Lua for the isolate of a state, and remembers the answer. */
struct orr_isolate *isolate_look_up(lua_State *L);

/* The isolate of a state; NULL if the state has none, or there is no state. */
static inline struct orr_isolate *isolate_find(lua_State *L)
{
    uint64_t as_of = atomic_load_explicit(&isolate_comings_and_goings, memory_order_relaxed);
    bool found = L == isolate_found_last.L && as_of == isolate_found_last.as_of;
    return found ? isolate_found_last.iso : isolate_look_up(L);
}

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
