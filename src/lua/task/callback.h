/*
 * Callbacks: of timers, of schedule(), of events.  Each is a task like any other, and may wait, have children, fail or be cut short.
 * But hardly any does, and no script asks to see it: most run once, from beginning to end, and are over.  So what a task consists of
 * is made late, and used again.
 *
 * An *callback* is a callback that is due: a task of the core, and nothing of Lua's.  What it calls is pushed when it begins, from a thing
 * of Lua's that was anchored meanwhile.  So ten thousand that are due at once need no more than one that is.
 *
 * A *hidden* task is a Lua task whose handle no script has.  It becomes an ordinary one when its handle is pushed for a script
 * (ltask_push()).  One that ends well and is still hidden goes, with its coroutine and its anchor, to the isolate's `spares`, for the next.
 * Its coroutine has the handle at its bottom, and what its body is called by; a spare holds nothing else.
 *
 * All on the worker's thread.
 */
#ifndef ORR_LUA_TASK_CALLBACK_H
#define ORR_LUA_TASK_CALLBACK_H

#include "lua/task/task.h"

struct callback;

struct callback_kind {
    const char *name; /* of the task */
    enum orr_lua_entry entry;

    /* Pushes a function and its arguments, of the thing at an index of co, which has room for 8 more.  Answers how many arguments;
     * -ENOENT: there is nothing to be called any more; another errno, with which the task fails.  Never raises. */
    int (*push)(struct callback *self, lua_State *co, int thing);

    /* It was started, and will not begin.  May be NULL. */
    void (*skip)(struct callback *self);

    /* Nothing is pending any more: the anchor is the thing's own again. */
    void (*let_go)(struct callback *self);
};

/* Part of the thing.  Those who start it fill it in. */
struct callback {
    const struct callback_kind *kind;
    struct orr_isolate *iso;
    struct handler *handler; /* in the same thing; or NULL */
    uint32_t script;         /* whose it is */
    int anchor;              /* of the thing, while any is pending */
    uint32_t pending;        /* those started that have not come to their first wait, or end */
};

/* Has it called soon, as a task.  Negative errno, logged, and nothing pending.  Never raises. */
int callback_start(struct callback *self);

/* The callback that a core task is, before it has begun; else NULL. */
struct callback *callback_of(const struct orr_task *task);

/*
 * As ltask_new(), for one that is hidden: nothing is left on L.  A name that is `lasting`, or on L, is not copied.  May raise.
 */
struct ltask *pooled_task_new(struct orr_isolate *iso, lua_State *L, int arguments,
                              const struct ltask_options *options);

/* A task whose name is borrowed goes on, or is kept, after its coroutine: it has a copy from now on. */
void pooled_task_own_name(struct ltask *self);

/* The core has dropped a hidden task, and let go of it.  True if it is a spare from now on.  Never allocates. */
bool pooled_task_keep(struct ltask *self);

#endif
