#include "lua/task/run.h"

#include "base/clock.h"
#include "lua/isolate/collector.h"
#include "lua/limits/grace_period.h"
#include "lua/limits/level.h"
#include "lua/limits/slice.h"
#include "lua/task/body.h"
#include "lua/task/body_watch.h"
#include "lua/task/hold.h"
#include "lua/task/orphans.h"
#include "lua/task/script.h"
#include "lua/task/suspend.h"
#include "lua/task/task_pool.h"

#include <string.h>

/* --- A slice ---------------------------------------------------------------------------------- */

/*
 * The slice was over before the task waited.  A fair task lets others run first, unless it holds
 * the isolate.
 */
static void requeue(struct ltask *self, enum yield_reason yield)
{
    struct orr_isolate *iso = self->iso;
    if (self->fair && yield != YIELD_HOLDING) {
        execution_set_slice(&iso->execution, SLICE_RUNS);
        worker_ready_late(iso->worker, self->task);
    } else {
        hold_push(iso, self);
    }
}

/*
 * Whether the body is the function that waits, in the first suspension of a task.  Nothing is below
 * it on the stack but the base.  Not inline: its record would lie in the frame of every nested
 * poll.
 */
static __attribute__((noinline)) bool body_waits_itself(const struct ltask *self, lua_State *suspended)
{
    enum { BELOW_BASE = 2 };
    lua_Debug frame;
    bool ordinary = !self->exposed && !self->pooled && !self->watched && !self->handles;
    return ordinary && suspended == self->co && !lua_getstack(self->co, BELOW_BASE, &frame);
}

/*
 * The coroutine has yielded, in `suspended`.  A body that waits itself is a C function, and goes on
 * to be the only one: so one look at the stack is enough.
 */
static void note_suspension(struct ltask *self, enum yield_reason yield, lua_State *suspended)
{
    self->bare = yield == YIELD_WAIT_SIMPLE && (self->suspended ? self->bare : body_waits_itself(self, suspended));
    self->suspended = suspended;
}

/* The coroutine has returned, or yielded. */
static enum orr_poll step_over(struct ltask *self, struct level *level, int status, int results)
{
    struct orr_isolate *iso = self->iso;
    self->exposed |= level->exposed;
    enum yield_reason yield = execution_take_yield(&iso->execution);
    if (yield != YIELD_NONE)
        note_suspension(self, yield, execution_yielded_in(&iso->execution));
    if (level->end != LEVEL_GOES_ON)
        return body_timed_out(self, level, status);
    if (status != LUA_YIELD)
        return body_over(self, status != LUA_OK || level->raised, results);
    if (yield == YIELD_NONE)
        return body_foreign_yield(self);
    bool preempted = yield == YIELD_PREEMPTED || yield == YIELD_HOLDING;
    bool waits = !preempted && self->held != HELD_PAUSED; /* of its own accord */
    ltask_set_used(self, waits ? 0 : level_used(iso, level));
    if (waits)
        self->emit_depth = 0;
    if (preempted)
        requeue(self, yield);
    return ORR_PENDING;
}

/* Whether a provisional task is over with its first step, and leaves nothing behind. */
static bool ends_at_once(const struct ltask *self, const struct level *level, int status, int results)
{
    return status == LUA_OK && results <= 1 && level->end == LEVEL_GOES_ON && !level->raised && !level->exposed &&
           !self->completed && !task_has_children(self->task) && !task_has_failures(self->task) &&
           !task_is_cancelled(self->task);
}

/* Resumes the coroutine.  Inline: polls nest, and small stacks have room for few frames. */
static inline __attribute__((always_inline)) enum orr_poll step(struct ltask *self)
{
    struct orr_isolate *iso = self->iso;
    bool begins = self->phase == LTASK_NEW;
    struct level level; /* set field by field: to clear it first would cost more than all of that */
    level.co = self->co;
    level.host_waits = execution_host_waits(&iso->execution);
    level.fair = self->fair;
    level.entry = self->entry;
    level.script = self->script;
    level.limit = self->limit;
    level.used = ltask_used(self);
    lua_State *outer_running = execution_running(&iso->execution);
    if (begins)
        level_charge_coroutine(iso);
    level_enter(iso, &level, self);
    level.exposed = self->exposed;
    execution_begin_nested(&iso->execution);
    int arguments = 0, results;
    if (begins) {
        arguments = self->arguments;
        self->phase = LTASK_BEGUN;
        self->awaited_callback = 0;
    }
    /* C calls of the coroutine count for the one that runs. */
    int status = lua_resume(self->co, outer_running, arguments, &results);
    if (self->loading)
        script_body_began(self);
    if (self->name_on_stack && (status != LUA_OK || level.raised || !self->pooled))
        task_pool_copy_name(self);
    if (ltask_is_provisional(self) && !ends_at_once(self, &level, status, results))
        ltask_settle(self);
    enum orr_poll answer = step_over(self, &level, status, results);
    if (self->watched && answer == ORR_DONE)
        body_is_over(self);
    execution_end_nested(&iso->execution);
    level_leave(iso, &level);
    return answer;
}

/*
 * Before Lua goes on, the collector does the work that it owes.  False if there is no time for all
 * of it: then the task comes first of the isolate's, a turn later.  Work that was owed when the
 * task's own slice was cut short is part of its time.
 */
static bool pay_collector(struct ltask *self)
{
    struct orr_isolate *iso = self->iso;
    uint64_t began = clock_now();
    bool paid = collector_pay(iso, clock_after(began, iso->limits.slice_ns));
    if (self->has_used && iso->limits.mode == ORR_LUA_SIGNAL)
        self->apart.used += clock_now() - began;
    if (paid)
        return true;
    if (hold_first(&iso->hold) != self)
        hold_push(iso, self);
    worker_ready_late(iso->worker, self->task);
    return false;
}

/* A slice of a task that may run now. */
static enum orr_poll run_slice(struct ltask *self)
{
    struct orr_isolate *iso = self->iso;
    bool outermost = slice_begin(iso);
    enum orr_poll answer = step(self);
    if (outermost) {
        bool over = execution_unwinds(&iso->execution);
        slice_end(iso);
        if (!execution_host_waits(&iso->execution) && hold_has_work(&iso->hold))
            hold_settle(iso, over);
        if (orphans_scan_is_due(&iso->orphans))
            orphans_scan(iso);
    }
    return answer;
}

enum orr_poll ltask_step(struct orr_task *task, void *data)
{
    (void)task;
    return step(data);
}

enum orr_poll ltask_poll(struct orr_task *task, void *data)
{
    struct ltask *self = data;
    struct orr_isolate *iso = self->iso;
    bool held = false;
    if (hold_first(&iso->hold)) {
        hold_release_if_over(iso);
        held = isolate_is_held(iso) && !execution_host_waits(&iso->execution);
    }
    bool ends = isolate_ends(iso);
    if (ends && self->phase == LTASK_NEW && !self->cleanup && grace_period_refuses(iso, self->script))
        return orr_task_fail(task, -ECANCELED); /* unloading starts nothing */
    if (ends && grace_period_is_over(iso, self->script))
        return ORR_PENDING; /* its grace period is over: it is about to be ended by force */
    if (held && hold_first(&iso->hold) == self) {
        if (collector_owes(iso) && !pay_collector(self))
            return ORR_PENDING;
        hold_pop(iso);
    } else if (self->held == HELD_PAUSED ||
               (self->phase != LTASK_NEW && self->wait.state == WAIT_WAITING && !task_child_has_failed(task))) {
        return ORR_PENDING;
    } else if (held) {
        if (self->reach == REACH_WEAK)
            orphans_anchor(self);
        hold_park(iso, task, self->fair && self->has_used);
        return ORR_PENDING;
    }
    if (self->reach == REACH_WEAK)
        orphans_anchor(self);
    self->reach = REACH_ANCHORED;
    if (self->bare && task_is_cancelled_here(task) && self->wait.state == WAIT_IDLE) {
        body_leave_waiting(self);
        return orr_task_fail(task, -ECANCELED);
    }
    if (collector_owes(iso) && !execution_in_slice(&iso->execution) && !execution_host_waits(&iso->execution) &&
        !pay_collector(self))
        return ORR_PENDING;
    return run_slice(self);
}

/* --- At once ---------------------------------------------------------------------------------- */

void ltask_check_depth(lua_State *L)
{
    struct orr_isolate *iso = isolate_of(L);
    if (execution_depth(&iso->execution) >= NEST_HARD_MAX && !can_suspend(L))
        luaL_error(L, "too many tasks are being started inside one another, where none of them can wait");
}

bool ltask_can_nest(lua_State *L)
{
    return execution_depth(&isolate_of(L)->execution) < NEST_MAX || !can_suspend(L);
}

bool ltask_run_above(lua_State *L, struct ltask *mark)
{
    struct orr_isolate *iso = isolate_of(L);
    if (!isolate_visit(iso)) {
        bool waits = execution_host_waits(&iso->execution) || !execution_in_slice(&iso->execution) || !can_suspend(L);
        bool before = execution_set_host_waits(&iso->execution, waits);
        hold_run(iso, mark);
        execution_set_host_waits(&iso->execution, before);
        isolate_leave(iso);
    }
    if (!execution_unwinds(&iso->execution))
        return true;
    /* The slice was over in one of them: the caller goes on after those that are left. */
    hold_pause_above(iso, execution_task(&iso->execution), mark);
    return false;
}

int ltask_run_first(lua_State *L, struct ltask *first, lua_KFunction k, lua_KContext context)
{
    struct orr_isolate *iso = isolate_of(L);
    bool provisional = ltask_is_provisional(first);
    if (!ltask_can_nest(L)) {
        if (provisional)
            ltask_settle(first);
        hold_push_all(iso, first, execution_task(&iso->execution));
        return suspend(L, k, context);
    }
    struct ltask *mark = hold_first(&iso->hold);
    hold_push_all(iso, first, NULL); /* ltask_check_depth() limits the nesting */
    bool goes_on = ltask_run_above(L, mark);
    if (provisional && ltask_is_provisional(first)) /* it has not begun: its creator leaves it */
        ltask_settle(first);
    return goes_on ? k(L, LUA_OK, context) : suspend(L, k, context);
}

/* --- Closing ---------------------------------------------------------------------------------- */

struct task_list {
    struct ltask *first, *last;
};

/*
 * Adds the Lua task of a core task that has just been cancelled, if its wait is over because of
 * that.
 */
static void add_woken(struct task_list *list, const struct orr_isolate *iso, const struct orr_task *task)
{
    struct ltask *self = ltask_of(task);
    bool woken = self && self->iso == iso && task_is_live(task) && !task_is_running(task) && self->phase != LTASK_NEW &&
                 !self->held && self->wait.state != WAIT_WAITING && task_is_cancelled_here(task);
    if (!woken)
        return;
    self->next = NULL;
    *(list->first ? &list->last->next : &list->first) = self;
    list->last = self;
}

/*
 * Whether closing a task is its end, here and now: it has nothing to do about that, and no child
 * is to end before it.
 */
static bool ends_when_closed(const struct ltask *self)
{
    return self->bare && self->wait.state == WAIT_WAITING && !self->held && task_is_live(self->task) &&
           !task_is_cancelled_here(self->task) && !task_has_children(self->task);
}

static void end_waiting(struct ltask *self, const char *reason)
{
    if (self->reach == REACH_WEAK)
        orphans_anchor(self);
    body_leave_waiting(self);
    task_end(self->task, reason);
}

int ltask_close(lua_State *L, struct ltask *self, const char *reason, lua_KFunction k, lua_KContext context)
{
    struct orr_isolate *iso = isolate_of(L);
    if (!self->task || orr_task_done(self->task))
        return k(L, LUA_OK, context);
    int error = isolate_visit(iso);
    if (error)
        return luaL_error(L, "task:close: %s", strerror(-error));
    if (ends_when_closed(self)) {
        end_waiting(self, reason);
        isolate_leave(iso);
        return k(L, LUA_OK, context);
    }
    struct task_list woken = { 0 };
    bool before = task_is_cancelled_here(self->task);
    task_cancel(self->task, reason);
    if (!before)
        add_woken(&woken, iso, self->task);
    for (struct orr_task *at = NULL; (at = task_next_below(self->task, at));)
        add_woken(&woken, iso, at);
    isolate_leave(iso);
    return woken.first ? ltask_run_first(L, woken.first, k, context) : k(L, LUA_OK, context);
}
