/*
 * Callbacks of timers, of schedule() and of events that are due.
 *
 * A callback that is due is a core task, and nothing in Lua.  When it begins, its kind pushes what is to be called,
 * from an object that is anchored meanwhile; from then on it is a pooled Lua task (task_pool.h).  So ten thousand
 * callbacks that are due at once need no more of Lua's memory than one.
 *
 * The isolate's worker's thread.
 */
#ifndef ORR_LUA_TASK_CALLBACK_H
#define ORR_LUA_TASK_CALLBACK_H

#include "lua/isolate/compat.h"
#include "orrery.h"

#include <stdint.h>

struct callback;
struct handler;
struct orr_isolate;

struct callback_kind {
    const char *name; /* of the task */
    enum orr_lua_entry entry;

    /*
     * Pushes a function and its arguments, of the object at an index of co, which has room for 8 more values.
     * Answers how many arguments; -ENOENT if there is nothing to call any more; or another negative errno, with
     * which the task fails.  Never raises.
     */
    int (*push)(struct callback *self, lua_State *co, int object);

    /* A callback that was started will not begin.  May be NULL. */
    void (*skip)(struct callback *self);

    /* Nothing is pending any more: the object may give up its anchor. */
    void (*let_go)(struct callback *self);
};

/* Part of the object, which fills it in. */
struct callback {
    const struct callback_kind *kind;
    struct orr_isolate *iso;
    struct handler *handler; /* in the same object; or NULL */
    uint32_t script;         /* whose it is */
    int anchor;              /* of the object, while any is pending */
    uint32_t pending;        /* callbacks that were started, and have not come to their first wait, or end */
};

/* Has the object's function called soon, as a task.  Negative errno, logged, and nothing is pending.  Never raises. */
int callback_start(struct callback *self);

/* The callback that a core task is, before it has begun; else NULL. */
struct callback *callback_of(const struct orr_task *task);

#endif
