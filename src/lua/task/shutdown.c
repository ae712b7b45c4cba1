#include "lua/task/shutdown.h"

#include "base/clock.h"
#include "base/text.h"
#include "exec/grace.h"
#include "lua/limits/stack_trace.h"
#include "lua/task/callback.h"
#include "lua/task/task.h"

#include <stdio.h>

enum {
    STRETCH_NS = 1000000, /* of a pass, in one poll */
    LOOK = 1024,          /* slots passed by before the clock is looked at; a live task counts for more */
    CANCELLED = 32,
    DROPPED = 64,
    TOLD_MAX = 8, /* tasks that the log names */
};

/* --- Which tasks ----------------------------------------------------------------------------------------------------- */

/* Whether a task is the isolate's, and the script's in it. */
static bool belongs(const struct orr_task *task, const struct shutdown *to)
{
    const struct ltask *self = ltask_of(task);
    if (self)
        return self->iso == to->iso && (to->period.script == EVERY_SCRIPT || self->script == to->period.script);
    const struct callback *callback = callback_of(task);
    return callback && callback->iso == to->iso &&
           (to->period.script == EVERY_SCRIPT || callback->script == to->period.script);
}

/* The search begins where the last one ended: so asking again and again does not pass over all tasks again and again. */
static bool any_hopes(void *data)
{
    struct shutdown *self = data;
    const struct worker *worker = self->iso->worker;
    if (!self->iso->tasks.count)
        return false;
    for (uint32_t seen = 0; seen < worker_slots(worker); seen++) {
        if (self->hopeful >= worker_slots(worker))
            self->hopeful = 0;
        const struct orr_task *task = worker_task_in(worker, self->hopeful);
        if (task_is_live(task) && belongs(task, self) && task_can_go_on(task))
            return true;
        self->hopeful++;
    }
    return false;
}

/* Goes on with a pass over those that are not done, until a time.  True if it has come to the end. */
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

/* --- Cancelling -------------------------------------------------------------------------------------------------------- */

/* Those with a parent that is cancelled, too, hear of it from there: or a shield would not shield them. */
static unsigned cancel(struct shutdown *self, struct orr_task *task)
{
    const struct orr_task *parent = task_parent(task);
    struct ltask *lua = ltask_of(task);
    if (lua && self->grace_ns != ORR_NEVER && self->iso->limits.mode == ORR_LUA_SIGNAL) {
        uint64_t longest = self->grace_ns / 2 ? self->grace_ns / 2 : 1;
        lua->limit = lua->limit && lua->limit < longest ? lua->limit : longest;
    }
    if (!parent || !belongs(parent, self))
        task_cancel(task, "closed");
    return CANCELLED;
}

/* --- By force ------------------------------------------------------------------------------------------------------------ */

/* "file:line" of where a coroutine stands in a script; empty if it is in none. */
static void find_place(lua_State *co, char *text, size_t size)
{
    lua_Debug at;
    *text = '\0';
    if (co && stack_trace_find_script(co, 0, &at))
        snprintf(text, size, " at %s:%d", at.short_src, at.currentline);
}

void shutdown_note_told(struct ltask *task, lua_State *L)
{
    struct swallower *swallower = &task->iso->shutdowns.swallower;
    task->told += task->told < UINT8_MAX;
    if (task->told != 2)
        return;
    swallower->task = task;
    find_place(L, swallower->place, sizeof swallower->place);
}

const char *shutdown_swallowed(const struct orr_isolate *iso, const struct ltask *task)
{
    if (!task || task->told < 2)
        return NULL;
    return iso->shutdowns.swallower.task == task ? iso->shutdowns.swallower.place : "";
}

/* Names a task that has not ended in time, and says what it did instead. */
static void tell(const struct shutdown *self, const struct orr_task *task)
{
    const struct ltask *lua = ltask_of(task);
    if (!self->late || !lua || !lua->begun || lua->over)
        return;
    char place[sizeof lua->iso->shutdowns.swallower.place], what[64] = "it ran on without waiting,";
    find_place(lua->suspended ? lua->suspended : lua->co, place, sizeof place);
    bool waits = lua->wait.state == WAIT_WAITING;
    char grace[TEXT_DURATION_ROOM];
    text_duration(grace, self->grace_ns);
    if (lua->told > 1)
        snprintf(what, sizeof what, "it swallowed the cancellation %s%u times,", lua->told == UINT8_MAX ? "over " : "",
                 lua->told - (lua->told == UINT8_MAX));
    else if (lua->told)
        snprintf(what, sizeof what, "it was told, and has not finished cleaning up,");
    else if (waits)
        snprintf(what, sizeof what, "it is shielded from cancellation,");
    log_line(&self->iso->rt->log, ORR_LOG_WARNING,
             "task '%.100s' was ended by force %s after it had been cancelled: %s and %s%s%s",
             orr_task_name(task) ? orr_task_name(task) : "(unnamed)", grace, what, waits ? "waits for " : "was",
             waits ? lua->wait.kind->name : "", place);
}

static unsigned drop(struct shutdown *self, struct orr_task *task)
{
    if (!task_is_live(task))
        return 1; /* its body is over, and it goes with its children */
    if (task_is_running(task)) {
        self->found = true;
        return 1;
    }
    if (self->forced++ < TOLD_MAX)
        tell(self, task);
    bool may_run = clock_now() < self->period.end;
    scope_drop_body(task);
    return may_run ? LOOK : DROPPED;
}

static void begin_dropping(struct shutdown *self, bool late)
{
    self->phase = SHUTDOWN_DROP;
    self->late = late || clock_now() >= self->period.end;
    self->slot = 0;
    self->found = false;
}

/* Passes until none lives, but for such that cannot be ended now.  True if none does. */
static bool drop_all(struct shutdown *self, uint64_t until)
{
    if (!pass(self, drop, until))
        return false;
    bool all = !self->found;
    if (self->late && self->forced > TOLD_MAX && all) {
        log_line(&self->iso->rt->log, ORR_LOG_WARNING, "and so were %u more", self->forced - TOLD_MAX);
        self->late = false; /* once */
    }
    self->slot = 0;
    self->found = false;
    return all;
}

/* --- From beginning to end ------------------------------------------------------------------------------------------------- */

void shutdown_begin(struct shutdown *self, struct orr_isolate *iso, uint32_t script, uint64_t grace_ns)
{
    *self = (struct shutdown){ .iso = iso, .phase = SHUTDOWN_CANCEL, .grace_ns = grace_ns };
    grace_period_begin(iso, &self->period, script, grace_ns);
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

/* Whether they may go on cleaning up. */
static bool waits(struct shutdown *self, struct orr_task *task)
{
    struct worker *worker = self->iso->worker;
    if (!any_hopes(self)) {
        begin_dropping(self, false);
        return false;
    }
    if (clock_now() >= self->period.end || orr_sleep(task, &self->grace, self->grace_ns) != -EAGAIN) {
        begin_dropping(self, true);
        return false;
    }
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
    self->waker = orr_task_waker(task);
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
           !self->iso->tasks.count; /* else the kernel is to let go of their I/O */
}

void shutdown_now(struct shutdown *self)
{
    struct worker *worker = self->iso->worker;
    if (self->phase == SHUTDOWN_CANCEL) {
        pass(self, cancel, ORR_NEVER);
        self->phase = SHUTDOWN_GRACE;
    }
    if (self->phase == SHUTDOWN_GRACE)
        begin_dropping(self, !grace_wait(worker, self->period.end, any_hopes, self));
    drop_all(self, ORR_NEVER);
    while (self->period.script == EVERY_SCRIPT && self->iso->tasks.count) { /* the kernel is to let go of their I/O */
        worker_turn(worker, ORR_NEVER);
        if (self->iso->tasks.count && !worker_busy(worker))
            worker_sleep(worker, ORR_NEVER);
    }
}

/* --- What others ask --------------------------------------------------------------------------------------------------------- */

void shutdown_tell(const struct orr_isolate *iso)
{
    for (struct grace_period *at = grace_period_first(&iso->grace_periods); at; at = at->next)
        orr_waker_wake(container_of(at, struct shutdown, period)->waker);
}
