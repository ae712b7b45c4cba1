/* Events, semaphores, mutexes, conditions. */
#include "wait_fixture.h"

/* --- Events ----------------------------------------------------------------------------------- */

static void set_event_wakes_all_waiting_tasks(void **state)
{
    (void)state;
    open_fixture();
    struct orr_event *event = new_event();
    struct step_task tasks[] = THREE_TASKS(await_event, event);
    start_tasks(tasks, 3);
    assert_string_equal(notes(), "");
    assert_int_equal(orr_event_set(event), 3);
    settle();
    assert_string_equal(notes(), "a b c");
    assert_int_equal(orr_event_free(event), 0);
    fixture_close(rt);
}

static void set_event_lets_every_task_through_until_it_is_cleared(void **state)
{
    (void)state;
    open_fixture();
    struct orr_event *event = new_event();
    struct step_task tasks[] = THREE_TASKS(await_event, event);
    assert_int_equal(orr_event_set(event), 0);
    assert_true(orr_event_is_set(event));
    start_tasks(tasks, 2);
    assert_string_equal(notes(), "a b");
    assert_int_equal(orr_event_clear(event), 0);
    assert_false(orr_event_is_set(event));
    start_tasks(&tasks[2], 1);
    assert_string_equal(notes(), "a b");
    drop_task(&tasks[2]);
    assert_int_equal(orr_event_free(event), 0);
    fixture_close(rt);
}

static void event_wake_wakes_at_most_the_given_number_in_order(void **state)
{
    (void)state;
    open_fixture();
    struct orr_event *event = new_event();
    struct step_task tasks[] = THREE_TASKS(await_event, event);
    start_tasks(tasks, 3);
    assert_int_equal(orr_event_wake(event, 0), 0);
    assert_int_equal(orr_event_wake(event, 2), 2);
    assert_false(orr_event_is_set(event));
    settle();
    assert_string_equal(notes(), "a b");
    assert_int_equal(orr_event_wake(event, 9), 1);
    settle();
    assert_string_equal(notes(), "a b c");
    assert_int_equal(orr_event_free(event), 0);
    fixture_close(rt);
}

static void tasks_woken_by_an_event_stay_woken_when_it_is_cleared(void **state)
{
    (void)state;
    open_fixture();
    struct orr_event *event = new_event();
    struct step_task tasks[] = THREE_TASKS(await_event, event);
    start_tasks(tasks, 3);
    assert_int_equal(orr_event_set(event), 3);
    assert_int_equal(orr_event_clear(event), 0);
    settle();
    assert_string_equal(notes(), "a b c");
    assert_int_equal(orr_event_free(event), 0);
    fixture_close(rt);
}

static int await_event_and_drop_other(struct orr_task *task, struct step_task *self)
{
    int error = orr_event_wait(task, &self->wait, self->data);
    if (!self->step++)
        drop_task(self->other);
    return error == -EAGAIN ? error : note_result(self, error);
}

/* All tasks that waited have been woken, so there is nothing to pass on. */
static void task_that_came_after_the_clear_is_not_woken(void **state)
{
    (void)state;
    open_fixture();
    struct orr_event *event = new_event();
    struct step_task early = { .name = "early", .body = await_event, .data = event };
    struct step_task late = { .name = "late", .body = await_event_and_drop_other, .data = event, .other = &early };
    start_tasks(&early, 1);
    step_task_start(rt, &late); /* runs before the early task, which is woken now */
    assert_int_equal(orr_event_set(event), 1);
    assert_int_equal(orr_event_clear(event), 0);
    settle();
    assert_string_equal(notes(), "");
    drop_task(&late);
    assert_int_equal(orr_event_free(event), 0);
    fixture_close(rt);
}

/* --- Semaphores ------------------------------------------------------------------------------- */

static void semaphore_serves_in_order_of_arrival(void **state)
{
    (void)state;
    open_fixture();
    struct orr_semaphore *semaphore = new_semaphore(1);
    struct step_task tasks[] = THREE_TASKS(acquire, semaphore);
    start_tasks(tasks, 3);
    assert_string_equal(notes(), "a");
    assert_int_equal(orr_semaphore_release(semaphore), 0);
    settle();
    assert_string_equal(notes(), "a b");
    assert_int_equal(orr_semaphore_release(semaphore), 0);
    settle();
    assert_string_equal(notes(), "a b c");
    assert_int_equal(orr_semaphore_free(semaphore), 0);
    fixture_close(rt);
}

static void permit_granted_to_a_waiting_task_cannot_be_taken_by_another(void **state)
{
    (void)state;
    open_fixture();
    struct orr_semaphore *semaphore = new_semaphore(1);
    struct step_task tasks[] = THREE_TASKS(acquire, semaphore);
    start_tasks(tasks, 2);
    step_task_start(rt, &tasks[2]); /* runs before the waiting task */
    assert_int_equal(orr_semaphore_release(semaphore), 0);
    assert_int_equal(orr_semaphore_free_permits(semaphore), 0);
    assert_int_equal(orr_semaphore_try(semaphore), -EAGAIN);
    settle();
    assert_string_equal(notes(), "a b");
    drop_task(&tasks[2]);
    assert_int_equal(orr_semaphore_free(semaphore), 0);
    fixture_close(rt);
}

static void semaphore_takes_back_no_more_than_it_gave(void **state)
{
    (void)state;
    open_fixture();
    struct orr_semaphore *semaphore = new_semaphore(2);
    assert_int_equal(orr_semaphore_release(semaphore), -EOVERFLOW);
    assert_int_equal(orr_semaphore_try(semaphore), 0);
    assert_int_equal(orr_semaphore_try(semaphore), 0);
    assert_int_equal(orr_semaphore_try(semaphore), -EAGAIN);
    assert_int_equal(orr_semaphore_release(semaphore), 0);
    assert_int_equal(orr_semaphore_release(semaphore), 0);
    assert_int_equal(orr_semaphore_release(semaphore), -EOVERFLOW);
    assert_int_equal(orr_semaphore_free_permits(semaphore), 2);
    assert_int_equal(orr_semaphore_free(semaphore), 0);
    fixture_close(rt);
}

static void semaphore_without_permits_counts_releases(void **state)
{
    (void)state;
    open_fixture();
    struct orr_semaphore *semaphore;
    assert_int_equal(orr_semaphore_new(0, &semaphore), 0);
    assert_int_equal(orr_semaphore_try(semaphore), -EAGAIN);
    assert_int_equal(orr_semaphore_release(semaphore), 0);
    assert_int_equal(orr_semaphore_release(semaphore), 0);
    assert_int_equal(orr_semaphore_free_permits(semaphore), 2);
    assert_int_equal(orr_semaphore_try(semaphore), 0);
    assert_int_equal(orr_semaphore_free(semaphore), 0);
    fixture_close(rt);
}

/* --- Mutexes ---------------------------------------------------------------------------------- */

static void mutex_is_handed_over_in_order_of_arrival(void **state)
{
    (void)state;
    open_fixture();
    struct mutex_fixture fixture = new_mutex_fixture();
    struct step_task tasks[] = THREE_TASKS(lock_and_unlock, &fixture);
    start_tasks(tasks, 3);
    for (const char *const *expected = (const char *const[]){ "a", "a b", "a b c", NULL }; *expected; expected++) {
        assert_string_equal(notes(), *expected);
        assert_true(orr_mutex_locked(fixture.mutex));
        orr_event_wake(fixture.go_on, 1);
        settle();
    }
    assert_false(orr_mutex_locked(fixture.mutex));
    free_mutex_fixture(&fixture);
    fixture_close(rt);
}

static int try_others_mutex(struct orr_task *task, struct step_task *self)
{
    struct mutex_fixture *fixture = self->other->data;
    assert_int_equal(orr_mutex_try(task, fixture->mutex), -EAGAIN);
    assert_int_equal(orr_mutex_unlock(task, fixture->mutex), -EPERM);
    return 0;
}

static void mutex_granted_to_a_waiting_task_cannot_be_taken_or_unlocked_by_another(void **state)
{
    (void)state;
    open_fixture();
    struct mutex_fixture fixture = new_mutex_fixture();
    struct step_task tasks[] = THREE_TASKS(lock_and_unlock, &fixture);
    struct step_task other = { .body = try_others_mutex, .other = &tasks[0] };
    start_tasks(tasks, 2);
    step_task_start(rt, &other); /* runs before the waiting task */
    assert_int_equal(orr_mutex_unlock(tasks[0].task, fixture.mutex), 0);
    settle();
    assert_true(orr_task_done(other.task));
    assert_string_equal(notes(), "a b");
    drop_task(&tasks[0]);
    drop_task(&tasks[1]);
    free_mutex_fixture(&fixture);
    fixture_close(rt);
}

static int lock_twice(struct orr_task *task, struct step_task *self)
{
    struct orr_mutex *mutex;
    assert_int_equal(orr_mutex_new(&mutex), 0);
    assert_int_equal(orr_mutex_unlock(task, mutex), -EPERM);
    assert_int_equal(orr_mutex_lock(task, &self->wait, mutex), 0);
    assert_int_equal(orr_mutex_lock(task, &self->wait, mutex), -EDEADLK);
    assert_int_equal(orr_mutex_try(task, mutex), -EDEADLK);
    assert_int_equal(orr_mutex_unlock(task, mutex), 0);
    assert_int_equal(orr_mutex_unlock(task, mutex), -EPERM);
    assert_int_equal(orr_mutex_try(task, mutex), 0);
    assert_int_equal(orr_mutex_unlock(task, mutex), 0);
    assert_int_equal(orr_mutex_free(mutex), 0);
    return 0;
}

static void mutex_knows_its_owner(void **state)
{
    (void)state;
    open_fixture();
    run_in_task(lock_twice);
    fixture_close(rt);
}

static struct orr_task *locker; /* the task that locked the mutex and ended */

static enum orr_poll lock_and_end(struct orr_task *task, void *data)
{
    struct orr_wait wait = { 0 };
    locker = task;
    assert_int_equal(orr_mutex_lock(task, &wait, data), 0);
    return ORR_DONE;
}

static enum orr_poll lock_what_another_left(struct orr_task *task, void *data)
{
    struct orr_wait wait = { 0 };
    assert_ptr_equal(task, locker);
    assert_false(orr_mutex_locked(data));
    assert_int_equal(orr_mutex_unlock(task, data), -EPERM);
    assert_int_equal(orr_mutex_lock(task, &wait, data), -EOWNERDEAD);
    assert_true(orr_mutex_locked(data));
    assert_int_equal(orr_mutex_unlock(task, data), 0);
    assert_int_equal(orr_mutex_try(task, data), 0);
    assert_int_equal(orr_mutex_unlock(task, data), 0);
    note("unlocked");
    return ORR_DONE;
}

static void task_in_the_memory_of_a_dead_owner_does_not_own_the_mutex(void **state)
{
    (void)state;
    open_fixture();
    struct orr_mutex *mutex;
    assert_int_equal(orr_mutex_new(&mutex), 0);
    assert_int_equal(orr_spawn(rt, &(struct orr_spawn){ .poll = lock_and_end, .data = mutex }), 0);
    settle();
    assert_int_equal(orr_spawn(rt, &(struct orr_spawn){ .poll = lock_what_another_left, .data = mutex }), 0);
    settle();
    assert_string_equal(notes(), "unlocked");
    assert_int_equal(orr_mutex_free(mutex), 0);
    fixture_close(rt);
}

static void next_owner_is_told_once_that_the_owner_of_the_mutex_has_ended(void **state)
{
    (void)state;
    open_fixture();
    struct mutex_fixture fixture = new_mutex_fixture();
    struct step_task tasks[] = THREE_TASKS(lock_and_unlock, &fixture);
    start_tasks(tasks, 3);
    drop_task(&tasks[0]);
    settle();
    assert_string_equal(notes(), "a b:EOWNERDEAD");
    assert_true(orr_mutex_locked(fixture.mutex));
    orr_event_set(fixture.go_on);
    settle();
    assert_string_equal(notes(), "a b:EOWNERDEAD c");
    free_mutex_fixture(&fixture);
    fixture_close(rt);
}

static void later_owner_is_told_too_that_the_owner_of_the_mutex_has_ended(void **state)
{
    (void)state;
    open_fixture();
    struct mutex_fixture fixture = new_mutex_fixture();
    struct step_task tasks[] = THREE_TASKS(lock_and_unlock, &fixture);
    start_tasks(tasks, 1);
    drop_task(&tasks[0]);
    assert_false(orr_mutex_locked(fixture.mutex));
    start_tasks(&tasks[1], 1);
    assert_string_equal(notes(), "a b:EOWNERDEAD");
    drop_task(&tasks[1]);
    free_mutex_fixture(&fixture);
    fixture_close(rt);
}

/*
 * A waiting task owns the mutex only after it has picked it up; otherwise there could be two
 * owners.
 */
static void granted_mutex_cannot_be_unlocked_before_it_is_picked_up(void **state)
{
    (void)state;
    open_fixture();
    struct mutex_fixture fixture = new_mutex_fixture();
    struct step_task tasks[] = THREE_TASKS(lock_and_unlock, &fixture);
    start_tasks(tasks, 3);
    assert_int_equal(orr_mutex_unlock(tasks[0].task, fixture.mutex), 0);
    assert_int_equal(orr_mutex_unlock(tasks[1].task, fixture.mutex), -EPERM);
    settle();
    assert_string_equal(notes(), "a b");
    for (int i = 0; i < 3; i++)
        drop_task(&tasks[i]);
    free_mutex_fixture(&fixture);
    fixture_close(rt);
}

/* --- Conditions ------------------------------------------------------------------------------- */

static bool has_mutex(struct orr_task *task, struct orr_mutex *mutex)
{
    return orr_mutex_try(task, mutex) == -EDEADLK;
}

static int await_condition(struct orr_task *task, struct step_task *self)
{
    struct mutex_fixture *fixture = self->data;
    STEPS(self)
    {
        AWAIT(orr_mutex_lock(task, &self->wait, fixture->mutex));
        STEP(self, 1)
        self->caught = AWAIT(orr_condition_wait(task, &self->wait, fixture->condition, fixture->mutex));
        note_result(self, self->caught);
        assert_true(has_mutex(task, fixture->mutex));
        assert_int_equal(orr_mutex_unlock(task, fixture->mutex), 0);
    }
    return 0;
}

static void condition_notifies_at_most_the_given_number_in_order(void **state)
{
    (void)state;
    open_fixture();
    struct mutex_fixture fixture = new_mutex_fixture();
    struct step_task tasks[] = THREE_TASKS(await_condition, &fixture);
    start_tasks(tasks, 3);
    assert_false(orr_mutex_locked(fixture.mutex));
    assert_int_equal(orr_condition_notify(fixture.condition, 0), 0);
    assert_int_equal(orr_condition_notify(fixture.condition, 1), 1);
    settle();
    assert_string_equal(notes(), "a");
    assert_int_equal(orr_condition_notify(fixture.condition, 9), 2);
    settle();
    assert_string_equal(notes(), "a b c");
    assert_int_equal(orr_condition_notify(fixture.condition, 1), 0);
    free_mutex_fixture(&fixture);
    fixture_close(rt);
}

static int lock_and_notify(struct orr_task *task, struct step_task *self)
{
    struct mutex_fixture *fixture = self->data;
    STEPS(self)
    {
        AWAIT(orr_mutex_lock(task, &self->wait, fixture->mutex));
        assert_int_equal(orr_condition_notify(fixture->condition, 1), 1);
        STEP(self, 1)
        AWAIT(orr_event_wait(task, &self->wait, fixture->go_on));
        note_result(self, orr_mutex_unlock(task, fixture->mutex));
    }
    return 0;
}

static void notified_task_runs_when_it_has_the_mutex_again(void **state)
{
    (void)state;
    open_fixture();
    struct mutex_fixture fixture = new_mutex_fixture();
    struct step_task waits = { .name = "waits", .body = await_condition, .data = &fixture };
    struct step_task notifies = { .name = "notifies", .body = lock_and_notify, .data = &fixture };
    start_tasks(&waits, 1);
    start_tasks(&notifies, 1);
    assert_string_equal(notes(), "");
    assert_int_equal(orr_condition_free(fixture.condition), -EBUSY);
    orr_event_set(fixture.go_on);
    settle();
    assert_string_equal(notes(), "notifies waits");
    free_mutex_fixture(&fixture);
    fixture_close(rt);
}

static void cancelled_wait_for_a_condition_goes_on_until_it_has_the_mutex(void **state)
{
    (void)state;
    open_fixture();
    struct mutex_fixture fixture = new_mutex_fixture();
    struct step_task waits = { .name = "waits", .body = await_condition, .data = &fixture };
    struct step_task has = { .name = "has", .body = lock_and_unlock, .data = &fixture };
    start_tasks(&waits, 1);
    start_tasks(&has, 1);
    assert_int_equal(orr_task_cancel(waits.task, NULL), 0);
    /* It does not wait for the condition any more. */
    assert_int_equal(orr_condition_notify(fixture.condition, 1), 0);
    settle();
    assert_string_equal(notes(), "has");
    orr_event_set(fixture.go_on);
    settle();
    assert_string_equal(notes(), "has waits:ECANCELED");
    free_mutex_fixture(&fixture);
    fixture_close(rt);
}

static void notified_task_that_ends_before_it_has_the_mutex_passes_the_notification_on(void **state)
{
    (void)state;
    open_fixture();
    struct mutex_fixture fixture = new_mutex_fixture();
    struct step_task tasks[] = THREE_TASKS(await_condition, &fixture);
    struct step_task has = { .name = "has", .body = lock_and_unlock, .data = &fixture };
    start_tasks(tasks, 2);
    start_tasks(&has, 1);
    assert_int_equal(orr_condition_notify(fixture.condition, 1), 1);
    drop_task(&tasks[0]);
    orr_event_set(fixture.go_on);
    settle();
    assert_string_equal(notes(), "has b");
    free_mutex_fixture(&fixture);
    fixture_close(rt);
}

static int wait_without_the_mutex(struct orr_task *task, struct step_task *self)
{
    struct mutex_fixture fixture = new_mutex_fixture();
    assert_int_equal(orr_condition_wait(task, &self->wait, fixture.condition, fixture.mutex), -EPERM);
    assert_int_equal(orr_condition_wait(task, &self->wait, fixture.condition, NULL), -EINVAL);
    free_mutex_fixture(&fixture);
    return 0;
}

static void condition_wants_its_mutex_locked(void **state)
{
    (void)state;
    open_fixture();
    run_in_task(wait_without_the_mutex);
    fixture_close(rt);
}

static void mutex_that_waiters_of_a_condition_will_lock_again_is_not_freed(void **state)
{
    (void)state;
    open_fixture();
    struct mutex_fixture fixture = new_mutex_fixture();
    struct step_task waits = { .name = "waits", .body = await_condition, .data = &fixture };
    start_tasks(&waits, 1);
    assert_int_equal(orr_mutex_free(fixture.mutex), -EBUSY);
    drop_task(&waits);
    free_mutex_fixture(&fixture);
    fixture_close(rt);
}

static const struct CMUnitTest primitives[] = {
    cmocka_unit_test(set_event_wakes_all_waiting_tasks),
    cmocka_unit_test(set_event_lets_every_task_through_until_it_is_cleared),
    cmocka_unit_test(event_wake_wakes_at_most_the_given_number_in_order),
    cmocka_unit_test(tasks_woken_by_an_event_stay_woken_when_it_is_cleared),
    cmocka_unit_test(task_that_came_after_the_clear_is_not_woken),
    cmocka_unit_test(semaphore_serves_in_order_of_arrival),
    cmocka_unit_test(permit_granted_to_a_waiting_task_cannot_be_taken_by_another),
    cmocka_unit_test(semaphore_takes_back_no_more_than_it_gave),
    cmocka_unit_test(semaphore_without_permits_counts_releases),
    cmocka_unit_test(mutex_is_handed_over_in_order_of_arrival),
    cmocka_unit_test(mutex_granted_to_a_waiting_task_cannot_be_taken_or_unlocked_by_another),
    cmocka_unit_test(mutex_knows_its_owner),
    cmocka_unit_test(task_in_the_memory_of_a_dead_owner_does_not_own_the_mutex),
    cmocka_unit_test(next_owner_is_told_once_that_the_owner_of_the_mutex_has_ended),
    cmocka_unit_test(later_owner_is_told_too_that_the_owner_of_the_mutex_has_ended),
    cmocka_unit_test(granted_mutex_cannot_be_unlocked_before_it_is_picked_up),
    cmocka_unit_test(condition_notifies_at_most_the_given_number_in_order),
    cmocka_unit_test(notified_task_runs_when_it_has_the_mutex_again),
    cmocka_unit_test(cancelled_wait_for_a_condition_goes_on_until_it_has_the_mutex),
    cmocka_unit_test(notified_task_that_ends_before_it_has_the_mutex_passes_the_notification_on),
    cmocka_unit_test(condition_wants_its_mutex_locked),
    cmocka_unit_test(mutex_that_waiters_of_a_condition_will_lock_again_is_not_freed),
};

HARNESS_MAIN(primitives)
