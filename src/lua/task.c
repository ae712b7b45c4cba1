#include "lua/task.h"

#include "base/log.h"
#include "exec/spawn.h"
#include "lua/budget.h"
#include "lua/ending.h"
#include "lua/estate.h"
#include "lua/modules.h"
#include "lua/reach.h"
#include "lua/report.h"
#include "lua/script.h"

#include <stdio.h>
#include <string.h>

static enum orr_poll ltask_poll(struct orr_task *task, void *data);

struct ltask *ltask_of(const struct orr_task *task)
{
    return task && task->poll == ltask_poll ? task->data : NULL;
}

struct ltask *ltask_test(lua_State *L, int index)
{
    return isolate_test(L, index, OBJECT_TASK);
}

struct ltask *ltask_check(lua_State *L, int index)
{
    return isolate_check(L, index, OBJECT_TASK, LTASK_CLASS);
}

struct ltask *ltask_current(lua_State *L, const char *what)
{
    struct orr_isolate *iso = isolate_of(L);
    if (!iso->current)
        luaL_error(L, "%s: not inside a task; start one with async.run(fn)", what);
    return iso->current;
}

/* --- What a task has come to ---------------------------------------------------------------------------------- */

/* Pushes the user value of a task's handle, which is anchored. */
static void push_value(lua_State *L, struct ltask *self)
{
    isolate_push_anchored(self->iso, L, self->anchor);
    lua_getiuservalue(L, -1, 1);
    lua_remove(L, -2);
}

/* Makes the value at the top of L the handle's. */
static void set_value(lua_State *L, struct ltask *self)
{
    lua_rawgeti(L, LUA_REGISTRYINDEX, self->iso->anchors);
    lua_rawgeti(L, -1, self->anchor);
    lua_pushvalue(L, -3);
    lua_setiuservalue(L, -2, 1);
    lua_pop(L, 3);
}

/* What an error of the core, or of a C task, is to Lua. */
static const char *error_text(const struct orr_result *result)
{
    if (result->error == -ECANCELED)
        return "closed";
    if (result->error == -ETIME)
        return TIMEOUT_TEXT; /* the message is the report */
    return result->message ? result->message : strerror(-result->error);
}

void push_error_of(lua_State *L, struct orr_isolate *iso, const struct orr_result *result)
{
    struct ltask *origin = result->error == -ESCRIPT ? result->value : NULL;
    if (origin && origin->iso == iso)
        push_value(L, origin);
    else
        lua_pushstring(L, error_text(result));
}

static void push_error(lua_State *L, struct orr_isolate *iso, struct orr_task *task)
{
    push_error_of(L, iso, outcome_of(task));
}

/* The results of a task that ended well; `handle` is where it is on L. */
static int push_results(lua_State *L, struct ltask *self, int handle)
{
    lua_pushboolean(L, true);
    if (self->results == 0)
        return 1;
    if (self->results == 1) {
        lua_getiuservalue(L, handle, 1);
        return 2;
    }
    luaL_checkstack(L, self->results + 1, "too many results");
    for (int i = 1; i <= self->results; i++) {
        lua_pushvalue(self->co, i);
        lua_xmove(self->co, L, 1);
    }
    return self->results + 1;
}

int ltask_push_outcome(lua_State *L, struct ltask *self, int handle)
{
    handle = lua_absindex(L, handle);
    if (self->task)
        scope_observe(self->task);
    if (self->state == LTASK_FAILED) {
        lua_pushboolean(L, false);
        if (self->task)
            push_error(L, self->iso, self->task);
        else
            lua_getiuservalue(L, handle, 1);
        return 2;
    }
    if (self->state == LTASK_OK)
        return push_results(L, self, handle);
    lua_pushboolean(L, false);
    lua_pushliteral(L, "closed");
    return 2;
}

/* The same as an error, or nil, and the results. */
int ltask_push_results(lua_State *L, struct ltask *self, int handle)
{
    int first = lua_gettop(L) + 1;
    int count = ltask_push_outcome(L, self, handle);
    if (!lua_toboolean(L, first)) {
        lua_remove(L, first);
        return count - 1;
    }
    lua_pushnil(L);
    lua_replace(L, first);
    return count;
}

void wait_push_error(lua_State *L, int error)
{
    struct orr_isolate *iso = isolate_of(L);
    struct orr_task *child = error == -ECHILD ? orr_task_failed_child(iso->current->task) : NULL;
    if (child) {
        push_error(L, iso, child);
    } else if (error == -ECANCELED) {
        lua_pushliteral(L, "closed");
    } else if (error == -ETIMEDOUT) {
        lua_pushliteral(L, "timeout");
    } else {
        luaL_where(L, 1);
        lua_pushstring(L, error == -EDEADLK
                              ? "a task cannot await itself or a task that it is part of: that would never end"
                              : "cannot wait: ");
        lua_pushstring(L, error == -EDEADLK ? "" : strerror(-error));
        lua_concat(L, 3);
    }
}

int wait_raise(lua_State *L, int error)
{
    wait_push_error(L, error);
    return lua_error(L);
}

/* --- The body --------------------------------------------------------------------------------------------------- */

/* The bottom of the coroutine: [1] the message handler, then the body's results or its error. */
static int base_over(lua_State *L, int status, lua_KContext context)
{
    (void)context;
    isolate_of(L)->level->raised = status != LUA_OK && status != LUA_YIELD;
    return lua_gettop(L) - 1;
}

static int base(lua_State *L)
{
    return base_over(L, lua_pcallk(L, lua_gettop(L) - 2, LUA_MULTRET, 1, 0, base_over), 0);
}

#define NO_MEMORY "not enough memory"

static bool is_text(lua_State *L, int index, const char *text)
{
    return lua_type(L, index) == LUA_TSTRING && !strcmp(lua_tostring(L, index), text);
}

static bool is_closed(lua_State *L, int index)
{
    return is_text(L, index, "closed");
}

/* The text of an error is made where it is raised, before the stack unwinds; for those that are not errors, not. */
static int handle_message(lua_State *L)
{
    struct orr_isolate *iso = isolate_of(L);
    struct ltask *self = iso->current;
    if (!self || iso->level->ending || (self->task->cancelled && is_closed(L, 1)))
        return 1;
    report_keep(self, L, 1);
    lua_settop(L, 1);
    return 1;
}

/* Whether the error at the top is the one that the task was told of last. */
static bool is_childs_error(lua_State *co, struct ltask *self)
{
    struct orr_task *child = orr_task_failed_child(self->task);
    const struct orr_result *result = child ? outcome_of(child) : NULL;
    if (!result)
        return false;
    if (result->error != -ESCRIPT) /* not pushed: that might need memory */
        return lua_type(co, -1) == LUA_TSTRING && !strcmp(lua_tostring(co, -1), error_text(result));
    push_value(co, result->value);
    bool same = lua_rawequal(co, -1, -2);
    lua_pop(co, 1);
    return same;
}

static void give_up_error(void *value)
{
    struct ltask *self = value;
    self->keeps_error = false;
    ltask_release(self);
}

static enum orr_poll finish_with_error(struct ltask *self)
{
    lua_State *co = self->co;
    struct orr_task *task = self->task;
    int error = -ESCRIPT;
    if (task->own.flags & NEST_CANCELLED && is_closed(co, -1))
        error = -ECANCELED;
    else if (is_childs_error(co, self))
        error = -ECHILD;
    lua_pushvalue(co, -1);
    set_value(co, self);
    if (error != -ESCRIPT)
        return orr_task_fail(task, error);
    self->keeps_error = true;
    const char *text = self->estate && self->estate->report ? self->estate->report
                       : is_text(co, -1, NO_MEMORY)         ? NO_MEMORY /* for which no handler was called */
                                                            : "a Lua error";
    return orr_task_finish(
        task, (struct orr_result){ .error = -ESCRIPT, .message = text, .value = self, .drop = give_up_error });
}

/* What the coroutine has returned becomes what the task has come to. */
static void keep_results(struct ltask *self, lua_State *co, int results)
{
    self->results = results;
    self->co = co;
    if (results > 1)
        return;
    if (!results)
        lua_pushnil(co);
    set_value(co, self);
    self->co = NULL;
    if (!self->exposed)
        isolate_recycle(self->iso, co);
}

/* What it was completed with from outside is on a coroutine, too. */
static void keep_given(struct ltask *self)
{
    struct orr_isolate *iso = self->iso;
    int given = self->given;
    self->given = 0;
    isolate_push_anchored(iso, iso->L, given);
    lua_State *co = lua_tothread(iso->L, -1);
    set_value(iso->L, self);
    isolate_unanchor(iso, iso->L, given);
    keep_results(self, co, lua_gettop(co));
}

/* The coroutine has returned, with so many values on it. */
static enum orr_poll body_over(struct ltask *self, bool failed, int results)
{
    enum orr_poll answer = ORR_DONE;
    self->over = true;
    if (failed) {
        answer = finish_with_error(self);
        self->co = NULL; /* and not used again */
    } else if (!self->given) {
        keep_results(self, self->co, results);
    } else {
        if (!self->exposed)
            isolate_recycle(self->iso, self->co);
        self->co = NULL;
    }
    if (self->given)
        keep_given(self);
    return answer;
}

/*
 * Its time is up, wherever it stands.  It is not resumed any more, and closed when its children are done; what it may have
 * returned or raised meanwhile does not count.
 */
static enum orr_poll timed_out(struct ltask *self, struct level *level, int status)
{
    struct orr_isolate *iso = self->iso;
    struct estate *estate = level->report ? estate_try(self) : NULL;
    const char *text = TIMEOUT_TEXT;
    if (estate) {
        estate_free_text(iso, &estate->report);
        estate->report = level->report;
        level->report = NULL;
        text = estate->report;
    }
    if (status != LUA_YIELD) {
        self->over = true;
        self->co = NULL;
        if (self->given)
            keep_given(self);
    }
    iso->timeouts++;
    budget_notice(iso, ORR_LUA_TIMED_OUT, text);
    self->keeps_error = true;
    return orr_task_finish(
        self->task, (struct orr_result){ .error = -ETIME, .message = text, .value = self, .drop = give_up_error });
}

int ltask_complete(lua_State *L, struct ltask *self)
{
    struct orr_isolate *iso = self->iso;
    lua_pushvalue(L, 2);
    self->given = isolate_anchor(iso, L);
    self->completed = true;
    int error = isolate_visit(iso);
    if (!error) {
        error = orr_task_complete(self->task, (struct orr_result){ 0 });
        isolate_leave(iso);
    }
    if (error)
        return luaL_error(L, "task:complete: %s",
                          error == -EALREADY ? "the task is completed already" : strerror(-error));
    if (self->over)
        keep_given(self);
    return 0;
}

/* A C function that is not ours has yielded in the body: there is nobody who would resume it. */
static enum orr_poll stray_yield(struct ltask *self)
{
    self->suspended = self->co; /* and closed when its children are done */
    return orr_task_finish(self->task,
                           (struct orr_result){ .error = -EPROTO, .message = "a C function yielded in a task's body" });
}

/* --- Running -------------------------------------------------------------------------------------------------------- */

/* Works off what is to run before any other Lua, down to `mark`, or until the slice is over. */
static void run_urgent(struct orr_isolate *iso, const struct ltask *mark)
{
    while (iso->urgent != mark && !iso->preempting) {
        struct ltask *next = iso->urgent;
        iso->urgent = next->next_urgent;
        next->urgent = next->paused = false;
        if (next->task && next->task->life == TASK_LIVE)
            task_run_now(iso->worker, next->task);
        ltask_release(next);
    }
}

/* Another task of the isolate has not finished its slice.  One that has used up a share of its own stays behind the others. */
static void park(struct orr_isolate *iso, struct ltask *self)
{
    self->task->queued = true;
    queue_push(self->fair && self->used ? &iso->belated : &iso->parked, self->task);
}

/* Before those that have become ready since. */
static void release_parked(struct orr_isolate *iso)
{
    struct worker *worker = iso->worker;
    queue_join(&iso->parked, &worker->ready);
    queue_join(&worker->ready, &iso->parked);
    queue_join(&worker->late, &iso->belated);
}

/* The first of the urgent ones that still lives; NULL for none. */
static struct ltask *first_urgent(struct orr_isolate *iso)
{
    while (iso->urgent && (!iso->urgent->task || iso->urgent->task->life != TASK_LIVE)) {
        struct ltask *gone = iso->urgent;
        iso->urgent = gone->next_urgent;
        gone->urgent = gone->paused = false;
        ltask_release(gone);
    }
    return iso->urgent;
}

/*
 * Between slices: what is urgent comes next of the isolate's tasks, at once, or late, if it has used up its share; or, if nothing is,
 * those that were parked meanwhile.
 */
static void settle_hold(struct orr_isolate *iso, bool late)
{
    struct worker *worker = iso->worker;
    struct ltask *first = first_urgent(iso);
    if (!first) {
        release_parked(iso);
        if (iso->events.pending)
            events_flush(iso);
        return;
    }
    if (first->task->queued && !queue_remove(&iso->parked, first->task) &&
        !queue_remove(&iso->belated, first->task)) /* something has woken it */
        worker_unqueue(worker, first->task);
    first->task->queued = false;
    if (late)
        worker_ready_late(worker, first->task);
    else
        worker_ready_next(worker, first->task);
}

/* Whether a task of the isolate was suspended in mid-slice.  If it is no more, the others go on. */
bool isolate_is_held(struct orr_isolate *iso)
{
    if (iso->slicing || !iso->urgent)
        return false;
    if (first_urgent(iso))
        return true;
    settle_hold(iso, false);
    return false;
}

/* What the running task has come to: it waits, or it is over, or its time is. */
static enum orr_poll step_over(struct ltask *self, struct level *level, int status, int results)
{
    struct orr_isolate *iso = self->iso;
    self->exposed |= level->exposed;
    bool suspending = iso->suspending;
    iso->suspending = false;
    if (level->ending)
        return timed_out(self, level, status);
    if (status != LUA_YIELD)
        return body_over(self, status != LUA_OK || level->raised, results);
    if (!suspending)
        return stray_yield(self);
    bool kept_from_running = self->preempted || self->paused;
    self->used = kept_from_running ? budget_used(iso, level) : 0;
    if (!kept_from_running)
        self->emits = 0;
    if (!self->preempted)
        return ORR_PENDING;
    self->preempted = false;
    if (self->fair) {
        iso->preempting = false;
        worker_ready_late(iso->worker, self->task);
    } else {
        self->urgent = true;
        self->next_urgent = iso->urgent;
        iso->urgent = self;
    }
    return ORR_PENDING;
}

static enum orr_poll step(struct ltask *self)
{
    struct orr_isolate *iso = self->iso;
    struct level level = {
        .co = self->co,
        .plain = iso->plain,
        .entry = self->entry,
        .limit = self->limit,
        .used = self->used,
    };
    lua_State *outer_running = iso->running;
    if (!self->begun)
        budget_charge_coroutine(iso);
    level_enter(iso, &level, self);
    level.exposed = self->exposed;
    iso->depth++;
    int arguments = self->begun ? 0 : self->arguments;
    int results;
    self->begun = true;
    int status = lua_resume(self->co, outer_running, arguments, &results); /* whose C calls count for it */
    enum orr_poll answer = step_over(self, &level, status, results);
    iso->depth--;
    level_leave(iso, &level);
    return answer;
}

static enum orr_poll ltask_poll(struct orr_task *task, void *data)
{
    struct ltask *self = data;
    struct orr_isolate *iso = self->iso;
    bool held = isolate_is_held(iso);
    if (!self->begun && iso->closing) /* none of a script runs for the first time because it is unloaded */
        return orr_task_fail(task, -ECANCELED);
    if (held && iso->urgent == self && !iso->plain) { /* it goes on, a turn later */
        iso->urgent = self->next_urgent;
        self->urgent = self->paused = false;
    } else if (self->paused || (self->begun && self->wait.state == WAIT_WAITING && !task->child_failed)) {
        return ORR_PENDING;
    } else if (held && !iso->plain) {
        if (self->weak)
            reach_anchor(self);
        park(iso, self);
        return ORR_PENDING;
    }
    if (self->weak)
        reach_anchor(self);
    self->looked_at = false;
    bool outermost = budget_begin_slice(iso);
    enum orr_poll answer = step(self);
    if (outermost) {
        bool over = iso->preempting;
        iso->preempting = false;
        budget_end_slice(iso);
        if (!iso->plain && (iso->urgent || iso->parked.first || iso->belated.first || iso->events.pending))
            settle_hold(iso, over);
        if (iso->look)
            reach_look(iso);
    }
    return answer;
}

/* --- Making and ending --------------------------------------------------------------------------------------------- */

/* Lets go of the handle when neither the core nor anything else here needs it. */
void ltask_release(struct ltask *self)
{
    if (!self->dropped || self->keeps_error || self->urgent || self->unseen || !self->anchor)
        return;
    int anchor = self->anchor;
    self->anchor = 0;
    isolate_unanchor(self->iso, self->iso->L, anchor);
}

/* The handle asks the core no more. */
static void let_go_of_core(struct ltask *self)
{
    struct orr_task *core = self->task;
    self->task = NULL;
    core->data = NULL;
    if (self->estate)
        self->estate->task = NULL;
    orr_task_unref(core);
}

/*
 * The failure of a task at the top has nobody to go to.  Whoever started it has until the worker comes round to await it,
 * or to look; then the sink is told, if nobody did, and not only when the handle is collected.
 */
static enum orr_poll report_unseen(struct orr_task *task, void *data)
{
    struct orr_isolate *iso = data;
    (void)task;
    struct ltask *all = iso->unseen;
    iso->unseen = NULL;
    if (!iso->L)
        return ORR_DONE; /* closed meanwhile, and told then */
    while (all) {
        struct ltask *self = all;
        all = self->next_unseen;
        self->unseen = false;
        if (self->task && !self->task->observed)
            sink_report(self->task);
        ltask_release(self);
    }
    return ORR_DONE;
}

static void unref_isolate(void *data)
{
    isolate_unref(data);
}

static void report_soon(struct ltask *self)
{
    struct orr_isolate *iso = self->iso;
    bool first = !iso->unseen;
    self->unseen = true;
    self->next_unseen = iso->unseen;
    iso->unseen = self;
    struct orr_spawn what = {
        .poll = report_unseen, .data = iso, .drop = unref_isolate, .name = "housekeeping", .detached = true
    };
    if (!first)
        return;
    iso->references++;
    if (orr_spawn(iso->rt, &what)) {
        isolate_unref(iso);
        report_unseen(NULL, iso);
    }
}

/* A call of a handler is over.  Never allocates for Lua. */
static void judge_handler(struct ltask *self, int error)
{
    struct orr_isolate *iso = self->iso;
    isolate_push_anchored(iso, iso->L, self->anchor);
    lua_getiuservalue(iso->L, -1, 3);
    struct handler *handler = lua_touserdata(iso->L, -1);
    lua_pop(iso->L, 2);
    handler->strikes = error == -ETIME ? handler->strikes + 1 : 0;
    if (!iso->limits.strikes || handler->strikes < iso->limits.strikes || handler->disabled)
        return;
    handler->disabled = true;
    char text[120];
    snprintf(text, sizeof text, "a %s has timed out %u times in a row, and is not called any more",
             self->entry == ORR_LUA_TIMER ? "timer's callback" : "handler", handler->strikes);
    budget_notice(iso, ORR_LUA_DISABLED, text);
}

/* The core is done with the task: what it has come to is settled. */
static void ltask_drop(void *data)
{
    struct ltask *self = data;
    struct orr_isolate *iso = self->iso;
    struct orr_task *task = self->task;
    if (self->weak)
        reach_anchor(self);
    if (self->co && !self->over) { /* ended by force */
        if (self->begun)
            close_chain(iso, self->suspended, self->co);
        self->co = NULL;
        self->over = true;
        if (self->given)
            keep_given(self);
    }
    int error = outcome_of(task)->error;
    self->state = task->failed ? LTASK_FAILED : error ? LTASK_CLOSED : LTASK_OK;
    self->dropped = true;
    iso->schedule_errors += self->entry == ORR_LUA_SCHEDULED && task->failed;
    if (self->handled)
        judge_handler(self, error);
    if (!--iso->tasks)
        orr_waker_wake(iso->closer);
    struct estate *estate = task->failed || task->own.failures ? estate_try(self) : NULL;
    if (estate)
        estate->task = task; /* whose reference goes when the handle does */
    else
        let_go_of_core(self);
    if (estate && !nest_task(task->parent))
        report_soon(self);
    ltask_release(self);
    if (self->urgent && !iso->slicing)
        settle_hold(iso, false);
}

static void remember_creation(lua_State *L, struct ltask *self)
{
    struct estate *estate = estate_make(L, self);
    luaL_where(L, 1);
    estate->created = alloc_copy(&self->iso->alloc, lua_tostring(L, -1));
    lua_pop(L, 1);
}

/* Of the deadline, in the unit of the isolate's mode. */
static uint64_t limit_of(const struct orr_isolate *iso, const struct ltask_options *options)
{
    if (iso->limits.mode == ORR_LUA_COUNT)
        return iso->limits.max_instructions;
    uint64_t usual = iso->limits.deadline_ns[options->entry];
    if (!options->deadline_ns)
        return usual;
    bool longer = usual && options->deadline_ns > usual;
    return longer && iso->limits.profile == ORR_LUA_UNTRUSTED ? usual : options->deadline_ns;
}

struct ltask *ltask_new(struct orr_isolate *iso, lua_State *L, int arguments, const struct ltask_options *options)
{
    if (iso->closing)
        luaL_error(L, "async.run: the isolate is closing");
    if (iso->tasks >= iso->limits.max_tasks)
        luaL_error(L, "async.run: there are %d tasks already, and may be no more", (int)iso->limits.max_tasks);
    luaL_checkstack(L, 8, NULL);
    int function = lua_gettop(L) - arguments;
    struct ltask *self = lua_newuserdatauv(L, sizeof *self, options->handler ? 3 : options->name ? 2 : 1);
    *self = (struct ltask){
        .iso = iso,
        .fair = options->fair,
        .entry = (uint8_t)options->entry,
        .limit = limit_of(iso, options),
        .script = options->script ? options->script : script_running(iso),
    };
    if (options->name) {
        lua_pushstring(L, options->name);
        lua_setiuservalue(L, -2, 2);
    }
    if (options->handler) {
        lua_pushvalue(L, options->handler);
        lua_setiuservalue(L, -2, 3);
        self->handled = true;
    }
    lua_rawgeti(L, LUA_REGISTRYINDEX, iso->task_class);
    lua_setmetatable(L, -2);
    if (iso->debug)
        remember_creation(L, self);
    lua_insert(L, function); /* below the function: it stays */
    self->co = isolate_coroutine(iso, L);
    lua_setiuservalue(L, function, 1);
    if (!lua_checkstack(self->co, arguments + 8))
        luaL_error(L, "too many arguments");
    lua_rawgeti(self->co, LUA_REGISTRYINDEX, iso->base);
    lua_rawgeti(self->co, LUA_REGISTRYINDEX, iso->base_handler);
    lua_xmove(L, self->co, arguments + 1);
    self->arguments = arguments + 2;
    self->anchor = isolate_anchor(iso, L);
    struct orr_spawn what = {
        .poll = ltask_poll,
        .data = self,
        .drop = ltask_drop,
        .name = options->name,
        .detached = options->detached,
    };
    int error = isolate_visit(iso);
    if (!error) {
        error = runtime_stopping(iso->rt) && !iso->worker->grace ? -ESHUTDOWN
                                                                 : spawn_unqueued(iso->worker, &what, &self->task);
        isolate_leave(iso);
    }
    if (error) {
        int anchor = self->anchor;
        self->anchor = 0;
        isolate_unanchor(iso, L, anchor);
        luaL_error(L, "async.run: no task: %s", strerror(-error));
        __builtin_unreachable();
    }
    orr_task_ref(self->task);
    iso->tasks++;
    return self;
}

void ltask_start_soon(struct orr_isolate *iso, lua_State *L, int arguments, const struct ltask_options *options)
{
    struct ltask *self = ltask_new(iso, L, arguments, options);
    if (!isolate_visit(iso)) {
        worker_ready(iso->worker, self->task);
        isolate_leave(iso);
    }
    lua_pop(L, 1);
}

void ltask_check_depth(lua_State *L)
{
    struct orr_isolate *iso = isolate_of(L);
    if (!can_suspend(L) && iso->depth >= NEST_HARD_MAX)
        luaL_error(L, "too many tasks are being started inside one another, where none of them can wait");
}

/* The slice is over, in a task that `self` has started: it goes on when what is above the mark has had its turn. */
static void pause_above(struct orr_isolate *iso, struct ltask *self, struct ltask *mark)
{
    struct ltask **at = &iso->urgent;
    while (*at != mark)
        at = &(*at)->next_urgent;
    self->next_urgent = mark;
    self->urgent = self->paused = true;
    *at = self;
}

int ltask_run_first(lua_State *L, struct ltask *first, lua_KFunction k, lua_KContext context)
{
    struct orr_isolate *iso = isolate_of(L);
    struct ltask *mark = iso->urgent;
    bool can = can_suspend(L);
    bool nest = iso->depth < NEST_MAX || !can; /* who cannot, goes as deep as ltask_check_depth() lets it */
    struct ltask *self = iso->current;
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
    iso->urgent = first;
    if (!nest)
        return suspend(L, k, context);
    if (!isolate_visit(iso)) {
        bool plain = iso->plain;
        iso->plain |= !iso->slicing || !can;
        run_urgent(iso, mark);
        iso->plain = plain;
        isolate_leave(iso);
    }
    if (!iso->preempting)
        return k(L, LUA_OK, context);
    pause_above(iso, self, mark);
    return suspend(L, k, context);
}

/* --- Closing ---------------------------------------------------------------------------------------------------------- */

/* The Lua task of a core task that has just been cancelled, if it is to hear of that now. */
static struct ltask *to_hear_now(struct orr_isolate *iso, const struct orr_task *task)
{
    struct ltask *self = ltask_of(task);
    bool now = self && self->iso == iso && task->life == TASK_LIVE && !task->running && self->begun && !self->urgent &&
               self->wait.state != WAIT_WAITING && task->cancelled;
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
    struct orr_nest *top = &self->task->own;
    bool before = self->task->cancelled;
    scope_cancel(top, reason);
    if (!before)
        add_to_hear(to_hear_now(iso, self->task), &first, &last);
    for (struct orr_task *at = scope_walk_first(top, true); at; at = scope_walk_next(top, at, true, true))
        add_to_hear(to_hear_now(iso, at), &first, &last);
    isolate_leave(iso);
    return first ? ltask_run_first(L, first, k, context) : k(L, LUA_OK, context);
}

/* --- All of an isolate's ------------------------------------------------------------------------------------------------ */

typedef bool each_fn(struct ltask *task);

enum { EVERY_SCRIPT = UINT32_MAX };

/* True if one of the live tasks of a script, or of all, answers true. */
static bool for_each(struct orr_isolate *iso, uint32_t script, each_fn *each)
{
    struct tasks *tasks = &iso->worker->tasks;
    bool any = false;
    for (uint32_t index = 0; index < tasks->used; index++) {
        struct orr_task *task = tasks_at(tasks, index);
        struct ltask *self = task->life == TASK_LIVE ? ltask_of(task) : NULL;
        if (self && self->iso == iso && (script == EVERY_SCRIPT || self->script == script))
            any |= each(self);
    }
    return any;
}

static bool cancel_one(struct ltask *self)
{
    scope_cancel(&self->task->own, "closed");
    return true;
}

static bool has_hopes(struct ltask *self)
{
    return self->task->queued || self->task->waits || self->task->ios;
}

static bool drop_one(struct ltask *self)
{
    if (!self->task->running)
        scope_drop_body(self->task);
    return true;
}

void ltask_cancel_all(struct orr_isolate *iso)
{
    for_each(iso, EVERY_SCRIPT, cancel_one);
}

bool ltask_any_hopes(struct orr_isolate *iso)
{
    return for_each(iso, EVERY_SCRIPT, has_hopes);
}

void ltask_drop_all(struct orr_isolate *iso)
{
    for_each(iso, EVERY_SCRIPT, drop_one);
}

static bool is_one(struct ltask *self)
{
    (void)self;
    return true;
}

void ltask_cancel_of(struct orr_isolate *iso, uint32_t script)
{
    for_each(iso, script, cancel_one);
}

bool ltask_any_of(struct orr_isolate *iso, uint32_t script, bool with_hopes)
{
    return for_each(iso, script, with_hopes ? has_hopes : is_one);
}

void ltask_drop_of(struct orr_isolate *iso, uint32_t script)
{
    for_each(iso, script, drop_one);
}

void ltask_forget_errors(struct orr_isolate *iso)
{
    struct tasks *tasks = &iso->worker->tasks;
    for (uint32_t index = 0; index < tasks->used; index++) {
        struct orr_task *task = tasks_at(tasks, index);
        int error = task->result.error;
        if (task->life != TASK_DONE || (error != -ESCRIPT && error != -ETIME))
            continue;
        struct ltask *origin = task->result.value;
        if (origin && origin->iso == iso)
            task->result = (struct orr_result){
                .error = error,
                .message = error == -ETIME ? TIMEOUT_TEXT : "a Lua error, of a state that is closed",
            };
    }
}

void ltask_open(struct orr_isolate *iso, lua_State *L)
{
    static const luaL_Reg none[] = { { NULL, NULL } };
    isolate_object_class(iso, L, OBJECT_TASK, LTASK_CLASS, none);
    luaL_getmetatable(L, LTASK_CLASS);
    iso->task_class = luaL_ref(L, LUA_REGISTRYINDEX);
    isolate_push_methods(L, LTASK_CLASS);
    iso->task_methods = luaL_ref(L, LUA_REGISTRYINDEX);
    lua_pushlightuserdata(L, iso);
    lua_pushcclosure(L, base, 1);
    iso->base = luaL_ref(L, LUA_REGISTRYINDEX);
    lua_pushlightuserdata(L, iso);
    lua_pushcclosure(L, handle_message, 1);
    iso->base_handler = luaL_ref(L, LUA_REGISTRYINDEX);
    lua_pushboolean(L, false);
    iso->caller_place = luaL_ref(L, LUA_REGISTRYINDEX);
}
