/* Every function refuses arguments that make no sense. */
#include "wait_fixture.h"

/* One primitive of each kind. */
struct things {
    struct orr_event *event;
    struct orr_semaphore *semaphore;
    struct orr_mutex *mutex;
    struct orr_condition *condition;
    struct orr_queue *queue;
    struct orr_future *future;
    struct orr_task *task;
    struct orr_wait wait;
};
static void things_open(struct things *things)
{
    *things = (struct things){ .event = new_event(), .semaphore = new_semaphore(1), .queue = new_queue(1) };
    assert_int_equal(orr_mutex_new(&things->mutex), 0);
    assert_int_equal(orr_condition_new(&things->condition), 0);
    things->future = new_future(false);
}

static void things_close(struct things *things)
{
    assert_int_equal(orr_event_free(things->event), 0);
    assert_int_equal(orr_semaphore_free(things->semaphore), 0);
    assert_int_equal(orr_condition_free(things->condition), 0);
    assert_int_equal(orr_mutex_free(things->mutex), 0);
    assert_int_equal(orr_queue_free(things->queue), 0);
    orr_future_unref(things->future);
}

/* Every kind of wait must return `expected`. */
static void assert_waits(struct things *things, struct orr_task *task, struct orr_wait *wait, int expected)
{
    void *item;
    assert_int_equal(orr_event_wait(task, wait, things->event), expected);
    assert_int_equal(orr_semaphore_acquire(task, wait, things->semaphore), expected);
    assert_int_equal(orr_mutex_lock(task, wait, things->mutex), expected);
    assert_int_equal(orr_condition_wait(task, wait, things->condition, things->mutex), expected);
    assert_int_equal(orr_queue_put(task, wait, things->queue, ITEM(1)), expected);
    assert_int_equal(orr_queue_get(task, wait, things->queue, &item), expected);
    assert_int_equal(orr_future_wait(task, wait, things->future), expected);
    assert_int_equal(orr_task_await(task, wait, things->task), expected);
    assert_int_equal(orr_sleep(task, wait, HOUR), expected);
    assert_int_equal(orr_sleep_until(task, wait, HOUR), expected);
}

static int do_without_things(struct orr_task *task, struct step_task *self)
{
    struct things none = { 0 }, some;
    void *item;
    things_open(&some);
    some.task = task;
    assert_waits(&some, NULL, &self->wait, -EINVAL);
    assert_waits(&some, task, NULL, -EINVAL);
    assert_int_equal(orr_event_wait(task, &self->wait, none.event), -EINVAL);
    assert_int_equal(orr_semaphore_acquire(task, &self->wait, none.semaphore), -EINVAL);
    assert_int_equal(orr_mutex_lock(task, &self->wait, none.mutex), -EINVAL);
    assert_int_equal(orr_condition_wait(task, &self->wait, none.condition, some.mutex), -EINVAL);
    assert_int_equal(orr_queue_put(task, &self->wait, none.queue, ITEM(1)), -EINVAL);
    assert_int_equal(orr_queue_get(task, &self->wait, none.queue, &item), -EINVAL);
    assert_int_equal(orr_queue_get(task, &self->wait, some.queue, NULL), -EINVAL);
    assert_int_equal(orr_future_wait(task, &self->wait, none.future), -EINVAL);
    assert_int_equal(orr_task_await(task, &self->wait, none.task), -EINVAL);
    assert_int_equal(orr_checkpoint(NULL), -EINVAL);
    things_close(&some);
    return 0;
}

static void waits_for_nothing_are_refused(void **state)
{
    (void)state;
    open_fixture();
    run_in_task(do_without_things);
    fixture_close(rt);
}

static void assert_operations(struct things *things, int expected)
{
    void *item;
    assert_int_equal(orr_event_set(things->event), expected);
    assert_int_equal(orr_event_wake(things->event, 1), expected);
    assert_int_equal(orr_event_clear(things->event), expected);
    assert_int_equal(orr_semaphore_try(things->semaphore), expected);
    assert_int_equal(orr_semaphore_release(things->semaphore), expected);
    assert_int_equal(orr_mutex_try(things->task, things->mutex), expected);
    assert_int_equal(orr_mutex_unlock(things->task, things->mutex), expected);
    assert_int_equal(orr_condition_notify(things->condition, 1), expected);
    assert_int_equal(orr_queue_try_put(things->queue, ITEM(1)), expected);
    assert_int_equal(orr_queue_try_get(things->queue, &item), expected);
    assert_int_equal(orr_queue_close(things->queue), expected);
}

static void assert_made(struct things *out, int expected)
{
    assert_int_equal(orr_event_new(&out->event), expected);
    assert_int_equal(orr_semaphore_new(1, &out->semaphore), expected);
    assert_int_equal(orr_mutex_new(&out->mutex), expected);
    assert_int_equal(orr_condition_new(&out->condition), expected);
    assert_int_equal(orr_queue_new(0, NULL, &out->queue), expected);
}

static void operations_on_nothing_are_refused(void **state)
{
    (void)state;
    open_fixture();
    struct things none = { 0 };
    assert_operations(&none, -EINVAL);
    assert_int_equal(orr_event_new(NULL), -EINVAL);
    assert_int_equal(orr_semaphore_new(1, NULL), -EINVAL);
    assert_int_equal(orr_mutex_new(NULL), -EINVAL);
    assert_int_equal(orr_condition_new(NULL), -EINVAL);
    assert_int_equal(orr_queue_new(1, NULL, NULL), -EINVAL);
    assert_false(orr_event_is_set(NULL));
    assert_int_equal(orr_semaphore_free_permits(NULL), 0);
    assert_false(orr_mutex_locked(NULL));
    assert_int_equal(orr_queue_length(NULL), 0);
    things_close(&none); /* NULL may be freed */
    orr_wait_withdraw(NULL);
    orr_wait_withdraw(&none.wait);
    fixture_close(rt);
}

static void try_all(void *data)
{
    struct things *things = data, made;
    assert_operations(things, -EPERM);
    assert_waits(things, things->task, &things->wait, -EPERM);
    assert_made(&made, -EPERM);
    assert_int_equal(orr_event_free(things->event), -EPERM);
    assert_int_equal(orr_semaphore_free(things->semaphore), -EPERM);
    assert_int_equal(orr_mutex_free(things->mutex), -EPERM);
    assert_int_equal(orr_condition_free(things->condition), -EPERM);
    assert_int_equal(orr_queue_free(things->queue), -EPERM);
}

static void other_threads_are_refused(void **state)
{
    (void)state;
    open_fixture();
    struct things things;
    things_open(&things);
    struct step_task other = { .name = "other", .body = sleep_long };
    step_task_start(rt, &other);
    things.task = other.task;
    harness_on_thread(try_all, &things);
    things_close(&things);
    fixture_close(rt);
}

static void waits_outside_the_tasks_own_poll_are_refused(void **state)
{
    (void)state;
    open_fixture();
    struct things things;
    things_open(&things);
    struct step_task other = { .name = "other", .body = sleep_long };
    step_task_start(rt, &other);
    things.task = other.task;
    assert_waits(&things, other.task, &things.wait, -EPERM);
    assert_int_equal(orr_checkpoint(other.task), -EPERM);
    assert_int_equal(orr_mutex_try(other.task, things.mutex), -EPERM);
    things_close(&things);
    fixture_close(rt);
}

static int use_a_wait_twice(struct orr_task *task, struct step_task *self)
{
    struct things things;
    struct orr_event *event = new_event();
    static struct step_task other; /* outlives this poll */
    other = (struct step_task){ .name = "other", .body = sleep_long };
    things_open(&things);
    step_task_start(rt, &other);
    things.task = other.task;
    assert_int_equal(orr_event_wait(task, &self->wait, event), -EAGAIN);
    assert_waits(&things, task, &self->wait, -EBUSY);
    assert_int_equal(orr_event_free(event), -EBUSY);
    orr_wait_withdraw(&self->wait);
    assert_int_equal(orr_event_free(event), 0);
    things_close(&things);
    return 0;
}

static void wait_that_waits_for_something_else_is_refused(void **state)
{
    (void)state;
    open_fixture();
    run_in_task(use_a_wait_twice);
    fixture_close(rt);
}

static const struct CMUnitTest misuse[] = {
    cmocka_unit_test(waits_for_nothing_are_refused),
    cmocka_unit_test(operations_on_nothing_are_refused),
    cmocka_unit_test(other_threads_are_refused),
    cmocka_unit_test(waits_outside_the_tasks_own_poll_are_refused),
    cmocka_unit_test(wait_that_waits_for_something_else_is_refused),
};

HARNESS_MAIN(misuse)
