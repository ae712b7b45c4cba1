/*
 * Interrupted tasks run before ready tasks, whichever queue they are in.  The cost of that does not
 * depend on how many tasks are ready.
 */
#include "step_task.h"

#include "exec/turn.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void failure_reaches_the_parent_before_ready_siblings_run(void **state)
{
    (void)state;
    struct orr_runtime *rt = fixture_open();
    struct step_task one = { .name = "one", .body = sleep_for, .data = (void *)10 };
    struct step_task fails = { .name = "fails", .body = fail_after, .data = (void *)10 };
    struct step_task three = { .name = "three", .body = sleep_for, .data = (void *)10 };
    struct step_task four = { .name = "four", .body = sleep_for, .data = (void *)10 };
    struct step_task parent = { .name = "parent",
                                .body = start_and_sleep,
                                .children = { &one, &fails, &three, &four } };
    step_task_start(rt, &parent);
    fixture_run(rt);
    char expected[128];
    snprintf(expected, sizeof expected, "one:0@10 parent:%d@10 three:%d@10 four:%d@10", -ECHILD, -ECANCELED,
             -ECANCELED);
    assert_string_equal(notes(), expected);
    step_task_unref_children(&parent);
    orr_task_unref(parent.task);
    fixture_close(rt);
}

/* The parent's own sleep ends in the same turn, so it is in the ready queue behind its children. */
static int start_and_sleep_as_long(struct orr_task *task, struct step_task *self)
{
    STEPS(self)
    {
        step_task_start_children(self);
        STEP(self, 1);
        AWAIT(orr_sleep(task, &self->wait, MS)); /* the children begin to sleep first */
        STEP(self, 2);
        return note_end(self, AWAIT(orr_sleep(task, &self->wait, 9 * MS)));
    }
    return 0;
}

static void ready_parent_of_a_failed_child_runs_before_other_ready_tasks(void **state)
{
    (void)state;
    struct orr_runtime *rt = fixture_open();
    struct step_task fails = { .name = "fails", .body = fail_after, .data = (void *)10 };
    struct step_task two = { .name = "two", .body = sleep_for, .data = (void *)10 };
    struct step_task parent = { .name = "parent", .body = start_and_sleep_as_long, .children = { &fails, &two } };
    step_task_start(rt, &parent);
    fixture_run(rt);
    char expected[128];
    snprintf(expected, sizeof expected, "parent:%d@10 two:%d@10", -ECHILD, -ECANCELED);
    assert_string_equal(notes(), expected);
    step_task_unref_children(&parent);
    orr_task_unref(parent.task);
    fixture_close(rt);
}

static void tasks_cancelled_by_a_failure_end_before_siblings_above_run(void **state)
{
    (void)state;
    struct orr_runtime *rt = fixture_open();
    struct step_task fails = { .name = "fails", .body = fail_after, .data = (void *)10 };
    struct step_task nephew = { .name = "nephew", .body = sleep_for, .data = (void *)1000 };
    struct step_task child = { .name = "child", .body = start_and_sleep, .children = { &fails, &nephew } };
    struct step_task sibling = { .name = "sibling", .body = start_and_sleep_as_long };
    struct step_task parent = { .name = "parent", .body = start_and_sleep, .children = { &child, &sibling } };
    step_task_start(rt, &parent);
    fixture_run(rt);
    char expected[160];
    snprintf(expected, sizeof expected, "child:%d@10 nephew:%d@10 parent:%d@10 sibling:%d@10", -ECHILD, -ECANCELED,
             -ECHILD, -ECANCELED);
    assert_string_equal(notes(), expected);
    step_task_unref_children(&child);
    step_task_unref_children(&parent);
    orr_task_unref(parent.task);
    fixture_close(rt);
}

/* --- Other shares ----------------------------------------------------------------------------- */

static struct share other_share;

/* The children get a share of their own, as tasks of an isolate; the parent is the host's. */
static int start_elsewhere_and_sleep(struct orr_task *task, struct step_task *self)
{
    int first = !self->step;
    int error = start_and_sleep(task, self);
    for (int i = 0; first && i < STEP_TASK_CHILDREN && self->children[i]; i++)
        self->children[i]->task->share = &other_share;
    return error;
}

static void parent_in_a_share_that_has_nothing_else_to_do_goes_first(void **state)
{
    (void)state;
    struct orr_runtime *rt = fixture_open();
    share_open(&other_share, NULL);
    struct step_task one = { .name = "one", .body = sleep_for, .data = (void *)10 };
    struct step_task fails = { .name = "fails", .body = fail_after, .data = (void *)10 };
    struct step_task three = { .name = "three", .body = sleep_for, .data = (void *)10 };
    struct step_task parent = { .name = "parent",
                                .body = start_elsewhere_and_sleep,
                                .children = { &one, &fails, &three } };
    step_task_start(rt, &parent);
    fixture_run(rt);
    char expected[128];
    snprintf(expected, sizeof expected, "one:0@10 parent:%d@10 three:%d@10", -ECHILD, -ECANCELED);
    assert_string_equal(notes(), expected);
    worker_close_share(parent.task->worker, &other_share);
    step_task_unref_children(&parent);
    orr_task_unref(parent.task);
    fixture_close(rt);
}

/* Interrupts a task whose share is closed before the task goes on. */
static int interrupt_and_close(struct orr_task *task, struct step_task *self)
{
    AWAIT(orr_sleep(task, &self->wait, 5 * MS));
    self->other->task->share = &other_share;
    worker_ready_interrupted(task->worker, self->other->task);
    assert_int_equal(orr_task_cancel(self->other->task, "test"), 0);
    assert_true(other_share.interrupted.first == self->other->task);
    worker_close_share(task->worker, &other_share);
    return 0;
}

static void interrupted_tasks_of_a_closed_share_move_to_the_hosts_share(void **state)
{
    (void)state;
    struct orr_runtime *rt = fixture_open();
    other_share = (struct share){ 0 };
    share_open(&other_share, NULL);
    struct step_task sleeper = { .name = "sleeper", .body = sleep_for, .data = (void *)1000 };
    struct step_task closer = { .name = "closer", .body = interrupt_and_close, .other = &sleeper };
    step_task_start(rt, &sleeper);
    step_task_start(rt, &closer);
    fixture_run(rt);
    char expected[64];
    snprintf(expected, sizeof expected, "sleeper:%d@5", -ECANCELED);
    assert_string_equal(notes(), expected);
    STEP_TASKS_UNREF(&sleeper, &closer);
    fixture_close(rt);
}

/* --- Cost ------------------------------------------------------------------------------------- */

enum { MANY = 20000 };

struct member {
    struct orr_wait wait;
    unsigned polls;
};

static enum orr_poll fail_in_a_crowd(struct orr_task *task, void *data)
{
    struct member *self = data;
    self->polls++;
    int error = orr_sleep(task, &self->wait, 10 * MS);
    return error == -EAGAIN ? ORR_PENDING : orr_task_fail(task, error ? error : -EIO);
}

struct crowd {
    struct orr_wait wait;
    struct member *members;
    unsigned caught, polls;
    bool begun;
};

static enum orr_poll catch_all(struct orr_task *task, void *data)
{
    struct crowd *self = data;
    self->polls++;
    for (unsigned i = 0; !self->begun && i < MANY; i++)
        assert_int_equal(orr_spawn(orr_task_runtime(task),
                                   &(struct orr_spawn){ .poll = fail_in_a_crowd, .data = &self->members[i] }),
                         0);
    self->begun = true;
    while (self->caught < MANY) {
        int error = orr_sleep(task, &self->wait, 1000 * MS);
        if (error == -EAGAIN)
            return ORR_PENDING;
        assert_int_equal(error, -ECHILD);
        self->caught++;
    }
    return ORR_DONE;
}

/*
 * All children are ready at once.  The parent runs first each time, and is told of each failure
 * alone.
 */
static void cost_of_a_failure_does_not_depend_on_the_number_of_ready_tasks(void **state)
{
    (void)state;
    struct orr_runtime *rt = fixture_open();
    struct crowd crowd = { .members = calloc(MANY, sizeof *crowd.members) };
    assert_non_null(crowd.members);
    assert_int_equal(orr_spawn(rt, &(struct orr_spawn){ .poll = catch_all, .data = &crowd }), 0);
    fixture_run(rt);
    assert_int_equal(crowd.caught, MANY);
    assert_in_range(crowd.polls, 1, MANY + 2);
    for (unsigned i = 0; i < MANY; i++)
        assert_int_equal(crowd.members[i].polls, 2);
    fixture_close(rt);
    free(crowd.members);
}

/* --- Fairness --------------------------------------------------------------------------------- */

struct quarrel {
    struct orr_wait wait;
    struct orr_scope scope;
    struct orr_wait child;
    unsigned rounds;
    bool inside, over;
    unsigned bystander_ran_at; /* the round in which it ran; 0 for never */
};

static enum orr_poll fail_when_cancelled(struct orr_task *task, void *data)
{
    return orr_sleep(task, data, 1000 * MS) == -EAGAIN ? ORR_PENDING : orr_task_fail(task, -EIO);
}

enum { ROUNDS = 3 * TURN_POLLS };

/*
 * Makes a child, cancels it, is told of its failure, and repeats.  All of that happens in the queue
 * of interrupted tasks.
 */
static enum orr_poll quarrel_poll(struct orr_task *task, void *data)
{
    struct quarrel *self = data;
    while (self->rounds < ROUNDS) {
        if (!self->inside) {
            self->inside = true;
            self->rounds++;
            orr_scope_enter(task, &self->scope, NULL);
            orr_spawn(orr_task_runtime(task), &(struct orr_spawn){ .poll = fail_when_cancelled, .data = &self->child });
            orr_scope_cancel(&self->scope, "quarrel");
        }
        int error = orr_scope_leave(task, &self->wait, &self->scope, 0);
        if (error == -EAGAIN)
            return ORR_PENDING;
        self->inside = false;
        self->scope = (struct orr_scope){ 0 };
    }
    self->over = true;
    return ORR_DONE;
}

static enum orr_poll stand_by(struct orr_task *task, void *data)
{
    struct quarrel *self = data;
    (void)task;
    self->bystander_ran_at = self->rounds;
    return ORR_DONE;
}

static void tasks_that_interrupt_each_other_for_ever_do_not_starve_ready_tasks(void **state)
{
    (void)state;
    struct orr_runtime *rt = fixture_open();
    struct quarrel quarrel = { 0 };
    assert_int_equal(orr_spawn(rt, &(struct orr_spawn){ .poll = quarrel_poll, .data = &quarrel }), 0);
    assert_int_equal(orr_spawn(rt, &(struct orr_spawn){ .poll = stand_by, .data = &quarrel }), 0);
    fixture_run(rt);
    assert_true(quarrel.over);
    assert_in_range(quarrel.bystander_ran_at, 1, ROUNDS - 1);
    fixture_close(rt);
}

static const struct CMUnitTest interrupt_order[] = {
    cmocka_unit_test(failure_reaches_the_parent_before_ready_siblings_run),
    cmocka_unit_test(ready_parent_of_a_failed_child_runs_before_other_ready_tasks),
    cmocka_unit_test(tasks_cancelled_by_a_failure_end_before_siblings_above_run),
    cmocka_unit_test(parent_in_a_share_that_has_nothing_else_to_do_goes_first),
    cmocka_unit_test(interrupted_tasks_of_a_closed_share_move_to_the_hosts_share),
    cmocka_unit_test(cost_of_a_failure_does_not_depend_on_the_number_of_ready_tasks),
    cmocka_unit_test(tasks_that_interrupt_each_other_for_ever_do_not_starve_ready_tasks),
};

HARNESS_MAIN(interrupt_order)
