/* Waits for many things at once, for tasks, for time and for I/O. */
#include "wait_fixture.h"

/* --- Groups ----------------------------------------------------------------------------------- */

struct trio {
    struct orr_group group;
    struct orr_wait waits[3];
    struct orr_semaphore *semaphores[3];
};
static void trio_open(struct trio *trio)
{
    *trio = (struct trio){ 0 };
    for (int i = 0; i < 3; i++) {
        trio->semaphores[i] = new_semaphore(1);
        assert_int_equal(orr_semaphore_try(trio->semaphores[i]), 0);
    }
}

/* Each semaphore must have its permit back. */
static void trio_close(struct trio *trio)
{
    for (int i = 0; i < 3; i++) {
        assert_int_equal(orr_semaphore_free_permits(trio->semaphores[i]), 1);
        assert_int_equal(orr_semaphore_free(trio->semaphores[i]), 0);
    }
}

static void trio_release(struct trio *trio, int i)
{
    assert_int_equal(orr_semaphore_release(trio->semaphores[i]), 0);
}

static void trio_begin(struct orr_task *task, struct trio *trio)
{
    for (int i = 0; i < 3; i++) {
        assert_int_equal(orr_group_add(&trio->group, &trio->waits[i]), 0);
        assert_int_equal(orr_semaphore_acquire(task, &trio->waits[i], trio->semaphores[i]), -EAGAIN);
    }
}

/* Takes the permit of a finished wait and releases it. */
static void pick_up(struct orr_task *task, struct trio *trio, struct orr_wait *wait)
{
    int i = (int)(wait - trio->waits);
    assert_int_equal(orr_semaphore_acquire(task, wait, trio->semaphores[i]), 0);
    trio_release(trio, i);
    note("%d", i);
}

static int one_after_the_other(struct orr_task *task, struct step_task *self)
{
    struct trio *trio = self->data;
    struct orr_wait *next = NULL;
    if (!self->step++)
        trio_begin(task, trio);
    do {
        int error = AWAIT(orr_group_next(task, &trio->group, &next));
        if (error)
            return note_result(self, error);
        if (next)
            pick_up(task, trio, next);
    } while (next);
    return note_result(self, 0);
}

static int first_of_all(struct orr_task *task, struct step_task *self)
{
    struct trio *trio = self->data;
    struct orr_wait *first;
    STEPS(self)
    {
        trio_begin(task, trio);
        STEP(self, 1)
        self->caught = AWAIT(orr_wait_any(task, &trio->group, &first));
        if (!self->caught)
            pick_up(task, trio, first);
        note_result(self, self->caught);
        STEP(self, 2)
        AWAIT(orr_sleep(task, &self->wait, HOUR));
    }
    return 0;
}

static int all_of_them(struct orr_task *task, struct step_task *self)
{
    struct trio *trio = self->data;
    if (!self->step++)
        trio_begin(task, trio);
    int error = AWAIT(orr_wait_all(task, &trio->group));
    for (int i = 0; !error && i < 3; i++)
        pick_up(task, trio, &trio->waits[i]);
    return note_result(self, error);
}

static void group_hands_out_its_waits_in_the_order_in_which_they_were_granted(void **state)
{
    (void)state;
    open_fixture();
    struct trio trio;
    trio_open(&trio);
    struct step_task waiter = { .name = "end", .body = one_after_the_other, .data = &trio };
    start_tasks(&waiter, 1);
    trio_release(&trio, 2);
    trio_release(&trio, 0);
    settle();
    assert_string_equal(notes(), "2 0");
    trio_release(&trio, 1);
    settle();
    assert_string_equal(notes(), "2 0 1 end");
    trio_close(&trio);
    fixture_close(rt);
}

static void first_finished_wait_of_a_group_withdraws_the_others(void **state)
{
    (void)state;
    open_fixture();
    struct trio trio;
    trio_open(&trio);
    struct step_task waiter = { .name = "first", .body = first_of_all, .data = &trio };
    start_tasks(&waiter, 1);
    trio_release(&trio, 1);
    trio_release(&trio, 0); /* granted too, so the group releases it */
    assert_int_equal(orr_semaphore_free_permits(trio.semaphores[0]), 0);
    settle();
    assert_string_equal(notes(), "1 first");
    trio_release(&trio, 2); /* no task waits for it */
    trio_close(&trio);
    fixture_close(rt);
}

static void all_of_a_group_are_waited_for(void **state)
{
    (void)state;
    open_fixture();
    struct trio trio;
    trio_open(&trio);
    struct step_task waiter = { .name = "all", .body = all_of_them, .data = &trio };
    start_tasks(&waiter, 1);
    trio_release(&trio, 2);
    trio_release(&trio, 0);
    settle();
    assert_string_equal(notes(), "");
    trio_release(&trio, 1);
    settle();
    assert_string_equal(notes(), "0 1 2 all");
    trio_close(&trio);
    fixture_close(rt);
}

static void end_of_a_body_gives_back_what_its_group_was_granted(void **state)
{
    (void)state;
    step_fn *const bodies[] = { one_after_the_other, first_of_all, all_of_them };
    for (size_t i = 0; i < LENGTH(bodies); i++) {
        open_fixture();
        struct trio trio;
        trio_open(&trio);
        struct step_task waiter = { .name = "all", .body = bodies[i], .data = &trio };
        start_tasks(&waiter, 1);
        trio_release(&trio, 0);
        drop_task(&waiter);
        trio_release(&trio, 1);
        trio_release(&trio, 2);
        trio_close(&trio);
        fixture_close(rt);
    }
}

static void cancelled_task_is_told_by_its_group(void **state)
{
    (void)state;
    step_fn *const bodies[] = { one_after_the_other, all_of_them };
    for (size_t i = 0; i < LENGTH(bodies); i++) {
        open_fixture();
        struct trio trio;
        trio_open(&trio);
        struct step_task waiter = { .name = "group", .body = bodies[i], .data = &trio };
        start_tasks(&waiter, 1);
        assert_int_equal(orr_task_cancel(waiter.task, NULL), 0);
        settle();
        assert_string_equal(notes(), "group:ECANCELED");
        for (int k = 0; k < 3; k++)
            trio_release(&trio, k);
        trio_close(&trio);
        fixture_close(rt);
    }
}

static int use_a_wait_that_has_failed(struct orr_task *task, struct step_task *self)
{
    struct orr_group group = { 0 };
    struct orr_mutex *mutex;
    struct orr_wait *next;
    assert_int_equal(orr_mutex_new(&mutex), 0);
    assert_int_equal(orr_mutex_try(task, mutex), 0);
    assert_int_equal(orr_group_add(&group, &self->wait), 0);
    assert_int_equal(orr_mutex_lock(task, &self->wait, mutex), -EDEADLK);
    assert_int_equal(orr_sleep(task, &self->wait, HOUR), -EAGAIN);
    self->caught = orr_group_next(task, &group, &next);
    orr_group_clear(&group);
    assert_int_equal(orr_mutex_free(mutex), 0);
    note("%d", self->caught); /* -EAGAIN if the sleep has joined the group */
    return 0;
}

static void wait_that_has_failed_has_left_its_group(void **state)
{
    (void)state;
    open_fixture();
    run_in_task(use_a_wait_that_has_failed);
    assert_string_equal(notes(), "0");
    fixture_close(rt);
}

static int clear_a_group_of_sleeps(struct orr_task *task, struct step_task *self)
{
    struct orr_group group = { 0 };
    struct orr_wait other = { 0 };
    assert_int_equal(orr_group_add(&group, &self->wait), 0);
    assert_int_equal(orr_group_add(&group, &other), 0);
    assert_int_equal(orr_sleep(task, &self->wait, HOUR), -EAGAIN);
    assert_int_equal(orr_sleep(task, &other, 2 * HOUR), -EAGAIN);
    note("%d", (int)harness_stats(rt, 0).timers_pending);
    orr_wait_withdraw(&other);
    note("%d", (int)harness_stats(rt, 0).timers_pending);
    orr_group_clear(&group);
    note("%d", (int)harness_stats(rt, 0).timers_pending);
    return 0;
}

static void sleeps_in_a_group_leave_the_wheel_when_they_are_withdrawn(void **state)
{
    (void)state;
    open_fixture();
    run_in_task(clear_a_group_of_sleeps);
    assert_string_equal(notes(), "2 1 0");
    fixture_close(rt);
}

static int leave_group_without_asking_it(struct orr_task *task, struct step_task *self)
{
    struct trio *trio = self->data;
    STEPS(self)
    {
        trio_begin(task, trio);
        self->step = 1;
        return -EAGAIN;
        STEP(self, 1)
        for (int i = 0; i < 3; i++)
            pick_up(task, trio, &trio->waits[i]);
        STEP(self, 2)
        AWAIT(orr_event_wait(task, &self->wait, self->children[0]->data));
    }
    return 0;
}

static void tell_what_it_waits_for(void *data, const struct orr_task_info *info)
{
    *(const char **)data = info->waits_for;
}

/* The memory of the group may be used again. */
static void group_that_all_have_left_is_not_waited_for(void **state)
{
    (void)state;
    open_fixture();
    struct trio trio;
    trio_open(&trio);
    struct orr_event *event = new_event();
    struct step_task ends = { .data = event };
    struct step_task waiter = { .body = leave_group_without_asking_it, .data = &trio, .children = { &ends } };
    start_tasks(&waiter, 1);
    for (int i = 0; i < 3; i++)
        trio_release(&trio, i);
    settle();
    const char *waits_for = NULL;
    assert_int_equal(orr_tree_visit(waiter.task, tell_what_it_waits_for, &waits_for), 1);
    assert_string_equal(waits_for, "an event");
    orr_event_set(event);
    settle();
    trio_close(&trio);
    assert_int_equal(orr_event_free(event), 0);
    fixture_close(rt);
}

static int misuse_group(struct orr_task *task, struct step_task *self)
{
    struct orr_group group = { 0 };
    struct orr_wait *next = &self->wait;
    assert_int_equal(orr_group_add(NULL, &self->wait), -EINVAL);
    assert_int_equal(orr_group_add(&group, NULL), -EINVAL);
    assert_int_equal(orr_group_next(NULL, &group, &next), -EINVAL);
    assert_int_equal(orr_group_next(task, NULL, &next), -EINVAL);
    assert_int_equal(orr_group_next(task, &group, NULL), -EINVAL);
    assert_int_equal(orr_wait_any(task, NULL, &next), -EINVAL);
    assert_int_equal(orr_wait_all(task, NULL), -EINVAL);
    orr_group_clear(NULL);
    assert_int_equal(orr_group_next(task, &group, &next), 0);
    assert_null(next);
    assert_int_equal(orr_wait_all(task, &group), 0);
    assert_int_equal(orr_sleep(task, &self->wait, HOUR), -EAGAIN);
    assert_int_equal(orr_group_add(&group, &self->wait), -EBUSY);
    return 0;
}

static void misuse_of_groups_is_refused(void **state)
{
    (void)state;
    open_fixture();
    run_in_task(misuse_group);
    struct orr_group group = { 0 };
    struct orr_wait *next;
    struct step_task other = { .name = "other", .body = sleep_long };
    step_task_start(rt, &other);
    assert_int_equal(orr_group_next(other.task, &group, &next), -EPERM);
    assert_int_equal(orr_wait_all(other.task, &group), -EPERM);
    fixture_close(rt);
}

/* --- Tasks ------------------------------------------------------------------------------------ */

static int await_task(struct orr_task *task, struct step_task *self)
{
    return note_result(self, AWAIT(orr_task_await(task, &self->wait, self->other->task)));
}

/*
 * Keeps a child in a scope, supervised if `caught` is set, and leaves the scope when its event is
 * set.
 */
static int keep_a_child(struct orr_task *task, struct step_task *self)
{
    STEPS(self)
    {
        struct orr_scope_options options = { .supervise = self->caught };
        assert_int_equal(orr_scope_enter(task, &self->scope, &options), 0);
        step_task_start(rt, self->children[0]);
        STEP(self, 1)
        self->caught = AWAIT(orr_event_wait(task, &self->wait, self->data));
        note_result(self, self->caught);
        STEP(self, 2)
        note_result(self, AWAIT(orr_scope_leave(task, &self->wait, &self->scope, self->caught)));
    }
    return 0;
}

static void fail_at_once(struct step_task *waiter)
{
    assert_int_equal(orr_task_complete(waiter->task, (struct orr_result){ .error = -EIO }), 0);
    drop_task(waiter);
}

static void failure_goes_to_the_parent_if_the_awaiting_task_was_cancelled(void **state)
{
    (void)state;
    open_fixture();
    struct orr_event *event = new_event();
    struct step_task child = { .name = "child", .body = await_event, .data = event };
    struct step_task parent = { .name = "parent", .body = keep_a_child, .data = event, .children = { &child } };
    struct step_task waits = { .name = "waits", .body = await_task, .other = &child };
    start_tasks(&parent, 1);
    start_tasks(&waits, 1);
    assert_int_equal(orr_task_cancel(waits.task, NULL), 0);
    fail_at_once(&child);
    settle();
    assert_string_equal(notes(), "parent:ECHILD parent:ECHILD waits:ECANCELED");
    assert_int_equal(orr_event_free(event), 0);
    fixture_close(rt);
}

/* The scope keeps the failure, as if no task had awaited the child, and reports it on leaving. */
static void failure_that_the_awaiting_task_did_not_pick_up_goes_to_the_childs_scope(void **state)
{
    (void)state;
    open_fixture();
    struct orr_event *event = new_event(), *never = new_event();
    struct step_task child = { .name = "child", .body = await_event, .data = never };
    struct step_task parent = {
        .name = "parent", .body = keep_a_child, .data = event, .children = { &child }, .caught = 1
    };
    struct step_task waits = { .name = "waits", .body = await_task, .other = &child };
    start_tasks(&parent, 1);
    start_tasks(&waits, 1);
    fail_at_once(&child);
    drop_task(&waits);
    settle();
    assert_string_equal(notes(), "");
    assert_int_equal(orr_event_set(event), 1);
    settle();
    assert_string_equal(notes(), "parent parent:ECHILD");
    assert_int_equal(orr_event_free(event), 0);
    assert_int_equal(orr_event_free(never), 0);
    fixture_close(rt);
}

/* --- Sleep ------------------------------------------------------------------------------------ */

static int sleep_for_or_until(struct orr_task *task, struct step_task *self)
{
    uint64_t ms = (uintptr_t)self->data;
    int error = self->step ? orr_sleep_until(task, &self->wait, (uint64_t)self->caught + ms * MS)
                           : orr_sleep(task, &self->wait, ms * MS);
    if (error == -EAGAIN)
        return error;
    note("%s@%llu", self->name, fixture_ms(rt));
    return 0;
}

static void sleepers_wake_in_the_order_of_their_times(void **state)
{
    (void)state;
    open_fixture();
    struct step_task tasks[] = {
        { .name = "late", .body = sleep_for_or_until, .data = ITEM(20) },
        { .name = "early", .body = sleep_for_or_until, .data = ITEM(10) },
        { .name = "at-once", .body = sleep_for_or_until, .data = ITEM(0) },
        { .name = "past", .body = sleep_for_or_until, .data = ITEM(0), .step = 1 },
    };
    start_tasks(tasks, LENGTH(tasks));
    assert_string_equal(notes(), "past@0 at-once@0 early@10 late@20");
    fixture_close(rt);
}

static int yield_to_others(struct orr_task *task, struct step_task *self)
{
    note("%s-first", self->name);
    return note_result(self, AWAIT(orr_sleep(task, &self->wait, 0)));
}

static int say_name(struct orr_task *task, struct step_task *self)
{
    (void)task;
    return note_result(self, 0);
}

static void sleep_of_no_time_lets_others_go_first(void **state)
{
    (void)state;
    open_fixture();
    struct step_task yields = { .name = "yields", .body = yield_to_others },
                     other = { .name = "other", .body = say_name };
    step_task_start(rt, &yields);
    step_task_start(rt, &other);
    settle();
    assert_string_equal(notes(), "yields-first other yields-first yields");
    fixture_close(rt);
}

static int sleep_in_a_scope(struct orr_task *task, struct step_task *self)
{
    STEPS(self)
    {
        struct orr_scope_options limit = { .timeout_ns = 10 * MS };
        assert_int_equal(orr_scope_enter(task, &self->scope, &limit), 0);
        STEP(self, 1)
        self->caught = AWAIT(orr_sleep(task, &self->wait, 10 * MS));
        self->caught = orr_scope_leave(task, &self->wait, &self->scope, self->caught);
    }
    return note_result(self, self->caught);
}

/* Both are due in the same turn, the deadline first, which cancels the timer of the sleep. */
static void sleep_that_is_due_with_its_scopes_deadline_is_cut_short(void **state)
{
    (void)state;
    open_fixture();
    struct step_task tasks[] = THREE_TASKS(sleep_in_a_scope, NULL);
    start_tasks(tasks, 3);
    assert_string_equal(notes(), "a:ETIMEDOUT b:ETIMEDOUT c:ETIMEDOUT");
    fixture_close(rt);
}

/* --- I/O -------------------------------------------------------------------------------------- */

struct reading {
    struct orr_io io;
    int pipe[2];
    char byte;
    struct step_task child;
};
static int read_byte(struct orr_task *task, struct step_task *self)
{
    struct reading *reading = self->data;
    STEPS(self)
    {
        assert_int_equal(orr_io_await(task, &reading->io), -EALREADY);
        assert_int_equal(orr_io_read(task, &reading->io, reading->pipe[0], &reading->byte, 1), 0);
        if (reading->child.body)
            step_task_start(rt, &reading->child);
        STEP(self, 1)
        self->caught = AWAIT(orr_io_await(task, &reading->io));
        assert_true(orr_io_done(&reading->io));
    }
    return note_result(self, self->caught);
}

static void reading_start(struct reading *reading, struct step_task *reader)
{
    assert_int_equal(pipe(reading->pipe), 0);
    start_tasks(reader, 1);
    assert_string_equal(notes(), "");
}

/* Turns until the kernel has completed the read. */
static void reading_end(struct reading *reading, struct step_task *reader)
{
    while (!orr_task_done(reader->task))
        settle();
    close(reading->pipe[0]);
    close(reading->pipe[1]);
}

static void task_waits_for_input(void **state)
{
    (void)state;
    open_fixture();
    struct reading reading = { 0 };
    struct step_task reader = { .name = "reader", .body = read_byte, .data = &reading };
    reading_start(&reading, &reader);
    assert_int_equal(write(reading.pipe[1], "x", 1), 1);
    reading_end(&reading, &reader);
    assert_string_equal(notes(), "reader");
    assert_int_equal(reading.io.result, 1);
    assert_int_equal(reading.byte, 'x');
    fixture_close(rt);
}

static void input_of_a_cancelled_task_is_given_up(void **state)
{
    (void)state;
    open_fixture();
    struct reading reading = { 0 };
    struct step_task reader = { .name = "reader", .body = read_byte, .data = &reading };
    reading_start(&reading, &reader);
    assert_int_equal(orr_task_cancel(reader.task, NULL), 0);
    reading_end(&reading, &reader);
    assert_string_equal(notes(), "reader:ECANCELED");
    assert_int_equal(reading.io.result, -ECANCELED);
    fixture_close(rt);
}

static void input_is_given_up_when_a_child_fails(void **state)
{
    (void)state;
    open_fixture();
    struct orr_event *event = new_event();
    struct reading reading = { .child = { .name = "child", .body = await_event, .data = event } };
    struct step_task reader = { .name = "reader", .body = read_byte, .data = &reading };
    reading_start(&reading, &reader);
    assert_int_equal(orr_task_complete(reading.child.task, (struct orr_result){ .error = -EIO }), 0);
    reading_end(&reading, &reader);
    assert_string_equal(notes(), "child:ECANCELED reader:ECHILD");
    assert_int_equal(reading.io.result, -ECANCELED);
    assert_int_equal(orr_event_free(event), 0);
    fixture_close(rt);
}

/* Starts to read when it is cancelled. */
static int read_byte_late(struct orr_task *task, struct step_task *self)
{
    struct reading *reading = self->data;
    if (!self->step++)
        assert_int_equal(orr_io_read(task, &reading->io, reading->pipe[0], &reading->byte, 1), 0);
    return orr_task_cancelled(task) ? note_result(self, AWAIT(orr_io_await(task, &reading->io))) : -EAGAIN;
}

static void input_that_came_before_the_cancellation_is_read(void **state)
{
    (void)state;
    open_fixture();
    struct reading reading = { 0 };
    struct step_task reader = { .name = "reader", .body = read_byte_late, .data = &reading };
    reading_start(&reading, &reader);
    assert_int_equal(write(reading.pipe[1], "x", 1), 1);
    while (!orr_io_done(&reading.io))
        settle();
    assert_int_equal(orr_task_cancel(reader.task, NULL), 0);
    reading_end(&reading, &reader);
    assert_string_equal(notes(), "reader");
    assert_int_equal(reading.byte, 'x');
    fixture_close(rt);
}

static int misuse_io(struct orr_task *task, struct step_task *self)
{
    struct orr_io io = { 0 };
    (void)self;
    assert_int_equal(orr_io_await(NULL, &io), -EINVAL);
    assert_int_equal(orr_io_await(task, NULL), -EINVAL);
    assert_int_equal(orr_io_await(task, &io), -EALREADY);
    return 0;
}

static void misuse_of_io_await_is_refused(void **state)
{
    (void)state;
    open_fixture();
    run_in_task(misuse_io);
    struct step_task other = { .name = "other", .body = sleep_long };
    struct orr_io io = { 0 };
    step_task_start(rt, &other);
    assert_int_equal(orr_io_await(other.task, &io), -EPERM);
    fixture_close(rt);
}

static const struct CMUnitTest group[] = {
    cmocka_unit_test(group_hands_out_its_waits_in_the_order_in_which_they_were_granted),
    cmocka_unit_test(first_finished_wait_of_a_group_withdraws_the_others),
    cmocka_unit_test(all_of_a_group_are_waited_for),
    cmocka_unit_test(end_of_a_body_gives_back_what_its_group_was_granted),
    cmocka_unit_test(cancelled_task_is_told_by_its_group),
    cmocka_unit_test(wait_that_has_failed_has_left_its_group),
    cmocka_unit_test(sleeps_in_a_group_leave_the_wheel_when_they_are_withdrawn),
    cmocka_unit_test(group_that_all_have_left_is_not_waited_for),
    cmocka_unit_test(misuse_of_groups_is_refused),
    cmocka_unit_test(failure_goes_to_the_parent_if_the_awaiting_task_was_cancelled),
    cmocka_unit_test(failure_that_the_awaiting_task_did_not_pick_up_goes_to_the_childs_scope),
    cmocka_unit_test(sleepers_wake_in_the_order_of_their_times),
    cmocka_unit_test(sleep_of_no_time_lets_others_go_first),
    cmocka_unit_test(sleep_that_is_due_with_its_scopes_deadline_is_cut_short),
    cmocka_unit_test(task_waits_for_input),
    cmocka_unit_test(input_of_a_cancelled_task_is_given_up),
    cmocka_unit_test(input_is_given_up_when_a_child_fails),
    cmocka_unit_test(input_that_came_before_the_cancellation_is_read),
    cmocka_unit_test(misuse_of_io_await_is_refused),
};

HARNESS_MAIN(group)
