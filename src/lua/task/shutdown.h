/*
 * Ending all tasks of an isolate, or of one script in it.
 *
 * The tasks are cancelled, and may clean up until the grace period is over.  They share one grace period, in real
 * time, and by the runtime's clock if that is sooner.  Meanwhile nothing of theirs begins that is not part of the
 * cleanup: no callback, no task without a parent.  After the grace period none of their Lua runs.  Tasks that still
 * live are ended by force: their `<close>` variables are not closed, and the log names the tasks.
 *
 * A task that computes holds its isolate: so one may compute for half of the period at most without waiting.
 *
 * Every pass over the tasks is made in short stretches, so that a host's turn keeps its budget.
 *
 * The isolate's worker's thread.
 */
#ifndef ORR_LUA_TASK_SHUTDOWN_H
#define ORR_LUA_TASK_SHUTDOWN_H

#include "lua/isolate/compat.h"
#include "lua/limits/grace_period.h"
#include "lua/task/task_set.h"
#include "orrery.h"

struct orr_isolate;
struct worker;
struct ltask;

enum shutdown_phase {
    SHUTDOWN_NONE,
    SHUTDOWN_CANCEL, /* a pass cancels the tasks */
    SHUTDOWN_GRACE,  /* the tasks clean up */
    SHUTDOWN_DROP,   /* a pass ends by force those that are left */
};

struct shutdown {
    struct grace_period period; /* its script, or EVERY_SCRIPT, and when the grace period ends */
    struct orr_isolate *iso;
    uint8_t phase;         /* enum shutdown_phase */
    bool late;             /* the grace period was over before the tasks had ended */
    bool found_running;    /* this pass has met a task that cannot be ended yet, because it runs */
    uint32_t slot;         /* of the worker's tasks: the pass goes on from here */
    uint32_t waiting_slot; /* of the task that was last seen to be able to go on by itself */
    unsigned forced;       /* tasks that were ended by force so far */
    uint64_t grace_ns;
    struct task_set_watch watch; /* wakes the task that polls the shutdown */
    struct orr_wait grace;
};

/* Part of the isolate. */
struct shutdowns {
    struct shutdown all; /* of all scripts */
};

/* The shutdown of all scripts of an isolate. */
static inline struct shutdown *shutdown_of_all(struct shutdowns *self)
{
    return &self->all;
}

/* Begins the grace period.  From now on nothing of the script begins but cleanup. */
void shutdown_begin(struct shutdown *self, struct orr_isolate *iso, uint32_t script, uint64_t grace_ns);

/* Cancels all live tasks of a script, or of all scripts, and does nothing else. */
void shutdown_cancel(struct orr_isolate *iso, uint32_t script);

/* Ends the grace period early: tasks that are left are ended by force, but may still close their variables in it. */
void shutdown_force(struct shutdown *self);

/*
 * Goes on for a stretch.  True when no task is left, or the isolate is gone.  If false, `task`, which is being
 * polled, is polled again.
 */
bool shutdown_poll(struct shutdown *self, struct orr_task *task);

/* Until when a stretch may take, in a turn of the worker. */
uint64_t shutdown_stretch(const struct worker *worker);

/* Does all of it, and turns the worker meanwhile.  Outside tasks. */
void shutdown_now(struct shutdown *self);

/* Ends all tasks by force, without waiting for anything. */
void shutdown_drop(struct shutdown *self);

/* The shutdown is over, and another may begin.  Safe on one that has not begun. */
void shutdown_end(struct shutdown *self);

/* The isolate is about to be freed: ends every shutdown in it. */
void shutdown_end_all(struct orr_isolate *iso);

/* Whether a shutdown has begun and is not over.  It ends by itself when its isolate is closed. */
static inline bool shutdown_is_under_way(const struct shutdown *self)
{
    return self->phase != SHUTDOWN_NONE;
}

/* Whether tasks were ended by force. */
static inline bool shutdown_has_forced(const struct shutdown *self)
{
    return self->forced;
}

#endif
