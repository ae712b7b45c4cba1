/*
 * The tree of tasks: parents wait for children, errors go up, cancellation goes down.  These are
 * the well-known examples of structured concurrency, as C tasks on the virtual clock.
 */
#include "step_task.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* --- Parents wait for children ---------------------------------------------------------------- */

static void parent_is_done_when_its_children_are(void **state)
{
    (void)state;
    struct orr_runtime *rt = fixture_open();
    struct step_task slow = { .name = "slow", .body = sleep_for, .data = (void *)100 };
    struct step_task quick = { .name = "quick", .body = sleep_for, .data = (void *)50 };
    struct step_task parent = { .name = "parent", .body = start_children, .children = { &slow, &quick } };
    step_task_start(rt, &parent);
    fixture_run(rt);
    assert_string_equal(notes(), "parent:done quick:0@50 slow:0@100");
    assert_int_equal(parent.done_at - parent.ended_at, 100 * MS);
    assert_true(orr_task_done(parent.task));
    assert_int_equal(orr_task_result(parent.task)->error, 0);
    STEP_TASKS_UNREF(&parent, &slow, &quick);
    fixture_close(rt);
}

/* --- Errors go up ----------------------------------------------------------------------------- */

static void childs_failure_interrupts_the_parents_wait_and_cancels_its_siblings(void **state)
{
    (void)state;
    struct orr_runtime *rt = fixture_open();
    struct step_task fails = { .name = "fails", .body = fail_after, .data = (void *)10 };
    struct step_task other = { .name = "other", .body = sleep_for, .data = (void *)1000 };
    struct step_task parent = { .name = "parent", .body = start_and_sleep, .children = { &fails, &other } };
    step_task_start(rt, &parent);
    fixture_run(rt);
    char expected[64];
    snprintf(expected, sizeof expected, "parent:%d@10 other:%d@10", -ECHILD, -ECANCELED);
    assert_string_equal(notes(), expected);
    assert_int_equal(orr_task_result(parent.task)->error, -EIO);
    assert_ptr_equal(orr_task_cause(parent.task), fails.task);
    assert_int_equal(orr_task_result(other.task)->error, -ECANCELED);
    STEP_TASKS_UNREF(&parent, &fails, &other);
    fixture_close(rt);
}

/* Sleeps twice and ignores interruptions. */
static int start_and_catch(struct orr_task *task, struct step_task *self)
{
    STEPS(self)
    {
        step_task_start_children(self);
        STEP(self, 1);
        self->caught = AWAIT(orr_sleep(task, &self->wait, 100 * MS));
        note_end(self, self->caught);
        if (orr_task_failed_child(task))
            note("by:%s", orr_task_name(orr_task_failed_child(task)));
        STEP(self, 2);
        int again = AWAIT(orr_sleep(task, &self->wait, 1 * MS));
        note_end(self, again);
        return again;
    }
    return 0;
}

static void caught_failure_is_told_once_and_the_parent_goes_on(void **state)
{
    (void)state;
    struct orr_runtime *rt = fixture_open();
    struct step_task fails = { .name = "fails", .body = fail_after, .data = (void *)10 };
    struct step_task other = { .name = "other", .body = sleep_for, .data = (void *)30 };
    struct step_task parent = { .name = "parent", .body = start_and_catch, .children = { &fails, &other } };
    step_task_start(rt, &parent);
    fixture_run(rt);
    char expected[96];
    snprintf(expected, sizeof expected, "parent:%d@10 by:fails parent:0@11 other:0@30", -ECHILD);
    assert_string_equal(notes(), expected);
    assert_int_equal(orr_task_result(parent.task)->error, 0);
    assert_int_equal(harness_log_lines(), 0); /* the parent has observed the failure */
    STEP_TASKS_UNREF(&parent, &fails, &other);
    fixture_close(rt);
}

static void failure_of_a_child_whose_parents_body_is_over_fails_the_parent(void **state)
{
    (void)state;
    struct orr_runtime *rt = fixture_open();
    struct step_task fails = { .name = "fails", .body = fail_after, .data = (void *)10 };
    struct step_task other = { .name = "other", .body = sleep_for, .data = (void *)30 };
    struct step_task parent = { .name = "parent", .body = start_children, .children = { &fails, &other } };
    step_task_start(rt, &parent);
    fixture_run(rt);
    char expected[96];
    snprintf(expected, sizeof expected, "parent:done other:%d@10", -ECANCELED);
    assert_string_equal(notes(), expected);
    assert_int_equal(orr_task_result(parent.task)->error, -EIO);
    STEP_TASKS_UNREF(&parent, &fails, &other);
    fixture_close(rt);
}

static int start_and_await(struct orr_task *task, struct step_task *self)
{
    if (!self->step++)
        step_task_start(orr_task_runtime(task), self->children[0]);
    int error = AWAIT(orr_task_await(task, &self->wait, self->children[0]->task));
    if (error)
        return error;
    self->caught = orr_task_result(self->children[0]->task)->error;
    return 0;
}

static void awaiting_a_child_observes_its_failure(void **state)
{
    (void)state;
    struct orr_runtime *rt = fixture_open();
    struct step_task fails = { .name = "fails", .body = fail_after, .data = (void *)10 };
    struct step_task parent = { .name = "parent", .body = start_and_await, .children = { &fails } };
    step_task_start(rt, &parent);
    fixture_run(rt);
    assert_int_equal(parent.caught, -EIO);
    assert_int_equal(orr_task_result(parent.task)->error, 0);
    STEP_TASKS_UNREF(&parent, &fails);
    assert_int_equal(harness_log_lines(), 0);
    fixture_close(rt);
}

struct counted {
    unsigned count;
    struct orr_task *origins[8];
    int errors[8];
};

static void count_error(void *data, struct orr_task *origin, const struct orr_result *result)
{
    struct counted *counted = data;
    counted->origins[counted->count] = origin;
    counted->errors[counted->count++] = result->error;
}

/* Fails in its cleanup when it is cancelled. */
static int fail_when_cancelled(struct orr_task *task, struct step_task *self)
{
    return AWAIT(orr_sleep(task, &self->wait, 1000 * MS)) ? -EPROTO : 0;
}

static void later_failures_are_kept_as_secondary_failures(void **state)
{
    (void)state;
    struct orr_runtime *rt = fixture_open();
    struct step_task fails = { .name = "fails", .body = fail_after, .data = (void *)10 };
    struct step_task also = { .name = "also", .body = fail_when_cancelled };
    struct step_task parent = { .name = "parent", .body = start_and_sleep, .children = { &fails, &also } };
    step_task_start(rt, &parent);
    fixture_run(rt);
    assert_int_equal(orr_task_result(parent.task)->error, -EIO);
    struct counted counted = { 0 };
    orr_task_errors(parent.task, count_error, &counted);
    assert_int_equal(counted.count, 2);
    assert_ptr_equal(counted.origins[0], fails.task);
    assert_ptr_equal(counted.origins[1], also.task);
    assert_int_equal(counted.errors[1], -EPROTO);
    STEP_TASKS_UNREF(&parent, &fails, &also);
    fixture_close(rt);
}

static int fail_at_once(struct orr_task *task, struct step_task *self)
{
    (void)task;
    (void)self;
    return -EIO;
}

/* Lets its child fail first, then fails on its own. */
static int yield_then_fail(struct orr_task *task, struct step_task *self)
{
    if (!self->step++) {
        step_task_start(orr_task_runtime(task), self->children[0]);
        orr_task_yield(task);
        return -EAGAIN;
    }
    return -EPROTO;
}

static void body_that_fails_after_its_child_keeps_its_error_as_a_secondary(void **state)
{
    (void)state;
    struct orr_runtime *rt = fixture_open();
    struct step_task fails = { .name = "fails", .body = fail_at_once };
    struct step_task parent = { .name = "parent", .body = yield_then_fail, .children = { &fails } };
    step_task_start(rt, &parent);
    fixture_run(rt);
    assert_int_equal(orr_task_result(parent.task)->error, -EIO);
    struct counted counted = { 0 };
    orr_task_errors(parent.task, count_error, &counted);
    assert_int_equal(counted.count, 2);
    assert_ptr_equal(counted.origins[1], parent.task);
    assert_int_equal(counted.errors[1], -EPROTO);
    STEP_TASKS_UNREF(&parent, &fails);
    fixture_close(rt);
}

static void supervisor_lets_other_children_go_on_and_fails_at_its_end(void **state)
{
    (void)state;
    struct orr_runtime *rt = fixture_open();
    struct step_task fails = { .name = "fails", .body = fail_after, .data = (void *)10 };
    struct step_task other = { .name = "other", .body = sleep_for, .data = (void *)300 };
    struct step_task parent = { .name = "parent", .body = start_and_sleep, .children = { &fails, &other } };
    step_task_start_with(rt, &parent, (struct orr_spawn){ .supervise = true });
    fixture_run(rt);
    assert_string_equal(notes(), "parent:0@100 other:0@300");
    assert_int_equal(orr_task_result(parent.task)->error, -EIO);
    STEP_TASKS_UNREF(&parent, &fails, &other);
    fixture_close(rt);
}

/* --- Cancellation goes down ------------------------------------------------------------------- */

static void cancelling_a_parent_cancels_its_subtree_at_once_parents_first(void **state)
{
    (void)state;
    struct orr_runtime *rt = fixture_open();
    struct step_task grandchild = { .name = "grandchild", .body = sleep_for, .data = (void *)1000 };
    struct step_task first = { .name = "first", .body = start_and_sleep, .children = { &grandchild } };
    struct step_task second = { .name = "second", .body = sleep_for, .data = (void *)1000 };
    struct step_task parent = { .name = "parent", .body = start_and_sleep, .children = { &first, &second } };
    step_task_start(rt, &parent);
    assert_int_equal(orr_runtime_leave(rt), 0);
    for (int turns = 0; turns < 4; turns++)
        /* One poll each: all tasks wait, and no time has passed. */
        assert_true(orr_runtime_turn(rt, 0) >= 0);
    assert_int_equal(orr_runtime_enter(rt), 0);
    assert_int_equal(orr_task_cancel(parent.task, "enough"), 0);
    assert_string_equal(orr_task_cancelled(grandchild.task), "enough");
    fixture_run(rt);
    char expected[128];
    snprintf(expected, sizeof expected, "parent:%d@0 first:%d@0 grandchild:%d@0 second:%d@0", -ECANCELED, -ECANCELED,
             -ECANCELED, -ECANCELED);
    assert_string_equal(notes(), expected);
    assert_int_equal(orr_task_result(parent.task)->error, -ECANCELED);
    assert_int_equal(orr_task_cancel(parent.task, NULL), -ESRCH);
    STEP_TASKS_UNREF(&parent, &first, &second, &grandchild);
    assert_int_equal(harness_log_lines(), 0); /* a cancellation is not a failure */
    fixture_close(rt);
}

static void every_wait_of_a_cancelled_task_reports_the_cancellation(void **state)
{
    (void)state;
    struct orr_runtime *rt = fixture_open();
    struct step_task waiter = { .name = "a", .body = start_and_catch };
    step_task_start(rt, &waiter);
    orr_task_cancel(waiter.task, NULL); /* before its first poll: it runs up to its first wait */
    fixture_run(rt);
    char expected[64];
    snprintf(expected, sizeof expected, "a:%d@0 a:%d@0", -ECANCELED, -ECANCELED);
    assert_string_equal(notes(), expected);
    orr_task_unref(waiter.task);
    fixture_close(rt);
}

static void child_of_a_cancelled_task_starts_cancelled(void **state)
{
    (void)state;
    struct orr_runtime *rt = fixture_open();
    struct step_task child = { .name = "child", .body = sleep_for, .data = (void *)50 };
    struct step_task parent = { .name = "parent", .body = start_children, .children = { &child } };
    step_task_start(rt, &parent);
    orr_task_cancel(parent.task, NULL);
    fixture_run(rt);
    assert_int_equal(child.error, -ECANCELED);
    STEP_TASKS_UNREF(&parent, &child);
    fixture_close(rt);
}

static void task_cancelled_while_it_waits_for_its_children_ends_as_cancelled(void **state)
{
    (void)state;
    struct orr_runtime *rt = fixture_open();
    struct step_task child = { .name = "child", .body = sleep_for, .data = (void *)50 };
    struct step_task parent = { .name = "parent", .body = start_children, .children = { &child } };
    step_task_start(rt, &parent);
    assert_int_equal(orr_runtime_leave(rt), 0);
    assert_true(orr_runtime_turn(rt, 0) >= 0);
    assert_int_equal(orr_runtime_enter(rt), 0);
    orr_task_cancel(parent.task, NULL);
    fixture_run(rt);
    assert_int_equal(orr_task_result(parent.task)->error, -ECANCELED);
    STEP_TASKS_UNREF(&parent, &child);
    fixture_close(rt);
}

/* --- Results ---------------------------------------------------------------------------------- */

static unsigned values_dropped;

static void drop_value(void *value)
{
    (void)value;
    values_dropped++;
}

static enum orr_poll answer_42(struct orr_task *task, void *data)
{
    static int answer = 42;
    (void)data;
    return orr_task_finish(task, (struct orr_result){ .value = &answer, .drop = drop_value });
}

static void result_lives_as_long_as_a_reference_to_the_task(void **state)
{
    (void)state;
    struct orr_runtime *rt = fixture_open();
    struct orr_task *task;
    values_dropped = 0;
    assert_int_equal(orr_spawn(rt, &(struct orr_spawn){ .poll = answer_42, .task = &task }), 0);
    assert_null(orr_task_result(task));
    fixture_run(rt);
    assert_int_equal(*(int *)orr_task_result(task)->value, 42);
    assert_int_equal(values_dropped, 0);
    orr_task_unref(task);
    assert_int_equal(values_dropped, 1);
    fixture_close(rt);
}

static void note_done(struct orr_task *task, void *data)
{
    (void)task;
    note("%s", (const char *)data);
}

static int await_other(struct orr_task *task, struct step_task *self)
{
    int error = AWAIT(orr_task_await(task, &self->wait, self->other->task));
    note("%s", self->name);
    return error;
}

static void observers_are_called_in_order_of_arrival(void **state)
{
    (void)state;
    struct orr_runtime *rt = fixture_open();
    struct step_task watched = { .name = "watched", .body = sleep_for, .data = (void *)10 };
    struct step_task waits = { .name = "waiter", .body = await_other, .other = &watched };
    struct orr_observer first = { .done = note_done, .data = "first" }, last = { .done = note_done, .data = "last" };
    struct orr_observer gone = { .done = note_done, .data = "gone" };
    step_task_start(rt, &watched);
    assert_int_equal(orr_task_observe(watched.task, &first), 0);
    assert_int_equal(orr_task_observe(watched.task, &first), -EBUSY);
    assert_int_equal(orr_task_observe(watched.task, &gone), 0);
    orr_task_unobserve(&gone);
    step_task_start(rt, &waits);
    assert_int_equal(orr_task_observe(watched.task, &last), 0);
    fixture_run(rt);
    /* A waiter is woken later, an observer is called at once. */
    assert_string_equal(notes(), "watched:0@10 first last waiter");
    notes_clear();
    assert_int_equal(orr_task_observe(watched.task, &gone), 0);
    /* The task is done already, so the observer is called at once. */
    assert_string_equal(notes(), "gone");
    STEP_TASKS_UNREF(&watched, &waits);
    fixture_close(rt);
}

/* Completes its parent with a value; the first child to do so wins. */
static int win_after(struct orr_task *task, struct step_task *self)
{
    int error = AWAIT(orr_sleep(task, &self->wait, (uintptr_t)self->data * MS));
    if (error)
        return error;
    struct orr_result result = { .value = self, .drop = drop_value };
    self->caught = orr_task_complete(self->other->task, result);
    return 0;
}

static int start_and_wait_for_ever(struct orr_task *task, struct step_task *self)
{
    if (!self->step++)
        step_task_start_children(self);
    return AWAIT(orr_sleep_until(task, &self->wait, ORR_NEVER));
}

static void task_completed_from_outside_has_that_result_and_cancels_its_children(void **state)
{
    (void)state;
    struct orr_runtime *rt = fixture_open();
    struct step_task parent;
    struct step_task cache = { .name = "cache", .body = win_after, .data = (void *)10, .other = &parent };
    struct step_task network = { .name = "network", .body = win_after, .data = (void *)20, .other = &parent };
    parent = (struct step_task){ .name = "race", .body = start_and_wait_for_ever, .children = { &cache, &network } };
    values_dropped = 0;
    step_task_start(rt, &parent);
    fixture_run(rt);
    assert_int_equal(fixture_ms(rt), 10);
    assert_int_equal(cache.caught, 0);
    assert_int_equal(network.error, -ECANCELED);
    assert_ptr_equal(orr_task_result(parent.task)->value, &cache);
    assert_int_equal(orr_task_complete(parent.task, (struct orr_result){ 0 }), -EALREADY);
    STEP_TASKS_UNREF(&cache, &network, &parent);
    assert_int_equal(values_dropped, 1);
    fixture_close(rt);
}

static int await_parent(struct orr_task *task, struct step_task *self)
{
    self->caught = orr_task_await(task, &self->wait, task);
    return orr_task_await(task, &self->wait, self->other->task);
}

static void awaiting_oneself_or_an_ancestor_is_refused(void **state)
{
    (void)state;
    struct orr_runtime *rt = fixture_open();
    struct step_task parent;
    struct step_task child = { .name = "child", .body = await_parent, .other = &parent };
    parent = (struct step_task){ .name = "parent", .body = start_children, .children = { &child } };
    step_task_start(rt, &parent);
    fixture_run(rt);
    assert_int_equal(child.caught, -EDEADLK);
    assert_int_equal(child.error, -EDEADLK);
    assert_int_equal(orr_task_result(parent.task)->error, -EDEADLK);
    STEP_TASKS_UNREF(&parent, &child);
    fixture_close(rt);
}

/* --- Detached tasks and unobserved failures --------------------------------------------------- */

static int start_and_detach(struct orr_task *task, struct step_task *self)
{
    step_task_start(orr_task_runtime(task), self->children[0]);
    assert_int_equal(orr_task_detach(self->children[0]->task), 0);
    step_task_start_with(orr_task_runtime(task), self->children[1], (struct orr_spawn){ .detached = true });
    return 0;
}

static void detached_task_is_not_waited_for(void **state)
{
    (void)state;
    struct orr_runtime *rt = fixture_open();
    struct step_task one = { .name = "one", .body = sleep_for, .data = (void *)50 };
    struct step_task two = { .name = "two", .body = sleep_for, .data = (void *)50 };
    struct step_task parent = { .name = "parent", .body = start_and_detach, .children = { &one, &two } };
    step_task_start(rt, &parent);
    fixture_run(rt);
    assert_int_equal(parent.done_at, parent.ended_at);
    assert_int_equal(one.done_at - parent.done_at, 50 * MS);
    STEP_TASKS_UNREF(&parent, &one, &two);
    fixture_close(rt);
}

static void unobserved_failure_is_logged_with_the_chain_of_task_names(void **state)
{
    (void)state;
    struct orr_runtime *rt = fixture_open();
    struct step_task inner = { .name = "inner", .body = fail_after, .data = (void *)10 };
    struct step_task middle = { .name = "middle", .body = start_and_sleep, .children = { &inner } };
    struct step_task outer = { .name = "outer", .body = start_and_sleep, .children = { &middle } };
    step_task_start(rt, &outer);
    fixture_run(rt);
    STEP_TASKS_UNREF(&inner, &middle);
    assert_int_equal(harness_log_lines(), 0); /* the test still holds a reference, and may look */
    orr_task_unref(outer.task);
    assert_string_equal(harness_log(), "task outer > middle > inner failed: Input/output error");
    fixture_close(rt);
}

static unsigned sunk;

static void sink(void *data, struct orr_task *task)
{
    assert_ptr_equal(data, &sunk);
    assert_string_equal(orr_task_name(task), "alone");
    assert_int_equal(orr_task_result(task)->error, -EIO);
    sunk++;
}

static void unobserved_failure_reaches_the_sink_once(void **state)
{
    (void)state;
    struct orr_runtime *rt = harness_runtime_with((struct orr_options){ .sink = sink, .sink_data = &sunk });
    struct step_task fails = { .name = "alone", .body = fail_at_once };
    sunk = 0;
    assert_int_equal(orr_runtime_enter(rt), 0);
    step_task_start(rt, &fails);
    orr_task_unref(fails.task);
    assert_int_equal(orr_runtime_leave(rt), 0);
    assert_int_equal(orr_runtime_run(rt), 0);
    assert_int_equal(sunk, 1);
    assert_int_equal(orr_runtime_free(rt), 0);
    assert_int_equal(sunk, 1);
}

static int detach_failed(struct orr_task *task, struct step_task *self)
{
    STEPS(self)
    {
        step_task_start(orr_task_runtime(task), self->children[0]);
        orr_task_yield(task);
        self->step = 1;
        return -EAGAIN;
        STEP(self, 1);
        assert_int_equal(orr_task_detach(self->children[0]->task), 0);
        STEP(self, 2);
        return AWAIT(orr_sleep(task, &self->wait, MS));
    }
    return 0;
}

static void detaching_a_task_that_has_failed_withdraws_the_failure_from_its_parent(void **state)
{
    (void)state;
    struct orr_runtime *rt = fixture_open();
    struct step_task fails = { .name = "fails", .body = fail_at_once };
    struct step_task parent = { .name = "parent", .body = detach_failed, .children = { &fails } };
    step_task_start(rt, &parent);
    fixture_run(rt);
    assert_int_equal(orr_task_result(parent.task)->error, 0);
    orr_task_unref(parent.task);
    assert_int_equal(harness_log_lines(), 0);
    orr_task_unref(fails.task);
    assert_string_equal(harness_log(), "task fails failed: Input/output error");
    fixture_close(rt);
}

static const struct CMUnitTest scope[] = {
    cmocka_unit_test(parent_is_done_when_its_children_are),
    cmocka_unit_test(childs_failure_interrupts_the_parents_wait_and_cancels_its_siblings),
    cmocka_unit_test(caught_failure_is_told_once_and_the_parent_goes_on),
    cmocka_unit_test(failure_of_a_child_whose_parents_body_is_over_fails_the_parent),
    cmocka_unit_test(awaiting_a_child_observes_its_failure),
    cmocka_unit_test(later_failures_are_kept_as_secondary_failures),
    cmocka_unit_test(body_that_fails_after_its_child_keeps_its_error_as_a_secondary),
    cmocka_unit_test(supervisor_lets_other_children_go_on_and_fails_at_its_end),
    cmocka_unit_test(cancelling_a_parent_cancels_its_subtree_at_once_parents_first),
    cmocka_unit_test(every_wait_of_a_cancelled_task_reports_the_cancellation),
    cmocka_unit_test(child_of_a_cancelled_task_starts_cancelled),
    cmocka_unit_test(task_cancelled_while_it_waits_for_its_children_ends_as_cancelled),
    cmocka_unit_test(result_lives_as_long_as_a_reference_to_the_task),
    cmocka_unit_test(observers_are_called_in_order_of_arrival),
    cmocka_unit_test(task_completed_from_outside_has_that_result_and_cancels_its_children),
    cmocka_unit_test(awaiting_oneself_or_an_ancestor_is_refused),
    cmocka_unit_test(detached_task_is_not_waited_for),
    cmocka_unit_test(unobserved_failure_is_logged_with_the_chain_of_task_names),
    cmocka_unit_test(unobserved_failure_reaches_the_sink_once),
    cmocka_unit_test(detaching_a_task_that_has_failed_withdraws_the_failure_from_its_parent),
};

HARNESS_MAIN(scope)
