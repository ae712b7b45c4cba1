/*
 * Ending all tasks of an isolate, or of one script in it.
 *
 * They are cancelled, and may clean up until the grace period is over: one for all of them together, in real time, and by the
 * runtime's clock if that is sooner.  Meanwhile nothing of theirs begins that is not part of the cleanup: no callback, no task
 * without a parent.  Past the period none of their Lua runs.  Tasks that still live are ended by force, and what they had to close
 * is not closed; the log names them.
 *
 * A task that computes holds its isolate, so half of the period is all that one may take without waiting.
 *
 * Every pass over the tasks is made a stretch at a time, so that a host's turn keeps its budget.
 *
 * All of it belongs to the isolate's worker.
 */
#ifndef ORR_LUA_TASK_SHUTDOWN_H
#define ORR_LUA_TASK_SHUTDOWN_H

#include "lua/isolate/compat.h"
#include "lua/limits/grace_period.h"
#include "lua/task/script.h"
#include "orrery.h"

struct orr_isolate;
struct worker;
struct ltask;

enum shutdown_phase {
    SHUTDOWN_NONE,
    SHUTDOWN_CANCEL, /* a pass that cancels */
    SHUTDOWN_GRACE,  /* they clean up */
    SHUTDOWN_DROP,   /* a pass that ends them by force */
};

struct shutdown {
    struct grace_period period; /* its script, or EVERY_SCRIPT, and when the grace period ends */
    struct orr_isolate *iso;
    uint8_t phase;    /* enum shutdown_phase */
    bool late;        /* the grace period was over before they had ended */
    bool found;       /* this pass has met a task that cannot be ended yet */
    uint32_t slot;    /* of the worker's tasks: the pass goes on from here */
    uint32_t hopeful; /* the slot of the last that was seen to be worth waiting for */
    unsigned forced;  /* so many were ended by force */
    uint64_t grace_ns;
    struct orr_waker waker; /* who is told when a task of the isolate has ended */
    struct orr_wait grace;
};

/* The last task that was told of its cancellation a second time, and in which wait. */
struct swallower {
    const struct ltask *task;
    char place[80]; /* " at file:line" */
};

/* Part of the isolate. */
struct shutdowns {
    struct shutdown all; /* of all scripts */
    struct swallower swallower;
};

/* The wait that L is in raises "closed" in a task. */
void shutdown_note_told(struct ltask *task, lua_State *L);

/* If a task, which may be NULL, has gone on after it was told to end: where that was, or an empty text.  Else NULL. */
const char *shutdown_swallowed(const struct orr_isolate *iso, const struct ltask *task);

/* The grace period begins, and nothing else of theirs does. */
void shutdown_begin(struct shutdown *self, struct orr_isolate *iso, uint32_t script, uint64_t grace_ns);

/* Cancels all live tasks of a script, or of all, and no more than that. */
void shutdown_cancel(struct orr_isolate *iso, uint32_t script);

/* They have had time enough: the rest is ended by force, which may still close what it has to within the grace period. */
void shutdown_force(struct shutdown *self);

/* Goes on, a stretch at a time.  True when none of their tasks is left, or their isolate is gone; else `task`, which is being polled, is polled again. */
bool shutdown_poll(struct shutdown *self, struct orr_task *task);

/* Until when such a stretch may take, in a turn of the worker. */
uint64_t shutdown_stretch(const struct worker *worker);

/* Does it all, turning the worker meanwhile.  The owner, outside tasks. */
void shutdown_now(struct shutdown *self);

/* Ends those that are left by force, without waiting for anything. */
void shutdown_drop(struct shutdown *self);

/* It is over, and another may begin.  Safe on one that has not begun. */
void shutdown_end(struct shutdown *self);

/* The isolate is about to be freed, so all of them are over: they are as if they had not begun. */
void shutdown_end_all(struct orr_isolate *iso);

/* A task of the isolate has ended. */
void shutdown_tell(const struct orr_isolate *iso);

#endif
