/*
 * The hold: which tasks of an isolate run before all its other Lua.
 *
 * A slice that outlasts its time is suspended between two instructions.  So that what lies between two waits
 * stays atomic, no other Lua of the isolate may run before the suspended task has gone on.  Such tasks form a
 * stack.  While a live task is on it, and no slice runs, the isolate is *held*: other tasks that the core
 * polls are parked, and go back to the run queue, in their order, when the stack is empty.
 *
 * The stack also has tasks that were started or closed by a task that must not go on before them.  That task
 * is on it, too, below them: it is *paused*.
 *
 * A task that has ended may stay on the stack until the hold comes to it.  The hold keeps its handle as long.
 *
 * The isolate's worker's thread.  No function here allocates or raises.
 */
#ifndef ORR_LUA_TASK_HOLD_H
#define ORR_LUA_TASK_HOLD_H

#include "exec/extend.h"

struct ltask;
struct orr_isolate;

/* Part of the isolate. */
struct hold {
    struct ltask *first;                         /* top of the stack */
    struct held_tasks parked;                    /* tasks that were polled while the isolate was held */
    void (*on_release)(struct orr_isolate *iso); /* called once, when nothing is held any more; NULL for none */
};

/* Whether a task that was suspended in mid-slice has to go on before any other Lua of the isolate. */
bool isolate_is_held(const struct orr_isolate *iso);

/* If every task on the stack has ended, outside a slice: lets the parked tasks go on. */
void hold_release_if_over(struct orr_isolate *iso);

/*
 * After a slice: the first live task of the stack is made ready, before the isolate's other tasks; at the end
 * of the worker's run queue if `late`.  If there is none, the parked tasks are.
 */
void hold_settle(struct orr_isolate *iso, bool late);

/* Has a function of a layer above called once, when nothing is held and no body of a script has yet to begin. */
static inline void hold_call_on_release(struct hold *self, void (*call)(struct orr_isolate *iso))
{
    self->on_release = call;
}

/* Whether a function waits for the hold to end. */
static inline bool hold_has_caller(const struct hold *self)
{
    return self->on_release;
}

static inline struct ltask *hold_first(const struct hold *self)
{
    return self->first;
}

/* Whether hold_settle() would do anything. */
static inline bool hold_has_work(const struct hold *self)
{
    return self->first || held_any(&self->parked) || self->on_release;
}

/* Whether no task is on the stack or parked. */
static inline bool hold_is_empty(const struct hold *self)
{
    return !self->first && !held_any(&self->parked);
}

/* Puts a task on top of the stack. */
void hold_push(struct orr_isolate *iso, struct ltask *task);

/* Takes the top of the stack off. */
struct ltask *hold_pop(struct orr_isolate *iso);

/*
 * Puts tasks that are linked by `next`, from `first` on, on top of the stack.  With `paused`, which is put
 * below them, that task goes on after them.
 */
void hold_push_all(struct orr_isolate *iso, struct ltask *first, struct ltask *paused);

/* Puts a task right above `mark`, which is on the stack, or at its bottom if `mark` is NULL; it is paused. */
void hold_pause_above(struct orr_isolate *iso, struct ltask *task, struct ltask *mark);

/* Runs what is on the stack above `mark`, here and now, until the slice is over. */
void hold_run(struct orr_isolate *iso, const struct ltask *mark);

/*
 * A task was polled while the isolate is held: it waits until that is over.  A fair task that has used up its time
 * slice is `late`.
 */
void hold_park(struct orr_isolate *iso, struct orr_task *task, bool late);

#endif
