/* Printing the tree of tasks, and what is logged about tasks that refuse to end. */
#include "step_task.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static char picture[1024];

static void keep_line(void *data, const char *text)
{
    (void)data;
    size_t length = strlen(picture);
    snprintf(picture + length, sizeof picture - length, "%s\n", text);
}

static void tree_is_printed_with_what_each_task_waits_for(void **state)
{
    (void)state;
    struct orr_runtime *rt = harness_runtime_with((struct orr_options){ .clock = ORR_CLOCK_MANUAL });
    assert_int_equal(orr_runtime_enter(rt), 0);
    struct step_task leaf = { .name = "leaf", .body = sleep_for, .data = (void *)1000 };
    struct step_task joins = { .name = "joins", .body = start_children, .children = { &leaf } };
    struct step_task waits = { .name = "waits", .body = start_and_sleep, .children = { &joins } };
    struct step_task idle = { .name = NULL, .body = do_nothing };
    step_task_start(rt, &waits);
    assert_int_equal(orr_runtime_leave(rt), 0);
    harness_settle(rt);
    assert_int_equal(orr_runtime_advance(rt, 50 * MS), 0);
    assert_int_equal(orr_runtime_enter(rt), 0);
    step_task_start(rt, &idle);
    picture[0] = '\0';
    assert_int_equal(orr_tree_print(NULL, keep_line, NULL), 4);
    assert_string_equal(picture, "waits: waiting for sleep, 50 ms\n"
                                 "  joins: waiting for its children\n"
                                 "    leaf: waiting for sleep, 50 ms\n"
                                 "(unnamed): ready\n");
    orr_task_cancel(joins.task, "enough");
    picture[0] = '\0';
    assert_int_equal(orr_tree_print(joins.task, keep_line, NULL), 2);
    assert_string_equal(picture, "joins: waiting for its children, cancelled (enough)\n"
                                 "  leaf: ready, cancelled (enough)\n");
    for (struct step_task *const *each = (struct step_task *[]){ &leaf, &joins, &waits, &idle, NULL }; *each; each++)
        orr_task_unref((*each)->task);
    assert_int_equal(orr_runtime_leave(rt), 0);
    assert_int_equal(orr_tree_print(NULL, keep_line, NULL), -EPERM);
    assert_int_equal(orr_runtime_free(rt), 0);
}

static void all_log_lines(void *data, enum orr_log level, const char *message)
{
    (void)data;
    (void)level;
    keep_line(NULL, message);
}

/* Sleeps inside a shield, however often it is cancelled. */
static int refuse_to_end(struct orr_task *task, struct step_task *self)
{
    if (!self->step++)
        orr_scope_enter(task, &self->scope, &(struct orr_scope_options){ .shield = true });
    return AWAIT(orr_sleep(task, &self->wait, HOUR));
}

static void tasks_that_outlast_the_grace_period_are_logged(void **state)
{
    (void)state;
    struct orr_runtime *rt = harness_runtime_with((struct orr_options){ .grace_ms = 20, .log = all_log_lines });
    struct step_task stubborn = { .name = "stubborn", .body = refuse_to_end };
    struct step_task parent = { .name = "parent", .body = start_and_sleep, .children = { &stubborn } };
    picture[0] = '\0';
    assert_int_equal(orr_runtime_enter(rt), 0);
    step_task_start(rt, &parent);
    assert_int_equal(orr_runtime_leave(rt), 0);
    assert_true(orr_runtime_turn(rt, ORR_NEVER) >= 0);
    assert_int_equal(orr_runtime_free(rt), 0);
    assert_non_null(strstr(picture, "worker 1: tasks were still there 20 ms after they had been cancelled:\n"
                                    "  parent: waiting for its children, cancelled (shutdown)\n"
                                    "    stubborn: waiting for sleep"));
    assert_true(parent.done_at && stubborn.done_at);
}

static void tasks_that_clean_up_in_time_end_by_themselves(void **state)
{
    (void)state;
    struct orr_runtime *rt = harness_runtime_with((struct orr_options){ .grace_ms = 60000, .log = all_log_lines });
    struct step_task cleans = { .name = "cleans", .body = clean_up };
    struct step_task deaf = { .name = "deaf", .body = do_nothing };
    picture[0] = '\0';
    notes_clear();
    assert_int_equal(orr_runtime_enter(rt), 0);
    step_task_start(rt, &cleans);
    step_task_start(rt, &deaf);
    assert_int_equal(orr_runtime_leave(rt), 0);
    assert_true(orr_runtime_turn(rt, ORR_NEVER) >= 0);
    assert_int_equal(orr_runtime_free(rt), 0);
    assert_int_equal(cleans.error, -ECANCELED);
    assert_int_equal(cleans.caught, -ECANCELED);
    assert_string_equal(picture, "");
}

static const struct CMUnitTest tree_print[] = {
    cmocka_unit_test(tree_is_printed_with_what_each_task_waits_for),
    cmocka_unit_test(tasks_that_outlast_the_grace_period_are_logged),
    cmocka_unit_test(tasks_that_clean_up_in_time_end_by_themselves),
};

HARNESS_MAIN(tree_print)
