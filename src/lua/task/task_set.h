/* The Lua tasks of an isolate: how many there are, and which have failed unseen. */
#ifndef ORR_LUA_TASK_TASK_SET_H
#define ORR_LUA_TASK_TASK_SET_H

#include "orrery.h"

#include <stdint.h>

struct ltask;

/* Tasks that have failed at the top and are not reported yet, in the order of their failures. */
struct unseen {
    struct ltask *first, *last;
};

struct task_set {
    uint64_t count;          /* tasks that the core has not dropped */
    uint64_t done;           /* tasks done so far: the order of completion */
    struct orr_waker closer; /* woken when the last task has gone */
    struct unseen unseen;
    uint64_t scheduled_failed; /* callbacks of schedule() that have failed */
    uint32_t serials;          /* waits for callbacks so far: each has a number */
    int base, base_handler;    /* references: the bottom function of a task's coroutine, its message handler */
    int class, methods;        /* references: the metatable of handles, and their methods */
};

#endif
