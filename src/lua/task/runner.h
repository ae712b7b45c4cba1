/*
 * Runners: a callback is a call until it waits.
 *
 * A runner is a Lua task that calls one callback after another, in one resume of its coroutine.  It
 * is a whole task from the start, with a handle and a place in the tree: so whatever a callback
 * does, it does in a task, and nothing has to be made for it when it does so.
 *
 * After each call the runner looks at itself.  If it is *clean*, nobody can tell that the call was
 * ever made in it: the callback has returned, has not waited, was not suspended at the end of its
 * slice, has not failed, has left no child, and no script or host knows the task, its coroutine or
 * a waker of it.  Then the next callback is called, with a name, a script, a handler and limits of
 * its own.  If the runner is not clean, it is the task of that callback from now on, and ends when
 * the callback is over.  The callbacks behind it move to another runner.  So a callback that never
 * waits pays for a call, and one that waits pays for a task.
 *
 * Order.  A runner stands in the run queue for the callbacks in its queue.  A callback joins the
 * runner that was queued last only if nothing of the isolate has become ready since, and if it
 * belongs to the same script.  So callbacks run in the order of all that becomes ready.  A runner
 * stops, and goes on first in the queue, when something must come before the next call: the slice
 * is over, memory must be collected, a task was interrupted by a failure, or it has made RUN_MAX
 * calls.
 *
 * Turns.  A runner whose queue is empty asks the worker to begin the next turn inside its poll
 * (worker_turn_inside()).  That fires timers and has scheduled callbacks called soon, and these
 * join the runner as long as nothing else is ready.  So a callback that starts its timer again, or
 * schedules itself again, pays for a call in each turn.  The number of such turns in one poll is
 * bounded by the looks at the clock, which are sooner if callbacks take long.
 *
 * Rest.  A clean runner without callbacks rests (exec/rest.h): its task is not in the tree and does
 * not count, but keeps its coroutine, its handle and its slot.  An isolate keeps RESTING_MAX of
 * them.  In debug mode, tasks remember where they were made, and in the mode ORR_LUA_COUNT, the
 * count of instructions belongs to the coroutine: there a runner makes one call and ends.
 *
 * Failure.  If there is no memory for a runner, the first of its callbacks fails with that, and the
 * others go on.  A runner that is cancelled or dropped before it has begun skips its callbacks.
 *
 * The isolate's worker's thread.
 */
#ifndef ORR_LUA_TASK_RUNNER_H
#define ORR_LUA_TASK_RUNNER_H

#include "exec/turn.h"
#include "lua/isolate/compat.h"

#include <stdbool.h>
#include <stdint.h>

struct callback;
struct orr_isolate;
struct orr_task;
struct runner;

/* Part of the isolate. */
struct runners {
    struct runner *resting;
    unsigned resting_count;
    struct runner *last;    /* the runner that was queued last; NULL if it has begun */
    struct runner *running; /* the runner whose coroutine is about to begin; else NULL */
    struct runner *asking;  /* the runner that begins a turn, to get more to call; else NULL */
    struct quiet quiet;     /* what may be done meanwhile: it only has callbacks called soon */
    int base;               /* reference: the function at the bottom of its coroutine */
};

/*
 * Tasks with this poll function only have callbacks called soon: they run inside a runner's poll.
 */
static inline void runner_let_poll(struct runners *self, orr_poll_fn *poll)
{
    self->quiet.poll = poll;
}

/* Timers that call this function only have callbacks called soon. */
static inline void runner_let_fire(struct runners *self, orr_timer_fn *fire)
{
    self->quiet.fire = fire;
}

/* May raise. */
void runner_open(struct orr_isolate *iso, lua_State *L);

/*
 * Has a callback called soon, in the order of what becomes ready.  Negative errno, logged, and
 * nothing is pending.  Never raises.
 */
int runner_call_soon(struct callback *callback);

/*
 * Makes the calls of a callback now, before the function that L runs goes on.  Stops if a call does
 * not leave its runner clean, or if something must come first: then the callback has more.  True if
 * the function may go on at once; false if it must suspend() itself first.  The callback may be in
 * the frame of the caller.  Raises if there can be no task; then no call was made.
 */
bool runner_call_now(lua_State *L, struct callback *callback);

/* Whether a core task is a runner of the isolate that has not begun; then of which script. */
bool runner_is_waiting(const struct orr_task *task, const struct orr_isolate *iso, uint32_t *script);

/* The isolate is about to close: no runner rests any more. */
void runner_end_rest(struct orr_isolate *iso);

#endif
