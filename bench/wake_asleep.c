/*
 * Waking a thread that sleeps, there and back: two workers, a task on each, each waking the other's.  The
 * peers are two threads with an eventfd each and nothing else, and two libuv loops with uv_async_send.
 */
#include "bench.h"

#include <pthread.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

#ifdef HAVE_UV
#include <uv.h>
#endif

enum { ROUNDS = 20000 };

struct player {
    struct orr_waker *other;
    struct orr_waker *self;
    _Atomic bool *ball; /* ours to hit when true */
    _Atomic bool *others;
    int left;
};

static struct orr_waker wakers[2];
static _Atomic bool balls[2];
static struct player players[2];
static enum orr_reactor reactor;

static enum orr_poll play(struct orr_task *task, void *data)
{
    struct player *self = data;
    if (!self->self->bits)
        *self->self = orr_task_waker(task);
    if (!*self->ball)
        return ORR_PENDING;
    *self->ball = false;
    *self->others = true;
    orr_waker_wake(*self->other);
    return --self->left ? ORR_PENDING : ORR_DONE;
}

static double workers(void)
{
    struct orr_runtime *rt = orr_runtime_new(&(struct orr_options){ .workers = 2, .reactor = reactor });
    if (!rt)
        return 0;
    for (int i = 0; i < 2; i++) {
        wakers[i].bits = 0;
        balls[i] = false;
        players[i] = (struct player){
            .other = &wakers[!i], .self = &wakers[i], .ball = &balls[i], .others = &balls[!i], .left = ROUNDS
        };
        bench_must(orr_spawn(rt, &(struct orr_spawn){ .poll = play, .data = &players[i], .worker = (unsigned)i + 1 }),
                   "orr_spawn");
    }
    struct orr_stats stats;
    do {
        bench_must(orr_runtime_turn(rt, ORR_NEVER), "orr_runtime_turn");
        orr_runtime_stats(rt, 0, &stats);
    } while (stats.polls < 2);
    usleep(1000);
    balls[0] = true;
    orr_waker_wake(wakers[0]);
    uint64_t start = bench_now();
    bench_must(orr_runtime_run(rt), "orr_runtime_run");
    double ns = (double)(bench_now() - start) / ROUNDS;
    orr_runtime_free(rt);
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
    pthread_create(&thread, NULL, eventfd_thread, NULL);
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
struct uv_player {
    uv_loop_t loop;
    uv_async_t async;
    struct uv_player *other;
    int left;
};

static struct uv_player uv_players[2];

static void uv_play(uv_async_t *async)
{
    struct uv_player *self = async->data;
    bool last = !--self->left;
    if (!last || self == &uv_players[1]) /* the first player has the last word, which is none */
        uv_async_send(&self->other->async);
    if (last)
        uv_close((uv_handle_t *)async, NULL);
}

static void *uv_thread(void *data)
{
    uv_run(&((struct uv_player *)data)->loop, UV_RUN_DEFAULT);
    return NULL;
}

static double uv_asyncs(void)
{
    pthread_t thread;
    for (int i = 0; i < 2; i++) {
        struct uv_player *player = &uv_players[i];
        player->other = &uv_players[!i];
        player->left = ROUNDS + !i;
        uv_loop_init(&player->loop);
        uv_async_init(&player->loop, &player->async, uv_play);
        player->async.data = player;
    }
    pthread_create(&thread, NULL, uv_thread, &uv_players[1]);
    usleep(1000);
    uint64_t start = bench_now();
    uv_async_send(&uv_players[0].async);
    uv_thread(&uv_players[0]);
    double ns = (double)(bench_now() - start) / ROUNDS;
    pthread_join(thread, NULL);
    for (int i = 0; i < 2; i++)
        uv_loop_close(&uv_players[i].loop);
    return ns;
}
#endif

int main(void)
{
    static const char *const names[] = {
        [ORR_REACTOR_URING] = "wake_asleep_round_trip_uring", [ORR_REACTOR_EPOLL] = "wake_asleep_round_trip_epoll"
    };
    for (reactor = ORR_REACTOR_URING; reactor <= ORR_REACTOR_EPOLL; reactor++)
        bench_compare(names[reactor], "ns", workers, "eventfd_ping_pong", eventfds);
#ifdef HAVE_UV
    bench_compare("uv_async_send_round_trip", "ns", uv_asyncs, "eventfd_ping_pong", eventfds);
#else
    printf("uv_async_send_round_trip not installed\n");
#endif
    return 0;
}
