/*
 * The fixture of tests about waits: step tasks on the fixture's runtime, which note how their waits
 * end.  The note is "a" for 0, "a:EPIPE" for an error, "a=3" for an item.  A test includes this
 * file once: it has variables of its own.
 */
#ifndef ORR_TESTS_WAIT_FIXTURE_H
#define ORR_TESTS_WAIT_FIXTURE_H

#include "step_task.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ITEM(n) ((void *)(uintptr_t)(n))

/* The runtime of the running test; open_fixture() sets it. */
static struct orr_runtime *rt;

static inline void open_fixture(void)
{
    rt = fixture_open();
}

/* Turns until every task waits. */
static inline void settle(void)
{
    assert_int_equal(orr_runtime_leave(rt), 0);
    harness_settle(rt);
    assert_int_equal(orr_runtime_enter(rt), 0);
}

static inline int note_result(const struct step_task *self, int error)
{
    if (error)
        note("%s:%s", self->name, strerrorname_np(-error));
    else
        note("%s", self->name);
    return 0;
}

/* Starts the tasks, in order, and turns until every task waits. */
static inline void start_tasks(struct step_task *tasks, size_t count)
{
    for (size_t i = 0; i < count; i++)
        step_task_start(rt, &tasks[i]);
    settle();
}

/* The task ends at once, where it waits, and runs no further. */
static inline void drop_task(struct step_task *task)
{
    assert_int_equal(orr_task_drop(orr_task_waker(task->task)), 0);
}

/* Runs a body that ends without waiting, as a task of its own; it must succeed. */
static inline void run_in_task(step_fn *body)
{
    struct step_task task = { .name = "inside", .body = body };
    step_task_start(rt, &task);
    settle();
    assert_true(orr_task_done(task.task));
    assert_int_equal(task.error, 0);
}

static inline int sleep_long(struct orr_task *task, struct step_task *self)
{
    return note_result(self, AWAIT(orr_sleep(task, &self->wait2, HOUR)));
}

static inline int await_event(struct orr_task *task, struct step_task *self)
{
    return note_result(self, AWAIT(orr_event_wait(task, &self->wait, self->data)));
}

/* Initialises an array of three step tasks "a", "b" and "c" with the same body and data. */
#define THREE_TASKS(function, argument) \
    { \
        { .name = "a", .body = (function), .data = (argument) }, \
            { .name = "b", .body = (function), .data = (argument) }, \
            { .name = "c", .body = (function), .data = (argument) }, \
    }

static inline struct orr_event *new_event(void)
{
    struct orr_event *event;
    assert_int_equal(orr_event_new(&event), 0);
    assert_false(orr_event_is_set(event));
    return event;
}

static inline int acquire(struct orr_task *task, struct step_task *self)
{
    return note_result(self, AWAIT(orr_semaphore_acquire(task, &self->wait, self->data)));
}

static inline struct orr_semaphore *new_semaphore(uint32_t permits)
{
    struct orr_semaphore *semaphore;
    assert_int_equal(orr_semaphore_new(permits, &semaphore), 0);
    assert_int_equal(orr_semaphore_free_permits(semaphore), permits);
    return semaphore;
}

/* A mutex, its condition, and an event that tells the owner to unlock the mutex. */
struct mutex_fixture {
    struct orr_mutex *mutex;
    struct orr_event *go_on;
    struct orr_condition *condition;
};

/* Locks the mutex, notes that, and unlocks it when `go_on` is set. */
static inline int lock_and_unlock(struct orr_task *task, struct step_task *self)
{
    struct mutex_fixture *fixture = self->data;
    STEPS(self)
    {
        self->caught = AWAIT(orr_mutex_lock(task, &self->wait, fixture->mutex));
        note_result(self, self->caught);
        STEP(self, 1)
        AWAIT(orr_event_wait(task, &self->wait, fixture->go_on));
        assert_int_equal(orr_mutex_unlock(task, fixture->mutex), 0);
    }
    return 0;
}

static inline struct mutex_fixture new_mutex_fixture(void)
{
    struct mutex_fixture fixture = { .go_on = new_event() };
    assert_int_equal(orr_mutex_new(&fixture.mutex), 0);
    assert_int_equal(orr_condition_new(&fixture.condition), 0);
    return fixture;
}

static inline void free_mutex_fixture(struct mutex_fixture *fixture)
{
    assert_int_equal(orr_condition_free(fixture->condition), 0);
    assert_int_equal(orr_mutex_free(fixture->mutex), 0);
    assert_int_equal(orr_event_free(fixture->go_on), 0);
}

/* The sum of the items that a queue of new_queue() has dropped. */
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

/* The sum of the results that the runtime has dropped. */
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
