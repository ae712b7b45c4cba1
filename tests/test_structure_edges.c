/*
 * Structured concurrency when two things happen at once: a failure and an observer, an end and a
 * handle.
 */
#include "step_task.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* --- Each failure once ------------------------------------------------------------------------ */

static unsigned sunk;
static struct orr_task *kept;

static void count_sunk(void *data, struct orr_task *task)
{
    (void)data;
    (void)task;
    sunk++;
}

static void keep_sunk(void *data, struct orr_task *task)
{
    (void)data;
    kept = orr_task_ref(task);
}

static struct orr_runtime *fixture_open_with_sink(orr_sink_fn *sink)
{
    sunk = 0;
    kept = NULL;
    struct orr_runtime *rt = harness_runtime_with((struct orr_options){ .clock = ORR_CLOCK_VIRTUAL, .sink = sink });
    assert_non_null(rt);
    assert_int_equal(orr_runtime_enter(rt), 0);
    return rt;
}

static enum orr_poll fail_poll(struct orr_task *task, void *data)
{
    struct orr_wait *wait = data;
    int error = orr_sleep(task, wait, 10 * MS);
    return error == -EAGAIN ? ORR_PENDING : orr_task_fail(task, error ? error : -EIO);
}

struct couple {
    struct orr_wait wait;
    struct orr_task *child;
};

static enum orr_poll join_poll(struct orr_task *task, void *data)
{
    struct couple *couple = data;
    orr_spawn(orr_task_runtime(task),
              &(struct orr_spawn){ .poll = fail_poll, .data = &couple->wait, .task = &couple->child });
    return ORR_DONE;
}

static void failure_that_went_to_the_sink_with_its_parent_does_not_go_there_again(void **state)
{
    (void)state;
    struct orr_runtime *rt = fixture_open_with_sink(count_sunk);
    struct couple couple = { 0 };
    assert_int_equal(orr_spawn(rt, &(struct orr_spawn){ .poll = join_poll, .data = &couple }), 0);
    fixture_run(rt);
    assert_int_equal(sunk, 1);
    orr_task_unref(couple.child); /* nobody observed the child, but the sink was given its parent */
    assert_int_equal(sunk, 1);
    fixture_close(rt);
}

static unsigned values_dropped;

static void drop_value(void *value)
{
    (void)value;
    values_dropped++;
}

static enum orr_poll fail_with_value(struct orr_task *task, void *data)
{
    return orr_task_finish(task, (struct orr_result){ .error = -EIO, .value = data, .drop = drop_value });
}

static void task_can_be_read_as_long_as_the_sink_keeps_it(void **state)
{
    (void)state;
    values_dropped = 0;
    struct orr_runtime *rt = fixture_open_with_sink(keep_sunk);
    assert_int_equal(orr_spawn(rt, &(struct orr_spawn){ .poll = fail_with_value, .data = rt }), 0);
    fixture_run(rt);
    assert_non_null(kept);
    assert_int_equal(values_dropped, 0);
    assert_ptr_equal(orr_task_result(kept)->value, rt);
    orr_task_unref(kept);
    assert_int_equal(values_dropped, 1);
    fixture_close(rt);
}

/* --- Completed from outside ------------------------------------------------------------------- */

static int edge_sleep(struct orr_task *task, struct step_task *self)
{
    return AWAIT(orr_sleep(task, &self->wait, (uintptr_t)self->data * MS));
}

static int start_child(struct orr_task *task, struct step_task *self)
{
    step_task_start(orr_task_runtime(task), self->children[0]);
    return 0;
}

static int cancel_and_complete(struct orr_task *task, struct step_task *self)
{
    AWAIT(orr_sleep(task, &self->wait, MS));
    assert_int_equal(orr_task_cancel(self->other->task, NULL), 0);
    assert_int_equal(orr_task_complete(self->other->task, (struct orr_result){ .value = self }), 0);
    return 0;
}

static void completed_task_keeps_its_result_when_cancelled_while_it_joins(void **state)
{
    (void)state;
    struct orr_runtime *rt = fixture_open();
    struct step_task child = { .name = "child", .body = edge_sleep, .data = (void *)100 };
    struct step_task parent = { .name = "parent", .body = start_child, .children = { &child } };
    struct step_task other = { .name = "other", .body = cancel_and_complete, .other = &parent };
    step_task_start(rt, &parent);
    step_task_start(rt, &other);
    fixture_run(rt);
    assert_int_equal(orr_task_result(parent.task)->error, 0);
    assert_ptr_equal(orr_task_result(parent.task)->value, &other);
    STEP_TASKS_UNREF(&child, &parent, &other);
    fixture_close(rt);
}

/* --- An observer that cancels a waiter -------------------------------------------------------- */

struct meddler {
    struct orr_task *parent, *child;
    struct orr_event *event;
    struct orr_wait sleep, await, other;
    struct orr_observer observer;
    int answer;
    bool begun;
};

static void cancel_parent(struct orr_task *task, void *data)
{
    struct meddler *meddler = data;
    (void)task;
    orr_task_cancel(meddler->parent, "the child is done");
}

static enum orr_poll meddled_poll(struct orr_task *task, void *data)
{
    struct meddler *meddler = data;
    if (!meddler->begun) {
        meddler->begun = true;
        meddler->parent = task;
        orr_spawn(orr_task_runtime(task),
                  &(struct orr_spawn){ .poll = fail_poll, .data = &meddler->sleep, .task = &meddler->child });
        orr_event_new(&meddler->event);
        meddler->observer = (struct orr_observer){ .done = cancel_parent, .data = meddler };
        orr_task_observe(meddler->child, &meddler->observer);
    }
    meddler->answer = orr_task_await(task, &meddler->await, meddler->child);
    if (meddler->answer != -EAGAIN)
        return orr_task_fail(task, meddler->answer);
    orr_event_wait(task, &meddler->other, meddler->event);
    return ORR_PENDING;
}

/* Runs in a child process, because a defect would make it hang. */
static int meddle(void)
{
    alarm(250); /* shortly before the test is ended */
    struct meddler meddler = { 0 };
    struct orr_runtime *rt = fixture_open_with_sink(count_sunk);
    orr_spawn(rt, &(struct orr_spawn){ .poll = meddled_poll, .data = &meddler });
    orr_runtime_leave(rt);
    orr_runtime_run(rt);
    orr_runtime_enter(rt);
    orr_task_unref(meddler.child);
    orr_event_free(meddler.event);
    orr_runtime_leave(rt);
    orr_runtime_free(rt);
    return meddler.answer == -ECANCELED ? 0 : 1;
}

static void observer_may_cancel_a_task_that_waits_for_the_same_child_and_for_more(void **state)
{
    (void)state;
    pid_t child = fork();
    if (child == 0)
        _exit(meddle());
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* --- Leaving a scope while something fails around it ------------------------------------------ */

static int edge_fail(struct orr_task *task, struct step_task *self)
{
    int error = AWAIT(orr_sleep(task, &self->wait, (uintptr_t)self->data * MS));
    return error ? error : -EIO;
}

static int leave_inner(struct orr_task *task, struct step_task *self)
{
    if (!self->step++) {
        step_task_start(orr_task_runtime(task), self->children[0]);
        orr_scope_enter(task, &self->scope, NULL);
        step_task_start(orr_task_runtime(task), self->children[1]);
    }
    self->caught = AWAIT(orr_scope_leave(task, &self->wait, &self->scope, 0));
    return self->caught;
}

static void failure_outside_a_scope_that_is_being_left_cancels_what_is_in_it(void **state)
{
    (void)state;
    struct orr_runtime *rt = fixture_open();
    struct step_task fails = { .name = "fails", .body = edge_fail, .data = (void *)10 };
    struct step_task slow = { .name = "slow", .body = edge_sleep, .data = (void *)1000 };
    struct step_task parent = { .name = "parent", .body = leave_inner, .children = { &fails, &slow } };
    step_task_start(rt, &parent);
    fixture_run(rt);
    unsigned long long took = fixture_ms(rt);
    orr_task_result(parent.task);
    STEP_TASKS_UNREF(&parent, &fails, &slow);
    fixture_close(rt);
    assert_int_equal(took, 10);
}

/* --- The first failure ------------------------------------------------------------------------ */

/* Looks only after both children have failed and it has been woken. */
static int look_late(struct orr_task *task, struct step_task *self)
{
    if (!self->step++) {
        step_task_start(orr_task_runtime(task), self->children[0]);
        orr_scope_enter(task, &self->scope, NULL);
        step_task_start(orr_task_runtime(task), self->children[1]);
        return -EAGAIN;
    }
    if (!self->children[0]->done_at || !self->children[1]->done_at)
        return -EAGAIN;
    self->caught = orr_checkpoint(task);
    self->data = orr_task_failed_child(task);
    return 0;
}

static void earlier_failure_of_an_outer_scope_is_told_first(void **state)
{
    (void)state;
    struct orr_runtime *rt = fixture_open();
    struct step_task first = { .name = "first", .body = edge_fail, .data = (void *)10 };
    struct step_task second = { .name = "second", .body = edge_fail, .data = (void *)20 };
    struct step_task parent = { .name = "parent", .body = look_late, .children = { &first, &second } };
    step_task_start(rt, &parent);
    orr_runtime_leave(rt);
    while (orr_runtime_turn(rt, ORR_NEVER) > 0)
        continue;
    orr_runtime_enter(rt);
    orr_waker_wake(orr_task_waker(parent.task));
    fixture_run(rt);
    bool right = parent.data == first.task;
    orr_task_result(parent.task);
    STEP_TASKS_UNREF(&parent, &first, &second);
    fixture_close(rt);
    assert_true(right);
}

/* --- Failures that another task observed ------------------------------------------------------ */

static int edge_start(struct orr_task *task, struct step_task *self)
{
    if (!self->step++)
        step_task_start(orr_task_runtime(task), self->children[0]);
    self->caught = AWAIT(orr_sleep(task, &self->wait, 100 * MS));
    note("woke@%llu", fixture_ms(orr_task_runtime(task)));
    return self->caught;
}

static void look_at_once(struct orr_task *task, void *data)
{
    (void)data;
    orr_task_result(task);
}

static void failure_that_another_task_observed_does_not_end_a_sleep(void **state)
{
    (void)state;
    struct orr_runtime *rt = fixture_open();
    struct step_task child = { .name = "child", .body = edge_fail, .data = (void *)50 };
    struct step_task parent = { .name = "parent", .body = edge_start, .children = { &child } };
    struct orr_observer observer = { .done = look_at_once };
    step_task_start(rt, &parent);
    orr_runtime_leave(rt);
    orr_runtime_turn(rt, ORR_NEVER);
    orr_runtime_enter(rt);
    assert_int_equal(orr_task_observe(child.task, &observer), 0);
    fixture_run(rt);
    STEP_TASKS_UNREF(&parent, &child);
    fixture_close(rt);
    assert_int_equal(parent.caught, 0);
    assert_string_equal(notes(), "woke@100");
}

/* --- Detached failed tasks -------------------------------------------------------------------- */

static int start_detach_later(struct orr_task *task, struct step_task *self)
{
    if (!self->step++)
        step_task_start(orr_task_runtime(task), self->children[0]);
    self->caught = AWAIT(orr_sleep(task, &self->wait, 100 * MS));
    return 0;
}

static int await_other(struct orr_task *task, struct step_task *self)
{
    return AWAIT(orr_task_await(task, &self->wait, self->other->children[0]->task));
}

/* Called when the child is done: detaches it and drops the task that awaits it. */
static void detach_and_drop(struct orr_task *task, void *data)
{
    struct step_task *waiter = data;
    waiter->caught = orr_task_detach(task);
    orr_task_drop(orr_task_waker(waiter->task));
}

static void detached_failed_task_does_not_fail_its_parent_while_another_awaits_it(void **state)
{
    (void)state;
    struct orr_runtime *rt = fixture_open();
    struct step_task child = { .name = "child", .body = edge_fail, .data = (void *)50 };
    struct step_task parent = { .name = "parent", .body = start_detach_later, .children = { &child } };
    struct step_task waiter = { .name = "waiter", .body = await_other, .other = &parent };
    struct orr_observer observer = { .done = detach_and_drop, .data = &waiter };
    step_task_start(rt, &parent);
    orr_runtime_leave(rt);
    orr_runtime_turn(rt, ORR_NEVER);
    orr_runtime_enter(rt);
    step_task_start(rt, &waiter);
    assert_int_equal(orr_task_observe(child.task, &observer), 0);
    fixture_run(rt);
    STEP_TASKS_UNREF(&parent, &child, &waiter);
    fixture_close(rt);
    assert_int_equal(waiter.caught, 0);
    assert_int_equal(parent.caught, 0);
}

/* --- Primitives that a woken task still needs ------------------------------------------------- */

static int wait_for_event(struct orr_task *task, struct step_task *self)
{
    return AWAIT(orr_event_wait(task, &self->wait, self->data));
}

static void event_is_not_freed_before_the_tasks_it_woke_have_returned(void **state)
{
    (void)state;
    struct orr_runtime *rt = fixture_open();
    struct orr_event *event;
    assert_int_equal(orr_event_new(&event), 0);
    struct step_task waiter = { .name = "waiter", .body = wait_for_event, .data = event };
    step_task_start(rt, &waiter);
    orr_runtime_leave(rt);
    orr_runtime_turn(rt, ORR_NEVER);
    orr_runtime_enter(rt);
    assert_int_equal(orr_event_set(event), 1);
    int freed = orr_event_free(event);
    if (freed == 0)
        orr_task_drop(orr_task_waker(waiter.task)); /* the drop must not touch the freed event */
    fixture_run(rt);
    if (freed)
        assert_int_equal(orr_event_free(event), 0);
    orr_task_unref(waiter.task);
    fixture_close(rt);
    assert_int_equal(freed, -EBUSY);
}

static int reuse_wait(struct orr_task *task, struct step_task *self)
{
    struct orr_group *group = self->data;
    if (!self->step++) {
        assert_int_equal(orr_group_add(group, &self->wait), 0);
        assert_int_equal(orr_task_await(task, &self->wait, task), -EDEADLK);
    }
    int error = AWAIT(orr_sleep(task, &self->wait, MS));
    return error;
}

static void refused_wait_has_left_its_group(void **state)
{
    (void)state;
    struct orr_runtime *rt = fixture_open();
    struct orr_group group = { 0 };
    struct step_task waiter = { .name = "waiter", .body = reuse_wait, .data = &group };
    step_task_start(rt, &waiter);
    orr_runtime_leave(rt);
    orr_runtime_turn(rt, ORR_NEVER);
    orr_runtime_enter(rt);
    bool left = !group.pending && !group.granted;
    fixture_run(rt);
    orr_task_unref(waiter.task);
    fixture_close(rt);
    assert_true(left);
}

static const struct CMUnitTest structure_edges[] = {
    cmocka_unit_test(failure_that_went_to_the_sink_with_its_parent_does_not_go_there_again),
    cmocka_unit_test(task_can_be_read_as_long_as_the_sink_keeps_it),
    cmocka_unit_test(completed_task_keeps_its_result_when_cancelled_while_it_joins),
    cmocka_unit_test(observer_may_cancel_a_task_that_waits_for_the_same_child_and_for_more),
    cmocka_unit_test(failure_outside_a_scope_that_is_being_left_cancels_what_is_in_it),
    cmocka_unit_test(earlier_failure_of_an_outer_scope_is_told_first),
    cmocka_unit_test(failure_that_another_task_observed_does_not_end_a_sleep),
    cmocka_unit_test(detached_failed_task_does_not_fail_its_parent_while_another_awaits_it),
    cmocka_unit_test(event_is_not_freed_before_the_tasks_it_woke_have_returned),
    cmocka_unit_test(refused_wait_has_left_its_group),
};

HARNESS_MAIN(structure_edges)
