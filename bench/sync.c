/*
 * What tasks of one worker wait for.  A figure is for one round, for one item, or for one acquire
 * and release.  Where two tasks take part, it includes their polls.
 */
#include "bench.h"

#include <errno.h>

enum { ROUNDS = 1000000, BATCH = 64 };

/* One of two tasks, and what they share. */
struct side {
    struct orr_wait wait;
    struct side *other;
    struct orr_waker waker;
    unsigned done;
    enum { FRESH, FIRST, IN_TURN } phase;
    struct orr_event *event;
    struct orr_queue *queue;
    struct orr_semaphore *semaphore;
    struct orr_future *future;
};

/* Nanoseconds for one of the rounds that both tasks make together. */
static double run_pair(struct orr_runtime *rt, orr_poll_fn *first, struct side *a, orr_poll_fn *second, struct side *b)
{
    bench_must(orr_spawn(rt, &(struct orr_spawn){ .poll = first, .data = a, .waker = &a->waker }), "orr_spawn");
    bench_must(orr_spawn(rt, &(struct orr_spawn){ .poll = second, .data = b, .waker = &b->waker }), "orr_spawn");
    return bench_run(rt) / ROUNDS;
}

/* --- Events ----------------------------------------------------------------------------------- */

static enum orr_poll ping(struct orr_task *task, void *data)
{
    struct side *self = data;
    while (self->done < ROUNDS) {
        int error = orr_event_wait(task, &self->wait, self->event);
        if (error == -EAGAIN)
            return ORR_PENDING;
        bench_must(error, "orr_event_wait");
        orr_event_clear(self->event);
        orr_event_set(self->other->event);
        self->done++;
    }
    return ORR_DONE;
}

static double event_ping_pong(void)
{
    struct side a, b = { .other = &a };
    a = (struct side){ .other = &b };
    struct orr_runtime *rt = bench_open();
    bench_must(orr_event_new(&a.event), "orr_event_new");
    bench_must(orr_event_new(&b.event), "orr_event_new");
    orr_event_set(a.event);
    double ns = run_pair(rt, ping, &a, ping, &b);
    bench_must(orr_event_free(a.event), "orr_event_free");
    bench_must(orr_event_free(b.event), "orr_event_free");
    bench_close(rt);
    return ns;
}

/* --- Queues ----------------------------------------------------------------------------------- */

static enum orr_poll produce(struct orr_task *task, void *data)
{
    struct side *self = data;
    while (self->done < ROUNDS) {
        int error = orr_queue_put(task, &self->wait, self->queue, self);
        if (error == -EAGAIN)
            return ORR_PENDING;
        bench_must(error, "orr_queue_put");
        if (++self->done % BATCH == 0)
            /* Otherwise an unbounded queue gets all items before one is taken. */
            return orr_task_yield(task);
    }
    return ORR_DONE;
}

static enum orr_poll consume(struct orr_task *task, void *data)
{
    struct side *self = data;
    while (self->done < ROUNDS) {
        void *item;
        int error = orr_queue_get(task, &self->wait, self->queue, &item);
        if (error == -EAGAIN)
            return ORR_PENDING;
        bench_must(error, "orr_queue_get");
        self->done++;
    }
    return ORR_DONE;
}

static double queue_item(size_t capacity)
{
    struct side producer = { 0 }, consumer = { 0 };
    struct orr_runtime *rt = bench_open();
    bench_must(orr_queue_new(capacity, NULL, &producer.queue), "orr_queue_new");
    consumer.queue = producer.queue;
    double ns = run_pair(rt, produce, &producer, consume, &consumer);
    bench_must(orr_queue_free(producer.queue), "orr_queue_free");
    bench_close(rt);
    return ns;
}

static double queue_item_unbounded(void)
{
    return queue_item(0);
}

static double queue_item_bound_1(void)
{
    return queue_item(1);
}

/* --- Semaphores ------------------------------------------------------------------------------- */

static enum orr_poll acquire_alone(struct orr_task *task, void *data)
{
    struct side *self = data;
    for (unsigned i = 0; i < ROUNDS; i++) {
        bench_must(orr_semaphore_acquire(task, &self->wait, self->semaphore), "orr_semaphore_acquire");
        orr_semaphore_release(self->semaphore);
    }
    return ORR_DONE;
}

/*
 * The owner of the permit releases it only when the other task waits, so that each acquisition but
 * the first waits.
 */
static enum orr_poll acquire_in_turn(struct orr_task *task, void *data)
{
    struct side *self = data;
    while (self->done < ROUNDS / 2) {
        int error = orr_semaphore_acquire(task, &self->wait, self->semaphore);
        if (error == -EAGAIN)
            return ORR_PENDING;
        bench_must(error, "orr_semaphore_acquire");
        orr_semaphore_release(self->semaphore);
        self->done++;
    }
    return ORR_DONE;
}

/* Holds the permit until the other task has begun to wait. */
static enum orr_poll acquire_first(struct orr_task *task, void *data)
{
    struct side *self = data;
    if (self->phase == FRESH) {
        self->phase = FIRST;
        bench_must(orr_semaphore_acquire(task, &self->wait, self->semaphore), "orr_semaphore_acquire");
        return orr_task_yield(task);
    }
    if (self->phase == FIRST) {
        self->phase = IN_TURN;
        orr_semaphore_release(self->semaphore);
    }
    return acquire_in_turn(task, self);
}

static double semaphore_uncontended(void)
{
    struct side a = { 0 };
    struct orr_runtime *rt = bench_open();
    bench_must(orr_semaphore_new(1, &a.semaphore), "orr_semaphore_new");
    bench_must(orr_spawn(rt, &(struct orr_spawn){ .poll = acquire_alone, .data = &a }), "orr_spawn");
    double ns = bench_run(rt) / ROUNDS;
    bench_must(orr_semaphore_free(a.semaphore), "orr_semaphore_free");
    bench_close(rt);
    return ns;
}

static double semaphore_contended(void)
{
    struct side a = { 0 }, b = { 0 };
    struct orr_runtime *rt = bench_open();
    bench_must(orr_semaphore_new(1, &a.semaphore), "orr_semaphore_new");
    b.semaphore = a.semaphore;
    double ns = run_pair(rt, acquire_first, &a, acquire_in_turn, &b);
    bench_must(orr_semaphore_free(a.semaphore), "orr_semaphore_free");
    bench_close(rt);
    return ns;
}

/* --- Futures ---------------------------------------------------------------------------------- */

/* Makes a future, lets the other task complete it, and awaits it. */
static enum orr_poll await_futures(struct orr_task *task, void *data)
{
    struct side *self = data;
    while (self->done < ROUNDS) {
        if (!self->future) {
            bench_must(orr_future_new(orr_task_runtime(task), NULL, &self->future), "orr_future_new");
            orr_waker_wake(self->other->waker);
        }
        int error = orr_future_wait(task, &self->wait, self->future);
        if (error == -EAGAIN)
            return ORR_PENDING;
        bench_must(error, "orr_future_wait");
        orr_future_unref(self->future);
        self->future = NULL;
        self->done++;
    }
    return ORR_DONE;
}

static enum orr_poll complete_futures(struct orr_task *task, void *data)
{
    struct side *self = data;
    (void)task;
    if (self->other->future && !orr_future_result(self->other->future)) {
        bench_must(orr_future_complete(self->other->future, (struct orr_result){ .value = self }), "complete");
        self->done++;
    }
    return self->done < ROUNDS ? ORR_PENDING : ORR_DONE;
}

static double future_complete_await(void)
{
    struct side a, b = { .other = &a };
    a = (struct side){ .other = &b };
    struct orr_runtime *rt = bench_open();
    double ns = run_pair(rt, await_futures, &a, complete_futures, &b);
    bench_close(rt);
    return ns;
}

int main(void)
{
    bench_compare("event_ping_pong", "ns", event_ping_pong, NULL, NULL);
    bench_compare("queue_item", "ns", queue_item_unbounded, NULL, NULL);
    bench_compare("queue_item_bound_1", "ns", queue_item_bound_1, NULL, NULL);
    bench_compare("semaphore_uncontended", "ns", semaphore_uncontended, NULL, NULL);
    bench_compare("semaphore_contended", "ns", semaphore_contended, NULL, NULL);
    bench_compare("future_complete_await", "ns", future_complete_await, NULL, NULL);
    return 0;
}
