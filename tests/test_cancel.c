/*
 * The cancellation matrix: each kind of wait, cut short at each point of its life, in each way there is, alone and with
 * others behind it in line.  Whatever happens, what was granted is had by exactly one who lives, or is back where it
 * came from, those behind are served in order, and the primitive can be freed.
 *
 * All of it on a clock moved by hand.  Grants and interruptions come from timers, which fire before any task is polled:
 * so what is to happen between two polls of a task does.
 */
#include "script.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* NOTHING: no answer yet. */
enum { NOTHING = 1, BEHIND = 2, WAITERS = 1 + BEHIND, FAR_AWAY = 1000 };

enum phase { BEFORE, WAITING, GRANTED, GRANTED_TOO_LATE, PICKED_UP, PHASES };
enum method { CANCEL, DEADLINE, CHILD, DROP, METHODS, FREE = METHODS };

/* When the grant comes, when the interruption, and whether tasks are polled in between. */
static const struct plan {
    const char *name;
    unsigned grant_ms, interrupt_ms;
    bool at_once;
} plans[PHASES] = {
    [BEFORE] = { "before it waits", 8, 5, false },
    [WAITING] = { "while it waits", 8, 5, false },
    [GRANTED] = { "granted, not polled", 4, 5, true },
    [GRANTED_TOO_LATE] = { "before the grant, in one turn", 6, 5, true },
    [PICKED_UP] = { "after it has picked up", 4, 5, false },
};

struct scene;

struct waiter {
    struct scene *scene;
    struct orr_task *task;
    struct orr_wait wait, locking, holding;
    struct orr_group group;
    struct orr_scope limit, block;
    struct orr_io io;
    char byte;
    int step;
    int answer; /* of the wait; NOTHING until it has one */
    int after;  /* what it is told next */
    bool has, locked, victim;
    unsigned order; /* in which it was served */
    unsigned drops;
    struct orr_task *doomed, *inside; /* its children */
};

struct kind {
    const char *name;
    void (*make)(struct scene *scene);
    int (*wait)(struct orr_task *task, struct waiter *self);
    void (*grant)(struct scene *scene);
    void (*give_back)(struct waiter *self);   /* what a waiter has; NULL if it is used up */
    bool (*sound)(const struct scene *scene); /* whether all is accounted for at the end; may be NULL */
    int (*unmake)(struct scene *scene);
    void (*begin)(struct orr_task *task, struct waiter *self); /* before it may idle; may be NULL */
    bool by_time;                                              /* time grants it */
    bool racy;                                                 /* the kernel decides who comes first */
};

struct scene {
    const struct kind *kind;
    enum phase phase;
    enum method method;
    unsigned behind;
    struct orr_runtime *rt;
    struct orr_task *owner; /* of all others, so its destructor is the last */
    struct orr_task *prop;  /* one that has a mutex, or is waited for */
    struct orr_timer *grant, *interrupt;
    uint64_t start;
    void *thing;
    struct orr_mutex *mutex;
    int pipe[2];
    struct waiter waiters[WAITERS];
    unsigned granted; /* by all grants together */
    unsigned served;
    unsigned values_dropped;
    bool sound;
    int unmade; /* what freeing the primitive answered */
};

static char items[8]; /* whose addresses are what goes through queues */

/* --- Who is there ------------------------------------------------------------------------------------------------- */

static enum orr_poll sleep_on(struct orr_task *task, void *data)
{
    int error = orr_sleep(task, data, FAR_AWAY * SECOND);
    return error == -EAGAIN ? ORR_PENDING : orr_task_fail(task, error);
}

static struct orr_task *extra(struct scene *scene, struct orr_task *parent)
{
    struct orr_task *task;
    struct orr_wait *wait = calloc(1, sizeof *wait);
    struct orr_spawn what = { .poll = sleep_on, .data = wait, .drop = free, .parent = parent, .task = &task };
    assert_int_equal(orr_spawn(scene->rt, &what), 0);
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
    if (self->has && self->scene->kind->give_back)
        self->scene->kind->give_back(self);
    self->has = false;
}

static void begin(struct orr_task *task, struct waiter *self)
{
    struct scene *scene = self->scene;
    struct orr_scope_options limit = { .timeout_ns = plans[scene->phase].interrupt_ms * MS };
    if (self->victim && scene->method == DEADLINE)
        orr_scope_enter(task, &self->limit, &limit);
    if (self->victim && scene->method == CHILD)
        self->doomed = extra(scene, task);
    if (scene->kind->begin)
        scene->kind->begin(task, self);
}

static int keep_until_interrupted(struct orr_task *task, struct waiter *self)
{
    if (self->victim && (self->scene->phase == PICKED_UP || self->scene->method == FREE))
        return orr_sleep(task, &self->holding, FAR_AWAY * SECOND);
    return orr_checkpoint(task);
}

static int act(struct orr_task *task, struct waiter *self)
{
    SCRIPT(self)
    {
        begin(task, self);
        self->step = 1;
        if (self->victim && self->scene->phase == BEFORE)
            return -EAGAIN;
        STEP(self, 1)
        self->answer = AWAIT(self->scene->kind->wait(task, self));
        self->has |= !self->answer;
        self->order = self->answer ? 0 : ++self->scene->served;
        STEP(self, 2)
        self->after = AWAIT(keep_until_interrupted(task, self));
        give_back(self);
    }
    return self->answer ? self->answer : self->after;
}

static enum orr_poll waiter_poll(struct orr_task *task, void *data)
{
    struct waiter *self = data;
    int error = act(task, self);
    return error == -EAGAIN ? ORR_PENDING : orr_task_fail(task, error);
}

static void waiter_drop(void *data)
{
    struct waiter *self = data;
    give_back(self);
    self->drops++;
}

/* --- Each kind ---------------------------------------------------------------------------------------------------- */

static unsigned successes(const struct scene *scene)
{
    unsigned count = 0;
    for (unsigned i = 0; i < WAITERS; i++)
        count += scene->waiters[i].order != 0;
    return count;
}

static bool victim_ended_with_it(const struct scene *scene)
{
    return scene->method == DROP && scene->phase == GRANTED;
}

/* A wake is had by one, or gone if the one it was for is, and nobody else is there. */
static bool each_wake_is_had_once(const struct scene *scene)
{
    return scene->granted == successes(scene) + (victim_ended_with_it(scene) && !scene->behind);
}

static void event_make(struct scene *scene)
{
    assert_int_equal(orr_event_new((struct orr_event **)&scene->thing), 0);
}

static int event_wait(struct orr_task *task, struct waiter *self)
{
    return orr_event_wait(task, &self->wait, self->scene->thing);
}

static void event_grant(struct scene *scene)
{
    scene->granted += (unsigned)orr_event_wake(scene->thing, 1);
}

static int event_unmake(struct scene *scene)
{
    return orr_event_free(scene->thing);
}

static void queue_make(struct scene *scene)
{
    assert_int_equal(orr_queue_new(1, NULL, (struct orr_queue **)&scene->thing), 0);
}

static int queue_get(struct orr_task *task, struct waiter *self)
{
    void *item;
    int error = orr_queue_get(task, &self->wait, self->scene->thing, &item);
    return !error && item != &items[0] ? -EILSEQ : error;
}

static void queue_grant(struct scene *scene)
{
    scene->granted += !orr_queue_try_put(scene->thing, &items[0]);
}

static bool each_item_is_got_or_there(const struct scene *scene)
{
    return scene->granted == successes(scene) + orr_queue_length(scene->thing);
}

static int queue_unmake(struct scene *scene)
{
    return orr_queue_free(scene->thing);
}

static void full_queue_make(struct scene *scene)
{
    queue_make(scene);
    assert_int_equal(orr_queue_try_put(scene->thing, &items[0]), 0);
}

static int full_queue_put(struct orr_task *task, struct waiter *self)
{
    return orr_queue_put(task, &self->wait, self->scene->thing, &items[1 + (self - self->scene->waiters)]);
}

static void full_queue_grant(struct scene *scene)
{
    void *item;
    scene->granted += !orr_queue_try_get(scene->thing, &item);
}

/* What was there at first, and what was put by those who were told so, or ended before they could be. */
static bool each_item_went_in_once(const struct scene *scene)
{
    unsigned put = 1 + successes(scene) + victim_ended_with_it(scene);
    return put == scene->granted + orr_queue_length(scene->thing);
}

static void semaphore_make(struct scene *scene)
{
    assert_int_equal(orr_semaphore_new(1, (struct orr_semaphore **)&scene->thing), 0);
    assert_int_equal(orr_semaphore_try(scene->thing), 0);
}

static int semaphore_wait(struct orr_task *task, struct waiter *self)
{
    return orr_semaphore_acquire(task, &self->wait, self->scene->thing);
}

static void semaphore_grant(struct scene *scene)
{
    scene->granted += !scene->granted && !orr_semaphore_release(scene->thing);
}

static void semaphore_give_back(struct waiter *self)
{
    orr_semaphore_release(self->scene->thing);
}

static bool permit_is_back(const struct scene *scene)
{
    return orr_semaphore_free_permits(scene->thing) == scene->granted;
}

static int semaphore_unmake(struct scene *scene)
{
    return orr_semaphore_free(scene->thing);
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

static void mutex_make(struct scene *scene)
{
    assert_int_equal(orr_mutex_new(&scene->mutex), 0);
    struct locker *locker = calloc(1, sizeof *locker);
    locker->mutex = scene->mutex;
    struct orr_spawn what = {
        .poll = lock_and_sleep, .data = locker, .drop = free, .parent = scene->owner, .task = &scene->prop
    };
    assert_int_equal(orr_spawn(scene->rt, &what), 0);
}

static int mutex_wait(struct orr_task *task, struct waiter *self)
{
    return orr_mutex_lock(task, &self->wait, self->scene->mutex);
}

static void mutex_grant(struct scene *scene)
{
    scene->granted += !scene->granted && !orr_mutex_unlock(scene->prop, scene->mutex);
}

static void mutex_give_back(struct waiter *self)
{
    orr_mutex_unlock(self->task, self->scene->mutex);
}

static bool mutex_is_unlocked(const struct scene *scene)
{
    return !orr_mutex_locked(scene->mutex);
}

static int mutex_unmake(struct scene *scene)
{
    return orr_mutex_free(scene->mutex);
}

static void condition_make(struct scene *scene)
{
    assert_int_equal(orr_mutex_new(&scene->mutex), 0);
    assert_int_equal(orr_condition_new((struct orr_condition **)&scene->thing), 0);
}

/* One that idles before it waits idles with the mutex. */
static void condition_begin(struct orr_task *task, struct waiter *self)
{
    if (self->victim && self->scene->phase == BEFORE)
        self->has = self->locked = !orr_mutex_try(task, self->scene->mutex);
}

/* The mutex is had again whatever the wait answers. */
static int condition_wait(struct orr_task *task, struct waiter *self)
{
    struct scene *scene = self->scene;
    if (!self->locked && orr_mutex_lock(task, &self->locking, scene->mutex) == -EAGAIN)
        return -EAGAIN;
    self->locked = true;
    int error = orr_condition_wait(task, &self->wait, scene->thing, scene->mutex);
    self->has = error != -EAGAIN && orr_mutex_try(task, scene->mutex) == -EDEADLK;
    return error == -EAGAIN || self->has ? error : -EOWNERDEAD;
}

static void condition_grant(struct scene *scene)
{
    scene->granted += (unsigned)orr_condition_notify(scene->thing, 1);
}

static bool each_notice_is_had_once(const struct scene *scene)
{
    return each_wake_is_had_once(scene) && mutex_is_unlocked(scene);
}

static int condition_unmake(struct scene *scene)
{
    int error = orr_condition_free(scene->thing);
    return error ? error : orr_mutex_free(scene->mutex);
}

static void count_drop(void *value)
{
    ++*(unsigned *)value;
}

static void future_make(struct scene *scene)
{
    assert_int_equal(orr_future_new(scene->rt, NULL, (struct orr_future **)&scene->thing), 0);
}

static int future_wait(struct orr_task *task, struct waiter *self)
{
    return orr_future_wait(task, &self->wait, self->scene->thing);
}

static void future_grant(struct scene *scene)
{
    struct orr_result result = { .value = &scene->values_dropped, .drop = count_drop };
    scene->granted += !orr_future_complete(scene->thing, result);
}

static int future_unmake(struct scene *scene)
{
    orr_future_unref(scene->thing);
    return scene->values_dropped == scene->granted ? 0 : -EBUSY; /* unless a wait has kept it */
}

static void task_make(struct scene *scene)
{
    scene->prop = extra(scene, scene->owner);
}

static int task_wait(struct orr_task *task, struct waiter *self)
{
    return orr_task_await(task, &self->wait, self->scene->prop);
}

static void task_grant(struct scene *scene)
{
    end_at_once(scene->prop, 0);
}

static int sleep_wait(struct orr_task *task, struct waiter *self)
{
    uint64_t deadline = self->scene->start + plans[self->scene->phase].grant_ms * MS;
    return orr_sleep_until(task, &self->wait, deadline);
}

/* Time does it. */
static void sleep_grant(struct scene *scene)
{
    (void)scene;
}

static void leave_begin(struct orr_task *task, struct waiter *self)
{
    orr_scope_enter(task, &self->block, NULL);
    self->inside = extra(self->scene, task);
}

static int leave_wait(struct orr_task *task, struct waiter *self)
{
    return orr_scope_leave(task, &self->wait, &self->block, 0);
}

static void leave_grant(struct scene *scene)
{
    for (unsigned i = 0; i <= scene->behind; i++)
        end_at_once(scene->waiters[i].inside, 0);
}

static void group_make(struct scene *scene)
{
    event_make(scene);
}

static void group_grant(struct scene *scene)
{
    event_grant(scene);
}

/* Of two members, the one never comes. */
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

static void pipe_make(struct scene *scene)
{
    assert_int_equal(pipe(scene->pipe), 0);
}

static int pipe_wait(struct orr_task *task, struct waiter *self)
{
    if (!self->locked) {
        self->locked = true;
        int error = orr_io_read(task, &self->io, self->scene->pipe[0], &self->byte, 1);
        if (error)
            return error;
    }
    int error = orr_io_await(task, &self->io);
    return error || self->io.result == 1 ? error : -EIO;
}

static void pipe_begin(struct orr_task *task, struct waiter *self)
{
    if (self->victim && self->scene->phase == BEFORE)
        self->locked = !orr_io_read(task, &self->io, self->scene->pipe[0], &self->byte, 1);
}

/* One for each, as it is not said whose read is served first. */
static void pipe_grant(struct scene *scene)
{
    scene->granted += (unsigned)write(scene->pipe[1], "xxx", 1 + scene->behind);
}

static bool each_byte_is_read_or_there(const struct scene *scene)
{
    int left;
    unsigned read = 0;
    for (unsigned i = 0; i < WAITERS; i++)
        read += scene->waiters[i].byte == 'x';
    return !ioctl(scene->pipe[0], FIONREAD, &left) && scene->granted == read + (unsigned)left;
}

static int pipe_unmake(struct scene *scene)
{
    close(scene->pipe[0]);
    close(scene->pipe[1]);
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

/* --- The scene ---------------------------------------------------------------------------------------------------- */

static void interrupt(struct scene *scene)
{
    struct waiter *victim = &scene->waiters[0];
    if (scene->method == CANCEL)
        orr_task_cancel(victim->task, "by the matrix");
    else if (scene->method == CHILD)
        end_at_once(victim->doomed, -EIO);
    else if (scene->method == DROP)
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
    struct scene *scene = data;
    (void)timer;
    if (!status)
        scene->kind->grant(scene);
}

static enum orr_poll owner_poll(struct orr_task *task, void *data)
{
    struct scene *scene = data;
    if (orr_checkpoint(task) != -ECANCELED)
        return ORR_PENDING;
    if (scene->method == FREE && scene->phase == GRANTED_TOO_LATE)
        scene->kind->grant(scene); /* the others have been cancelled with it, and are yet to be polled */
    return ORR_DONE;
}

static void owner_drop(void *data)
{
    struct scene *scene = data;
    scene->sound = !scene->kind->sound || scene->kind->sound(scene);
    scene->unmade = scene->kind->unmake ? scene->kind->unmake(scene) : 0;
}

static void turn_until(struct scene *scene, const struct waiter *waiter, unsigned turns)
{
    do
        harness_settle(scene->rt);
    while (waiter && waiter->answer == NOTHING && !waiter->drops && turns--);
}

static void waiter_start(struct scene *scene, unsigned i)
{
    struct waiter *self = &scene->waiters[i];
    *self = (struct waiter){ .scene = scene, .answer = NOTHING, .victim = i == 0 };
    struct orr_spawn what = {
        .poll = waiter_poll, .data = self, .drop = waiter_drop, .parent = scene->owner, .task = &self->task
    };
    assert_int_equal(orr_spawn(scene->rt, &what), 0);
}

static void start_timer(struct scene *scene, orr_timer_fn *fire, unsigned ms, struct orr_timer **timer)
{
    struct orr_timer_options options = { .fire = fire, .data = scene, .local = true };
    assert_int_equal(orr_timer_new(scene->rt, &options, timer), 0);
    assert_int_equal(orr_timer_start_at(*timer, scene->start + ms * MS, 0), 0);
}

/* All are in line, the victim first, unless it idles. */
static void scene_open(struct scene *scene)
{
    scene->rt = runtime_on(ORR_CLOCK_MANUAL, 1);
    scene->start = orr_runtime_now(scene->rt);
    assert_int_equal(orr_runtime_enter(scene->rt), 0);
    struct orr_spawn owner = {
        .poll = owner_poll, .data = scene, .drop = owner_drop, .supervise = true, .task = &scene->owner
    };
    assert_int_equal(orr_spawn(scene->rt, &owner), 0);
    if (scene->kind->make)
        scene->kind->make(scene);
    for (unsigned i = 0; i <= scene->behind; i++)
        waiter_start(scene, i);
    start_timer(scene, on_grant, plans[scene->phase].grant_ms, &scene->grant);
    start_timer(scene, on_interrupt, plans[scene->phase].interrupt_ms, &scene->interrupt);
    orr_runtime_leave(scene->rt);
    harness_settle(scene->rt);
}

/* What the kernel grants takes its time. */
static void scene_advance(struct scene *scene, unsigned ms)
{
    assert_int_equal(orr_runtime_advance(scene->rt, ms * MS), 0);
    turn_until(scene, NULL, 0);
    turn_until(scene, &scene->waiters[0], scene->kind->racy && scene->granted ? 100000 : 0);
}

static void scene_play(struct scene *scene, unsigned ms, bool at_once)
{
    for (unsigned i = 0; i < ms; i += at_once ? ms : 1)
        scene_advance(scene, at_once ? ms : 1);
}

/* Whoever is still in line is served, one after the other, by as many grants as it takes. */
static void serve_the_others(struct scene *scene)
{
    for (unsigned i = 1; i <= scene->behind; i++) {
        for (unsigned tries = 0; scene->waiters[i].answer == NOTHING && tries < WAITERS; tries++) {
            assert_int_equal(orr_runtime_enter(scene->rt), 0);
            scene->kind->grant(scene);
            orr_runtime_leave(scene->rt);
            turn_until(scene, &scene->waiters[i], scene->kind->racy ? 1000 : 0);
        }
        assert_int_equal(scene->waiters[i].answer, 0);
        assert_true(scene->kind->racy || scene->waiters[i].order > scene->waiters[i - 1].order);
    }
}

static void scene_close(struct scene *scene)
{
    struct orr_timer *timers[] = { scene->grant, scene->interrupt };
    assert_int_equal(orr_runtime_enter(scene->rt), 0);
    for (size_t i = 0; i < LENGTH(timers); i++)
        orr_timer_free(timers[i]);
    orr_runtime_leave(scene->rt);
    scene->unmade = NOTHING;
    assert_int_equal(orr_runtime_free(scene->rt), 0);
    assert_true(scene->sound);
    assert_int_equal(scene->unmade, 0);
    for (unsigned i = 0; i <= scene->behind; i++)
        assert_int_equal(scene->waiters[i].drops, 1);
}

/* --- What is expected --------------------------------------------------------------------------------------------- */

static int interruption(const struct scene *scene)
{
    return scene->method == CHILD ? -ECHILD : -ECANCELED;
}

static bool has_it(const struct scene *scene)
{
    if (scene->kind->by_time && scene->phase != PICKED_UP)
        return false; /* time that has passed is nothing to be had */
    if (scene->phase == GRANTED_TOO_LATE)
        return scene->method == CHILD; /* which withdraws when the task is polled, and not before */
    return scene->phase == GRANTED || scene->phase == PICKED_UP;
}

static void check_victim(const struct scene *scene)
{
    const struct waiter *victim = &scene->waiters[0];
    if (scene->method == DROP) {
        assert_int_equal(victim->answer, scene->phase == PICKED_UP ? 0 : NOTHING);
        assert_int_equal(victim->drops, 1);
    } else if (scene->kind->racy && plans[scene->phase].at_once) {
        assert_true(!victim->answer || victim->answer == interruption(scene));
    } else {
        assert_int_equal(victim->answer, has_it(scene) ? 0 : interruption(scene));
        assert_int_equal(victim->after, has_it(scene) || scene->method != CHILD ? interruption(scene) : 0);
    }
}

/* --- The matrix --------------------------------------------------------------------------------------------------- */

static const struct scene *playing; /* NULL when it came to its end */

static void play(struct scene *scene)
{
    scene_open(scene);
    scene_play(scene, 20, plans[scene->phase].at_once);
    check_victim(scene);
    serve_the_others(scene);
    scene_close(scene);
}

/* All are cancelled, so nobody is served but the victim. */
static void play_to_the_end_of_the_runtime(struct scene *scene)
{
    scene_open(scene);
    if (scene->phase == GRANTED) {
        assert_int_equal(orr_runtime_enter(scene->rt), 0);
        scene->kind->grant(scene);
        orr_runtime_leave(scene->rt);
    }
    if (scene->phase == PICKED_UP)
        scene_play(scene, 4, true);
    scene_close(scene);
    check_victim(scene);
}

struct part {
    const struct kind *kind;
    enum method method;
};

static void play_part(void **state)
{
    const struct part *part = *state;
    for (enum phase phase = 0; phase < PHASES; phase++)
        for (unsigned behind = 0; behind <= BEHIND; behind++) {
            struct scene scene = { .kind = part->kind, .phase = phase, .method = part->method, .behind = behind };
            if (part->method == FREE && phase == GRANTED && part->kind->by_time)
                continue; /* it comes to an end before time does */
            playing = &scene;
            part->method == FREE ? play_to_the_end_of_the_runtime(&scene) : play(&scene);
            playing = NULL;
        }
}

static int say_where(void **state)
{
    (void)state;
    if (playing)
        print_error("%s, interrupted %s, %u behind\n", playing->kind->name, plans[playing->phase].name,
                    playing->behind);
    playing = NULL;
    return 0;
}

#define PART(sentence, kind, method) \
    { \
        sentence, play_part, NULL, say_where, &(struct part) \
        { \
            &kinds[kind], method \
        } \
    }
#define PARTS(word, kind) \
    PART(#word "_that_is_cancelled_loses_nothing", kind, CANCEL), \
        PART(#word "_that_is_out_of_time_loses_nothing", kind, DEADLINE), \
        PART(#word "_that_is_told_of_a_failed_child_loses_nothing", kind, CHILD), \
        PART(#word "_of_a_task_that_is_dropped_loses_nothing", kind, DROP), \
        PART(#word "_of_a_runtime_that_is_freed_loses_nothing", kind, FREE)

static const struct CMUnitTest cancel[] = {
    PARTS(event_wait, EVENT),   PARTS(queue_get, GET),
    PARTS(queue_put, PUT),      PARTS(semaphore_acquire, SEMAPHORE),
    PARTS(mutex_lock, MUTEX),   PARTS(condition_wait, CONDITION),
    PARTS(future_wait, FUTURE), PARTS(task_await, TASK),
    PARTS(sleep, SLEEP),        PARTS(scope_leave, LEAVE),
    PARTS(wait_for_any, GROUP), PARTS(io_await, INPUT),
};

HARNESS_MAIN(cancel)
