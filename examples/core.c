/*
 * A tour of the core: tasks on two workers pass a ball to each other, a task reads what another
 * wrote, a thread that knows nothing of the runtime wakes a task, a timer ticks, and the runtime
 * prints its statistics.
 */
#include <orrery.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void say(const char *who, const char *what)
{
    printf("%-10s %s\n", who, what);
    fflush(stdout);
}

/* --- Two tasks on two workers: each wakes the other from its own thread. ---------------------- */

struct player {
    const char *name;
    struct player *other;
    _Atomic uint64_t waker; /* its bits, once the player has started */
    _Atomic bool has_ball;
    int hits;
};

static enum orr_poll play(struct orr_task *task, void *data)
{
    struct player *self = data;
    if (!self->waker) {
        self->waker = orr_task_waker(task).bits;
        orr_waker_wake((struct orr_waker){ self->other->waker }); /* it may be waiting for us */
    }
    if (!self->other->waker || !self->has_ball)
        return ORR_PENDING;
    char line[64];
    snprintf(line, sizeof line, "hits the ball on worker %u", orr_task_worker(task));
    say(self->name, line);
    self->has_ball = false;
    self->other->has_ball = true;
    orr_waker_wake((struct orr_waker){ self->other->waker });
    return --self->hits ? ORR_PENDING : ORR_DONE;
}

/* --- A task that waits for a pipe, and one that fills it. ------------------------------------- */

struct pipe_end {
    int fd;
    bool started;
    char text[64];
    struct orr_io io;
};

static enum orr_poll read_pipe(struct orr_task *task, void *data)
{
    struct pipe_end *self = data;
    if (!self->started) {
        self->started = true;
        say("reader", "waits for the pipe");
        if (orr_io_read(task, &self->io, self->fd, self->text, sizeof self->text - 1) < 0)
            return ORR_DONE;
    }
    if (!orr_io_done(&self->io))
        return ORR_PENDING;
    say("reader", self->io.result > 0 ? self->text : strerror(-self->io.result));
    return ORR_DONE;
}

static enum orr_poll write_pipe(struct orr_task *task, void *data)
{
    struct pipe_end *self = data;
    if (!self->started) {
        self->started = true;
        say("writer", "fills the pipe");
        if (orr_io_write(task, &self->io, self->fd, self->text, strlen(self->text)) < 0)
            return ORR_DONE;
    }
    return orr_io_done(&self->io) ? ORR_DONE : ORR_PENDING;
}

/* --- A task that waits for a thread of the host's. -------------------------------------------- */

struct errand {
    pthread_t thread;
    bool started;
    _Atomic bool finished;
    struct orr_waker waker;
};

static void *run_errand(void *data)
{
    struct errand *self = data;
    usleep(20000);
    self->finished = true;
    orr_waker_wake(self->waker);
    return NULL;
}

static enum orr_poll await_thread(struct orr_task *task, void *data)
{
    struct errand *self = data;
    if (!self->started) {
        self->started = true;
        self->waker = orr_task_waker(task);
        say("waiter", "sends a thread on an errand");
        if (pthread_create(&self->thread, NULL, run_errand, self))
            return ORR_DONE;
    }
    if (!self->finished)
        return ORR_PENDING;
    pthread_join(self->thread, NULL);
    say("waiter", "was woken by it");
    return ORR_DONE;
}

/* --- A timer that repeats, until it has had enough. ------------------------------------------- */

static void tick(struct orr_timer *timer, void *data, int status)
{
    int *left = data;
    if (status < 0)
        return; /* the runtime ended first */
    say("timer", *left > 1 ? "ticks" : "ticks for the last time");
    if (--*left == 0)
        orr_timer_cancel(timer);
}

int main(void)
{
    struct orr_runtime *rt = orr_runtime_new(&(struct orr_options){ .workers = 2 });
    int ends[2];
    if (!rt || pipe(ends))
        return 1;
    struct player ada = { .name = "ada", .hits = 3, .has_ball = true };
    struct player ben = { .name = "ben", .hits = 3, .other = &ada };
    ada.other = &ben;
    struct pipe_end reader = { .fd = ends[0] };
    struct pipe_end writer = { .fd = ends[1], .text = "got what the writer wrote" };
    struct errand errand = { 0 };
    struct orr_spawn tasks[] = {
        { .poll = read_pipe, .data = &reader },      { .poll = write_pipe, .data = &writer },
        { .poll = await_thread, .data = &errand },   { .poll = play, .data = &ada, .worker = 1 },
        { .poll = play, .data = &ben, .worker = 2 },
    };
    for (size_t i = 0; i < sizeof tasks / sizeof *tasks; i++)
        if (orr_spawn(rt, &tasks[i]) < 0)
            return 1;
    int ticks = 3;
    struct orr_timer *timer;
    if (orr_timer_new(rt, &(struct orr_timer_options){ .fire = tick, .data = &ticks }, &timer) < 0)
        return 1;
    orr_timer_start(timer, 5000000, 10000000); /* after 5 ms, then every 10 */
    orr_runtime_run(rt);
    orr_timer_free(timer);

    struct orr_stats stats;
    orr_runtime_stats(rt, 0, &stats);
    printf("\n%llu tasks, %llu polls, %llu local and %llu foreign wakes, %llu sleeps, on %s\n",
           (unsigned long long)stats.tasks_spawned, (unsigned long long)stats.polls,
           (unsigned long long)stats.wakes_local, (unsigned long long)stats.wakes_foreign,
           (unsigned long long)stats.sleeps, orr_reactor_name(stats.reactor));
    orr_runtime_free(rt);
    close(ends[0]);
    close(ends[1]);
    return 0;
}
