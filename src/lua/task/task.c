#include "lua/task/task.h"

#include "base/log.h"
#include "base/text.h"
#include "exec/spawn.h"
#include "lua/isolate/charge.h"
#include "lua/isolate/life.h"
#include "lua/limits/notices.h"
#include "lua/limits/stack_trace.h"
#include "lua/limits/terminate.h"
#include "lua/task/body_watch.h"
#include "lua/task/callback.h"
#include "lua/task/orphans.h"
#include "lua/task/report.h"
#include "lua/task/script.h"
#include "lua/task/task_finalizer.h"
#include "lua/task/task_parts.h"

#include <string.h>

struct ltask *ltask_of(const struct orr_task *task)
{
    return task ? task_data_if(task, ltask_poll) : NULL;
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
    if (!execution_task(&iso->execution))
        luaL_error(L, "%s: not inside a task; start one with async.run(fn)", what);
    return execution_task(&iso->execution);
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

/*
 * A task of the core may outlive its handle: as a failure that its parent keeps, or by a reference of the host's.  It is on the isolate's
 * account until it is freed, so it refers to the isolate for as long, and by itself once the handle has let go of it.
 */
static enum orr_poll gone_poll(struct orr_task *task, void *data)
{
    (void)data;
    return orr_task_fail(task, -ECANCELED); /* never called: its body is over */
}

static size_t cost_of(const struct orr_task *task)
{
    return CHARGE_TASK + task_name_size(task);
}

void ltask_charged(struct orr_isolate *iso)
{
    isolate_ref(iso);
}

void ltask_freed(struct orr_task *task)
{
    struct ltask *self = ltask_of(task);
    struct orr_isolate *iso = self ? self->iso : task_data_if(task, gone_poll);
    if (!iso)
        return;
    charge_give(iso, cost_of(task));
    isolate_unref(iso);
}

void ltask_forget_handle(struct orr_task *core, struct orr_isolate *iso)
{
    task_become(core, gone_poll, iso, NULL);
}

void ltask_leave_core(struct orr_task *core, struct orr_isolate *iso)
{
    ltask_forget_handle(core, iso);
    orr_task_unref(core);
}

/* The handle asks the core no more. */
static void let_go_of_core(struct ltask *self)
{
    struct orr_task *core = self->task;
    self->task = NULL;
    if (self->task_finalizer)
        self->task_finalizer->task = NULL;
    ltask_leave_core(core, self->iso);
}

/* --- Failures that nobody has seen --------------------------------------------------------------------------------- */

/* The oldest.  Those who wait for it will look. */
static void report_first(struct orr_isolate *iso)
{
    struct unseen *list = &iso->tasks.unseen;
    struct ltask *self = list->first;
    list->first = self->next_unseen;
    if (!list->first)
        list->last = NULL;
    self->unseen = false;
    bool unseen = self->task && !task_is_seen(self->task);
    if (unseen && iso->on_unhandled.call)
        iso->on_unhandled.call(iso->on_unhandled.data, self->task);
    else if (unseen)
        sink_report(self->task);
    notices_count_report(&iso->notices);
    ltask_release(self);
    notices_deliver_soon(iso);
}

void ltask_report_unseen(struct orr_isolate *iso)
{
    while (iso->L && iso->tasks.unseen.first)
        report_first(iso);
}

/*
 * The failure of a task at the top has nobody to go to.  Whoever started it has until the worker comes round to await it,
 * or to look; then the sink is told, if nobody did, and not only when the handle is collected.  A few in each turn: what a host does with
 * one takes its time.
 */
static enum orr_poll report_some(struct orr_task *task, void *data)
{
    enum { AT_A_TIME = 4 };
    struct orr_isolate *iso = data;
    if (iso->L && isolate_is_held(iso)) /* whoever started it has not come to a wait yet */
        return orr_task_yield(task);
    for (int told = 0; told < AT_A_TIME && iso->L && iso->tasks.unseen.first; told++)
        report_first(iso);
    return iso->L && iso->tasks.unseen.first ? orr_task_yield(task) : ORR_DONE; /* closed meanwhile, it was told then */
}

static void unref_isolate(void *data)
{
    isolate_unref(data);
}

static void report_soon(struct ltask *self)
{
    struct orr_isolate *iso = self->iso;
    struct unseen *list = &iso->tasks.unseen;
    bool first = !list->first;
    self->unseen = true;
    self->next_unseen = NULL;
    *(first ? &list->first : &list->last->next_unseen) = self;
    list->last = self;
    notices_count_failure(&iso->notices);
    struct orr_spawn what = {
        .poll = report_some, .data = iso, .drop = unref_isolate, .name = "housekeeping", .detached = true
    };
    if (!first)
        return;
    isolate_ref(iso);
    if (spawn_for(iso->worker, &iso->share, &what)) {
        isolate_unref(iso);
        ltask_report_unseen(iso);
    }
}

void ltask_counted_out(struct orr_isolate *iso)
{
    if (!--iso->tasks.count)
        orr_waker_wake(iso->tasks.closer);
    if (grace_period_any(&iso->grace_periods))
        shutdown_tell(iso);
}

/* The core is done with the task: what it has come to is settled. */
void ltask_drop(void *data)
{
    struct ltask *self = data;
    struct orr_isolate *iso = self->iso;
    struct orr_task *task = self->task;
    if (self->weak)
        orphans_anchor(self);
    bool never_began = self->loading;
    if (self->watched)
        body_is_over(self);
    script_body_began(self);
    if (self->co && !self->over) { /* ended by force */
        if (self->begun)
            terminate_close_chain(iso, self->suspended, self->co, self->script);
        self->co = NULL;
        self->over = true;
        if (self->given)
            ltask_keep_given(self);
    }
    int error = outcome_of(task)->error;
    self->state = task_has_failed(task) ? LTASK_FAILED : error ? LTASK_CLOSED : LTASK_OK;
    self->dropped = true;
    self->done_as = ++iso->tasks.done;
    iso->tasks.scheduled_failed += self->entry == ORR_LUA_SCHEDULED && task_has_failed(task);
    char disabled_text[HANDLER_TEXT];
    int64_t handler = self->handler ? self->handler->id : 0;
    bool disabled = self->handler &&
                    handler_judge(self->handler, error, iso->limits.strikes, orr_task_name(task), disabled_text);
    ltask_counted_out(iso);
    if (self->borrowed &&
        (task_is_shared(task, 2) || task_has_failed(task) || task_has_failures(task))) /* others than the tree and we */
        pooled_task_own_name(self);
    struct task_finalizer *task_finalizer = task_has_failed(task) || task_has_failures(task) ? task_finalizer_try(self)
                                                                                             : NULL;
    if (task_finalizer)
        task_finalizer->task = task; /* whose reference goes when the handle does */
    else
        let_go_of_core(self);
    if (self->hidden && pooled_task_keep(self))
        return;
    if (task_finalizer && !task_parent(task))
        report_soon(self);
    if (disabled)
        notices_add_disabled(iso, disabled_text, handler);
    ltask_release(self);
    if ((self->urgent || (never_began && iso->hold.on_release)) && !execution_in_slice(&iso->execution))
        ltask_settle_hold(iso, false);
}

void ltask_remember_creation(lua_State *L, struct ltask *self)
{
    stack_trace_push_location(L, L, 1);
    if (lua_rawlen(L, -1)) { /* it was made by a script, and not for one */
        lua_pushvalue(L, -2);
        struct task_finalizer *task_finalizer = task_finalizer_make(L, self);
        task_finalizer->created = charge_copy(self->iso, lua_tostring(L, -2));
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
}

uint64_t ltask_limit(const struct orr_isolate *iso, enum orr_lua_entry entry, uint64_t ns)
{
    if (iso->limits.mode == ORR_LUA_COUNT)
        return iso->limits.max_instructions;
    uint64_t usual = iso->limits.deadline_ns[entry];
    if (!ns)
        return usual;
    bool longer = usual && ns > usual;
    return longer && iso->limits.profile == ORR_LUA_UNTRUSTED ? usual : ns;
}

void ltask_check_room(struct orr_isolate *iso, lua_State *L, bool detached)
{
    if ((detached || !execution_task(&iso->execution)) && isolate_ends(iso) &&
        grace_period_refuses(iso, script_running(iso)))
        luaL_error(L, "async.run: %s", iso->closing ? "the isolate is closing" : "the script is being ended");
    if (ban_is_imposed(&iso->ban))
        luaL_error(L, "async.run: the script has been ended: %s", ban_reason(&iso->ban));
    if (iso->tasks.count >= iso->limits.max_tasks)
        luaL_error(L, "async.run: there are %d tasks already, and may be no more", (int)iso->limits.max_tasks);
}

void ltask_give_up(struct ltask *self)
{
    int anchor = self->anchor;
    self->anchor = 0;
    isolate_unanchor(self->iso, self->iso->L, anchor);
}

/* Pushes the bottom of a body on its coroutine.  May raise. */
static void push_base(struct orr_isolate *iso, lua_State *L, lua_State *co, bool steps)
{
    if (!steps) {
        lua_rawgeti(co, LUA_REGISTRYINDEX, iso->tasks.base);
        return;
    }
    lua_pushlightuserdata(L, iso);
    lua_pushcclosure(L, ltask_base_of_steps, 1);
    lua_xmove(L, co, 1);
}

struct ltask *ltask_new(struct orr_isolate *iso, lua_State *L, int arguments, const struct ltask_options *options)
{
    ltask_check_room(iso, L, options->detached);
    luaL_checkstack(L, 8, NULL);
    int function = lua_gettop(L) - arguments;
    struct ltask *self = lua_newuserdatauv(L, sizeof *self,
                                           options->handler ? LTASK_HANDLER
                                           : options->name  ? LTASK_NAME
                                                            : LTASK_VALUE);
    *self = (struct ltask){
        .iso = iso,
        .fair = options->fair,
        .entry = (uint8_t)options->entry,
        .limit = ltask_limit(iso, options->entry, options->deadline_ns),
        .script = options->script ? options->script : script_running(iso),
    };
    self->cleanup = isolate_ends(iso) && grace_period_refuses(iso, self->script);
    char name[TEXT_NAME_ROOM];
    if (options->name) {
        text_name(name, options->name);
        lua_pushstring(L, name);
        lua_setiuservalue(L, -2, LTASK_NAME);
    }
    if (options->handler) {
        lua_pushvalue(L, options->handler);
        lua_setiuservalue(L, -2, LTASK_HANDLER);
        self->handler = lua_touserdata(L, options->handler);
    }
    lua_rawgeti(L, LUA_REGISTRYINDEX, iso->tasks.class);
    lua_setmetatable(L, -2);
    if (iso->debug)
        ltask_remember_creation(L, self);
    lua_insert(L, function); /* below the function: it stays */
    self->co = isolate_coroutine(iso, L);
    lua_setiuservalue(L, function, 1);
    if (!lua_checkstack(self->co, arguments + 8))
        luaL_error(L, "too many arguments");
    push_base(iso, L, self->co, options->steps);
    lua_rawgeti(self->co, LUA_REGISTRYINDEX, iso->tasks.base_handler);
    lua_xmove(L, self->co, arguments + 1);
    self->arguments = arguments + 2;
    size_t cost = CHARGE_TASK + (options->name ? strlen(name) + 1 : 0);
    if (charge_take(iso, cost))
        charge_raise(L);
    self->anchor = isolate_anchor(iso, L);
    struct orr_spawn what = {
        .poll = ltask_poll,
        .data = self,
        .drop = ltask_drop,
        .name = options->name ? name : NULL,
        .detached = options->detached,
    };
    int error = isolate_visit(iso);
    if (!error) {
        error = spawn_unqueued(iso->worker, &iso->share, &what, &self->task);
        isolate_leave(iso);
    }
    if (error) {
        charge_give(iso, cost);
        ltask_give_up(self);
        luaL_error(L, "async.run: no task: %s", strerror(-error));
        __builtin_unreachable();
    }
    ltask_charged(iso);
    orr_task_ref(self->task);
    iso->tasks.count++;
    return self;
}

void ltask_start_soon(struct orr_isolate *iso, lua_State *L, int arguments, const struct ltask_options *options)
{
    struct ltask *self = pooled_task_new(iso, L, arguments, options);
    if (!isolate_visit(iso)) {
        task_keep_order(self->task);
        worker_ready(iso->worker, self->task);
        isolate_leave(iso);
    }
}

void ltask_push(lua_State *L, struct ltask *self)
{
    isolate_push_anchored(self->iso, L, self->anchor);
    if (!self->hidden)
        return;
    if (self->task && orr_task_name(self->task)) {
        lua_pushstring(L, orr_task_name(self->task));
        lua_setiuservalue(L, -2, LTASK_NAME);
    }
    self->hidden = false;
}

void ltask_open(struct orr_isolate *iso, lua_State *L)
{
    static const luaL_Reg none[] = { { NULL, NULL } };
    isolate_object_class(iso, L, OBJECT_TASK, LTASK_CLASS, none);
    luaL_getmetatable(L, LTASK_CLASS);
    iso->tasks.class = luaL_ref(L, LUA_REGISTRYINDEX);
    isolate_push_methods(L, LTASK_CLASS);
    iso->tasks.methods = luaL_ref(L, LUA_REGISTRYINDEX);
    lua_pushlightuserdata(L, iso);
    lua_pushcclosure(L, ltask_base, 1);
    iso->tasks.base = luaL_ref(L, LUA_REGISTRYINDEX);
    lua_pushlightuserdata(L, iso);
    lua_pushcclosure(L, ltask_handle_message, 1);
    iso->tasks.base_handler = luaL_ref(L, LUA_REGISTRYINDEX);
}
