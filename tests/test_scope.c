/*
 * The tree of tasks: parents wait for children, errors go up, cancellation comes down.  The examples are those of
 * structured concurrency as people know it, acted out by C tasks on the virtual clock.
 */
#include "script.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* --- Parents wait for children --------------------------------------------------------------------------- */

static int sleep_for(struct orr_task *task, struct actor *self)
{
    int error = AWAIT(orr_sleep(task, &self->wait, (uintptr_t)self->extra * MS));
    note("%s:%d@%llu", self->name, error, stage_ms(orr_task_runtime(task)));
    return error;
}

static int start_children(struct orr_task *task, struct actor *self)
{
    for (int i = 0; i < ACTOR_CHILDREN && self->children[i]; i++)
        actor_start(orr_task_runtime(task), self->children[i]);
    note("%s:done", self->name);
    return 0;
}

static void parent_is_done_when_its_children_are(void **state)
{
    (void)state;
    struct orr_runtime *rt = stage_open();
    struct actor slow = { .name = "slow", .act = sleep_for, .extra = (void *)100 };
    struct actor quick = { .name = "quick", .act = sleep_for, .extra = (void *)50 };
    struct actor parent = { .name = "parent", .act = start_children, .children = { &slow, &quick } };
    actor_start(rt, &parent);
    stage_run(rt);
    assert_string_equal(notes(), "parent:done quick:0@50 slow:0@100");
    assert_int_equal(parent.done_at - parent.ended_at, 100 * MS);
    assert_true(orr_task_done(parent.task));
    assert_int_equal(orr_task_result(parent.task)->error, 0);
    orr_task_unref(parent.task);
    orr_task_unref(slow.task);
    orr_task_unref(quick.task);
    stage_close(rt);
}

/* --- Errors go up ------------------------------------------------------------------------------------------ */

static int fail_after(struct orr_task *task, struct actor *self)
{
    int error = AWAIT(orr_sleep(task, &self->wait, (uintptr_t)self->extra * MS));
    return error ? error : -EIO;
}

static int start_and_sleep(struct orr_task *task, struct actor *self)
{
    if (!self->step++)
        for (int i = 0; i < ACTOR_CHILDREN && self->children[i]; i++)
            actor_start(orr_task_runtime(task), self->children[i]);
    int error = AWAIT(orr_sleep(task, &self->wait, 100 * MS));
    note("%s:%d@%llu", self->name, error, stage_ms(orr_task_runtime(task)));
    return error;
}

static void childs_failure_interrupts_the_parents_wait_and_cancels_its_siblings(void **state)
{
    (void)state;
    struct orr_runtime *rt = stage_open();
    struct actor fails = { .name = "fails", .act = fail_after, .extra = (void *)10 };
    struct actor other = { .name = "other", .act = sleep_for, .extra = (void *)1000 };
    struct actor parent = { .name = "parent", .act = start_and_sleep, .children = { &fails, &other } };
    actor_start(rt, &parent);
    stage_run(rt);
    char expected[64];
    snprintf(expected, sizeof expected, "parent:%d@10 other:%d@10", -ECHILD, -ECANCELED);
    assert_string_equal(notes(), expected);
    assert_int_equal(orr_task_result(parent.task)->error, -EIO);
    assert_ptr_equal(orr_task_cause(parent.task), fails.task);
    assert_int_equal(orr_task_result(other.task)->error, -ECANCELED);
    orr_task_unref(parent.task);
    orr_task_unref(fails.task);
    orr_task_unref(other.task);
    stage_close(rt);
}

static const struct CMUnitTest scope[] = {
    cmocka_unit_test(parent_is_done_when_its_children_are),
    cmocka_unit_test(childs_failure_interrupts_the_parents_wait_and_cancels_its_siblings),
};

HARNESS_MAIN(scope)
