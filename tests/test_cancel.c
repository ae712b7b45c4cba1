/*
 * The cancellation matrix.  Each kind of wait is interrupted at each point of its life, in each
 * possible way, alone and with other waiters behind it in line.  Whatever happens: a grant reaches
 * exactly one living waiter or goes back to the primitive; the waiters behind are served in order;
 * the primitive can be freed.
 *
 * The clock is moved by hand.  Grants and interruptions come from timers.  Timers fire before any
 * task is polled, so both can happen between two polls of a task.
 */
#include "step_task.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* NOTHING means that the wait has not answered yet. */
enum { NOTHING = 1, BEHIND = 2, WAITERS = 1 + BEHIND, FAR_AWAY = 1000 };

enum phase { BEFORE, WAITING, GRANTED, GRANTED_TOO_LATE, PICKED_UP, PHASES };
enum method { CANCEL, DEADLINE, CHILD, DROP, METHODS, FREE = METHODS };

/* When the grant comes, when the interruption comes, and whether both come in one turn. */
static const struct timing {
    const char *name;
    unsigned grant_ms, interrupt_ms;
    bool at_once;
} timings[PHASES] = {
    [BEFORE] = { "before it waits", 8, 5, false },
    [WAITING] = { "while it waits", 8, 5, false },
    [GRANTED] = { "granted, not polled", 4, 5, true },
    [GRANTED_TOO_LATE] = { "before the grant, in one turn", 6, 5, true },
    [PICKED_UP] = { "after it has picked up", 4, 5, false },
};

struct trial;

struct waiter {
    struct trial *trial;
    struct orr_task *task;
    struct orr_wait wait, locking, holding;
    struct orr_group group;
    struct orr_scope limit, block;
    struct orr_io io;
    char byte;
    int step;
    int answer; /* what the wait returned; NOTHING until it has */
    int after;  /* what the next wait or checkpoint returned */
    bool has, locked, victim;
    unsigned order; /* its position among the waiters that were served; 0 if it was not */
    unsigned drops;
    struct orr_task *doomed, *inside; /* children: `doomed` fails, `inside` is in the block */
};

struct kind {
    const char *name;
    void (*make)(struct trial *trial);
    int (*wait)(struct orr_task *task, struct waiter *self);
    void (*grant)(struct trial *trial);
    /* Returns what a waiter holds; NULL if nothing is returned. */
    void (*give_back)(struct waiter *self);
    /* Whether everything is accounted for at the end; may be NULL. */
    bool (*sound)(const struct trial *trial);
    int (*unmake)(struct trial *trial);
    /* Runs in the first poll, before the wait; may be NULL. */
    void (*begin)(struct orr_task *task, struct waiter *self);
    /* The passing of time is the grant. */
    bool by_time;
    /* The kernel decides who is served first. */
    bool racy;
};

struct trial {
    const struct kind *kind;
    enum phase phase;
    enum method method;
    unsigned behind;
    struct orr_runtime *rt;
    struct orr_task *owner;  /* the parent of all other tasks, so its destructor runs last */
    struct orr_task *helper; /* holds the mutex, or is the task that is awaited */
    struct orr_timer *grant, *interrupt;
    uint64_t start;
    void *thing;
    struct orr_mutex *mutex;
    int pipe[2];
    struct waiter waiters[WAITERS];
    unsigned granted; /* the number of grants that were accepted */
    unsigned served;
    unsigned values_dropped;
    bool sound;
    int unmade; /* what freeing the primitive returned */
};

static char items[8]; /* the addresses of these go through queues */

/* --- Tasks ------------------------------------------------------------------------------------ */

static enum orr_poll sleep_on(struct orr_task *task, void *data)
{
    int error = orr_sleep(task, data, FAR_AWAY * SECOND);
    return error == -EAGAIN ? ORR_PENDING : orr_task_fail(task, error);
}

static struct orr_task *spawn_sleeper(struct trial *trial, struct orr_task *parent)
{
    struct orr_task *task;
    struct orr_wait *wait = calloc(1, sizeof *wait);
    struct orr_spawn what = { .poll = sleep_on, .data = wait, .drop = free, .parent = parent, .task = &task };
    assert_int_equal(orr_spawn(trial->rt, &what), 0);
    return task;
}

static void end_at_once(struct orr_task *task, int error)
{
    if (!orr_task_done(task)) {
        orr_task_complete(task, (struct orr_result){ .error = error });
        orr_task_drop(orr_task_waker(task));
    }
}

static void give_back(struct waiter *self)
{
    if (self->has && self->trial->kind->give_back)
        self->trial->kind->give_back(self);
    self->has = false;
}

static void begin(struct orr_task *task, struct waiter *self)
{
    struct trial *trial = self->trial;
    struct orr_scope_options limit = { .timeout_ns = timings[trial->phase].interrupt_ms * MS };
    if (self->victim && trial->method == DEADLINE)
        orr_scope_enter(task, &self->limit, &limit);
    if (self->victim && trial->method == CHILD)
        self->doomed = spawn_sleeper(trial, task);
    if (trial->kind->begin)
        trial->kind->begin(task, self);
}

static int keep_until_interrupted(struct orr_task *task, struct waiter *self)
{
    if (self->victim && (self->trial->phase == PICKED_UP || self->trial->method == FREE))
        return orr_sleep(task, &self->holding, FAR_AWAY * SECOND);
    return orr_checkpoint(task);
}

static int waiter_body(struct orr_task *task, struct waiter *self)
{
    STEPS(self)
    {
        begin(task, self);
        self->step = 1;
        if (self->victim && self->trial->phase == BEFORE)
            return -EAGAIN;
        STEP(self, 1)
        self->answer = AWAIT(self->trial->kind->wait(task, self));
        self->has |= !self->answer;
        self->order = self->answer ? 0 : ++self->trial->served;
        STEP(self, 2)
        self->after = AWAIT(keep_until_interrupted(task, self));
        give_back(self);
    }
    return self->answer ? self->answer : self->after;
}

static enum orr_poll waiter_poll(struct orr_task *task, void *data)
{
    struct waiter *self = data;
    int error = waiter_body(task, self);
    return error == -EAGAIN ? ORR_PENDING : orr_task_fail(task, error);
}

static void waiter_drop(void *data)
{
    struct waiter *self = data;
    give_back(self);
    self->drops++;
}

/* --- Kinds of waits --------------------------------------------------------------------------- */

static unsigned successes(const struct trial *trial)
{
    unsigned count = 0;
    for (unsigned i = 0; i < WAITERS; i++)
        count += trial->waiters[i].order != 0;
    return count;
}

static bool victim_ended_with_it(const struct trial *trial)
{
    return trial->method == DROP && trial->phase == GRANTED;
}

/* A wake reaches one waiter.  It is lost only if its waiter was dropped and nobody else waits. */
static bool each_wake_is_had_once(const struct trial *trial)
{
    return trial->granted == successes(trial) + (victim_ended_with_it(trial) && !trial->behind);
}

static void event_make(struct trial *trial)
{
    assert_int_equal(orr_event_new((struct orr_event **)&trial->thing), 0);
}

static int event_wait(struct orr_task *task, struct waiter *self)
{
    return orr_event_wait(task, &self->wait, self->trial->thing);
}

static void event_grant(struct trial *trial)
{
    trial->granted += (unsigned)orr_event_wake(trial->thing, 1);
}

static int event_unmake(struct trial *trial)
{
    return orr_event_free(trial->thing);
}

static void queue_make(struct trial *trial)
{
    assert_int_equal(orr_queue_new(1, NULL, (struct orr_queue **)&trial->thing), 0);
}

static int queue_get(struct orr_task *task, struct waiter *self)
{
    void *item;
    int error = orr_queue_get(task, &self->wait, self->trial->thing, &item);
    return !error && item != &items[0] ? -EILSEQ : error;
}

static void queue_grant(struct trial *trial)
{
    trial->granted += !orr_queue_try_put(trial->thing, &items[0]);
}

static bool each_item_is_got_or_there(const struct trial *trial)
{
    return trial->granted == successes(trial) + orr_queue_length(trial->thing);
}

static int queue_unmake(struct trial *trial)
{
    return orr_queue_free(trial->thing);
}

static void full_queue_make(struct trial *trial)
{
    queue_make(trial);
    assert_int_equal(orr_queue_try_put(trial->thing, &items[0]), 0);
}

static int full_queue_put(struct orr_task *task, struct waiter *self)
{
    return orr_queue_put(task, &self->wait, self->trial->thing, &items[1 + (self - self->trial->waiters)]);
}

static void full_queue_grant(struct trial *trial)
{
    void *item;
    trial->granted += !orr_queue_try_get(trial->thing, &item);
}

/* Counts the first item and the items of putters that were let in, told so or not. */
static bool each_item_went_in_once(const struct trial *trial)
{
    unsigned put = 1 + successes(trial) + victim_ended_with_it(trial);
    return put == trial->granted + orr_queue_length(trial->thing);
}

static void semaphore_make(struct trial *trial)
{
    assert_int_equal(orr_semaphore_new(1, (struct orr_semaphore **)&trial->thing), 0);
    assert_int_equal(orr_semaphore_try(trial->thing), 0);
}

static int semaphore_wait(struct orr_task *task, struct waiter *self)
{
    return orr_semaphore_acquire(task, &self->wait, self->trial->thing);
}

static void semaphore_grant(struct trial *trial)
{
    trial->granted += !trial->granted && !orr_semaphore_release(trial->thing);
}

static void semaphore_give_back(struct waiter *self)
{
    orr_semaphore_release(self->trial->thing);
}

static bool permit_is_back(const struct trial *trial)
{
    return orr_semaphore_free_permits(trial->thing) == trial->granted;
}

static int semaphore_unmake(struct trial *trial)
{
    return orr_semaphore_free(trial->thing);
}

struct locker {
    struct orr_wait wait;
    struct orr_mutex *mutex;
};

static enum orr_poll lock_and_sleep(struct orr_task *task, void *data)
{
    struct locker *self = data;
    if (orr_mutex_try(task, self->mutex) == -EAGAIN)
        return ORR_DONE;
    return sleep_on(task, &self->wait);
}

static void mutex_make(struct trial *trial)
{
    assert_int_equal(orr_mutex_new(&trial->mutex), 0);
    struct locker *locker = calloc(1, sizeof *locker);
    locker->mutex = trial->mutex;
    struct orr_spawn what = {
        .poll = lock_and_sleep, .data = locker, .drop = free, .parent = trial->owner, .task = &trial->helper
    };
    assert_int_equal(orr_spawn(trial->rt, &what), 0);
}

static int mutex_wait(struct orr_task *task, struct waiter *self)
{
    return orr_mutex_lock(task, &self->wait, self->trial->mutex);
}

static void mutex_grant(struct trial *trial)
{
    trial->granted += !trial->granted && !orr_mutex_unlock(trial->helper, trial->mutex);
}

static void mutex_give_back(struct waiter *self)
{
    orr_mutex_unlock(self->task, self->trial->mutex);
}

static bool mutex_is_unlocked(const struct trial *trial)
{
    return !orr_mutex_locked(trial->mutex);
}

static int mutex_unmake(struct trial *trial)
{
    return orr_mutex_free(trial->mutex);
}

static void condition_make(struct trial *trial)
{
    assert_int_equal(orr_mutex_new(&trial->mutex), 0);
    assert_int_equal(orr_condition_new((struct orr_condition **)&trial->thing), 0);
}

/* A victim that idles before its wait holds the mutex meanwhile. */
static void condition_begin(struct orr_task *task, struct waiter *self)
{
    if (self->victim && self->trial->phase == BEFORE)
        self->has = self->locked = !orr_mutex_try(task, self->trial->mutex);
}

/* The waiter holds the mutex again, whatever the wait returns. */
static int condition_wait(struct orr_task *task, struct waiter *self)
{
    struct trial *trial = self->trial;
    if (!self->locked && orr_mutex_lock(task, &self->locking, trial->mutex) == -EAGAIN)
        return -EAGAIN;
    self->locked = true;
    int error = orr_condition_wait(task, &self->wait, trial->thing, trial->mutex);
    self->has = error != -EAGAIN && orr_mutex_try(task, trial->mutex) == -EDEADLK;
    return error == -EAGAIN || self->has ? error : -EOWNERDEAD;
}

static void condition_grant(struct trial *trial)
{
    trial->granted += (unsigned)orr_condition_notify(trial->thing, 1);
}

static bool each_notice_is_had_once(const struct trial *trial)
{
    return each_wake_is_had_once(trial) && mutex_is_unlocked(trial);
}

static int condition_unmake(struct trial *trial)
{
    int error = orr_condition_free(trial->thing);
    return error ? error : orr_mutex_free(trial->mutex);
}

static void count_drop(void *value)
{
    ++*(unsigned *)value;
}

static void future_make(struct trial *trial)
{
    assert_int_equal(orr_future_new(trial->rt, NULL, (struct orr_future **)&trial->thing), 0);
}

static int future_wait(struct orr_task *task, struct waiter *self)
{
    return orr_future_wait(task, &self->wait, self->trial->thing);
}

static void future_grant(struct trial *trial)
{
    struct orr_result result = { .value = &trial->values_dropped, .drop = count_drop };
    trial->granted += !orr_future_complete(trial->thing, result);
}

static int future_unmake(struct trial *trial)
{
    orr_future_unref(trial->thing);
    return trial->values_dropped == trial->granted ? 0 : -EBUSY; /* a wait has kept the future */
}

static void task_make(struct trial *trial)
{
    trial->helper = spawn_sleeper(trial, trial->owner);
}

static int task_wait(struct orr_task *task, struct waiter *self)
{
    return orr_task_await(task, &self->wait, self->trial->helper);
}

static void task_grant(struct trial *trial)
{
    end_at_once(trial->helper, 0);
}

static int sleep_wait(struct orr_task *task, struct waiter *self)
{
    uint64_t deadline = self->trial->start + timings[self->trial->phase].grant_ms * MS;
    return orr_sleep_until(task, &self->wait, deadline);
}

/* The clock grants a sleep. */
static void sleep_grant(struct trial *trial)
{
    (void)trial;
}

static void leave_begin(struct orr_task *task, struct waiter *self)
{
    orr_scope_enter(task, &self->block, NULL);
    self->inside = spawn_sleeper(self->trial, task);
}

static int leave_wait(struct orr_task *task, struct waiter *self)
{
    return orr_scope_leave(task, &self->wait, &self->block, 0);
}

static void leave_grant(struct trial *trial)
{
    for (unsigned i = 0; i <= trial->behind; i++)
        end_at_once(trial->waiters[i].inside, 0);
}

static void group_make(struct trial *trial)
{
    event_make(trial);
}

static void group_grant(struct trial *trial)
{
    event_grant(trial);
}

/* A group of two waits.  The sleep never ends. */
static void group_begin(struct orr_task *task, struct waiter *self)
{
    orr_group_add(&self->group, &self->holding);
    orr_sleep(task, &self->holding, FAR_AWAY * SECOND);
}

static int group_wait(struct orr_task *task, struct waiter *self)
{
    struct orr_wait *first;
    int error = -EAGAIN;
    if (!self->locked) {
        self->locked = true;
        orr_group_add(&self->group, &self->wait);
        error = event_wait(task, self);
    }
    if (error == -EAGAIN)
        error = orr_wait_any(task, &self->group, &first);
    if (error && error != -EAGAIN)
        orr_group_clear(&self->group);
    return error ? error : event_wait(task, self);
}

static void pipe_make(struct trial *trial)
{
    assert_int_equal(pipe(trial->pipe), 0);
}

static int pipe_wait(struct orr_task *task, struct waiter *self)
{
    if (!self->locked) {
        self->locked = true;
        int error = orr_io_read(task, &self->io, self->trial->pipe[0], &self->byte, 1);
        if (error)
            return error;
    }
    int error = orr_io_await(task, &self->io);
    return error || self->io.result == 1 ? error : -EIO;
}

static void pipe_begin(struct orr_task *task, struct waiter *self)
{
    if (self->victim && self->trial->phase == BEFORE)
        self->locked = !orr_io_read(task, &self->io, self->trial->pipe[0], &self->byte, 1);
}

/* Writes one byte for each waiter: the kernel does not say whose read is served first. */
static void pipe_grant(struct trial *trial)
{
    trial->granted += (unsigned)write(trial->pipe[1], "xxx", 1 + trial->behind);
}

static bool each_byte_is_read_or_there(const struct trial *trial)
{
    int left;
    unsigned read = 0;
    for (unsigned i = 0; i < WAITERS; i++)
        read += trial->waiters[i].byte == 'x';
    return !ioctl(trial->pipe[0], FIONREAD, &left) && trial->granted == read + (unsigned)left;
}

static int pipe_unmake(struct trial *trial)
{
    close(trial->pipe[0]);
    close(trial->pipe[1]);
    return 0;
}

enum { EVENT, GET, PUT, SEMAPHORE, MUTEX, CONDITION, FUTURE, TASK, SLEEP, LEAVE, GROUP, INPUT };

#define KIND(what, how) .name = #what " " #how, .make = what##_make, .wait = what##_##how, .grant = what##_grant

static const struct kind kinds[] = {
    [EVENT] = { KIND(event, wait), .sound = each_wake_is_had_once, .unmake = event_unmake },
    [GET] = { KIND(queue, get), .sound = each_item_is_got_or_there, .unmake = queue_unmake },
    [PUT] = { KIND(full_queue, put), .sound = each_item_went_in_once, .unmake = queue_unmake },
    [SEMAPHORE] = { KIND(semaphore, wait), .give_back = semaphore_give_back, .sound = permit_is_back,
                    .unmake = semaphore_unmake },
    [MUTEX] = { KIND(mutex, wait), .give_back = mutex_give_back, .sound = mutex_is_unlocked, .unmake = mutex_unmake },
    [CONDITION] = { KIND(condition, wait), .begin = condition_begin, .give_back = mutex_give_back,
                    .sound = each_notice_is_had_once, .unmake = condition_unmake },
    [FUTURE] = { KIND(future, wait), .unmake = future_unmake },
    [TASK] = { KIND(task, wait) },
    [SLEEP] = { .name = "sleep", .wait = sleep_wait, .grant = sleep_grant, .by_time = true },
    [LEAVE] = { .name = "leave", .wait = leave_wait, .grant = leave_grant, .begin = leave_begin },
    [GROUP] = { KIND(group, wait), .begin = group_begin, .sound = each_wake_is_had_once, .unmake = event_unmake },
    [INPUT] = { KIND(pipe, wait), .begin = pipe_begin, .sound = each_byte_is_read_or_there, .unmake = pipe_unmake,
                .racy = true },
};

/* --- One trial -------------------------------------------------------------------------------- */

static void interrupt(struct trial *trial)
{
    struct waiter *victim = &trial->waiters[0];
    if (trial->method == CANCEL)
        orr_task_cancel(victim->task, "by the matrix");
    else if (trial->method == CHILD)
        end_at_once(victim->doomed, -EIO);
    else if (trial->method == DROP)
        orr_task_drop(orr_task_waker(victim->task));
}

static void on_interrupt(struct orr_timer *timer, void *data, int status)
{
    (void)timer;
    if (!status)
        interrupt(data);
}

static void on_grant(struct orr_timer *timer, void *data, int status)
{
    struct trial *trial = data;
    (void)timer;
    if (!status)
        trial->kind->grant(trial);
}

static enum orr_poll owner_poll(struct orr_task *task, void *data)
{
    struct trial *trial = data;
    if (orr_checkpoint(task) != -ECANCELED)
        return ORR_PENDING;
    if (trial->method == FREE && trial->phase == GRANTED_TOO_LATE)
        trial->kind->grant(trial); /* the others are cancelled with it, and not polled yet */
    return ORR_DONE;
}

static void owner_drop(void *data)
{
    struct trial *trial = data;
    trial->sound = !trial->kind->sound || trial->kind->sound(trial);
    trial->unmade = trial->kind->unmake ? trial->kind->unmake(trial) : 0;
}

static void turn_until(struct trial *trial, const struct waiter *waiter, unsigned turns)
{
    do
        harness_settle(trial->rt);
    while (waiter && waiter->answer == NOTHING && !waiter->drops && turns--);
}

static void waiter_start(struct trial *trial, unsigned i)
{
    struct waiter *self = &trial->waiters[i];
    *self = (struct waiter){ .trial = trial, .answer = NOTHING, .victim = i == 0 };
    struct orr_spawn what = {
        .poll = waiter_poll, .data = self, .drop = waiter_drop, .parent = trial->owner, .task = &self->task
    };
    assert_int_equal(orr_spawn(trial->rt, &what), 0);
}

static void start_timer(struct trial *trial, orr_timer_fn *fire, unsigned ms, struct orr_timer **timer)
{
    struct orr_timer_options options = { .fire = fire, .data = trial, .local = true };
    assert_int_equal(orr_timer_new(trial->rt, &options, timer), 0);
    assert_int_equal(orr_timer_start_at(*timer, trial->start + ms * MS, 0), 0);
}

/* All waiters are in line, the victim first, unless the victim idles. */
static void trial_open(struct trial *trial)
{
    trial->rt = runtime_on(ORR_CLOCK_MANUAL, 1);
    trial->start = orr_runtime_now(trial->rt);
    assert_int_equal(orr_runtime_enter(trial->rt), 0);
    struct orr_spawn owner = {
        .poll = owner_poll, .data = trial, .drop = owner_drop, .supervise = true, .task = &trial->owner
    };
    assert_int_equal(orr_spawn(trial->rt, &owner), 0);
    if (trial->kind->make)
        trial->kind->make(trial);
    for (unsigned i = 0; i <= trial->behind; i++)
        waiter_start(trial, i);
    start_timer(trial, on_grant, timings[trial->phase].grant_ms, &trial->grant);
    start_timer(trial, on_interrupt, timings[trial->phase].interrupt_ms, &trial->interrupt);
    orr_runtime_leave(trial->rt);
    harness_settle(trial->rt);
}

/* The kernel needs some time for its grants. */
static void trial_advance(struct trial *trial, unsigned ms)
{
    assert_int_equal(orr_runtime_advance(trial->rt, ms * MS), 0);
    turn_until(trial, NULL, 0);
    turn_until(trial, &trial->waiters[0], trial->kind->racy && trial->granted ? 100000 : 0);
}

static void trial_run(struct trial *trial, unsigned ms, bool at_once)
{
    for (unsigned i = 0; i < ms; i += at_once ? ms : 1)
        trial_advance(trial, at_once ? ms : 1);
}

/* Grants until every waiter that is still in line has been served, in order. */
static void serve_the_others(struct trial *trial)
{
    for (unsigned i = 1; i <= trial->behind; i++) {
        for (unsigned tries = 0; trial->waiters[i].answer == NOTHING && tries < WAITERS; tries++) {
            assert_int_equal(orr_runtime_enter(trial->rt), 0);
            trial->kind->grant(trial);
            orr_runtime_leave(trial->rt);
            turn_until(trial, &trial->waiters[i], trial->kind->racy ? 1000 : 0);
        }
        assert_int_equal(trial->waiters[i].answer, 0);
        assert_true(trial->kind->racy || trial->waiters[i].order > trial->waiters[i - 1].order);
    }
}

static void trial_close(struct trial *trial)
{
    struct orr_timer *timers[] = { trial->grant, trial->interrupt };
    assert_int_equal(orr_runtime_enter(trial->rt), 0);
    for (size_t i = 0; i < LENGTH(timers); i++)
        orr_timer_free(timers[i]);
    orr_runtime_leave(trial->rt);
    trial->unmade = NOTHING;
    assert_int_equal(orr_runtime_free(trial->rt), 0);
    assert_true(trial->sound);
    assert_int_equal(trial->unmade, 0);
    for (unsigned i = 0; i <= trial->behind; i++)
        assert_int_equal(trial->waiters[i].drops, 1);
}

/* --- Expected results ------------------------------------------------------------------------- */

static int interruption(const struct trial *trial)
{
    return trial->method == CHILD ? -ECHILD : -ECANCELED;
}

static bool has_it(const struct trial *trial)
{
    if (trial->kind->by_time && trial->phase != PICKED_UP)
        return false; /* a sleep that was cut short has granted nothing */
    if (trial->phase == GRANTED_TOO_LATE)
        return trial->method == CHILD; /* withdraws the wait at the poll, not before */
    return trial->phase == GRANTED || trial->phase == PICKED_UP;
}

static void check_victim(const struct trial *trial)
{
    const struct waiter *victim = &trial->waiters[0];
    if (trial->method == DROP) {
        assert_int_equal(victim->answer, trial->phase == PICKED_UP ? 0 : NOTHING);
        assert_int_equal(victim->drops, 1);
    } else if (trial->kind->racy && timings[trial->phase].at_once) {
        assert_true(!victim->answer || victim->answer == interruption(trial));
    } else {
        assert_int_equal(victim->answer, has_it(trial) ? 0 : interruption(trial));
        assert_int_equal(victim->after, has_it(trial) || trial->method != CHILD ? interruption(trial) : 0);
    }
}

/* --- The matrix ------------------------------------------------------------------------------- */

static const struct trial *running; /* for print_trial(); NULL when the trial has passed */

static void run_trial(struct trial *trial)
{
    trial_open(trial);
    trial_run(trial, 20, timings[trial->phase].at_once);
    check_victim(trial);
    serve_the_others(trial);
    trial_close(trial);
}

/* The end of the runtime cancels all, so only the victim can be served. */
static void run_until_runtime_is_freed(struct trial *trial)
{
    trial_open(trial);
    if (trial->phase == GRANTED) {
        assert_int_equal(orr_runtime_enter(trial->rt), 0);
        trial->kind->grant(trial);
        orr_runtime_leave(trial->rt);
    }
    if (trial->phase == PICKED_UP)
        trial_run(trial, 4, true);
    trial_close(trial);
    check_victim(trial);
}

struct trial_set {
    const struct kind *kind;
    enum method method;
};

static void run_trials(void **state)
{
    const struct trial_set *set = *state;
    for (enum phase phase = 0; phase < PHASES; phase++)
        for (unsigned behind = 0; behind <= BEHIND; behind++) {
            struct trial trial = { .kind = set->kind, .phase = phase, .method = set->method, .behind = behind };
            if (set->method == FREE && phase == GRANTED && set->kind->by_time)
                continue; /* the runtime ends before the sleep does */
            running = &trial;
            set->method == FREE ? run_until_runtime_is_freed(&trial) : run_trial(&trial);
            running = NULL;
        }
}

static int print_trial(void **state)
{
    (void)state;
    if (running)
        print_error("%s, interrupted %s, %u behind\n", running->kind->name, timings[running->phase].name,
                    running->behind);
    running = NULL;
    return 0;
}

#define TRIALS(sentence, kind, method) \
    { \
        sentence, run_trials, NULL, print_trial, &(struct trial_set) \
        { \
            &kinds[kind], method \
        } \
    }
#define TRIALS_OF(word, kind) \
    TRIALS(#word "_that_is_cancelled_loses_nothing", kind, CANCEL), \
        TRIALS(#word "_that_is_out_of_time_loses_nothing", kind, DEADLINE), \
        TRIALS(#word "_that_is_told_of_a_failed_child_loses_nothing", kind, CHILD), \
        TRIALS(#word "_of_a_task_that_is_dropped_loses_nothing", kind, DROP), \
        TRIALS(#word "_of_a_runtime_that_is_freed_loses_nothing", kind, FREE)

static const struct CMUnitTest cancel[] = {
    TRIALS_OF(event_wait, EVENT),   TRIALS_OF(queue_get, GET),
    TRIALS_OF(queue_put, PUT),      TRIALS_OF(semaphore_acquire, SEMAPHORE),
    TRIALS_OF(mutex_lock, MUTEX),   TRIALS_OF(condition_wait, CONDITION),
    TRIALS_OF(future_wait, FUTURE), TRIALS_OF(task_await, TASK),
    TRIALS_OF(sleep, SLEEP),        TRIALS_OF(scope_leave, LEAVE),
    TRIALS_OF(wait_for_any, GROUP), TRIALS_OF(io_await, INPUT),
};

HARNESS_MAIN(cancel)
