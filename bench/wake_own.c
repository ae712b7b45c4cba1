/*
 * A wake on the worker's own thread, and the poll that follows: two tasks wake each other in turn.
 * With a number as argument, the program only makes that many wakes, to count instructions.
 */
#include "bench.h"

#include <stdlib.h>

struct side {
    struct orr_waker *other;
    uint64_t left;
};

static struct orr_runtime *rt;
static uint64_t rounds = 5000000;

static enum orr_poll wake_other(struct orr_task *task, void *data)
{
    (void)task;
    struct side *self = data;
    orr_waker_wake(*self->other);
    return --self->left ? ORR_PENDING : ORR_DONE;
}

static enum orr_poll start_both(struct orr_task *task, void *data)
{
    static struct orr_waker wakers[2];
    static struct side sides[2];
    (void)data;
    for (int i = 0; i < 2; i++) {
        sides[i] = (struct side){ .other = &wakers[!i], .left = rounds };
        bench_must(orr_spawn(orr_task_runtime(task),
                             &(struct orr_spawn){ .poll = wake_other, .data = &sides[i], .waker = &wakers[i] }),
                   "orr_spawn");
    }
    return ORR_DONE;
}

static double wake_and_poll(void)
{
    bench_must(orr_spawn(rt, &(struct orr_spawn){ .poll = start_both }), "orr_spawn");
    uint64_t start = bench_now();
    bench_must(orr_runtime_run(rt), "orr_runtime_run");
    return (double)(bench_now() - start) / (double)(2 * rounds);
}

int main(int argc, char **argv)
{
    rt = orr_runtime_new(NULL);
    if (!rt)
        return 1;
    if (argc > 1) {
        rounds = strtoull(argv[1], NULL, 10) / 2;
        wake_and_poll();
    } else {
        bench_compare("wake_own_and_poll", "ns", wake_and_poll, NULL, NULL);
    }
    orr_runtime_free(rt);
    return 0;
}
