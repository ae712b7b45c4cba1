/*
 * Callbacks: functions of scripts that timers, schedule() and events have called.
 *
 * A callback that is due is an entry in the queue of a runner (runner.h), and nothing else: no
 * task, and nothing in Lua.  When the runner comes to it, its kind pushes what is to be called,
 * from an object that is anchored meanwhile.  So ten thousand callbacks that are due at once need
 * no memory but their entries, and each object has room for one.
 *
 * The isolate's worker's thread.  Nothing here raises.
 */
#ifndef ORR_LUA_TASK_CALLBACK_H
#define ORR_LUA_TASK_CALLBACK_H

#include "lua/isolate/registry.h"
#include "orrery.h"

#include <stdbool.h>
#include <stdint.h>

struct callback;
struct handler;
struct orr_isolate;

struct callback_kind {
    const char *name; /* of the task */
    enum orr_lua_entry entry;

    /*
     * Pushes an object that must live as long as the call, a function, and its arguments, on a
     * coroutine with room for 8 values.  Sets `handler` and `script`, if these differ from call to
     * call.  Answers how many arguments; -ENOENT if there is nothing to call any more; or another
     * negative errno, with which the task fails.
     */
    int (*push)(struct callback *self, lua_State *co);

    /* Whether there is another call behind those that were pushed.  NULL: there is one in all. */
    bool (*has_more)(const struct callback *self);

    /* Pushes the object that `handler` is part of.  L has room.  NULL if there is no handler. */
    void (*push_handler)(const struct callback *self, lua_State *L);

    /* A callback that was started will not begin.  May be NULL. */
    void (*skip)(struct callback *self);

    /* Nothing is pending any more: the object may give up its anchor, by callback_unanchor(). */
    void (*let_go)(struct callback *self, lua_State *runner);
};

/* An entry in the queue of a runner. */
struct due {
    struct due *next;
    struct callback *callback; /* NULL if the entry is not in use */
};

/* Part of the object, which fills it in. */
struct callback {
    const struct callback_kind *kind;
    struct orr_isolate *iso;
    struct handler *handler; /* that is called; or NULL */
    const char *name;        /* of the task, while the call lasts; NULL: the kind's */
    uint32_t script;         /* whose it is */
    int anchor;              /* of the object, while any is pending */
    uint32_t pending;        /* entries in use that lead to it */
    uint8_t emit_depth;      /* how many events:emit calls it runs inside */
    struct due due;          /* the first entry; others are allocated */
};

/* In push(): pushes the object. */
static inline void callback_push_object(const struct callback *self, lua_State *co)
{
    isolate_push_near(self->iso, co, self->anchor);
}

/*
 * Gives up the anchor of the object.  `runner` is the coroutine of the runner whose own function
 * runs there, or NULL.
 */
void callback_unanchor(const struct callback *self, lua_State *runner);

/* An entry for the callback; NULL for lack of memory. */
struct due *callback_expect(struct callback *self);

/*
 * The callback of an entry has begun, or is over.  The entry is given up.  `runner` as in
 * callback_unanchor().
 */
void callback_release(struct due *due, lua_State *runner);

/* The callback of an entry will not begin.  The entry is given up. */
void callback_skip(struct due *due);

#endif
