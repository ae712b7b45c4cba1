/*
 * Memory runs out at every point of a workload that uses all of structured concurrency: a tree,
 * scopes, every primitive, futures, groups, spawns with handles.  The caller that asked for memory
 * gets -ENOMEM, the other tasks go on, and nothing is lost.
 */
#include "alarm.h"
#include "failing.h"
#include "harness.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { CHILDREN = 300, ITEMS = 200 };

/*
 * Each allocation decrements this.  The one that finds 0 fails; with `for_good`, so do all after
 * it.
 */
static int allowed = INT32_MAX;
static bool for_good, ran_out;

static bool may_allocate(void)
{
    bool may = allowed > 0 || (allowed < 0 && !for_good);
    ran_out |= !may;
    allowed--;
    return may;
}

/* --- The workload ----------------------------------------------------------------------------- */

struct workload;

/* A child that uses one primitive, waits, and perhaps fails. */
struct child {
    struct workload *workload;
    unsigned number, step;
    int put;
    struct orr_wait wait, wait2;
    struct orr_group group;
    struct orr_scope scope;
    struct orr_task *task;
};

struct workload {
    struct orr_runtime *rt;
    unsigned step, made, dropped, values, values_dropped, items, items_gone, refused, sunk, failing;
    int left;
    struct orr_wait wait;
    struct orr_scope scope;
    struct orr_event *event;
    struct orr_semaphore *semaphore;
    struct orr_mutex *mutex;
    struct orr_condition *condition;
    struct orr_queue *queue;
    struct orr_future *future;
    struct child children[CHILDREN];
};

static struct workload workload;

/* True on success.  The only error allowed is -ENOMEM. */
static bool accepted(int error)
{
    if (error)
        assert_int_equal(error, -ENOMEM);
    workload.refused += error != 0;
    return !error;
}

static void drop_value(void *value)
{
    (void)value;
    workload.values_dropped++;
}

static struct orr_result some_value(int error)
{
    workload.values++;
    return (struct orr_result){ .error = error, .value = &workload, .drop = drop_value };
}

static void drop_item(void *item)
{
    (void)item;
    workload.items_gone++;
}

static void child_drop(void *data)
{
    (void)data;
    workload.dropped++;
}

static enum orr_poll one_shot(struct orr_task *task, void *data)
{
    (void)data;
    return orr_task_finish(task, some_value(0));
}

static bool spawn(struct orr_spawn what)
{
    what.drop = child_drop;
    bool made = accepted(orr_spawn(workload.rt, &what));
    workload.made += made;
    return made;
}

/* Waits for the event or for 20 ms, whichever comes first. */
static int wait_in_group(struct orr_task *task, struct child *self)
{
    struct orr_wait *first;
    if (self->step == 0) {
        orr_group_add(&self->group, &self->wait);
        orr_group_add(&self->group, &self->wait2);
        int event = workload.event ? orr_event_wait(task, &self->wait, workload.event) : -EAGAIN;
        int sleep = orr_sleep(task, &self->wait2, 20 * MS);
        if (event != -EAGAIN || sleep != -EAGAIN)
            return event != -EAGAIN ? event : sleep;
        self->step = 1;
    }
    return orr_wait_any(task, &self->group, &first);
}

static int wait_with_lock(struct orr_task *task, struct child *self)
{
    if (!workload.mutex || !workload.condition)
        return 0;
    if (self->step == 0) {
        int error = orr_mutex_lock(task, &self->wait, workload.mutex);
        if (error)
            return error;
        self->step = 1;
    }
    int error = orr_condition_wait(task, &self->wait, workload.condition, workload.mutex);
    if (error != -EAGAIN)
        assert_int_equal(orr_mutex_unlock(task, workload.mutex), 0);
    return error;
}

static int hold_a_permit(struct orr_task *task, struct child *self)
{
    if (!workload.semaphore)
        return 0;
    if (self->step == 0) {
        int error = orr_semaphore_acquire(task, &self->wait, workload.semaphore);
        if (error)
            return error;
        self->step = 1;
    }
    int error = orr_sleep(task, &self->wait, MS / 100);
    if (error != -EAGAIN)
        assert_int_equal(orr_semaphore_release(workload.semaphore), 0);
    return error;
}

/* Puts more items than a segment of the queue holds. */
static int put_items(struct orr_task *task, struct child *self)
{
    for (; workload.queue && self->put < ITEMS; self->put++) {
        int error = orr_queue_put(task, &self->wait, workload.queue, &workload);
        if (error == -ECANCELED || error == -EAGAIN)
            return error;
        workload.items += accepted(error);
    }
    return 0;
}

static int get_items(struct orr_task *task, struct child *self)
{
    void *item;
    int error = workload.queue ? 0 : -EPIPE;
    while (!error && self->put < ITEMS / 2) {
        error = orr_queue_get(task, &self->wait, workload.queue, &item);
        self->put += !error;
        workload.items_gone += !error;
    }
    return error == -EPIPE ? 0 : error;
}

/* Starts children in a scope that has a deadline. */
static int begin_a_family(struct orr_task *task, struct child *self)
{
    if (self->step == 0) {
        assert_int_equal(
            orr_scope_enter(task, &self->scope, &(struct orr_scope_options){ .timeout_ns = MS, .move_on = true }), 0);
        for (unsigned i = 0; i < 4; i++)
            spawn((struct orr_spawn){ .poll = one_shot });
        self->step = 1;
    }
    return orr_scope_leave(task, &self->wait, &self->scope, 0);
}

static int wait_for_future(struct orr_task *task, struct child *self)
{
    return workload.future ? orr_future_wait(task, &self->wait, workload.future) : 0;
}

static int end_badly(struct orr_task *task, struct child *self)
{
    int error = orr_sleep(task, &self->wait, 5 * MS);
    workload.failing += !error;
    return error ? error : -EIO;
}

static enum orr_poll child_poll(struct orr_task *task, void *data)
{
    static int (*const bodies[])(struct orr_task * task, struct child * self) = {
        wait_in_group, wait_with_lock, hold_a_permit, put_items, get_items, begin_a_family, wait_for_future, end_badly,
    };
    struct child *self = data;
    int error = bodies[self->number % LENGTH(bodies)](task, self);
    if (error == -EAGAIN)
        return ORR_PENDING;
    assert_true(error == 0 || error == -ECANCELED || error == -EIO);
    return orr_task_finish(task, some_value(error));
}

/* --- The parent, which makes everything, ends it, and frees it -------------------------------- */

static void make_everything(void)
{
    accepted(orr_event_new(&workload.event));
    accepted(orr_semaphore_new(2, &workload.semaphore));
    accepted(orr_mutex_new(&workload.mutex));
    accepted(orr_condition_new(&workload.condition));
    accepted(orr_queue_new(0, drop_item, &workload.queue));
    accepted(orr_future_new(workload.rt, NULL, &workload.future));
    for (unsigned i = 0; i < CHILDREN; i++) {
        struct child *child = &workload.children[i];
        child->number = i;
        spawn((struct orr_spawn){ .poll = child_poll, .data = child, .name = "child", .task = &child->task });
    }
}

static void end_everything(void)
{
    if (workload.event)
        orr_event_set(workload.event);
    if (workload.condition)
        orr_condition_notify(workload.condition, CHILDREN);
    if (workload.queue)
        orr_queue_close(workload.queue);
    if (workload.future)
        assert_int_equal(orr_future_complete(workload.future, some_value(0)), 0);
    if (workload.children[1].task && !orr_task_done(workload.children[1].task)) {
        assert_int_equal(orr_task_complete(workload.children[1].task, some_value(-EREMOTEIO)), 0);
        workload.failing++;
    }
    if (workload.children[0].task)
        orr_task_cancel(workload.children[0].task, NULL);
}

static enum orr_poll parent_poll(struct orr_task *task, void *data)
{
    (void)data;
    int error;
    switch (workload.step) {
    case 0:
        orr_scope_enter(task, &workload.scope, &(struct orr_scope_options){ .supervise = true, .timeout_ns = SECOND });
        make_everything();
        workload.step = 1;
        /* fall through */
    case 1:
        error = orr_sleep(task, &workload.wait, 10 * MS);
        if (error == -EAGAIN)
            return ORR_PENDING;
        assert_int_equal(error, 0);
        end_everything();
        workload.step = 2;
        /* fall through */
    default:
        workload.left = orr_scope_leave(task, &workload.wait, &workload.scope, 0);
        if (workload.left == -EAGAIN)
            return ORR_PENDING;
        return ORR_DONE;
    }
}

static void put_everything_away(void)
{
    for (unsigned i = 0; i < CHILDREN; i++)
        orr_task_unref(workload.children[i].task);
    if (workload.semaphore)
        assert_int_equal(orr_semaphore_free_permits(workload.semaphore), 2);
    assert_int_equal(orr_event_free(workload.event), 0);
    assert_int_equal(orr_semaphore_free(workload.semaphore), 0);
    assert_int_equal(orr_mutex_free(workload.mutex), 0);
    assert_int_equal(orr_condition_free(workload.condition), 0);
    assert_int_equal(orr_queue_free(workload.queue), 0);
    orr_future_unref(workload.future);
}

static void count_sunk(void *data, struct orr_task *task)
{
    (void)data;
    (void)task;
    workload.sunk++;
}

/* With memory again, the runtime works as before. */
static void run_again(void)
{
    allowed = INT32_MAX;
    unsigned dropped = workload.dropped;
    assert_int_equal(orr_runtime_enter(workload.rt), 0);
    assert_true(spawn((struct orr_spawn){ .poll = one_shot }));
    assert_int_equal(orr_runtime_leave(workload.rt), 0);
    assert_int_equal(orr_runtime_run(workload.rt), 0);
    assert_int_equal(workload.dropped, dropped + 1);
}

static void run_workload_on(struct orr_runtime *rt)
{
    workload.rt = rt;
    assert_int_equal(orr_runtime_enter(rt), 0);
    bool parent_ran = spawn((struct orr_spawn){ .poll = parent_poll });
    assert_int_equal(orr_runtime_leave(rt), 0);
    assert_int_equal(orr_runtime_run(rt), 0);
    assert_int_equal(orr_runtime_enter(rt), 0);
    put_everything_away();
    assert_int_equal(orr_runtime_leave(rt), 0);
    assert_int_equal(workload.left, parent_ran && workload.failing ? -ECHILD : 0);
    run_again();
    assert_int_equal(harness_stats(rt, 0).tasks_live, 0);
    assert_int_equal(orr_runtime_free(rt), 0);
}

/* True if no allocation failed. */
static bool run_workload(void)
{
    memset(&workload, 0, sizeof workload);
    ran_out = false;
    struct orr_runtime *rt = harness_runtime_with(
        (struct orr_options){ .clock = ORR_CLOCK_VIRTUAL, .alloc = failing_alloc, .sink = count_sunk });
    if (rt)
        run_workload_on(rt);
    else
        assert_int_equal(errno, ENOMEM);
    bool lacking = ran_out;
    allowed = INT32_MAX;
    assert_true(!rt || !lacking || workload.refused);
    assert_int_equal(workload.made, workload.dropped);
    assert_int_equal(workload.values, workload.values_dropped);
    assert_int_equal(workload.items, workload.items_gone);
    assert_int_equal(workload.sunk, 0);
    assert_int_equal(allocated_bytes, 0);
    return !lacking;
}

static void fail_at_every_point(void)
{
    int point = 0;
    bool through;
    do {
        allowed = point++;
        through = run_workload();
    } while (!through);
    print_message("%d points of failure\n", point - 1);
    assert_true(point > 15);
    assert_true(run_workload());
}

/* Runs first: memory that the process keeps for all runtimes is allocated only once. */
static void one_failed_allocation_is_an_error_for_its_caller_only(void **state)
{
    (void)state;
    for_good = false;
    fail_at_every_point();
}

static void memory_runs_out_for_good_and_nothing_is_lost(void **state)
{
    (void)state;
    for_good = true;
    fail_at_every_point();
}

static const struct CMUnitTest structure_faults[] = {
    cmocka_unit_test(one_failed_allocation_is_an_error_for_its_caller_only),
    cmocka_unit_test(memory_runs_out_for_good_and_nothing_is_lost),
};

HARNESS_MAIN(structure_faults)
