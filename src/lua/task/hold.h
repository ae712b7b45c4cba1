/*
 * The order in which an isolate's tasks run while one of them was suspended in mid-slice.
 *
 * `urgent` is a stack of tasks that run before any other Lua of the isolate.  While it is not empty, the
 * isolate is held: other tasks that the core polls are parked.
 */
#ifndef ORR_LUA_TASK_HOLD_H
#define ORR_LUA_TASK_HOLD_H

#include "exec/share.h"

struct ltask;
struct orr_isolate;

struct hold {
    struct ltask *urgent;
    struct held_tasks parked;                    /* polled while the isolate was held */
    void (*on_release)(struct orr_isolate *iso); /* called once when the isolate is held no more; NULL for none */
};

/* Whether some task must go on before any other Lua of the isolate. */
static inline bool hold_has_urgent(const struct hold *self)
{
    return self->urgent;
}

/* Has a function of a layer above called once, when the isolate is held no more and no body has yet to begin. */
static inline void hold_call_on_release(struct hold *self, void (*call)(struct orr_isolate *iso))
{
    self->on_release = call;
}

#endif
