/*
 * The loop of a worker: turns, and what is between them.  A *turn* is one or more passes over what
 * is ready; it never blocks.  All of it is for the worker's owner.
 */
#ifndef ORR_EXEC_TURN_H
#define ORR_EXEC_TURN_H

#include "exec/worker.h"

/* How much a worker does in one pass, at most. */
enum {
    TURN_POLLS = 256,
    TURN_DEAD = 4096, /* tasks in the run queue that have ended since they were queued */
    TURN_LETTERS = 1024,
};

/* The most polls between two looks at the clock, while there are timers. */
enum { POLLS_PER_LOOK = 16 };

/* One turn of at most `budget_ns`, or ORR_NEVER for a single pass.  Never blocks. */
void worker_turn(struct worker *worker, uint64_t budget_ns);

/*
 * One turn, and more if all that is to be done is to poll tasks that wait for the next turn.  They
 * last together as long as one turn may.  Never blocks.  For drivers that have nothing to do
 * between two turns.
 */
void worker_turns(struct worker *worker);

/* What may happen inside the poll of a task: neither calls Lua, nor code of the host. */
struct quiet {
    orr_poll_fn *poll;  /* polls of tasks that have this function */
    orr_timer_fn *fire; /* timers that call this function; those that wake a task are quiet, too */
};

/*
 * For the task that is being polled, and has nothing more to do: begins the next turn inside its
 * poll, if a driver would do so now, and all that is to be done first is quiet.  Fires timers that
 * are due, and polls quiet tasks until it comes to another.  What that makes ready is polled after
 * the task, unless the task does it itself.  Does nothing if the poll under way was not made by the
 * worker's loop, or has lasted for as many turns as come between two looks at the clock.
 */
void worker_turn_inside(struct worker *worker, const struct orr_task *task, const struct quiet *quiet);

/*
 * Does idle work until a time of the machine's clock.  True if there is more of it.  Outside turns.
 */
bool worker_idle(struct worker *worker, uint64_t until);

/* Blocks until there may be something to do, a due timer included, but for at most `longest_ns`. */
void worker_sleep(struct worker *worker, uint64_t longest_ns);

/* When the worker must turn next: 0 for now, ORR_NEVER for only when something happens. */
uint64_t worker_deadline(struct worker *worker);

/*
 * Ends a turn of the host: hands the kernel what was started and, if the host watches the
 * descriptor (`watched`), makes that readable exactly if there is something to do.
 */
void worker_park(struct worker *worker, bool watched);

/* Delivers up to `count` letters that were taken from the mailbox, oldest first. */
void worker_open_letters(struct worker *worker, unsigned count);

/* Hands the wakes of other threads to their tasks. */
void worker_take_wakes(struct worker *worker);

/*
 * Asks the kernel for finished I/O, for at most `timeout_ns`, and hands it to its tasks.  Negative
 * errno.
 */
int worker_collect_io(struct worker *worker, uint64_t timeout_ns);

#endif
