/* Futures, from any thread, at any time. */
#include "wait_fixture.h"

/* --- Futures ---------------------------------------------------------------------------------- */

static int await_future(struct orr_task *task, struct step_task *self)
{
    int error = AWAIT(orr_future_wait(task, &self->wait, self->data));
    self->caught = error ? error : orr_future_result(self->data)->error;
    return note_result(self, error);
}

static void complete_it(void *future)
{
    assert_int_equal(orr_future_complete(future, answer), 0);
}

static void give_it_up(void *future)
{
    orr_future_unref(future);
}

static void future_is_waited_for_by_several_tasks(void **state)
{
    (void)state;
    open_fixture();
    struct orr_future *future = new_future(false);
    struct step_task tasks[] = THREE_TASKS(await_future, future);
    start_tasks(tasks, 2);
    complete_it(future);
    assert_ptr_equal(orr_future_result(future)->value, ITEM(1));
    start_tasks(&tasks[2], 1);
    assert_string_equal(notes(), "a b c");
    assert_int_equal(values_dropped, 0);
    orr_future_unref(future);
    assert_int_equal(values_dropped, 1);
    fixture_close(rt);
}

static void future_completed_by_another_thread_wakes_waiting_tasks(void **state)
{
    (void)state;
    open_fixture();
    struct orr_future *future = new_future(false);
    struct step_task tasks[] = THREE_TASKS(await_future, future);
    start_tasks(tasks, 3);
    harness_on_thread(complete_it, future);
    settle();
    assert_string_equal(notes(), "a b c");
    orr_future_unref(future);
    assert_int_equal(values_dropped, 1);
    fixture_close(rt);
}

static void future_tells_the_error_that_it_was_completed_with(void **state)
{
    (void)state;
    open_fixture();
    struct orr_future *future = new_future(false);
    struct step_task waits = { .name = "waits", .body = await_future, .data = future };
    start_tasks(&waits, 1);
    assert_int_equal(orr_future_complete(future, (struct orr_result){ .error = -EIO }), 0);
    settle();
    assert_string_equal(notes(), "waits");
    assert_int_equal(waits.caught, -EIO);
    orr_future_unref(future);
    fixture_close(rt);
}

static void future_is_completed_once(void **state)
{
    (void)state;
    open_fixture();
    struct orr_future *future = new_future(false);
    complete_it(future);
    struct orr_result late = { .value = ITEM(100), .drop = drop_value };
    assert_int_equal(orr_future_complete(future, late), -EALREADY);
    assert_ptr_equal(orr_future_result(future)->value, ITEM(1));
    orr_future_unref(future);
    assert_int_equal(values_dropped, 1);
    fixture_close(rt);
}

static void future_is_completed_when_its_runtime_is_gone(void **state)
{
    (void)state;
    for (int foreign = 0; foreign < 2; foreign++) {
        open_fixture();
        struct orr_future *future = new_future(foreign);
        struct step_task tasks[] = THREE_TASKS(await_future, future);
        start_tasks(tasks, 3);
        fixture_close(rt);
        assert_string_equal(notes(), "a:ECANCELED b:ECANCELED c:ECANCELED");
        harness_on_thread(complete_it, future);
        assert_ptr_equal(orr_future_result(future)->value, ITEM(1));
        assert_int_equal(values_dropped, 0);
        harness_on_thread(give_it_up, future);
        assert_int_equal(values_dropped, 1);
    }
}

/* By then another runtime uses the same waker table. */
static void future_of_a_runtime_that_is_gone_leaves_the_next_one_alone(void **state)
{
    (void)state;
    open_fixture();
    struct orr_future *given_up = new_future(true), *completed = new_future(true);
    fixture_close(rt);
    open_fixture();
    struct orr_future *own = new_future(true);
    struct step_task sleeps = { .name = "sleeps", .body = sleep_long };
    harness_on_thread(give_it_up, given_up);
    harness_on_thread(complete_it, completed);
    start_tasks(&sleeps, 1);
    assert_string_equal(notes(), "");
    orr_future_unref(completed);
    orr_future_unref(own);
    settle();
    assert_string_equal(notes(), "sleeps");
    assert_int_equal(values_dropped, 1);
    fixture_close(rt);
}

static void waiting_task_keeps_its_future_alive(void **state)
{
    (void)state;
    open_fixture();
    struct orr_future *future = new_future(false);
    struct step_task waits = { .name = "waits", .body = await_future, .data = future };
    start_tasks(&waits, 1);
    complete_it(future);
    orr_future_unref(future);
    assert_int_equal(values_dropped, 0);
    drop_task(&waits);
    assert_int_equal(values_dropped, 1);
    fixture_close(rt);
}

static void virtual_clock_stands_still(struct step_task *sleeps)
{
    start_tasks(sleeps, 1);
    assert_string_equal(notes(), "");
    assert_int_equal(fixture_ms(rt), 0);
}

static void foreign_future_holds_back_the_virtual_clock_until_it_is_completed(void **state)
{
    (void)state;
    open_fixture();
    struct orr_future *here = new_future(true), *elsewhere = new_future(true);
    struct step_task sleeps = { .name = "sleeps", .body = sleep_long };
    virtual_clock_stands_still(&sleeps);
    complete_it(here);
    settle();
    assert_string_equal(notes(), "");
    harness_on_thread(complete_it, elsewhere);
    settle();
    assert_string_equal(notes(), "sleeps");
    orr_future_unref(here);
    orr_future_unref(elsewhere);
    fixture_close(rt);
}

static void foreign_future_holds_back_the_virtual_clock_until_it_is_given_up(void **state)
{
    (void)state;
    open_fixture();
    struct orr_future *here = new_future(true), *elsewhere = new_future(true);
    struct step_task sleeps = { .name = "sleeps", .body = sleep_long };
    virtual_clock_stands_still(&sleeps);
    orr_future_unref(here);
    settle();
    assert_string_equal(notes(), "");
    harness_on_thread(give_it_up, elsewhere);
    settle();
    assert_string_equal(notes(), "sleeps");
    fixture_close(rt);
}

static void future_that_is_not_foreign_holds_back_no_clock(void **state)
{
    (void)state;
    open_fixture();
    struct orr_future *future = new_future(false);
    struct step_task sleeps = { .name = "sleeps", .body = sleep_long };
    start_tasks(&sleeps, 1);
    assert_string_equal(notes(), "sleeps");
    orr_future_unref(future);
    fixture_close(rt);
}

static void stop_worker(unsigned worker)
{
    struct probe probe = { .done_after = 1 };
    struct orr_spawn what = { .poll = probe_poll, .data = &probe, .drop = probe_drop, .worker = worker };
    unsigned spawned = 0;
    assert_int_equal(orr_worker_stop(rt, worker), 0);
    while (!orr_spawn(rt, &what))
        harness_await(&probe.drops, ++spawned);
}

struct sleeper {
    struct orr_wait wait;
    bool awake;
};

static enum orr_poll sleep_an_hour(struct orr_task *task, void *data)
{
    struct sleeper *self = data;
    if (orr_sleep(task, &self->wait, HOUR) == -EAGAIN)
        return ORR_PENDING;
    self->awake = !orr_checkpoint(task);
    return ORR_DONE;
}

/* The worker that would be told of the end is gone, but the runtime is not. */
static void foreign_future_of_a_worker_that_has_stopped_holds_back_no_clock(void **state)
{
    (void)state;
    rt = runtime_on(ORR_CLOCK_VIRTUAL, 2);
    struct orr_future *future;
    assert_int_equal(orr_future_new(rt, &(struct orr_future_options){ .worker = 2, .foreign = true }, &future), 0);
    stop_worker(2);
    values_dropped = 0;
    complete_it(future);
    orr_future_unref(future);
    assert_int_equal(values_dropped, 1);
    struct sleeper sleeper = { 0 };
    assert_int_equal(orr_spawn(rt, &(struct orr_spawn){ .poll = sleep_an_hour, .data = &sleeper }), 0);
    while (!sleeper.awake) { /* for ever if the clock is held back */
        harness_settle(rt);
        sched_yield(); /* the worker's thread is about to end */
    }
    assert_int_equal(orr_runtime_free(rt), 0);
}

static enum orr_poll wait_for_anothers_future(struct orr_task *task, void *data)
{
    struct orr_wait wait = { 0 };
    struct orr_future *future;
    assert_int_equal(orr_future_new(rt, &(struct orr_future_options){ .worker = 2 }, &future), 0);
    *(int *)data = orr_future_wait(task, &wait, future);
    orr_future_unref(future);
    return ORR_DONE;
}

static void future_is_waited_for_on_its_own_worker(void **state)
{
    (void)state;
    int error = 0;
    rt = harness_runtime(2);
    assert_int_equal(orr_spawn(rt, &(struct orr_spawn){ .poll = wait_for_anothers_future, .data = &error }), 0);
    assert_int_equal(orr_runtime_run(rt), 0);
    assert_int_equal(error, -EPERM);
    assert_int_equal(orr_runtime_free(rt), 0);
}

static void misuse_of_futures_is_refused(void **state)
{
    (void)state;
    open_fixture();
    struct orr_future *future;
    assert_int_equal(orr_future_new(NULL, NULL, &future), -EINVAL);
    assert_int_equal(orr_future_new(rt, NULL, NULL), -EINVAL);
    assert_int_equal(orr_future_new(rt, &(struct orr_future_options){ .worker = 2 }, &future), -EINVAL);
    assert_int_equal(orr_future_complete(NULL, answer), -EINVAL);
    assert_null(orr_future_result(NULL));
    assert_null(orr_future_ref(NULL));
    orr_future_unref(NULL);
    orr_runtime_stop(rt);
    assert_int_equal(orr_future_new(rt, NULL, &future), -ESHUTDOWN);
    fixture_close(rt);
}

/* --- Races ------------------------------------------------------------------------------------ */

/*
 * Threads complete futures in random order while tasks on three workers wait for them, other
 * threads cancel those tasks, and now and then the runtime is freed meanwhile.  Each value must be
 * dropped once, each task must end once, and a task that was told of a completion must find the
 * result.
 */
enum { RACE_WORKERS = 3, RACE_THREADS = 3, RACE_TASKS = 32, RACE_FUTURES = RACE_WORKERS * RACE_TASKS };
struct target {
    struct orr_future *future;
    struct orr_wait wait;
    struct orr_task *task;
};

struct race {
    struct orr_runtime *rt;
    struct target targets[RACE_FUTURES];
    _Atomic unsigned ends, losses, completed;
    _Atomic bool begin;
};

struct completer {
    struct race *race;
    unsigned number, seed;
};

struct spawner {
    struct race *race;
    unsigned worker, seed, step;
};

static struct race *current_race;
/* How the waits ended: shows what the test has covered. */
static _Atomic unsigned told, cancelled;

static enum orr_poll target_poll(struct orr_task *task, void *data)
{
    struct target *self = data;
    int error = orr_future_wait(task, &self->wait, self->future);
    if (error == -EAGAIN)
        return ORR_PENDING;
    const struct orr_result *result = orr_future_result(self->future);
    atomic_fetch_add(error ? &cancelled : &told, 1);
    if (!error && (!result || result->value != ITEM(1)))
        atomic_fetch_add(&current_race->losses, 1);
    return orr_task_fail(task, error);
}

static void target_drop(void *data)
{
    struct target *self = data;
    orr_future_unref(self->future);
    atomic_fetch_add(&current_race->ends, 1);
}

static void spawner_start(struct orr_task *task, struct spawner *self)
{
    for (unsigned i = 0; i < RACE_TASKS; i++) {
        struct target *target = &current_race->targets[(self->worker - 1) * RACE_TASKS + i];
        struct orr_spawn what = { .poll = target_poll, .data = target, .drop = target_drop, .task = &target->task };
        if (orr_spawn(orr_task_runtime(task), &what))
            target_drop(target);
    }
}

/* Starts its tasks, then cancels some of them, one in each poll. */
static enum orr_poll spawner_poll(struct orr_task *task, void *data)
{
    struct spawner *self = data;
    if (orr_checkpoint(task))
        return ORR_DONE;
    if (!self->step++)
        spawner_start(task, self);
    struct target *target =
        &current_race->targets[(self->worker - 1) * RACE_TASKS + (unsigned)rand_r(&self->seed) % RACE_TASKS];
    if (target->task)
        orr_task_cancel(target->task, NULL);
    return self->step < RACE_TASKS ? orr_task_yield(task) : ORR_DONE;
}

/* Releases the futures of tasks that the runtime dropped before they started. */
static void spawner_drop(void *data)
{
    struct spawner *self = data;
    for (unsigned i = 0; !self->step && i < RACE_TASKS; i++)
        target_drop(&current_race->targets[(self->worker - 1) * RACE_TASKS + i]);
}

static void *complete_futures(void *data)
{
    struct completer *self = data;
    struct orr_result result = { .value = ITEM(1), .drop = drop_value };
    while (!atomic_load(&self->race->begin))
        sched_yield();
    unsigned first = (unsigned)rand_r(&self->seed);
    for (unsigned i = 0; i < RACE_FUTURES; i++) {
        /* Two threads complete each future, so one of them is too late. */
        unsigned at = (first + i) % RACE_FUTURES;
        if (at % RACE_THREADS == self->number)
            continue;
        int error = orr_future_complete(self->race->targets[at].future, result);
        atomic_fetch_add(&self->race->completed, !error);
    }
    return NULL;
}

static void race_open(struct race *race, struct spawner *spawners, unsigned *seed)
{
    race->rt = harness_runtime(RACE_WORKERS);
    for (unsigned i = 0; i < RACE_FUTURES; i++) {
        struct orr_future_options options = { .worker = 1 + i / RACE_TASKS, .foreign = i % 2 };
        assert_int_equal(orr_future_new(race->rt, &options, &race->targets[i].future), 0);
        orr_future_ref(race->targets[i].future); /* the completing threads own this reference */
    }
    for (unsigned i = 0; i < RACE_WORKERS; i++) {
        spawners[i] = (struct spawner){ .race = race, .worker = i + 1, .seed = (unsigned)rand_r(seed) };
        struct orr_spawn what = { .poll = spawner_poll, .data = &spawners[i], .drop = spawner_drop, .worker = i + 1 };
        what.supervise = true;
        assert_int_equal(orr_spawn(race->rt, &what), 0);
    }
}

/* Runs to the end, or stops after a few turns. */
static void race_drive(struct race *race, unsigned *seed)
{
    if (rand_r(seed) % 2)
        assert_int_equal(orr_runtime_run(race->rt), 0);
    else
        for (int turns = rand_r(seed) % 8; turns--;)
            orr_runtime_turn(race->rt, ORR_NEVER);
    assert_int_equal(orr_runtime_free(race->rt), 0);
}

static void race_once(unsigned *seed)
{
    struct race *race = current_race = calloc(1, sizeof *race);
    struct spawner spawners[RACE_WORKERS];
    struct completer completers[RACE_THREADS];
    pthread_t threads[RACE_THREADS];
    values_dropped = 0;
    race_open(race, spawners, seed);
    for (unsigned i = 0; i < RACE_THREADS; i++) {
        completers[i] = (struct completer){ .race = race, .number = i, .seed = (unsigned)rand_r(seed) };
        assert_int_equal(pthread_create(&threads[i], NULL, complete_futures, &completers[i]), 0);
    }
    atomic_store(&race->begin, true);
    race_drive(race, seed);
    for (unsigned i = 0; i < RACE_THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(race->ends, RACE_FUTURES);
    assert_int_equal(race->losses, 0);
    assert_int_equal(race->completed, RACE_FUTURES);
    for (unsigned i = 0; i < RACE_FUTURES; i++)
        orr_future_unref(race->targets[i].future);
    assert_int_equal(values_dropped, RACE_FUTURES);
    free(race);
}

static void futures_raced_by_many_threads_are_completed_once_and_dropped_once(void **state)
{
    (void)state;
    unsigned seed = (unsigned)harness_seed(1);
    for (int i = 0; i < WORK(2000); i++)
        race_once(&seed);
    print_message("%u waits were told, %u were cancelled\n", told, cancelled);
    assert_true(told && cancelled);
}

static const struct CMUnitTest future[] = {
    cmocka_unit_test(future_is_waited_for_by_several_tasks),
    cmocka_unit_test(future_completed_by_another_thread_wakes_waiting_tasks),
    cmocka_unit_test(future_tells_the_error_that_it_was_completed_with),
    cmocka_unit_test(future_is_completed_once),
    cmocka_unit_test(future_is_completed_when_its_runtime_is_gone),
    cmocka_unit_test(future_of_a_runtime_that_is_gone_leaves_the_next_one_alone),
    cmocka_unit_test(waiting_task_keeps_its_future_alive),
    cmocka_unit_test(foreign_future_holds_back_the_virtual_clock_until_it_is_completed),
    cmocka_unit_test(foreign_future_holds_back_the_virtual_clock_until_it_is_given_up),
    cmocka_unit_test(future_that_is_not_foreign_holds_back_no_clock),
    cmocka_unit_test(foreign_future_of_a_worker_that_has_stopped_holds_back_no_clock),
    cmocka_unit_test(future_is_waited_for_on_its_own_worker),
    cmocka_unit_test(misuse_of_futures_is_refused),
    cmocka_unit_test(futures_raced_by_many_threads_are_completed_once_and_dropped_once),
};

HARNESS_MAIN(future)
