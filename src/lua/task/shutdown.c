#include "lua/task/shutdown.h"

#include "base/clock.h"
#include "base/text.h"
#include "exec/grace.h"
#include "lua/task/callback.h"
#include "lua/task/cancellation.h"
#include "lua/task/hold.h"
#include "lua/task/task.h"

#include <stdio.h>

enum {
    STRETCH_NS = 1000000, /* the time of a pass in one poll */
    NAMED_MAX = 8,        /* tasks that the log names */
};

/*
 * What a pass pays for a task; a free slot costs 1.  It looks at the clock whenever it has paid
 * LOOK.
 */
enum {
    LOOK = 1024,
    CANCELLED = 32,
    DROPPED = 64,
};

/* --- Which tasks ------------------------------------------------------------------------------ */

/* Whether a shutdown is to end a task. */
static bool belongs(const struct orr_task *task, const struct shutdown *to)
{
    const struct ltask *self = ltask_of(task);
    if (self)
        return self->iso == to->iso && (to->period.script == EVERY_SCRIPT || self->script == to->period.script);
    const struct callback *callback = callback_of(task);
    return callback && callback->iso == to->iso &&
           (to->period.script == EVERY_SCRIPT || callback->script == to->period.script);
}

/*
 * Whether a task is worth waiting for.  The search begins at the task that was found last time: so
 * asking often does not go over all tasks often.
 */
static bool any_can_go_on(void *data)
{
    struct shutdown *self = data;
    const struct worker *worker = self->iso->worker;
    if (!task_set_count(&self->iso->tasks))
        return false;
    for (uint32_t seen = 0; seen < worker_slots(worker); seen++) {
        if (self->waiting_slot >= worker_slots(worker))
            self->waiting_slot = 0;
        const struct orr_task *task = worker_task_in(worker, self->waiting_slot);
        if (task_is_live(task) && belongs(task, self) && task_can_go_on(task))
            return true;
        self->waiting_slot++;
    }
    return false;
}

/*
 * Goes on with a pass over the tasks that are not done, until a time.  True if it has come to the
 * end.
 */
static bool pass(struct shutdown *self, unsigned (*each)(struct shutdown *self, struct orr_task *task), uint64_t until)
{
    const struct worker *worker = self->iso->worker;
    unsigned cost = 0;
    while (self->slot < worker_slots(worker)) {
        struct orr_task *task = worker_task_in(worker, self->slot++);
        cost += task_is_unfinished(task) && belongs(task, self) ? each(self, task) : 1;
        if (cost < LOOK)
            continue;
        cost = 0;
        if (until != ORR_NEVER && clock_now() >= until)
            break;
    }
    return self->slot >= worker_slots(worker);
}

/* --- Cancelling ------------------------------------------------------------------------------- */

/*
 * A task whose parent is cancelled, too, hears of it from there: else a shield would not shield it.
 */
static unsigned cancel(struct shutdown *self, struct orr_task *task)
{
    const struct orr_task *parent = task_parent(task);
    struct ltask *lua = ltask_of(task);
    if (lua && self->grace_ns != ORR_NEVER && self->iso->limits.mode == ORR_LUA_SIGNAL)
        ltask_lower_limit(lua, self->grace_ns / 2 ? self->grace_ns / 2 : 1);
    if (!parent || !belongs(parent, self))
        task_cancel(task, CANCELLATION_TEXT);
    return CANCELLED;
}

/* --- By force --------------------------------------------------------------------------------- */

/* Logs the name of a task that has not ended in time, and what it did instead. */
static void name_forced(const struct shutdown *self, const struct orr_task *task)
{
    const struct ltask *lua = ltask_of(task);
    if (!self->late || !lua || lua->phase != LTASK_BEGUN)
        return;
    char place[80], times[16], grace[TEXT_DURATION_ROOM], what[64] = "it ran on without waiting,";
    cancellation_find_place(ltask_innermost(lua), place, sizeof place);
    bool waits = lua->wait.state == WAIT_WAITING;
    text_duration(grace, self->grace_ns);
    if (cancellation_ignored(self->iso, lua))
        snprintf(what, sizeof what, "it swallowed the cancellation %s times,", cancellation_count(lua, times));
    else if (lua->cancellations)
        snprintf(what, sizeof what, "it was told, and has not finished cleaning up,");
    else if (waits)
        snprintf(what, sizeof what, "it is shielded from cancellation,");
    log_line(&self->iso->log, ORR_LOG_WARNING,
             "task '%.100s' was ended by force %s after it had been cancelled: %s and %s%s%s",
             orr_task_name(task) ? orr_task_name(task) : "(unnamed)", grace, what, waits ? "waits for " : "was",
             waits ? lua->wait.kind->name : "", place);
}

static unsigned drop(struct shutdown *self, struct orr_task *task)
{
    if (!task_is_live(task))
        return 1; /* its body is over, and it ends with its children */
    if (task_is_running(task)) {
        self->found_running = true;
        return 1;
    }
    if (self->forced++ < NAMED_MAX)
        name_forced(self, task);
    bool may_run = clock_now() < self->period.end;
    scope_drop_body(task);
    return may_run ? LOOK : DROPPED;
}

static void begin_dropping(struct shutdown *self, bool late)
{
    self->phase = SHUTDOWN_DROP;
    self->late = late || clock_now() >= self->period.end;
    self->slot = 0;
    self->found_running = false;
}

/*
 * Goes on with a pass that ends tasks by force.  True if none lives; false if one runs now, or
 * there was no time.
 */
static bool drop_all(struct shutdown *self, uint64_t until)
{
    if (!pass(self, drop, until))
        return false;
    bool all = !self->found_running;
    if (self->late && self->forced > NAMED_MAX && all) {
        log_line(&self->iso->log, ORR_LOG_WARNING, "and so were %u more", self->forced - NAMED_MAX);
        self->late = false; /* once */
    }
    self->slot = 0;
    self->found_running = false;
    return all;
}

/* --- From beginning to end -------------------------------------------------------------------- */

void shutdown_begin(struct shutdown *self, struct orr_isolate *iso, uint32_t script, uint64_t grace_ns)
{
    *self = (struct shutdown){ .iso = iso, .phase = SHUTDOWN_CANCEL, .grace_ns = grace_ns };
    grace_period_begin(iso, &self->period, script, grace_ns);
    task_set_watch(&iso->tasks, &self->watch);
}

void shutdown_cancel(struct orr_isolate *iso, uint32_t script)
{
    struct shutdown once = { .iso = iso, .period.script = script, .grace_ns = ORR_NEVER };
    pass(&once, cancel, ORR_NEVER);
}

void shutdown_end(struct shutdown *self)
{
    if (!self->phase)
        return;
    grace_period_end(self->iso, &self->period);
    task_set_unwatch(&self->iso->tasks, &self->watch);
    orr_wait_withdraw(&self->grace);
    *self = (struct shutdown){ 0 };
}

void shutdown_end_all(struct orr_isolate *iso)
{
    for (struct grace_period *first; (first = grace_period_first(&iso->grace_periods));)
        shutdown_end(container_of(first, struct shutdown, period));
}

void shutdown_force(struct shutdown *self)
{
    if (self->phase == SHUTDOWN_CANCEL) {
        self->slot = 0;
        pass(self, cancel, ORR_NEVER);
    }
    if (self->phase != SHUTDOWN_DROP)
        begin_dropping(self, false);
}

void shutdown_drop(struct shutdown *self)
{
    shutdown_force(self);
    drop_all(self, ORR_NEVER);
}

/* Whether the tasks may go on cleaning up. */
static bool waits(struct shutdown *self, struct orr_task *task)
{
    struct worker *worker = self->iso->worker;
    if (!any_can_go_on(self)) {
        begin_dropping(self, false);
        return false;
    }
    if (clock_now() >= self->period.end || orr_sleep(task, &self->grace, self->grace_ns) != -EAGAIN) {
        begin_dropping(self, true);
        return false;
    }
    hold_release_if_over(self->iso);
    bool stands_still = !worker_has_real_clock(worker); /* while there is anything to do */
    if (stands_still && (worker_has_ready_tasks(worker) || isolate_is_held(self->iso)))
        orr_task_yield(task);
    return true;
}

uint64_t shutdown_stretch(const struct worker *worker)
{
    uint64_t until = clock_after(clock_now(), STRETCH_NS);
    uint64_t turn_end = watch_turn_end(worker_watch(worker));
    return turn_end < until ? turn_end : until;
}

bool shutdown_poll(struct shutdown *self, struct orr_task *task)
{
    if (!self->phase)
        return true;
    uint64_t until = task_is_cancelled_here(task) ? ORR_NEVER /* there may be no other turn */
                                                  : shutdown_stretch(self->iso->worker);
    self->watch.waker = orr_task_waker(task);
    if (self->phase == SHUTDOWN_CANCEL) {
        if (!pass(self, cancel, until)) {
            orr_task_yield(task);
            return false;
        }
        self->phase = SHUTDOWN_GRACE;
    }
    if (self->phase == SHUTDOWN_GRACE && waits(self, task))
        return false;
    if (!drop_all(self, until)) {
        orr_task_yield(task);
        return false;
    }
    return self->period.script != EVERY_SCRIPT ||
           !task_set_count(&self->iso->tasks); /* else the kernel still has their I/O */
}

void shutdown_now(struct shutdown *self)
{
    struct worker *worker = self->iso->worker;
    if (self->phase == SHUTDOWN_CANCEL) {
        pass(self, cancel, ORR_NEVER);
        self->phase = SHUTDOWN_GRACE;
    }
    if (self->phase == SHUTDOWN_GRACE)
        begin_dropping(self, !grace_wait(worker, self->period.end, any_can_go_on, self));
    drop_all(self, ORR_NEVER);
    while (self->period.script == EVERY_SCRIPT &&
           task_set_count(&self->iso->tasks)) { /* the kernel still has their I/O */
        worker_turn(worker, ORR_NEVER);
        if (task_set_count(&self->iso->tasks) && !worker_busy(worker))
            worker_sleep(worker, ORR_NEVER);
    }
}
