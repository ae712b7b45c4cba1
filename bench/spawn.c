/*
 * The life of a task that does nothing: spawn, poll once, finish; and the memory of a million
 * tasks.
 */
#include "bench.h"

#include <stdlib.h>

enum { BATCH = 64, BATCHES = 50000, MILLION = 1000000 };

static enum orr_poll finish(struct orr_task *task, void *data)
{
    (void)task;
    (void)data;
    return ORR_DONE;
}

static enum orr_poll wait_for_ever(struct orr_task *task, void *data)
{
    (void)task;
    (void)data;
    return ORR_PENDING;
}

static enum orr_poll spawn_batches(struct orr_task *task, void *data)
{
    int *left = data;
    struct orr_runtime *rt = orr_task_runtime(task);
    for (int i = 0; i < BATCH; i++)
        bench_must(orr_spawn(rt, &(struct orr_spawn){ .poll = finish }), "orr_spawn");
    return --*left ? orr_task_yield(task) : ORR_DONE;
}

static enum orr_poll spawn_million(struct orr_task *task, void *data)
{
    (void)data;
    struct orr_runtime *rt = orr_task_runtime(task);
    for (int i = 0; i < MILLION; i++)
        bench_must(orr_spawn(rt, &(struct orr_spawn){ .poll = wait_for_ever }), "orr_spawn");
    return ORR_DONE;
}

static double spawn_poll_finish(void)
{
    int left = BATCHES;
    struct orr_runtime *rt = orr_runtime_new(NULL);
    bench_must(orr_spawn(rt, &(struct orr_spawn){ .poll = spawn_batches, .data = &left }), "orr_spawn");
    uint64_t start = bench_now();
    bench_must(orr_runtime_run(rt), "orr_runtime_run");
    double ns = (double)(bench_now() - start) / ((double)BATCH * BATCHES);
    orr_runtime_free(rt);
    return ns;
}

static void weigh_a_million(void)
{
    struct orr_runtime *rt = orr_runtime_new(&(struct orr_options){ .alloc = bench_alloc });
    size_t before = bench_allocated;
    bench_must(orr_spawn(rt, &(struct orr_spawn){ .poll = spawn_million }), "orr_spawn");
    bench_must(orr_runtime_turn(rt, ORR_NEVER), "orr_runtime_turn");
    double bytes = (double)(bench_allocated - before) / MILLION;
    bench_line("task_bytes_of_a_million", bytes, "bytes", 0, NULL);
    bench_line("task_bytes_kept_by_the_process", 16.0 * 1048512 / MILLION, "bytes", 0, NULL);
    orr_runtime_free(rt);
}

int main(void)
{
    bench_compare("spawn_poll_finish", "ns", spawn_poll_finish, NULL, NULL);
    weigh_a_million();
    return 0;
}
