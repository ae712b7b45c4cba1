/*
 * The tree of tasks: a child is spawned and awaited, alone and beside many siblings; waiting tasks
 * are cancelled one by one and as a tree; and the memory of a task.  Figures are for one task.
 */
#include "bench.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    CHILDREN = 1000000,
    CANCELLED = 10000,
    BRANCHES = 100,
    LEAVES = CANCELLED / BRANCHES - 1,
    SIBLINGS_MAX = 100000,
    /* With their parent they fill the table, so that no empty slot is counted. */
    WEIGHED = 64 * 2047 - 1,
};

/* A task that waits for an event that is never set, until it is cancelled. */
struct idler {
    struct orr_wait wait;
    struct orr_task *task;
    bool spawned; /* a branch has spawned its leaves */
};

static struct idler idlers[SIBLINGS_MAX];
static unsigned idle_now; /* how many tasks have begun to wait */
static struct orr_event *never;

static enum orr_poll idle(struct orr_task *task, void *data)
{
    struct idler *self = data;
    int error = orr_event_wait(task, &self->wait, never);
    if (error != -EAGAIN)
        return orr_task_fail(task, error);
    idle_now++;
    return ORR_PENDING;
}

static enum orr_poll finish(struct orr_task *task, void *data)
{
    (void)task;
    (void)data;
    return ORR_DONE;
}

static void spawn(struct orr_task *task, orr_poll_fn *poll, void *data, struct orr_task **reference)
{
    struct orr_spawn what = { .poll = poll, .data = data, .task = reference };
    bench_must(orr_spawn(orr_task_runtime(task), &what), "orr_spawn");
}

static void spawn_idlers(struct orr_task *task, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        spawn(task, idle, &idlers[i], &idlers[i].task);
}

/* The state of a benchmark's task between its polls. */
struct run {
    enum { FIRST, SETTLING, MEASURING } phase;
    unsigned siblings, done;
    struct orr_wait wait;
    struct orr_task *child;
    uint64_t start;
    double ns; /* nanoseconds for one operation */
};

/*
 * Lets idlers begin to wait.  When `idlers_wanted` of them wait, starts the clock and returns true.
 */
static bool settled(struct run *run, unsigned idlers_wanted)
{
    if (run->phase == SETTLING && idle_now == idlers_wanted) {
        run->phase = MEASURING;
        run->start = bench_now();
    }
    return run->phase == MEASURING;
}

static double measure(orr_poll_fn *poll, struct run *run)
{
    struct orr_runtime *rt = bench_open();
    bench_must(orr_event_new(&never), "orr_event_new");
    memset(idlers, 0, sizeof idlers);
    idle_now = 0;
    bench_must(orr_spawn(rt, &(struct orr_spawn){ .poll = poll, .data = run }), "orr_spawn");
    bench_run(rt);
    bench_must(orr_event_free(never), "orr_event_free");
    bench_close(rt);
    return run->ns;
}

/* --- A child, spawned and awaited ------------------------------------------------------------- */

/* False while the task must wait. */
static bool spawn_and_await_all(struct orr_task *task, struct run *run)
{
    while (run->done < CHILDREN) {
        if (!run->child)
            spawn(task, finish, NULL, &run->child);
        int error = orr_task_await(task, &run->wait, run->child);
        if (error == -EAGAIN)
            return false;
        bench_must(error, "orr_task_await");
        orr_task_unref(run->child);
        run->child = NULL;
        run->done++;
    }
    return true;
}

static void cancel_siblings(struct run *run)
{
    for (unsigned i = 0; i < run->siblings; i++) {
        orr_task_cancel(idlers[i].task, NULL);
        orr_task_unref(idlers[i].task);
    }
}

static enum orr_poll among_siblings(struct orr_task *task, void *data)
{
    struct run *run = data;
    if (run->phase == FIRST) {
        spawn_idlers(task, run->siblings);
        run->phase = SETTLING;
    }
    if (!settled(run, run->siblings))
        return orr_task_yield(task);
    if (!spawn_and_await_all(task, run))
        return ORR_PENDING;
    run->ns = (double)(bench_now() - run->start) / CHILDREN;
    cancel_siblings(run);
    return ORR_DONE;
}

static double spawn_await(unsigned siblings)
{
    struct run run = { .siblings = siblings };
    return measure(among_siblings, &run);
}

static double spawn_await_alone(void)
{
    return spawn_await(0);
}

static double spawn_await_10(void)
{
    return spawn_await(10);
}

static double spawn_await_1000(void)
{
    return spawn_await(1000);
}

static double spawn_await_100000(void)
{
    return spawn_await(SIBLINGS_MAX);
}

/* --- Cancellation ----------------------------------------------------------------------------- */

/* Cancels and awaits each task before the next, in an order that no list has. */
static enum orr_poll cancel_one_by_one(struct orr_task *task, void *data)
{
    enum { STRIDE = 7919 }; /* a prime, so that each task is met once */
    struct run *run = data;
    if (run->phase == FIRST) {
        spawn_idlers(task, CANCELLED);
        run->phase = SETTLING;
    }
    if (!settled(run, CANCELLED))
        return orr_task_yield(task);
    while (run->done < CANCELLED) {
        struct orr_task *child = idlers[(uint64_t)run->done * STRIDE % CANCELLED].task;
        if (!run->child)
            bench_must(orr_task_cancel(child, NULL), "orr_task_cancel");
        run->child = child;
        int error = orr_task_await(task, &run->wait, child);
        if (error == -EAGAIN)
            return ORR_PENDING;
        bench_must(error, "orr_task_await");
        orr_task_unref(child);
        run->child = NULL;
        run->done++;
    }
    run->ns = (double)(bench_now() - run->start) / CANCELLED;
    return ORR_DONE;
}

static double cancel_one(void)
{
    struct run run = { 0 };
    return measure(cancel_one_by_one, &run);
}

static enum orr_poll branch(struct orr_task *task, void *data)
{
    struct idler *self = data;
    for (unsigned i = 1; i <= LEAVES && !self->spawned; i++)
        spawn(task, idle, &self[i], NULL);
    self->spawned = true;
    return idle(task, self);
}

static enum orr_poll trunk(struct orr_task *task, void *data)
{
    struct idler *self = data;
    for (unsigned i = 0; i < BRANCHES && !self->spawned; i++)
        spawn(task, branch, &idlers[i * (LEAVES + 1)], NULL);
    self->spawned = true;
    return idle(task, self);
}

static enum orr_poll cancel_trunk(struct orr_task *task, void *data)
{
    struct run *run = data;
    if (run->phase == FIRST) {
        spawn(task, trunk, &idlers[CANCELLED], &run->child);
        run->phase = SETTLING;
    }
    if (!settled(run, CANCELLED + 1))
        return orr_task_yield(task);
    if (!run->done++)
        bench_must(orr_task_cancel(run->child, NULL), "orr_task_cancel");
    int error = orr_task_await(task, &run->wait, run->child);
    if (error == -EAGAIN)
        return ORR_PENDING;
    run->ns = (double)(bench_now() - run->start) / CANCELLED;
    orr_task_unref(run->child);
    return ORR_DONE;
}

static double cancel_tree(void)
{
    struct run run = { 0 };
    return measure(cancel_trunk, &run);
}

/* --- Weight ----------------------------------------------------------------------------------- */

static enum orr_poll spawn_the_weighed(struct orr_task *task, void *data)
{
    for (unsigned i = 0; i < WEIGHED; i++)
        spawn(task, finish, data, NULL);
    return ORR_DONE;
}

static void weigh(void)
{
    struct orr_runtime *rt = orr_runtime_new(&(struct orr_options){ .alloc = bench_alloc });
    size_t before = bench_allocated;
    bench_must(orr_spawn(rt, &(struct orr_spawn){ .poll = spawn_the_weighed }), "orr_spawn");
    bench_must(orr_runtime_turn(rt, 0), "orr_runtime_turn");
    bench_line("task_bytes", (double)(bench_allocated - before) / (WEIGHED + 1), "bytes", 0, NULL);
    bench_line("wait_bytes", sizeof(struct orr_wait), "bytes", 0, NULL);
    orr_runtime_free(rt);
}

int main(void)
{
    bench_compare("spawn_await", "ns", spawn_await_alone, NULL, NULL);
    bench_compare("spawn_await_10_siblings", "ns", spawn_await_10, NULL, NULL);
    bench_compare("spawn_await_1000_siblings", "ns", spawn_await_1000, NULL, NULL);
    bench_compare("spawn_await_100000_siblings", "ns", spawn_await_100000, NULL, NULL);
    bench_compare("cancel_one_of_10000", "ns", cancel_one, NULL, NULL);
    bench_compare("cancel_tree_of_10000", "ns", cancel_tree, NULL, NULL);
    weigh();
    return 0;
}
