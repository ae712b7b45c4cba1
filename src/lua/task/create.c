#include "lua/task/create.h"

#include "base/text.h"
#include "exec/spawn.h"
#include "lua/isolate/charge.h"
#include "lua/limits/grace_period.h"
#include "lua/task/body.h"
#include "lua/task/handle.h"
#include "lua/task/run.h"
#include "lua/task/script.h"
#include "lua/task/task_pool.h"
#include "lua/task/task_set.h"

#include <string.h>

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

int ltask_spawn_core(struct orr_isolate *iso, const struct orr_spawn *what, const char *lasting_name,
                     struct orr_task **out)
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
    task_set_add(&iso->tasks);
    return 0;
}

/* --- The stack of the coroutine --------------------------------------------------------------- */

/* The name of a task that the core copies; or one that it need not copy. */
struct name {
    const char *lent; /* NULL if it is to be copied, or there is none */
    const char *copied;
    char room[TEXT_NAME_ROOM];
};

static void choose_name(struct name *name, const struct ltask_options *options)
{
    *name->room = '\0';
    name->lent = name->copied = NULL;
    bool lends = options->name_lasts || (options->name_at && strlen(options->name) <= TEXT_NAME);
    if (lends) {
        name->lent = options->name;
    } else if (options->name) {
        text_name(name->room, options->name);
        name->copied = name->room;
    }
}

/* [function] [arguments...] -> []: takes a handle from the pool.  May raise. */
static struct ltask *begin_pooled(struct orr_isolate *iso, lua_State *L, int arguments,
                                  const struct ltask_options *options, const struct name *name)
{
    struct ltask *self = task_pool_take(iso, L);
    lua_State *co = self->co;
    if (!lua_checkstack(co, arguments + POOL_ROOM)) {
        ltask_give_up(self);
        luaL_error(L, "too many arguments");
    }
    if (options->handler) {
        lua_pushvalue(L, options->handler);
        lua_xmove(L, co, 1);
        self->handles = true;
        lua_setiuservalue(co, POOL_HANDLE, LTASK_HANDLER);
    }
    if (options->name_at && name->lent) { /* it lasts there at least until the first step is over */
        lua_pushvalue(L, options->name_at);
        lua_xmove(L, co, 1);
        self->name_on_stack = true;
    }
    task_pool_push_base(self);
    lua_xmove(L, co, arguments + 1);
    return self;
}

/* [function] [arguments...] -> [handle]: makes a handle.  May raise. */
static struct ltask *begin_ordinary(struct orr_isolate *iso, lua_State *L, int arguments,
                                    const struct ltask_options *options, const struct name *name)
{
    int function = lua_gettop(L) - arguments;
    struct ltask *self = handle_new(iso, L, name->copied ? LTASK_NAME : LTASK_VALUE);
    if (name->copied) {
        lua_pushstring(L, name->copied);
        lua_setiuservalue(L, -2, LTASK_NAME);
    }
    bool provisional = options->provisional && handle_take_seat(L, self);
    if (!provisional)
        handle_take_coroutine(L, self);
    lua_insert(L, function); /* below the function: it stays */
    if (!lua_checkstack(self->co, arguments + 8)) {
        if (provisional)
            ltask_give_up(self);
        luaL_error(L, "too many arguments");
    }
    if (options->steps)
        body_push_base_of_steps(iso, L, self->co);
    else
        body_push_base(&iso->body, self->co);
    lua_xmove(L, self->co, arguments + 1);
    if (!provisional)
        self->anchor = isolate_anchor(iso, L);
    return self;
}

/* --- The task --------------------------------------------------------------------------------- */

/* Charges the isolate for a core task, and makes it.  Negative errno. */
static int spawn(struct ltask *self, const struct name *name, bool detached)
{
    struct orr_isolate *iso = self->iso;
    struct orr_spawn what = {
        .poll = ltask_poll, .data = self, .drop = ltask_drop, .name = name->copied, .detached = detached
    };
    size_t cost = CHARGE_TASK + (name->copied ? strlen(name->copied) + 1 : 0);
    int error = charge_take(iso, cost);
    if (error)
        return error;
    struct orr_task *task;
    error = ltask_spawn_core(iso, &what, name->lent, &task);
    if (error)
        charge_give(iso, cost);
    else
        ltask_bind(self, task);
    return error;
}

struct ltask *ltask_new(struct orr_isolate *iso, lua_State *L, int arguments, const struct ltask_options *options)
{
    struct name name;
    task_set_check_room(iso, L, options->detached);
    choose_name(&name, options);
    struct ltask *self = options->pooled ? begin_pooled(iso, L, arguments, options, &name)
                                         : begin_ordinary(iso, L, arguments, options, &name);
    self->arguments = arguments + BODY_BASE;
    self->fair = options->fair;
    self->solitary = options->solitary;
    self->entry = options->entry & 7;
    self->limit = ltask_limit(iso, options->entry, options->deadline_ns);
    self->script = options->script || options->handler ? options->script : script_running(iso);
    self->cleanup = isolate_ends(iso) && grace_period_refuses(iso, self->script);
    int error = spawn(self, &name, options->detached);
    if (!error)
        return self;
    ltask_give_up(self);
    if (error == -ENOMEM)
        charge_raise(L);
    luaL_error(L, "async.run: no task: %s", strerror(-error));
    __builtin_unreachable();
}

void ltask_start_soon(struct orr_isolate *iso, lua_State *L, int arguments, const struct ltask_options *options)
{
    struct ltask_options pooled = *options;
    pooled.pooled = true;
    struct ltask *self = ltask_new(iso, L, arguments, &pooled);
    if (!isolate_visit(iso)) {
        task_keep_order(self->task);
        worker_ready(iso->worker, self->task);
        isolate_leave(iso);
    }
}
