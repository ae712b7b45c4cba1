/*
 * Waking a sleeping thread, there and back: two workers with a task each, and each task wakes the
 * other.  The peers are two bare threads with an eventfd each, and two libuv loops with
 * uv_async_send.
 *
 * The placement of the threads matters more than what they do, so they are pinned: both on one
 * core, then each on its own.  In the last lines a read is in flight, so that the worker sleeps in
 * its reactor and not on a futex.
 */
#include "bench.h"

#include <pthread.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

#ifdef HAVE_UV
#include <uv.h>
#endif

enum { ROUNDS = 5000 };

struct side {
    struct orr_waker *other;
    struct orr_waker *self;
    _Atomic bool *turn; /* true: this side wakes the other next */
    _Atomic bool *others_turn;
    int left;
};

struct reader {
    struct orr_io io;
    int fds[2];
    bool started;
    char byte[1];
};

static struct orr_waker wakers[2];
static _Atomic bool turns[2];
static struct side sides[2];
static enum orr_reactor reactor;
static bool with_io;
static int second_core;

static enum orr_poll wake_other(struct orr_task *task, void *data)
{
    struct side *self = data;
    if (!self->self->bits)
        *self->self = orr_task_waker(task);
    if (!*self->turn)
        return ORR_PENDING;
    *self->turn = false;
    *self->others_turn = true;
    orr_waker_wake(*self->other);
    if (--self->left)
        return ORR_PENDING;
    if (self == &sides[1])
        orr_runtime_stop(orr_task_runtime(task)); /* this was the last wake */
    return ORR_DONE;
}

/* Keeps a read in flight until the task is dropped. */
static enum orr_poll read_for_ever(struct orr_task *task, void *data)
{
    struct reader *reader = data;
    if (!reader->started) {
        reader->started = true;
        bench_must(orr_io_read(task, &reader->io, reader->fds[0], reader->byte, 1), "orr_io_read");
    }
    return orr_io_done(&reader->io) ? ORR_DONE : ORR_PENDING;
}

/* Creates the thread of worker 2 on the second core and stays on the first. */
static struct orr_runtime *open_runtime(void)
{
    bench_pin(second_core);
    struct orr_runtime *rt = orr_runtime_new(&(struct orr_options){ .workers = 2, .reactor = reactor });
    bench_pin(0);
    return rt;
}

static double workers(void)
{
    struct reader readers[2] = { 0 };
    struct orr_runtime *rt = open_runtime();
    if (!rt)
        return 0;
    for (unsigned i = 0; i < 2 && with_io; i++) {
        if (pipe(readers[i].fds) < 0)
            perror("pipe");
        struct orr_spawn what = { .poll = read_for_ever, .data = &readers[i], .worker = i + 1 };
        bench_must(orr_spawn(rt, &what), "orr_spawn");
    }
    for (int i = 0; i < 2; i++) {
        wakers[i].bits = 0;
        turns[i] = false;
        sides[i] = (struct side){
            .other = &wakers[!i], .self = &wakers[i], .turn = &turns[i], .others_turn = &turns[!i], .left = ROUNDS
        };
        bench_must(
            orr_spawn(rt, &(struct orr_spawn){ .poll = wake_other, .data = &sides[i], .worker = (unsigned)i + 1 }),
            "orr_spawn");
    }
    struct orr_stats stats;
    do {
        bench_must(orr_runtime_turn(rt, ORR_NEVER), "orr_runtime_turn");
        orr_runtime_stats(rt, 0, &stats);
    } while (stats.polls < (with_io ? 4 : 2));
    usleep(1000);
    turns[0] = true;
    orr_waker_wake(wakers[0]);
    uint64_t start = bench_now();
    orr_runtime_run(rt); /* until the runtime is stopped */
    double ns = (double)(bench_now() - start) / ROUNDS;
    orr_runtime_free(rt);
    for (int i = 0; i < 2 && with_io; i++) {
        close(readers[i].fds[0]);
        close(readers[i].fds[1]);
    }
    return ns;
}

static int bells[2];

static void eventfd_half(int own, int other)
{
    uint64_t one = 1, got;
    for (int i = 0; i < ROUNDS; i++) {
        if (read(bells[own], &got, sizeof got) < 0 || write(bells[other], &one, sizeof one) < 0)
            perror("eventfd");
    }
}

static void *eventfd_thread(void *data)
{
    (void)data;
    eventfd_half(1, 0);
    return NULL;
}

static double eventfds(void)
{
    uint64_t one = 1;
    pthread_t thread;
    bells[0] = eventfd(0, EFD_CLOEXEC);
    bells[1] = eventfd(0, EFD_CLOEXEC);
    bench_pin(second_core);
    pthread_create(&thread, NULL, eventfd_thread, NULL);
    bench_pin(0);
    usleep(1000);
    uint64_t start = bench_now();
    if (write(bells[0], &one, sizeof one) < 0)
        perror("eventfd");
    eventfd_half(0, 1);
    pthread_join(thread, NULL);
    double ns = (double)(bench_now() - start) / ROUNDS;
    close(bells[0]);
    close(bells[1]);
    return ns;
}

#ifdef HAVE_UV
struct uv_side {
    uv_loop_t loop;
    uv_async_t async;
    struct uv_side *other;
    int left;
};

static struct uv_side uv_sides[2];

static void uv_wake_other(uv_async_t *async)
{
    struct uv_side *self = async->data;
    bool last = !--self->left;
    if (!last || self == &uv_sides[1]) /* side 0 does not answer the last wake */
        uv_async_send(&self->other->async);
    if (last)
        uv_close((uv_handle_t *)async, NULL);
}

static void *uv_thread(void *data)
{
    uv_run(&((struct uv_side *)data)->loop, UV_RUN_DEFAULT);
    return NULL;
}

static double uv_asyncs(void)
{
    pthread_t thread;
    for (int i = 0; i < 2; i++) {
        struct uv_side *side = &uv_sides[i];
        side->other = &uv_sides[!i];
        side->left = ROUNDS + !i;
        uv_loop_init(&side->loop);
        uv_async_init(&side->loop, &side->async, uv_wake_other);
        side->async.data = side;
    }
    bench_pin(second_core);
    pthread_create(&thread, NULL, uv_thread, &uv_sides[1]);
    bench_pin(0);
    usleep(1000);
    uint64_t start = bench_now();
    uv_async_send(&uv_sides[0].async);
    uv_thread(&uv_sides[0]);
    double ns = (double)(bench_now() - start) / ROUNDS;
    pthread_join(thread, NULL);
    for (int i = 0; i < 2; i++)
        uv_loop_close(&uv_sides[i].loop);
    return ns;
}
#endif

static void compare_workers(const char *placing)
{
    char name[64];
    snprintf(name, sizeof name, "wake_asleep_%s_%s%s", orr_reactor_name(reactor), placing, with_io ? "_with_io" : "");
    bench_compare(name, "ns", workers, "eventfd_ping_pong", eventfds);
}

int main(void)
{
    static const char *const placings[] = { "one_core", "two_cores" };
    for (second_core = 0; second_core < 2; second_core++) {
        for (int io = 0; io < 2; io++) {
            with_io = io;
            for (reactor = ORR_REACTOR_URING; reactor <= ORR_REACTOR_EPOLL; reactor++)
                compare_workers(placings[second_core]);
        }
#ifdef HAVE_UV
        char name[64];
        snprintf(name, sizeof name, "uv_async_send_%s", placings[second_core]);
        bench_compare(name, "ns", uv_asyncs, "eventfd_ping_pong", eventfds);
#else
        printf("uv_async_send_%s: libuv is not installed\n", placings[second_core]);
#endif
    }
    return 0;
}
