/*
 * What the tests of waiting share: actors on a stage who note how their waits end: "a" for 0, "a:EPIPE" for an error, "a=3" for an
 * item.
 */
#ifndef ORR_TESTS_CAST_H
#define ORR_TESTS_CAST_H

#include "script.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ITEM(n) ((void *)(uintptr_t)(n))

/* The one that is played on. */
static struct orr_runtime *rt;

static inline void open_stage(void)
{
    rt = stage_open();
}

/* Plays on until everybody waits. */
static inline void settle(void)
{
    assert_int_equal(orr_runtime_leave(rt), 0);
    harness_settle(rt);
    assert_int_equal(orr_runtime_enter(rt), 0);
}

static inline int say(const struct actor *self, int error)
{
    if (error)
        note("%s:%s", self->name, strerrorname_np(-error));
    else
        note("%s", self->name);
    return 0;
}

static inline void start_all_of(struct actor *actors, size_t count)
{
    for (size_t i = 0; i < count; i++)
        actor_start(rt, &actors[i]);
    settle();
}

static inline void drop(struct actor *actor)
{
    assert_int_equal(orr_task_drop(orr_task_waker(actor->task)), 0);
}

/* For what is done in one poll. */
static inline void play_inside(actor_fn *act)
{
    struct actor actor = { .name = "inside", .act = act };
    actor_start(rt, &actor);
    settle();
    assert_true(orr_task_done(actor.task));
    assert_int_equal(actor.error, 0);
}

static inline int sleep_long(struct orr_task *task, struct actor *self)
{
    return say(self, AWAIT(orr_sleep(task, &self->wait2, HOUR)));
}

static inline int await_event(struct orr_task *task, struct actor *self)
{
    return say(self, AWAIT(orr_event_wait(task, &self->wait, self->extra)));
}

#define THREE(how, what) \
    { \
        { .name = "a", .act = (how), .extra = (what) }, { .name = "b", .act = (how), .extra = (what) }, \
            { .name = "c", .act = (how), .extra = (what) }, \
    }

static inline struct orr_event *new_event(void)
{
    struct orr_event *event;
    assert_int_equal(orr_event_new(&event), 0);
    assert_false(orr_event_is_set(event));
    return event;
}

static inline int acquire(struct orr_task *task, struct actor *self)
{
    return say(self, AWAIT(orr_semaphore_acquire(task, &self->wait, self->extra)));
}

static inline struct orr_semaphore *new_semaphore(uint32_t permits)
{
    struct orr_semaphore *semaphore;
    assert_int_equal(orr_semaphore_new(permits, &semaphore), 0);
    assert_int_equal(orr_semaphore_free_permits(semaphore), permits);
    return semaphore;
}

/* Has it until `extra`'s event lets it go on. */
struct hold {
    struct orr_mutex *mutex;
    struct orr_event *go_on;
    struct orr_condition *condition;
};

static inline int lock_and_unlock(struct orr_task *task, struct actor *self)
{
    struct hold *hold = self->extra;
    SCRIPT(self)
    {
        self->caught = AWAIT(orr_mutex_lock(task, &self->wait, hold->mutex));
        say(self, self->caught);
        STEP(self, 1)
        AWAIT(orr_event_wait(task, &self->wait, hold->go_on));
        assert_int_equal(orr_mutex_unlock(task, hold->mutex), 0);
    }
    return 0;
}

static inline struct hold new_hold(void)
{
    struct hold hold = { .go_on = new_event() };
    assert_int_equal(orr_mutex_new(&hold.mutex), 0);
    assert_int_equal(orr_condition_new(&hold.condition), 0);
    return hold;
}

static inline void free_hold(struct hold *hold)
{
    assert_int_equal(orr_condition_free(hold->condition), 0);
    assert_int_equal(orr_mutex_free(hold->mutex), 0);
    assert_int_equal(orr_event_free(hold->go_on), 0);
}

static unsigned dropped_sum;

static inline void drop_item(void *item)
{
    dropped_sum += (unsigned)(uintptr_t)item;
}

static inline struct orr_queue *new_queue(size_t capacity)
{
    struct orr_queue *queue;
    dropped_sum = 0;
    assert_int_equal(orr_queue_new(capacity, drop_item, &queue), 0);
    return queue;
}

static _Atomic unsigned values_dropped;

static inline void drop_value(void *value)
{
    atomic_fetch_add(&values_dropped, (unsigned)(uintptr_t)value);
}

static const struct orr_result answer = { .value = ITEM(1), .drop = drop_value };

static inline struct orr_future *new_future(bool foreign)
{
    struct orr_future *future;
    values_dropped = 0;
    assert_int_equal(orr_future_new(rt, &(struct orr_future_options){ .foreign = foreign }, &future), 0);
    assert_null(orr_future_result(future));
    return future;
}

#endif
