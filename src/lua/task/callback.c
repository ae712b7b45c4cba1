#include "lua/task/callback.h"

#include "base/log.h"
#include "base/text.h"
#include "exec/spawn.h"
#include "lua/isolate/charge.h"
#include "lua/task/script.h"
#include "lua/task/task_parts.h"

#include <errno.h>
#include <string.h>

enum {
    SPARES_MAX = 64,
    ROOM = 16, /* on a coroutine, for what a task begins with */
};

/* At the bottom of a hidden task's coroutine. */
enum { AT_HANDLE = 1, AT_BASE, AT_BASE_HANDLER, BOTTOM = AT_BASE_HANDLER };

/* --- Hidden tasks --------------------------------------------------------------------------------------------------- */

/* May raise. */
static struct ltask *make(struct orr_isolate *iso, lua_State *L)
{
    luaL_checkstack(L, 6, NULL);
    struct ltask *self = lua_newuserdatauv(L, sizeof *self, LTASK_USER_VALUES);
    *self = (struct ltask){ .iso = iso, .hidden = true };
    lua_rawgeti(L, LUA_REGISTRYINDEX, iso->tasks.class);
    lua_setmetatable(L, -2);
    if (iso->debug)
        ltask_remember_creation(L, self);
    lua_State *co = isolate_coroutine(iso, L);
    lua_setiuservalue(L, -2, 1);
    if (!lua_checkstack(co, ROOM))
        luaL_error(L, "not enough memory");
    lua_pushvalue(L, -1);
    lua_xmove(L, co, 1);
    lua_rawgeti(co, LUA_REGISTRYINDEX, iso->tasks.base);
    lua_rawgeti(co, LUA_REGISTRYINDEX, iso->tasks.base_handler);
    self->anchor = isolate_anchor(iso, L);
    self->co = co;
    lua_pop(L, 1);
    return self;
}

/* May raise, if there is no spare. */
static struct ltask *take(struct orr_isolate *iso, lua_State *L)
{
    struct ltask *self = iso->task_pool.first;
    if (!self || iso->debug) /* where one was made is remembered for good */
        return make(iso, L);
    iso->task_pool.first = self->next_urgent;
    iso->task_pool.count--;
    lua_State *co = self->co;
    int anchor = self->anchor;
    memset(self, 0, offsetof(struct ltask, wait)); /* which is idle, as it was when it was made */
    self->iso = iso;
    self->co = co;
    self->anchor = anchor;
    self->hidden = true;
    return self;
}

static int take_protected(lua_State *L)
{
    struct orr_isolate *iso = lua_touserdata(L, 1);
    lua_pushlightuserdata(L, take(iso, L));
    return 1;
}

/* NULL for lack of memory. */
static struct ltask *try_take(struct orr_isolate *iso)
{
    lua_State *L = iso->L;
    if (iso->task_pool.first && !iso->debug)
        return take(iso, L);
    if (!lua_checkstack(L, 4))
        return NULL;
    lua_pushcfunction(L, take_protected);
    lua_pushlightuserdata(L, iso);
    size_t patience = charge_overdraw_begin(iso); /* refused, Lua would collect anew for every callback that is due */
    struct ltask *self = lua_pcall(L, 1, 1, 0) == LUA_OK ? lua_touserdata(L, -1) : NULL;
    charge_overdraw_end(iso, patience);
    lua_pop(L, 1);
    return self;
}

/* One that has not become a task, or is none any more.  Never allocates. */
static bool put(struct ltask *self)
{
    struct orr_isolate *iso = self->iso;
    lua_State *co = self->co;
    if (iso->closing || iso->task_pool.count >= SPARES_MAX)
        return false;
    lua_settop(co, BOTTOM);
    if (lua_gethook(co))
        lua_sethook(co, NULL, 0, 0); /* the next has none, either */
    if (self->handler) {
        lua_pushnil(co);
        lua_setiuservalue(co, AT_HANDLE, LTASK_HANDLER);
    }
    self->dropped = false;
    self->next_urgent = iso->task_pool.first;
    iso->task_pool.first = self;
    iso->task_pool.count++;
    return true;
}

/* What the body is called by. */
static void push_base(struct ltask *self)
{
    self->below = (uint8_t)lua_gettop(self->co);
    lua_pushvalue(self->co, AT_BASE);
    lua_pushvalue(self->co, AT_BASE_HANDLER);
}

/* The task of the core is charged for already. */
static void bind(struct ltask *self, struct orr_task *task, int arguments)
{
    ltask_charged(self->iso);
    self->arguments = arguments + 2;
    self->task = orr_task_ref(task);
}

/* A core task that is in nobody's hands yet. */
static int spawn(struct orr_isolate *iso, const struct orr_spawn *what, const char *lasting_name, struct orr_task **out)
{
    int error = isolate_visit(iso);
    if (error)
        return error;
    error = spawn_unqueued(iso->worker, &iso->share, what, out);
    isolate_leave(iso);
    if (error)
        return error;
    if (lasting_name)
        task_lend_name(*out, lasting_name);
    iso->tasks.count++;
    return 0;
}

struct ltask *pooled_task_new(struct orr_isolate *iso, lua_State *L, int arguments, const struct ltask_options *options)
{
    ltask_check_room(iso, L, options->detached);
    struct ltask *self = take(iso, L);
    lua_State *co = self->co;
    char name[TEXT_NAME_ROOM] = "";
    bool lends = options->lasting || (options->name_at && strlen(options->name) <= TEXT_NAME);
    if (!lends && options->name)
        text_name(name, options->name);
    if (!lua_checkstack(co, arguments + ROOM)) {
        ltask_give_up(self);
        luaL_error(L, "too many arguments");
    }
    self->entry = (uint8_t)options->entry;
    self->limit = ltask_limit(iso, options->entry, options->deadline_ns);
    self->script = options->script || options->handler ? options->script : script_running(iso);
    self->cleanup = isolate_ends(iso) && grace_period_refuses(iso, self->script);
    if (options->handler) {
        lua_pushvalue(L, options->handler);
        lua_xmove(L, co, 1);
        self->handler = lua_touserdata(co, -1);
        lua_setiuservalue(co, AT_HANDLE, LTASK_HANDLER);
    }
    if (options->name_at && lends) { /* where it lasts at least until the first step is over */
        lua_pushvalue(L, options->name_at);
        lua_xmove(L, co, 1);
        self->borrowed = true;
    }
    push_base(self);
    lua_xmove(L, co, arguments + 1);
    struct orr_spawn what = {
        .poll = ltask_poll,
        .data = self,
        .drop = ltask_drop,
        .name = *name ? name : NULL,
        .detached = options->detached,
    };
    struct orr_task *task;
    size_t cost = CHARGE_TASK + (*name ? strlen(name) + 1 : 0);
    int error = charge_take(iso, cost);
    if (!error && (error = spawn(iso, &what, lends ? options->name : NULL, &task)))
        charge_give(iso, cost);
    if (error == -ENOMEM) {
        ltask_give_up(self);
        charge_raise(L);
    }
    if (error) {
        ltask_give_up(self);
        luaL_error(L, "async.run: no task: %s", strerror(-error));
        __builtin_unreachable();
    }
    bind(self, task, arguments);
    return self;
}

void pooled_task_own_name(struct ltask *self)
{
    self->borrowed = false;
    size_t size = task_copy_name(self->task);
    if (size)
        charge_force(self->iso, size);
}

bool pooled_task_keep(struct ltask *self)
{
    bool usable = self->state == LTASK_OK && self->over && self->co && !self->exposed && !self->task_finalizer &&
                  !self->urgent && self->wait.state == WAIT_IDLE && !self->wait.grouped;
    if (!usable || put(self))
        return usable;
    isolate_recycle(self->iso, self->co); /* there are enough of them: only the coroutine is kept, without the handle */
    self->co = NULL;
    return false;
}

/* --- Errands -------------------------------------------------------------------------------------------------------- */

static void release(struct callback *self)
{
    if (!--self->pending)
        self->kind->let_go(self);
}

/* The core's task is over, without any of Lua. */
static void not_called(void *data)
{
    struct callback *self = data;
    struct orr_isolate *iso = self->iso;
    release(self);
    ltask_counted_out(iso);
}

static void dropped(void *data)
{
    struct callback *self = data;
    if (self->kind->skip)
        self->kind->skip(self);
    not_called(self);
}

/* Pushes what is to be called, as kind->push() does. */
static int prepare(struct callback *callback, struct ltask *self)
{
    lua_State *co = self->co;
    registry_push_anchors(&callback->iso->registry, co);
    lua_rawgeti(co, -1, callback->anchor);
    push_base(self);
    return callback->kind->push(callback, co, self->below);
}

/*
 * After its first step.  Either that was all, and the handler is not judged any more; or the task goes on, and the handler, which the
 * callback holds until now, is to last as long.
 */
static void settle_handler(struct callback *callback, struct ltask *self, const struct orr_task *task,
                           enum orr_poll answer)
{
    lua_State *L = callback->iso->L;
    if (answer == ORR_DONE && !task_error(task) && !task_has_children(task) && !task_has_failures(task)) {
        handler_clear(callback->handler);
    } else if (lua_checkstack(L, 4)) {
        isolate_push_anchored(callback->iso, L, self->anchor);
        isolate_push_anchored(callback->iso, L, callback->anchor);
        lua_setiuservalue(L, -2, LTASK_HANDLER);
        lua_pop(L, 1);
        self->handler = callback->handler;
    }
}

/* What begins it, and is never called again for it: the task is an ordinary one from then on. */
static enum orr_poll callback_poll(struct orr_task *task, void *data)
{
    struct callback *callback = data;
    struct orr_isolate *iso = callback->iso;
    if (isolate_is_held(iso) && !execution_host_waits(&iso->execution)) {
        held_push(&iso->hold.parked, task, false);
        return ORR_PENDING;
    }
    if (task_is_cancelled_here(task) ||
        (isolate_ends(iso) &&
         grace_period_refuses(iso,
                              callback->script))) /* none of a script runs for the first time because it is unloaded */
        return orr_task_fail(task, -ECANCELED);
    struct ltask *self = try_take(iso);
    if (!self)
        return orr_task_fail(task, -ENOMEM);
    self->entry = (uint8_t)callback->kind->entry;
    self->limit = ltask_limit(iso, callback->kind->entry, 0);
    self->script = callback->script;
    task_set_drop(task, not_called);
    int arguments = prepare(callback, self);
    if (arguments < 0) {
        if (!put(self))
            ltask_give_up(self);
        return arguments == -ENOENT ? ORR_DONE : orr_task_fail(task, arguments);
    }
    charge_force(iso, CHARGE_TASK);
    bind(self, task, arguments);
    task_become(task, ltask_poll, self, ltask_drop);
    enum orr_poll answer = ltask_poll(task, self);
    if (callback->handler)
        settle_handler(callback, self, task, answer);
    release(callback);
    return answer;
}

int callback_start(struct callback *self)
{
    struct orr_isolate *iso = self->iso;
    struct orr_spawn what = { .poll = callback_poll, .data = self, .drop = dropped, .detached = true };
    struct orr_task *task;
    int error = iso->tasks.count >= iso->limits.max_tasks ? -EAGAIN : spawn(iso, &what, self->kind->name, &task);
    if (error) {
        log_line(&iso->rt->log, ORR_LOG_ERROR, "%s: no task for its callback: %s", self->kind->name,
                 error == -EAGAIN ? "there may be no more of them" : strerror(-error));
        return error;
    }
    self->pending++;
    task_keep_order(task);
    worker_ready(iso->worker, task);
    return 0;
}

struct callback *callback_of(const struct orr_task *task)
{
    return task_data_if(task, callback_poll);
}
