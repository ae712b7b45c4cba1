#include "lua/task/runner.h"

#include "base/log.h"
#include "lua/isolate/charge.h"
#include "lua/isolate/interrupt.h"
#include "lua/limits/grace_period.h"
#include "lua/limits/level.h"
#include "lua/task/body.h"
#include "lua/task/callback.h"
#include "lua/task/create.h"
#include "lua/task/handler.h"
#include "lua/task/hold.h"
#include "lua/task/run.h"
#include "lua/task/suspend.h"
#include "lua/task/task.h"
#include "lua/task/task_pool.h"
#include "lua/task/task_set.h"

#include <errno.h>
#include <string.h>

enum {
    RUN_MAX = 64,    /* calls of a runner in one poll */
    RESTING_MAX = 4, /* handlers that emit inside one another need one each */
};

struct runner {
    struct orr_isolate *iso;
    struct orr_task *core;
    struct ltask *handle;     /* NULL until the runner first begins */
    struct due *first, *last; /* the queue; the callback that runs is first */
    struct runner *next;      /* resting, too */
    int error;                /* why the first callback could not be called; 0 */
    bool clean;               /* its coroutine has returned, and nothing is left of its calls */
    bool pushed;              /* the kind of the first callback was asked for a call */
    bool prepared;            /* what its coroutine begins with is pushed */
    bool at_once;             /* its callback belongs to runner_call_now() */
};

/* Where the function at the bottom of a runner is on its coroutine, above what the pool keeps. */
enum { RUN_FUNCTION = POOL_HANDLE + BODY_BASE + 1 };

/* Whether a runner may make several calls, and rest. */
static bool can_be_used_again(const struct orr_isolate *iso)
{
    return !iso->debug && iso->limits.mode != ORR_LUA_COUNT;
}

/* --- The bottom of its coroutine -------------------------------------------------------------- */

/*
 * Sets what a task knows of a call in two bytes, and all of them.  If a part of one was set, the
 * rest would be read at once, and the processor would wait until the bytes before it are stored.
 */
static inline void describe_call(struct ltask *task, enum orr_lua_entry entry, uint8_t emit_depth, bool cleanup,
                                 bool name_on_stack)
{
    task->entry = entry & 7;
    task->stack_base = RUN_FUNCTION; /* all that is on its coroutine */
    task->has_used = false;
    task->fair = false;
    task->emit_depth = emit_depth & 63;
    task->cleanup = cleanup;
    task->name_on_stack = name_on_stack;
}

/* A call begins: the runner's task, and the level that it runs in, are those of the callback. */
static void begin_call(struct runner *self, const struct callback *callback, bool first)
{
    struct orr_isolate *iso = self->iso;
    struct ltask *task = self->handle;
    struct level *level = execution_level(&iso->execution);
    enum orr_lua_entry entry = callback->kind->entry;
    uint32_t script = callback->handler ? callback->handler->script : callback->script;
    bool cleanup = isolate_ends(iso) && grace_period_refuses(iso, script);
    task->script = level->script = script;
    task->awaited_callback = 0;
    /* The name lasts as long as the first step, like one on the stack. */
    describe_call(task, entry, callback->emit_depth, cleanup, callback->name);
    task_lend_name(self->core, callback->name ? callback->name : callback->kind->name);
    if (first)
        return; /* prepare() has set the limit, and the level has begun with it */
    task->limit = ltask_limit(iso, entry, 0);
    level->entry = (uint8_t)entry;
    level_renew(iso, level, script, task->limit);
}

/* Whether nobody can tell that the call which has returned was made in this task. */
static bool is_clean(const struct runner *self)
{
    enum { KNOWN = 2 }; /* references: the tree's and the handle's */
    const struct ltask *task = self->handle;
    return task->pooled && !task->exposed && !execution_level(&self->iso->execution)->exposed &&
           !task->task_finalizer && !task->held && !task->completed && task->wait.state == WAIT_IDLE &&
           !task->wait.grouped && !lua_gethook(task->co) && task_is_untouched(self->core, KNOWN);
}

/*
 * A call of the callback at the head of the queue is over, or has become a task.  L is the runner's
 * coroutine if its own function runs there, else NULL.
 */
static void first_is_over(struct runner *self, lua_State *L)
{
    struct due *first = self->first;
    const struct callback *callback = first->callback;
    if (callback->kind->has_more && callback->kind->has_more(callback))
        return;
    self->first = first->next;
    self->pushed = false;
    callback_release(first, L);
}

/* The callback at the head of the queue is not called. */
static void skip_first(struct runner *self)
{
    struct due *first = self->first;
    self->first = first->next;
    self->pushed = false;
    callback_skip(first);
}

/* Whether the script of the first callback is being ended: that starts nothing. */
static bool is_refused(const struct runner *self)
{
    const struct orr_isolate *iso = self->iso;
    return !self->at_once && isolate_ends(iso) && grace_period_refuses(iso, self->first->callback->script);
}

/* Whether something must come before the next call.  What is called at once comes first anyway. */
static bool must_stop(const struct runner *self, unsigned calls)
{
    const struct orr_isolate *iso = self->iso;
    bool others = calls >= RUN_MAX || share_has_interrupted(&iso->share) || worker_shuffles(iso->worker);
    return interrupt_is_requested(&iso->interrupt) || !can_be_used_again(iso) || (others && !self->at_once);
}

/* [message handler] [object] [results...]; or [message handler] [object] [error] */
static int call_is_over(lua_State *L, int status, lua_KContext context)
{
    (void)context;
    execution_level(&isolate_of(L)->execution)->raised = status != LUA_OK && status != LUA_YIELD;
    return lua_gettop(L) - 2;
}

/* Makes the first call of the queue.  [message handler] -> [message handler] [object] [results] */
static int make_call(lua_State *L, struct runner *self, bool first)
{
    struct callback *callback = self->first->callback;
    self->pushed = true;
    int arguments = callback->kind->push(callback, L);
    if (arguments == -ENOENT)
        return LUA_OK;
    if (arguments < 0) {
        self->error = arguments;
        return LUA_ERRRUN;
    }
    self->clean = false;
    begin_call(self, callback, first);
    int status = lua_pcallk(L, arguments, LUA_MULTRET, 1, 0, call_is_over);
    if (status == LUA_OK) {
        self->clean = is_clean(self);
        if (callback->handler && self->clean)
            handler_clear(callback->handler);
    }
    return status;
}

/* Whether all calls that belong to runner_call_now() were made. */
static inline bool is_over(const struct runner *self)
{
    return self->at_once && !self->first;
}

/* Whether there is a callback to call, now or in a turn that begins inside this poll. */
static bool has_callback(struct runner *self)
{
    struct orr_isolate *iso = self->iso;
    if (self->first || self->at_once || hold_has_work(&iso->hold) || isolate_ends(iso))
        return self->first;
    iso->runners.asking = self;
    worker_turn_inside(iso->worker, self->core, &iso->runners.quiet);
    iso->runners.asking = NULL;
    return self->first;
}

/* [message handler] */
static int run_callbacks(lua_State *L)
{
    struct orr_isolate *iso = isolate_of(L);
    struct runner *self = iso->runners.running;
    if (!self || self->handle->co != L)
        return 0; /* a script has found this function, and calls it */
    iso->runners.running = NULL;
    self->prepared = false;
    self->clean = true;
    for (unsigned calls = 0;; calls++) {
        if ((calls && must_stop(self, calls)) || !has_callback(self))
            break;
        if (is_refused(self)) {
            skip_first(self);
            continue;
        }
        int status = make_call(L, self, !calls);
        if (status != LUA_OK || !self->clean)
            return self->error ? 0 : call_is_over(L, status, 0);
        first_is_over(self, L);
        if (is_over(self))
            break;
        lua_settop(L, 1);
    }
    return 0;
}

void runner_open(struct orr_isolate *iso, lua_State *L)
{
    lua_pushlightuserdata(L, iso);
    registry_push_first_table(&iso->registry, L); /* FIRST_ANCHORS */
    lua_pushcclosure(L, run_callbacks, 2);
    iso->runners.base = luaL_ref(L, LUA_REGISTRYINDEX);
}

/* --- Making and ending runners ---------------------------------------------------------------- */

static enum orr_poll runner_poll(struct orr_task *core, void *data);
static void runner_dropped(void *data);

static void free_runner(struct runner *self)
{
    struct orr_isolate *iso = self->iso;
    if (iso->runners.last == self)
        iso->runners.last = NULL;
    alloc_free(&iso->alloc, self, sizeof *self);
    charge_give(iso, sizeof *self);
}

/* Ends a runner that has just been taken, and has no callback. */
static void give_up(struct runner *self)
{
    scope_drop_body(self->core);
}

/* Makes a core task for a runner, not queued.  Negative errno. */
static int spawn(struct runner *self)
{
    struct orr_spawn what = { .poll = runner_poll, .data = self, .drop = runner_dropped, .detached = true };
    return ltask_spawn_core(self->iso, &what, NULL, &self->core);
}

/* The runner that has rested last, live again; NULL for none.  Negative errno in `error`. */
static struct runner *wake_resting(struct orr_isolate *iso, int *error)
{
    struct runner *self = iso->runners.resting;
    if (!self)
        return NULL;
    *error = task_rise(self->core);
    if (*error)
        return NULL;
    iso->runners.resting = self->next;
    iso->runners.resting_count--;
    task_set_add(&iso->tasks);
    return self;
}

/*
 * A runner with a live core task, which is not queued.  NULL, and a negative errno in `error`.  The
 * thread drives the isolate's worker.
 */
static struct runner *take_runner(struct orr_isolate *iso, int *error)
{
    *error = task_set_count(&iso->tasks) >= iso->limits.max_tasks ? -EAGAIN : 0;
    if (*error)
        return NULL;
    struct runner *self = wake_resting(iso, error);
    if (self || *error)
        return self;
    *error = -ENOMEM;
    self = alloc_new(&iso->alloc, sizeof *self);
    if (!self)
        return NULL;
    charge_force(iso, sizeof *self);
    *self = (struct runner){ .iso = iso };
    *error = spawn(self);
    if (!*error)
        return self;
    free_runner(self);
    return NULL;
}

/* Binds a handle from the pool to the core task.  False for lack of memory. */
static bool has_handle(struct runner *self)
{
    if (self->handle)
        return true;
    self->handle = task_pool_try_take(self->iso);
    if (!self->handle)
        return false;
    lua_rawgeti(self->handle->co, LUA_REGISTRYINDEX, self->iso->runners.base);
    charge_force(self->iso, CHARGE_TASK);
    ltask_bind(self->handle, self->core);
    return true;
}

/* The core task is the runner's again: it has not begun, or is clean. */
static void become_runner(struct runner *self)
{
    self->handle->phase = LTASK_NEW;
    task_become(self->core, runner_poll, self, runner_dropped);
}

/*
 * A clean runner has nothing to do any more.  It rests, or it ends as the Lua task that its core
 * task is now.
 */
static enum orr_poll retire(struct runner *self)
{
    struct orr_isolate *iso = self->iso;
    struct runners *all = &iso->runners;
    if (iso->closing || all->resting_count >= RESTING_MAX || !can_be_used_again(iso)) {
        task_lend_name(self->core, "callback"); /* the name of the last call may be gone */
        self->handle->name_on_stack = false;
        free_runner(self);
        return ORR_DONE;
    }
    become_runner(self);
    self->at_once = false;
    task_rest(self->core);
    self->next = all->resting;
    all->resting = self;
    all->resting_count++;
    task_set_remove(&iso->tasks);
    return ORR_PENDING;
}

/* The destructor of a core task that is a runner, and has not begun, or rests. */
static void runner_dropped(void *data)
{
    struct runner *self = data;
    struct orr_isolate *iso = self->iso;
    struct ltask *task = self->handle;
    for (struct due *due = self->first, *next; due; due = next) {
        next = due->next;
        callback_skip(due);
    }
    struct orr_task *core = self->core;
    free_runner(self);
    if (task) {
        task_become(core, ltask_poll, task, ltask_drop); /* for ltask_freed() */
        ltask_drop(task);
    } else {
        task_set_remove(&iso->tasks);
    }
}

void runner_end_rest(struct orr_isolate *iso)
{
    struct runner *self;
    while ((self = iso->runners.resting)) {
        iso->runners.resting = self->next;
        iso->runners.resting_count--;
        task_set_add(&iso->tasks); /* runner_dropped() takes it off */
        task_end_rest(self->core);
    }
}

/* --- The queue -------------------------------------------------------------------------------- */

static void log_failure(struct orr_isolate *iso, const struct callback *callback, int error)
{
    log_line(&iso->log, ORR_LOG_ERROR, "%s: no task for its callback: %s", callback->kind->name,
             error == -EAGAIN ? "there may be no more of them" : strerror(-error));
}

/*
 * The callbacks behind one that needs its task for itself go on in another, before all that is
 * ready.  Where there is no other task, they fail one by one, each after another try.
 */
static void move_queue(struct orr_isolate *iso, struct due *first, struct due *last)
{
    while (first) {
        int error;
        struct runner *next = take_runner(iso, &error);
        if (next) {
            next->first = first;
            next->last = last;
            task_keep_order(next->core);
            worker_ready_next(iso->worker, next->core);
            return;
        }
        struct due *failed = first;
        first = failed->next;
        log_failure(iso, failed->callback, error);
        callback_skip(failed);
    }
}

/* Takes the callbacks behind the first away from a runner. */
static void move_others(struct runner *self)
{
    struct due *second = self->first->next, *last = self->last;
    self->first->next = NULL;
    self->last = self->first;
    move_queue(self->iso, second, last);
}

/* Puts an entry at the end of the queue. */
static void append(struct runner *self, struct due *due)
{
    if (self->first)
        self->last->next = due;
    else
        self->first = due;
    self->last = due;
}

/*
 * The runner that would call a callback after all that is ready, and before what is not; or NULL.
 */
static struct runner *find_to_join(struct orr_isolate *iso, uint32_t script)
{
    const struct runners *all = &iso->runners;
    struct runner *asking = all->asking, *last = all->last;
    if (asking && !share_has_ready(&iso->share))
        return !asking->first || asking->last->callback->script == script ? asking : NULL;
    bool joins = last && last->last->callback->script == script && worker_is_last_ready(iso->worker, last->core) &&
                 can_be_used_again(iso);
    return joins ? last : NULL;
}

int runner_call_soon(struct callback *callback)
{
    struct orr_isolate *iso = callback->iso;
    struct runner *self = find_to_join(iso, callback->script);
    bool joins = self;
    int error = 0;
    if (!joins)
        self = take_runner(iso, &error);
    struct due *due = self ? callback_expect(callback) : NULL;
    if (!due) {
        error = error ? error : -ENOMEM;
        log_failure(iso, callback, error);
        if (self && !joins)
            give_up(self);
        return error;
    }
    append(self, due);
    if (joins)
        return 0;
    iso->runners.last = self;
    task_keep_order(self->core);
    worker_ready(iso->worker, self->core);
    return 0;
}

/* --- A poll ----------------------------------------------------------------------------------- */

/*
 * The runner has become the task of the callback that it has called last.  The task holds the
 * callback's handler, which the callback has held until now.
 */
static void hold_handler(const struct runner *self, const struct callback *callback)
{
    lua_State *L = self->iso->L;
    if (!callback->handler || !lua_checkstack(L, 4))
        return;
    isolate_push_anchored(self->iso, L, self->handle->anchor);
    callback->kind->push_handler(callback, L);
    lua_setiuservalue(L, -2, LTASK_HANDLER);
    lua_pop(L, 1);
    self->handle->handles = true;
}

/* The first callback has made the runner's task its own, or could not be called. */
static enum orr_poll give_task_away(struct runner *self, enum orr_poll answer)
{
    struct orr_isolate *iso = self->iso;
    struct orr_task *core = self->core;
    struct due *rest = self->first, *last = self->last;
    int error = self->error;
    if (rest && !self->pushed) { /* its coroutine could not begin, for lack of memory */
        skip_first(self);
    } else if (rest) {
        if (!error)
            hold_handler(self, rest->callback);
        if (self->handle->name_on_stack)
            task_pool_copy_name(self->handle);
        first_is_over(self, NULL);
    }
    rest = self->first;
    bool at_once = self->at_once;
    free_runner(self);
    if (!at_once)
        move_queue(iso, rest, last);
    return error ? orr_task_fail(core, error) : answer;
}

/* The coroutine has returned or yielded, or has not begun. */
static enum orr_poll run_is_over(struct runner *self, enum orr_poll answer)
{
    if (self->handle->phase == LTASK_NEW) { /* what is owed to the collector comes first */
        become_runner(self);
        return answer;
    }
    if (!self->clean || self->error || answer != ORR_DONE)
        return give_task_away(self, answer);
    if (!self->first || self->at_once) {
        self->first = NULL;
        return retire(self);
    }
    become_runner(self);
    task_keep_order(self->core);
    worker_ready_next(self->iso->worker, self->core);
    return ORR_PENDING;
}

/* Pushes the function at the bottom of the coroutine. */
static void prepare(struct runner *self)
{
    struct ltask *task = self->handle;
    const struct callback *callback = self->first->callback;
    task->script = callback->script;
    task->limit = ltask_limit(self->iso, callback->kind->entry, 0);
    describe_call(task, callback->kind->entry, 0, self->at_once, false);
    lua_pushvalue(task->co, RUN_FUNCTION);
    lua_pushvalue(task->co, POOL_HANDLE + BODY_BASE);
    task->arguments = 1;
    self->prepared = true;
}

/*
 * Makes calls in one step of the runner's coroutine, by `step`, which is ltask_poll() or
 * ltask_step().
 */
static enum orr_poll run(struct runner *self, orr_poll_fn *step)
{
    struct runners *all = &self->iso->runners;
    struct orr_task *core = self->core;
    if (!self->prepared)
        prepare(self);
    struct runner *outer = all->running;
    all->running = self;
    self->error = 0;
    self->clean = false;
    task_become(core, ltask_poll, self->handle, ltask_drop);
    enum orr_poll answer = step(core, self->handle);
    all->running = outer;
    return run_is_over(self, answer);
}

/* The poll function of a runner. */
static enum orr_poll runner_poll(struct orr_task *core, void *data)
{
    struct runner *self = data;
    struct orr_isolate *iso = self->iso;
    struct runners *all = &iso->runners;
    if (hold_first(&iso->hold))
        hold_release_if_over(iso);
    if (isolate_is_held(iso) && hold_first(&iso->hold) != self->handle && !execution_host_waits(&iso->execution)) {
        hold_park(iso, core, false);
        return ORR_PENDING;
    }
    if (all->last == self)
        all->last = NULL;
    if (task_is_cancelled_here(core))
        return orr_task_fail(core, -ECANCELED); /* unloading starts nothing */
    if (!has_handle(self)) {
        move_others(self);
        return orr_task_fail(core, -ENOMEM);
    }
    return run(self, ltask_poll);
}

/* --- At once ---------------------------------------------------------------------------------- */

/* A runner with a handle.  NULL, and a negative errno.  The thread drives the worker. */
static struct runner *take_with_handle(struct orr_isolate *iso, int *error)
{
    struct runner *self = take_runner(iso, error);
    if (!self || has_handle(self))
        return self;
    give_up(self);
    *error = -ENOMEM;
    return NULL;
}

/* A runner with a handle, in plain code of the host, too.  NULL, and a negative errno. */
static struct runner *take_for_now(struct orr_isolate *iso, int *error)
{
    *error = isolate_visit(iso);
    if (*error)
        return NULL;
    struct runner *self = take_with_handle(iso, error);
    isolate_leave(iso);
    return self;
}

static __attribute__((noinline)) void raise_lack(lua_State *L, const struct callback *callback, int error)
{
    if (error == -ENOMEM)
        charge_raise(L);
    luaL_error(L, "%s: no task for its callback: %s", callback->kind->name, strerror(-error));
}

/* The poll function of a runner that is polled in the middle of a slice. */
static enum orr_poll poll_in_slice(struct orr_task *core, void *data)
{
    if (task_is_cancelled_here(core))
        return orr_task_fail(core, -ECANCELED);
    return run(data, ltask_step);
}

/*
 * Whether a runner can be polled without the hold: in the slice of a task that can be suspended,
 * and while no script is being ended.  Then nothing can come before the poll.
 */
static bool can_poll_in_slice(const struct orr_isolate *iso, const lua_State *L)
{
    const struct execution *execution = &iso->execution;
    return execution_in_slice(execution) && !execution_host_waits(execution) && !isolate_ends(iso) &&
           execution_task(execution) && execution_can_yield(execution, L);
}

bool runner_call_now(lua_State *L, struct callback *callback)
{
    struct orr_isolate *iso = callback->iso;
    task_set_check_room(iso, L, true);
    bool in_slice = can_poll_in_slice(iso, L);
    int error;
    struct runner *self = in_slice ? take_with_handle(iso, &error) : take_for_now(iso, &error);
    if (!self)
        raise_lack(L, callback, error);
    struct ltask *mark = hold_first(&iso->hold);
    callback->due = (struct due){ .callback = callback };
    callback->pending = 1;
    self->first = self->last = &callback->due;
    self->at_once = true;
    if (!in_slice) {
        hold_push(iso, self->handle);
        return ltask_run_above(L, mark);
    }
    task_become(self->core, poll_in_slice, self, runner_dropped);
    task_run_now(iso->worker, self->core);
    bool alone = hold_first(&iso->hold) == mark && !execution_unwinds(&iso->execution);
    return alone || ltask_run_above(L, mark);
}

/* --- For the end of scripts ------------------------------------------------------------------- */

bool runner_is_waiting(const struct orr_task *task, const struct orr_isolate *iso, uint32_t *script)
{
    const struct runner *self = task_data_if(task, runner_poll);
    if (!self || self->iso != iso || !self->first)
        return false;
    *script = self->first->callback->script;
    return true;
}
