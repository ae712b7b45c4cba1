/*
 * Memory runs out at every point of a scene that has everything structure is made of: a tree, scopes, every primitive,
 * futures, groups, spawns with handles.  Whoever asked for memory is told so by -ENOMEM, the others go on, and
 * nothing is lost.
 */
#include "alarm.h"
#include "failing.h"
#include "harness.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { HANDS = 300, ITEMS = 200 };

/* Counts down with each allocation; the one that finds 0 fails, and with `for_good` all after it. */
static int allowed = INT32_MAX;
static bool for_good, ran_out;
static long long held;

static bool may_allocate(void)
{
    bool may = allowed > 0 || (allowed < 0 && !for_good);
    ran_out |= !may;
    allowed--;
    return may;
}

static void *failing_alloc(void *data, void *block, size_t old_size, size_t size)
{
    (void)data;
    if (size && !may_allocate())
        return NULL;
    held += (long long)size - (long long)old_size;
    if (size)
        return realloc(block, size);
    free(block);
    return NULL;
}

/* --- The scene ------------------------------------------------------------------------------------------- */

struct scene;

/* A child that tries one thing, waits for another, and perhaps fails. */
struct hand {
    struct scene *scene;
    unsigned number, step;
    int put;
    struct orr_wait wait, wait2;
    struct orr_group group;
    struct orr_scope scope;
    struct orr_task *task;
};

struct scene {
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
    struct hand hands[HANDS];
};

static struct scene scene;

/* Whether it was done; if not, there was no memory. */
static bool accepted(int error)
{
    if (error)
        assert_int_equal(error, -ENOMEM);
    scene.refused += error != 0;
    return !error;
}

static void drop_value(void *value)
{
    (void)value;
    scene.values_dropped++;
}

static struct orr_result some_value(int error)
{
    scene.values++;
    return (struct orr_result){ .error = error, .value = &scene, .drop = drop_value };
}

static void drop_item(void *item)
{
    (void)item;
    scene.items_gone++;
}

static void hand_drop(void *data)
{
    (void)data;
    scene.dropped++;
}

static enum orr_poll one_shot(struct orr_task *task, void *data)
{
    (void)data;
    return orr_task_finish(task, some_value(0));
}

static bool spawn(struct orr_spawn what)
{
    what.drop = hand_drop;
    bool made = accepted(orr_spawn(scene.rt, &what));
    scene.made += made;
    return made;
}

/* For the event or some time, whichever is first. */
static int wait_in_group(struct orr_task *task, struct hand *self)
{
    struct orr_wait *first;
    if (self->step == 0) {
        orr_group_add(&self->group, &self->wait);
        orr_group_add(&self->group, &self->wait2);
        int event = scene.event ? orr_event_wait(task, &self->wait, scene.event) : -EAGAIN;
        int sleep = orr_sleep(task, &self->wait2, 20 * MS);
        if (event != -EAGAIN || sleep != -EAGAIN)
            return event != -EAGAIN ? event : sleep;
        self->step = 1;
    }
    return orr_wait_any(task, &self->group, &first);
}

static int wait_with_lock(struct orr_task *task, struct hand *self)
{
    if (!scene.mutex || !scene.condition)
        return 0;
    if (self->step == 0) {
        int error = orr_mutex_lock(task, &self->wait, scene.mutex);
        if (error)
            return error;
        self->step = 1;
    }
    int error = orr_condition_wait(task, &self->wait, scene.condition, scene.mutex);
    if (error != -EAGAIN)
        assert_int_equal(orr_mutex_unlock(task, scene.mutex), 0);
    return error;
}

static int hold_a_permit(struct orr_task *task, struct hand *self)
{
    if (!scene.semaphore)
        return 0;
    if (self->step == 0) {
        int error = orr_semaphore_acquire(task, &self->wait, scene.semaphore);
        if (error)
            return error;
        self->step = 1;
    }
    int error = orr_sleep(task, &self->wait, MS / 100);
    if (error != -EAGAIN)
        assert_int_equal(orr_semaphore_release(scene.semaphore), 0);
    return error;
}

/* More than a segment of the queue. */
static int put_items(struct orr_task *task, struct hand *self)
{
    for (; scene.queue && self->put < ITEMS; self->put++) {
        int error = orr_queue_put(task, &self->wait, scene.queue, &scene);
        if (error == -ECANCELED || error == -EAGAIN)
            return error;
        scene.items += accepted(error);
    }
    return 0;
}

static int get_items(struct orr_task *task, struct hand *self)
{
    void *item;
    int error = scene.queue ? 0 : -EPIPE;
    while (!error && self->put < ITEMS / 2) {
        error = orr_queue_get(task, &self->wait, scene.queue, &item);
        self->put += !error;
        scene.items_gone += !error;
    }
    return error == -EPIPE ? 0 : error;
}

/* Children of its own, in a scope that has a deadline. */
static int begin_a_family(struct orr_task *task, struct hand *self)
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

static int wait_for_future(struct orr_task *task, struct hand *self)
{
    return scene.future ? orr_future_wait(task, &self->wait, scene.future) : 0;
}

static int end_badly(struct orr_task *task, struct hand *self)
{
    int error = orr_sleep(task, &self->wait, 5 * MS);
    scene.failing += !error;
    return error ? error : -EIO;
}

static enum orr_poll hand_poll(struct orr_task *task, void *data)
{
    static int (*const does[])(struct orr_task * task, struct hand * self) = {
        wait_in_group, wait_with_lock, hold_a_permit, put_items, get_items, begin_a_family, wait_for_future, end_badly,
    };
    struct hand *self = data;
    int error = does[self->number % LENGTH(does)](task, self);
    if (error == -EAGAIN)
        return ORR_PENDING;
    assert_true(error == 0 || error == -ECANCELED || error == -EIO);
    return orr_task_finish(task, some_value(error));
}

/* --- The director, which makes everything, ends it, and puts it away ------------------------------------- */

static void make_everything(void)
{
    accepted(orr_event_new(&scene.event));
    accepted(orr_semaphore_new(2, &scene.semaphore));
    accepted(orr_mutex_new(&scene.mutex));
    accepted(orr_condition_new(&scene.condition));
    accepted(orr_queue_new(0, drop_item, &scene.queue));
    accepted(orr_future_new(scene.rt, NULL, &scene.future));
    for (unsigned i = 0; i < HANDS; i++) {
        struct hand *hand = &scene.hands[i];
        hand->number = i;
        spawn((struct orr_spawn){ .poll = hand_poll, .data = hand, .name = "hand", .task = &hand->task });
    }
}

static void end_everything(void)
{
    if (scene.event)
        orr_event_set(scene.event);
    if (scene.condition)
        orr_condition_notify(scene.condition, HANDS);
    if (scene.queue)
        orr_queue_close(scene.queue);
    if (scene.future)
        assert_int_equal(orr_future_complete(scene.future, some_value(0)), 0);
    if (scene.hands[1].task && !orr_task_done(scene.hands[1].task)) {
        assert_int_equal(orr_task_complete(scene.hands[1].task, some_value(-EREMOTEIO)), 0);
        scene.failing++;
    }
    if (scene.hands[0].task)
        orr_task_cancel(scene.hands[0].task, NULL);
}

static enum orr_poll director_poll(struct orr_task *task, void *data)
{
    (void)data;
    int error;
    switch (scene.step) {
    case 0:
        orr_scope_enter(task, &scene.scope, &(struct orr_scope_options){ .supervise = true, .timeout_ns = SECOND });
        make_everything();
        scene.step = 1;
        /* fall through */
    case 1:
        error = orr_sleep(task, &scene.wait, 10 * MS);
        if (error == -EAGAIN)
            return ORR_PENDING;
        assert_int_equal(error, 0);
        end_everything();
        scene.step = 2;
        /* fall through */
    default:
        scene.left = orr_scope_leave(task, &scene.wait, &scene.scope, 0);
        if (scene.left == -EAGAIN)
            return ORR_PENDING;
        return ORR_DONE;
    }
}

static void put_everything_away(void)
{
    for (unsigned i = 0; i < HANDS; i++)
        orr_task_unref(scene.hands[i].task);
    if (scene.semaphore)
        assert_int_equal(orr_semaphore_free_permits(scene.semaphore), 2);
    assert_int_equal(orr_event_free(scene.event), 0);
    assert_int_equal(orr_semaphore_free(scene.semaphore), 0);
    assert_int_equal(orr_mutex_free(scene.mutex), 0);
    assert_int_equal(orr_condition_free(scene.condition), 0);
    assert_int_equal(orr_queue_free(scene.queue), 0);
    orr_future_unref(scene.future);
}

static void count_sunk(void *data, struct orr_task *task)
{
    (void)data;
    (void)task;
    scene.sunk++;
}

/* When there is memory again, the runtime does as it always did. */
static void play_on(void)
{
    allowed = INT32_MAX;
    unsigned dropped = scene.dropped;
    assert_int_equal(orr_runtime_enter(scene.rt), 0);
    assert_true(spawn((struct orr_spawn){ .poll = one_shot }));
    assert_int_equal(orr_runtime_leave(scene.rt), 0);
    assert_int_equal(orr_runtime_run(scene.rt), 0);
    assert_int_equal(scene.dropped, dropped + 1);
}

static void play_in(struct orr_runtime *rt)
{
    scene.rt = rt;
    assert_int_equal(orr_runtime_enter(rt), 0);
    bool directed = spawn((struct orr_spawn){ .poll = director_poll });
    assert_int_equal(orr_runtime_leave(rt), 0);
    assert_int_equal(orr_runtime_run(rt), 0);
    assert_int_equal(orr_runtime_enter(rt), 0);
    put_everything_away();
    assert_int_equal(orr_runtime_leave(rt), 0);
    assert_int_equal(scene.left, directed && scene.failing ? -ECHILD : 0);
    play_on();
    assert_int_equal(harness_stats(rt, 0).tasks_live, 0);
    assert_int_equal(orr_runtime_free(rt), 0);
}

/* True if nothing was refused. */
static bool play(void)
{
    memset(&scene, 0, sizeof scene);
    ran_out = false;
    struct orr_runtime *rt = harness_runtime_with(
        (struct orr_options){ .clock = ORR_CLOCK_VIRTUAL, .alloc = failing_alloc, .sink = count_sunk });
    if (rt)
        play_in(rt);
    else
        assert_int_equal(errno, ENOMEM);
    bool lacking = ran_out;
    allowed = INT32_MAX;
    assert_true(!rt || !lacking || scene.refused);
    assert_int_equal(scene.made, scene.dropped);
    assert_int_equal(scene.values, scene.values_dropped);
    assert_int_equal(scene.items, scene.items_gone);
    assert_int_equal(scene.sunk, 0);
    assert_int_equal(held, 0);
    return !lacking;
}

static void fail_at_every_point(void)
{
    int point = 0;
    bool through;
    do {
        allowed = point++;
        through = play();
    } while (!through);
    print_message("%d points of failure\n", point - 1);
    assert_true(point > 15);
    assert_true(play());
}

/* First, because what the process keeps for all runtimes is allocated only once. */
static void one_allocation_fails_and_all_others_go_on(void **state)
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
    cmocka_unit_test(one_allocation_fails_and_all_others_go_on),
    cmocka_unit_test(memory_runs_out_for_good_and_nothing_is_lost),
};

HARNESS_MAIN(structure_faults)
