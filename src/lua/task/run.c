/*
 * Running tasks: a slice at a time; what is urgent before all else; what was started or closed before whoever did it goes on; and what
 * must wait while another's slice is suspended.
 */
#include "lua/task/body_watch.h"
#include "lua/task/script.h"
#include "lua/task/task_parts.h"

#include "base/clock.h"
#include "lua/task/callback.h"
#include "lua/task/orphans.h"

#include <string.h>

/* --- Running -------------------------------------------------------------------------------------------------------- */

/* Works off what is to run before any other Lua, down to `mark`, or until the slice is over. */
static void run_urgent(struct orr_isolate *iso, const struct ltask *mark)
{
    while (iso->hold.urgent != mark && !execution_unwinds(&iso->execution)) {
        struct ltask *next = iso->hold.urgent;
        iso->hold.urgent = next->next_urgent;
        next->urgent = next->paused = false;
        if (next->task && task_is_live(next->task))
            task_run_now(iso->worker, next->task); /* which may be its end */
        else
            ltask_release(next);
    }
}

/* Another task of the isolate has not finished its slice.  One that has used up a share of its own stays behind the others. */
static void park(struct orr_isolate *iso, struct ltask *self)
{
    held_push(&iso->hold.parked, self->task, self->fair && self->used);
}

/* Before those that have become ready since. */
static void release_parked(struct orr_isolate *iso)
{
    worker_requeue_held(iso->worker, &iso->share, &iso->hold.parked);
}

/* The first of the urgent ones that still lives; NULL for none. */
static struct ltask *first_urgent(struct orr_isolate *iso)
{
    while (iso->hold.urgent && (!iso->hold.urgent->task || !task_is_live(iso->hold.urgent->task))) {
        struct ltask *gone = iso->hold.urgent;
        iso->hold.urgent = gone->next_urgent;
        gone->urgent = gone->paused = false;
        ltask_release(gone);
    }
    return iso->hold.urgent;
}

static void call_on_release(struct orr_isolate *iso)
{
    void (*call)(struct orr_isolate * iso) = iso->hold.on_release;
    iso->hold.on_release = NULL;
    call(iso);
}

/*
 * Between slices: what is urgent comes next of the isolate's tasks, at once, or late, if it has used up its share; or, if nothing is,
 * those that were parked meanwhile.
 */
void ltask_settle_hold(struct orr_isolate *iso, bool late)
{
    struct worker *worker = iso->worker;
    struct ltask *first = first_urgent(iso);
    if (!first) {
        release_parked(iso);
        if (iso->hold.on_release && !script_any_loading(&iso->scripts))
            call_on_release(iso);
        return;
    }
    worker_unqueue_held(worker, &iso->hold.parked, first->task); /* something may have woken it */
    if (late)
        worker_ready_late(worker, first->task);
    else
        worker_ready_next(worker, first->task);
}

/* Whether a task of the isolate was suspended in mid-slice.  If it is no more, the others go on. */
bool isolate_is_held(struct orr_isolate *iso)
{
    if (execution_in_slice(&iso->execution) || !iso->hold.urgent)
        return false;
    if (first_urgent(iso))
        return true;
    ltask_settle_hold(iso, false);
    return false;
}

/* What the running task has come to: it waits, or it is over, or its time is. */
static enum orr_poll step_over(struct ltask *self, struct level *level, int status, int results)
{
    struct orr_isolate *iso = self->iso;
    self->exposed |= level->exposed;
    enum yield_reason yield = execution_take_yield(&iso->execution);
    if (yield != YIELD_NONE)
        self->suspended = execution_yielded_in(&iso->execution);
    if (level->end != LEVEL_GOES_ON)
        return ltask_timed_out(self, level, status);
    if (status != LUA_YIELD)
        return ltask_body_over(self, status != LUA_OK || level->raised, results);
    if (yield == YIELD_NONE)
        return ltask_foreign_yield(self);
    bool preempted = yield == YIELD_PREEMPTED || yield == YIELD_HOLDING;
    bool kept_from_running = preempted || self->paused;
    self->used = kept_from_running ? level_used(iso, level) : 0;
    if (!kept_from_running)
        self->emits = 0;
    if (!preempted)
        return ORR_PENDING;
    if (self->fair && yield != YIELD_HOLDING) {
        execution_set_slice(&iso->execution, SLICE_RUNS);
        worker_ready_late(iso->worker, self->task);
    } else {
        self->urgent = true;
        self->next_urgent = iso->hold.urgent;
        iso->hold.urgent = self;
    }
    return ORR_PENDING;
}

static enum orr_poll step(struct ltask *self)
{
    struct orr_isolate *iso = self->iso;
    struct level level = {
        .co = self->co,
        .host_waits = execution_host_waits(&iso->execution),
        .fair = self->fair,
        .entry = self->entry,
        .script = self->script,
        .limit = self->limit,
        .used = self->used,
    };
    lua_State *outer_running = execution_running(&iso->execution);
    if (!self->begun)
        level_charge_coroutine(iso);
    level_enter(iso, &level, self);
    level.exposed = self->exposed;
    execution_begin_nested(&iso->execution);
    int arguments = self->begun ? 0 : self->arguments;
    int results;
    self->begun = true;
    int status = lua_resume(self->co, outer_running, arguments, &results); /* whose C calls count for it */
    script_body_began(self);
    if (self->borrowed && (status != LUA_OK || level.raised || !self->hidden))
        pooled_task_own_name(self);
    enum orr_poll answer = step_over(self, &level, status, results);
    if (self->watched && answer == ORR_DONE)
        body_is_over(self);
    execution_end_nested(&iso->execution);
    level_leave(iso, &level);
    return answer;
}

/*
 * Before Lua goes on, the collector does what it owes.  False if there is no time for that: then the task comes first of the isolate's,
 * a turn later.  What was left to be paid when its own slice was cut short is part of its time.
 */
static bool pay_first(struct ltask *self)
{
    struct orr_isolate *iso = self->iso;
    uint64_t began = clock_now();
    bool paid = collector_pay(iso, clock_after(began, iso->limits.slice_ns));
    if (self->used && iso->limits.mode == ORR_LUA_SIGNAL)
        self->used += clock_now() - began;
    if (paid)
        return true;
    if (iso->hold.urgent != self) {
        self->urgent = true;
        self->next_urgent = iso->hold.urgent;
        iso->hold.urgent = self;
    }
    worker_ready_late(iso->worker, self->task);
    return false;
}

enum orr_poll ltask_poll(struct orr_task *task, void *data)
{
    struct ltask *self = data;
    struct orr_isolate *iso = self->iso;
    bool held = isolate_is_held(iso);
    bool ends = isolate_ends(iso);
    if (ends && !self->begun && !self->cleanup && grace_period_refuses(iso, self->script))
        return orr_task_fail(task, -ECANCELED); /* none of a script runs for the first time because it is unloaded */
    if (ends && grace_period_is_over(iso, self->script))
        return ORR_PENDING; /* and none after its grace period: it is about to be ended by force */
    if (held && iso->hold.urgent == self && !execution_host_waits(&iso->execution)) { /* it goes on, a turn later */
        if (collector_owes(iso) && !pay_first(self))
            return ORR_PENDING;
        iso->hold.urgent = self->next_urgent;
        self->urgent = self->paused = false;
    } else if (self->paused || (self->begun && self->wait.state == WAIT_WAITING && !task_child_has_failed(task))) {
        return ORR_PENDING;
    } else if (held && !execution_host_waits(&iso->execution)) {
        if (self->weak)
            orphans_anchor(self);
        park(iso, self);
        return ORR_PENDING;
    }
    if (self->weak)
        orphans_anchor(self);
    self->looked_at = false;
    if (collector_owes(iso) && !execution_in_slice(&iso->execution) && !execution_host_waits(&iso->execution) &&
        !pay_first(self))
        return ORR_PENDING;
    bool outermost = slice_begin(iso);
    enum orr_poll answer = step(self);
    if (outermost) {
        bool over = execution_unwinds(&iso->execution);
        slice_end(iso);
        if (!execution_host_waits(&iso->execution) &&
            (iso->hold.urgent || held_any(&iso->hold.parked) || iso->hold.on_release))
            ltask_settle_hold(iso, over);
        if (iso->orphans.due)
            orphans_look(iso);
    }
    return answer;
}

/* --- At once --------------------------------------------------------------------------------------------------------- */

void ltask_check_depth(lua_State *L)
{
    struct orr_isolate *iso = isolate_of(L);
    if (!can_suspend(L) && execution_depth(&iso->execution) >= NEST_HARD_MAX)
        luaL_error(L, "too many tasks are being started inside one another, where none of them can wait");
}

/* The slice is over, in a task that `self` has started: it goes on when what is above the mark has had its turn. */
static void pause_above(struct orr_isolate *iso, struct ltask *self, struct ltask *mark)
{
    struct ltask **at = &iso->hold.urgent;
    while (*at != mark)
        at = &(*at)->next_urgent;
    self->next_urgent = mark;
    self->urgent = self->paused = true;
    *at = self;
}

int ltask_run_first(lua_State *L, struct ltask *first, lua_KFunction k, lua_KContext context)
{
    struct orr_isolate *iso = isolate_of(L);
    struct ltask *mark = iso->hold.urgent;
    bool can = can_suspend(L);
    bool nest = execution_depth(&iso->execution) < NEST_MAX ||
                !can; /* who cannot, goes as deep as ltask_check_depth() lets it */
    struct ltask *self = execution_task(&iso->execution);
    struct ltask *below = mark;
    if (!nest) {
        self->next_urgent = mark;
        self->urgent = self->paused = true;
        below = self;
    }
    struct ltask *last = first;
    for (;; last = last->next_urgent) {
        last->urgent = true;
        if (!last->next_urgent)
            break;
    }
    last->next_urgent = below;
    iso->hold.urgent = first;
    if (!nest)
        return suspend(L, k, context);
    if (!isolate_visit(iso)) {
        bool waits = execution_host_waits(&iso->execution) || !execution_in_slice(&iso->execution) || !can;
        bool before = execution_set_host_waits(&iso->execution, waits);
        run_urgent(iso, mark);
        execution_set_host_waits(&iso->execution, before);
        isolate_leave(iso);
    }
    if (!execution_unwinds(&iso->execution))
        return k(L, LUA_OK, context);
    pause_above(iso, self, mark);
    return suspend(L, k, context);
}

/* --- Closing ---------------------------------------------------------------------------------------------------------- */

/* The Lua task of a core task that has just been cancelled, if it is to hear of that now. */
static struct ltask *to_hear_now(struct orr_isolate *iso, const struct orr_task *task)
{
    struct ltask *self = ltask_of(task);
    bool now = self && self->iso == iso && task_is_live(task) && !task_is_running(task) && self->begun &&
               !self->urgent && self->wait.state != WAIT_WAITING && task_is_cancelled_here(task);
    return now ? self : NULL;
}

static void add_to_hear(struct ltask *self, struct ltask **first, struct ltask **last)
{
    if (!self)
        return;
    self->next_urgent = NULL;
    if (*last)
        (*last)->next_urgent = self;
    else
        *first = self;
    *last = self;
}

int ltask_close(lua_State *L, struct ltask *self, const char *reason, lua_KFunction k, lua_KContext context)
{
    struct orr_isolate *iso = isolate_of(L);
    if (!self->task || orr_task_done(self->task))
        return k(L, LUA_OK, context);
    int error = isolate_visit(iso);
    if (error)
        return luaL_error(L, "task:close: %s", strerror(-error));
    struct ltask *first = NULL, *last = NULL;
    bool before = task_is_cancelled_here(self->task);
    task_cancel(self->task, reason);
    if (!before)
        add_to_hear(to_hear_now(iso, self->task), &first, &last);
    for (struct orr_task *at = NULL; (at = task_next_below(self->task, at));)
        add_to_hear(to_hear_now(iso, at), &first, &last);
    isolate_leave(iso);
    return first ? ltask_run_first(L, first, k, context) : k(L, LUA_OK, context);
}
