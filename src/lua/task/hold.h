/*
 * The order in which an isolate's tasks run while one of them was suspended in mid-slice.
 *
 * `urgent` is a stack of tasks that run before any other Lua of the isolate.  While it is not empty, the
 * isolate is held: other tasks that the core polls are parked.
 */
#ifndef ORR_LUA_TASK_HOLD_H
#define ORR_LUA_TASK_HOLD_H

#include "exec/task.h"

#include <stdbool.h>

struct ltask;

struct hold {
    struct ltask *urgent;
    struct queue parked;  /* polled while the isolate was held */
    struct queue belated; /* polled while it was held, fair tasks that had used up their time slice */
};

static inline bool hold_has_urgent(const struct hold *self)
{
    return self->urgent;
}

#endif
