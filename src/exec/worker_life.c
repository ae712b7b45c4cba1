#include "exec/worker_life.h"

#include "exec/grace.h"
#include "exec/opened.h"
#include "exec/rest.h"
#include "exec/scope.h"
#include "exec/sink.h"
#include "exec/turn.h"

#include <limits.h>
#include <string.h>

/* Takes no more letters, and tells the senders of those that have come. */
static void refuse_letters(struct worker *worker)
{
    worker->phase = WORKER_CLOSING;
    worker_open_letters(worker, UINT_MAX);
    worker->letters = mailbox_close(&worker->table->mailbox);
    worker_open_letters(worker, UINT_MAX);
}

int worker_open(struct worker *worker, const struct worker_config *config)
{
    *worker = (struct worker){
        .runtime = config->runtime,
        .number = config->number,
        .alloc = config->alloc,
        .log = config->log,
        .spin = config->spin,
        .grace.ns = config->grace_ns,
        .shuffle = config->shuffle_seed ? config->shuffle_seed + config->number - 1 : 0,
        .top.flags = NEST_TOP | NEST_SUPERVISE,
        .timers = config->timers,
        .shard = timers_shard(config->timers, config->number - 1),
        .tasks = { .worker = worker, .alloc = &worker->alloc, .limit = config->max_tasks },
        .report_unseen = sink_report,
        .look = { .every = POLLS_PER_LOOK, .in = POLLS_PER_LOOK },
    };
    shares_init(&worker->shares);
    list_init(&worker->opened.all);
    int error = waker_table_acquire(&worker->table);
    if (error)
        return error;
    static _Atomic uint64_t identities;
    worker->identity = 1 + atomic_fetch_add_explicit(&identities, 1, memory_order_relaxed);
    worker->table_number = worker->table->number;
    worker->tasks.table = worker->table;
    worker->counters.eventfd_writes_before = atomic_load_explicit(&worker->table->bell.eventfd_writes,
                                                                  memory_order_relaxed);
    worker->counters.futex_wakes_before = atomic_load_explicit(&worker->table->bell.futex_wakes, memory_order_relaxed);
    error = reactor_open(&worker->reactor, config->reactor, &worker->alloc, &worker->log, worker->table->bell.fd);
    if (error) {
        refuse_letters(worker);
        waker_table_release(worker->table);
        return error;
    }
    worker->watch = watch_open(worker->table_number, config->preempt_signal, &worker->log);
    worker->reactor_kind = reactor_kind(worker->reactor);
    worker->shard->bell = &worker->table->bell;
    return 0;
}

/*
 * Waits until the kernel has let go of the buffers of ended tasks.  Where that fails, they leak: to
 * free them would be worse.
 */
static void wait_for_io(struct worker *worker)
{
    while (worker->tasks.io_ending) {
        int error = worker_collect_io(worker, ORR_NEVER);
        if (!error)
            continue;
        log_line(&worker->log, ORR_LOG_ERROR, "worker %u leaks %u tasks whose I/O cannot be cancelled: %s",
                 worker->number, worker->tasks.io_ending, strerror(-error));
        return;
    }
}

static void end_all_tasks(struct worker *worker)
{
    for (uint32_t index = 0; index < worker->tasks.used; index++) {
        struct orr_task *task = tasks_at(&worker->tasks, index);
        if (task->life == TASK_RESTING)
            task_end_rest(task);
    }
    for (uint32_t index = 0; index < worker->tasks.used; index++) {
        struct orr_task *task = tasks_at(&worker->tasks, index);
        if (task->life == TASK_LIVE)
            scope_drop_body(task);
    }
    wait_for_io(worker);
    scope_forget_references(worker);
    opened_end_all(&worker->opened);
}

void worker_close(struct worker *worker)
{
    struct worker *outer = worker_enter(worker);
    if (worker->extension.on_close)
        worker->extension.on_close(worker);
    grace_give(worker);
    refuse_letters(worker);
    end_all_tasks(worker);
    shard_close(worker->shard);
    worker_take_wakes(worker); /* so that the next holder of the waker table finds few zombies */
    worker_leave(outer);
    tasks_close(&worker->tasks);
    reactor_close(worker->reactor);
}

void worker_release(struct worker *worker)
{
    watch_close(worker->watch);
    waker_table_release(worker->table);
}
