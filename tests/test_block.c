/* Scopes inside a task's body: children of a block, nested deadlines, shields, supervision. */
#include "step_task.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

struct bounds {
    struct orr_scope_options outer, inner;
    uint64_t sleep;
};

/* Sleeps inside two scopes, then leaves both. */
static int sleep_in_scopes(struct orr_task *task, struct step_task *self)
{
    const struct bounds *bounds = self->data;
    STEPS(self)
    {
        assert_int_equal(orr_scope_enter(task, &self->scope, &bounds->outer), 0);
        assert_int_equal(orr_scope_enter(task, &self->scope2, &bounds->inner), 0);
        /* Not the innermost scope. */
        assert_int_equal(orr_scope_leave(task, &self->wait, &self->scope, 0), -EINVAL);
        STEP(self, 1);
        self->caught = AWAIT(orr_sleep(task, &self->wait, bounds->sleep * MS));
        note("slept:%s@%llu", self->caught ? strerrorname_np(-self->caught) : "0", fixture_ms(orr_task_runtime(task)));
        STEP(self, 2);
        self->caught = AWAIT(orr_scope_leave(task, &self->wait, &self->scope2, self->caught));
        note("inner:%s", self->caught ? strerrorname_np(-self->caught) : "0");
        STEP(self, 3);
        self->caught = AWAIT(orr_scope_leave(task, &self->wait, &self->scope, self->caught));
        note("outer:%s@%llu", self->caught ? strerrorname_np(-self->caught) : "0", fixture_ms(orr_task_runtime(task)));
    }
    return self->caught;
}

static void check_scopes(struct bounds bounds, const char *expected)
{
    struct orr_runtime *rt = fixture_open();
    struct step_task waiter = { .name = "a", .body = sleep_in_scopes, .data = &bounds };
    step_task_start(rt, &waiter);
    fixture_run(rt);
    assert_string_equal(notes(), expected);
    orr_task_result(waiter.task);
    orr_task_unref(waiter.task);
    assert_int_equal(harness_stats(rt, 0).timers_pending, 0);
    fixture_close(rt);
}

static void nested_deadlines_tell_which_one_has_passed(void **state)
{
    (void)state;
    check_scopes((struct bounds){ { .timeout_ns = 100 * MS }, { .timeout_ns = 10 * MS }, 50 },
                 "slept:ECANCELED@10 inner:ETIMEDOUT outer:ETIMEDOUT@10");
    check_scopes((struct bounds){ { .timeout_ns = 10 * MS }, { .timeout_ns = 100 * MS }, 50 },
                 "slept:ECANCELED@10 inner:ECANCELED outer:ETIMEDOUT@10");
    check_scopes((struct bounds){ { .timeout_ns = 100 * MS }, { .timeout_ns = 100 * MS }, 50 },
                 "slept:0@50 inner:0 outer:0@50");
}

static void move_on_ends_the_block_but_not_the_task(void **state)
{
    (void)state;
    check_scopes((struct bounds){ { .timeout_ns = 100 * MS }, { .timeout_ns = 10 * MS, .move_on = true }, 50 },
                 "slept:ECANCELED@10 inner:0 outer:0@10");
    check_scopes((struct bounds){ { .timeout_ns = 10 * MS, .move_on = true }, { .timeout_ns = 100 * MS }, 50 },
                 "slept:ECANCELED@10 inner:ECANCELED outer:0@10");
}

static void shield_holds_back_an_outer_deadline_but_not_its_own(void **state)
{
    (void)state;
    check_scopes((struct bounds){ { .timeout_ns = 10 * MS }, { .shield = true }, 50 }, "slept:0@50 inner:0 outer:0@50");
    check_scopes((struct bounds){ { .timeout_ns = 10 * MS }, { .shield = true, .timeout_ns = 20 * MS }, 50 },
                 "slept:ECANCELED@20 inner:ECANCELED outer:ETIMEDOUT@20");
}

static void shield_lets_cleanup_wait(void **state)
{
    (void)state;
    struct orr_runtime *rt = fixture_open();
    struct step_task cleans = { .name = "cleans", .body = clean_up };
    struct step_task parent = { .name = "parent", .body = start_children, .children = { &cleans } };
    step_task_start(rt, &parent);
    assert_int_equal(orr_runtime_leave(rt), 0);
    assert_true(orr_runtime_turn(rt, ORR_NEVER) >= 0);
    assert_int_equal(orr_runtime_enter(rt), 0);
    orr_task_cancel(parent.task, "enough");
    fixture_run(rt);
    assert_string_equal(notes(), "parent:done cleaned:0@30 then:ECANCELED");
    assert_int_equal(parent.done_at, cleans.done_at);
    STEP_TASKS_UNREF(&parent, &cleans);
    fixture_close(rt);
}

struct block {
    struct orr_scope_options options;
    int error; /* the error with which the body leaves the block */
    bool cancel;
};

/* Starts its children in a scope and leaves it at once. */
static int children_in_scope(struct orr_task *task, struct step_task *self)
{
    const struct block *block = self->data;
    STEPS(self)
    {
        orr_scope_enter(task, &self->scope, &block->options);
        step_task_start_children(self);
        if (block->cancel)
            orr_scope_cancel(&self->scope, "by hand");
        STEP(self, 1);
        self->caught = AWAIT(orr_scope_leave(task, &self->wait, &self->scope, block->error));
        note("left:%s@%llu", self->caught ? strerrorname_np(-self->caught) : "0", fixture_ms(orr_task_runtime(task)));
        if (orr_task_failed_child(task))
            note("by:%s", orr_task_name(orr_task_failed_child(task)));
    }
    return 0;
}

static void check_block(struct block block, struct step_task *one, struct step_task *two, const char *expected)
{
    struct orr_runtime *rt = fixture_open();
    struct step_task waiter = { .name = "a", .body = children_in_scope, .data = &block, .children = { one, two } };
    step_task_start(rt, &waiter);
    fixture_run(rt);
    assert_string_equal(notes(), expected);
    assert_int_equal(orr_task_result(waiter.task)->error, 0);
    orr_task_unref(waiter.task);
    orr_task_unref(one->task);
    orr_task_unref(two->task);
    assert_int_equal(harness_log_lines(), 0);
    fixture_close(rt);
}

static void scope_is_left_when_its_children_are_done(void **state)
{
    (void)state;
    struct step_task one = { .name = "one", .body = sleep_for, .data = (void *)10 };
    struct step_task two = { .name = "two", .body = sleep_for, .data = (void *)20 };
    check_block((struct block){ { 0 }, 0, false }, &one, &two, "one:0@10 two:0@20 left:0@20");
}

static void scope_that_fails_cancels_its_children_first(void **state)
{
    (void)state;
    struct step_task one = { .name = "one", .body = sleep_for, .data = (void *)10 };
    struct step_task two = { .name = "two", .body = clean_up };
    char expected[128];
    snprintf(expected, sizeof expected, "one:%d@0 cleaned:0@30 then:ECANCELED left:EIO@30", -ECANCELED);
    check_block((struct block){ { 0 }, -EIO, false }, &one, &two, expected);
}

static void child_that_fails_in_a_scope_ends_it_with_its_failure(void **state)
{
    (void)state;
    struct step_task one = { .name = "one", .body = fail_after, .data = (void *)10 };
    struct step_task two = { .name = "two", .body = sleep_for, .data = (void *)20 };
    char expected[128];
    snprintf(expected, sizeof expected, "two:%d@10 left:ECHILD@10 by:one", -ECANCELED);
    check_block((struct block){ { 0 }, 0, false }, &one, &two, expected);
}

static void supervising_scope_waits_for_all_children_and_then_reports_failures(void **state)
{
    (void)state;
    struct step_task one = { .name = "one", .body = fail_after, .data = (void *)10 };
    struct step_task two = { .name = "two", .body = sleep_for, .data = (void *)20 };
    check_block((struct block){ { .supervise = true }, 0, false }, &one, &two, "two:0@20 left:ECHILD@20 by:one");
}

static void scope_whose_deadline_passes_while_it_waits_for_children_reports_a_timeout(void **state)
{
    (void)state;
    struct step_task one = { .name = "one", .body = sleep_for, .data = (void *)5 };
    struct step_task two = { .name = "two", .body = sleep_for, .data = (void *)20 };
    char expected[128];
    snprintf(expected, sizeof expected, "one:0@5 two:%d@10 left:ETIMEDOUT@10", -ECANCELED);
    check_block((struct block){ { .timeout_ns = 10 * MS }, 0, false }, &one, &two, expected);
}

static void cancelled_scope_is_left_without_an_error(void **state)
{
    (void)state;
    struct step_task one = { .name = "one", .body = sleep_for, .data = (void *)5 };
    struct step_task two = { .name = "two", .body = sleep_for, .data = (void *)20 };
    char expected[128];
    snprintf(expected, sizeof expected, "one:%d@0 two:%d@0 left:0@0", -ECANCELED, -ECANCELED);
    check_block((struct block){ { 0 }, 0, true }, &one, &two, expected);
}

static const struct CMUnitTest block[] = {
    cmocka_unit_test(nested_deadlines_tell_which_one_has_passed),
    cmocka_unit_test(move_on_ends_the_block_but_not_the_task),
    cmocka_unit_test(shield_holds_back_an_outer_deadline_but_not_its_own),
    cmocka_unit_test(shield_lets_cleanup_wait),
    cmocka_unit_test(scope_is_left_when_its_children_are_done),
    cmocka_unit_test(scope_that_fails_cancels_its_children_first),
    cmocka_unit_test(child_that_fails_in_a_scope_ends_it_with_its_failure),
    cmocka_unit_test(supervising_scope_waits_for_all_children_and_then_reports_failures),
    cmocka_unit_test(scope_whose_deadline_passes_while_it_waits_for_children_reports_a_timeout),
    cmocka_unit_test(cancelled_scope_is_left_without_an_error),
};

HARNESS_MAIN(block)
