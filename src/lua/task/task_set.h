/*
 * The Lua tasks of an isolate: how many there are, and who is woken when one has gone.
 *
 * The isolate's worker's thread.
 */
#ifndef ORR_LUA_TASK_TASK_SET_H
#define ORR_LUA_TASK_TASK_SET_H

#include "lua/isolate/compat.h"
#include "orrery.h"

#include <stdbool.h>
#include <stdint.h>

struct ltask;
struct orr_isolate;

/* Part of the isolate. */
struct task_set {
    void (*drop)(struct ltask *task); /* the end of a task: drop.c */
    uint64_t count;                   /* tasks that the core has not dropped */
    uint64_t done;                    /* tasks dropped so far: the order of completion */
    uint64_t scheduled_failed;        /* callbacks of schedule() that have failed */
    struct orr_waker on_empty;        /* woken when the last task has gone */
    struct task_set_watch *watches;   /* woken whenever a task has gone */
    uint32_t callback_waits;          /* waits for callbacks so far: each has a number */
    const char *starter;              /* the call that messages name to start a task, or NULL */
    int class, methods;               /* references: the metatable of handles, and their methods */
};

/* A task that is woken whenever a task of the isolate has gone. */
struct task_set_watch {
    struct task_set_watch *next;
    struct orr_waker waker;
};

static inline uint64_t task_set_count(const struct task_set *self)
{
    return self->count;
}

/* Callbacks of schedule() that have failed so far. */
static inline uint64_t task_set_scheduled_failed(const struct task_set *self)
{
    return self->scheduled_failed;
}

/* The waker that is woken when the last task has gone. */
static inline void task_set_wake_when_empty(struct task_set *self, struct orr_waker waker)
{
    self->on_empty = waker;
}

static inline struct orr_waker task_set_on_empty(const struct task_set *self)
{
    return self->on_empty;
}

/* The number of one more wait for a callback; never 0. */
static inline uint32_t task_set_next_wait(struct task_set *self)
{
    return ++self->callback_waits ? self->callback_waits : ++self->callback_waits;
}

/* Pushes the table of a handle's methods. */
void task_set_push_methods(const struct task_set *self, lua_State *L);

/* An isolate without tasks is used again: its figures begin at 0, and nobody is woken. */
void task_set_reset(struct task_set *self);

/*
 * Raises if there can be no more tasks; or none without a parent, because the script is being
 * ended.
 */
void task_set_check_room(struct orr_isolate *iso, lua_State *L, bool detached);

/* One more task; one task has gone. */
static inline void task_set_add(struct task_set *self)
{
    self->count++;
}
void task_set_remove(struct task_set *self);

/* Between the two, `watch` is woken whenever a task has gone. */
void task_set_watch(struct task_set *self, struct task_set_watch *watch);
void task_set_unwatch(struct task_set *self, struct task_set_watch *watch);

/*
 * The state is about to be closed: failed tasks that the host keeps give up their errors, which are
 * Lua values.
 */
void task_set_forget_errors(struct orr_isolate *iso);

#endif
