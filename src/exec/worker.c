#include "exec/worker.h"

#include "base/clock.h"
#include "base/cpu.h"

#include <errno.h>
#include <string.h>

_Thread_local struct worker *worker_current __attribute__((tls_model("initial-exec")));

int worker_open(struct worker *worker, const struct worker_config *config)
{
    *worker = (struct worker){
        .runtime = config->runtime,
        .number = config->number,
        .alloc = config->alloc,
        .log = config->log,
        .spin_ns = config->spin_ns,
        .tasks.limit = config->max_tasks,
    };
    int error = place_acquire(&worker->place);
    if (error)
        return error;
    worker->place_number = worker->place->number;
    worker->eventfd_writes_before = atomic_load_explicit(&worker->place->bell.eventfd_writes, memory_order_relaxed);
    worker->futex_wakes_before = atomic_load_explicit(&worker->place->bell.futex_wakes, memory_order_relaxed);
    error = reactor_open(&worker->reactor, config->reactor, &worker->alloc, &worker->log, worker->place->bell.fd);
    if (error) {
        place_release(worker->place);
        return error;
    }
    worker->reactor_kind = reactor_kind(worker->reactor);
    return 0;
}

static void take_wakes(struct worker *worker)
{
    for (uint32_t next = place_take(worker->place); next;) {
        uint32_t index = next - 1;
        next = place_slot(worker->place, index)->next; /* before the slot is anybody else's */
        task_notified(worker, index);
    }
}

static void open_letters(struct worker *worker, struct letter *letter)
{
    while (letter) {
        struct letter *next = letter->next;
        struct mail *mail = (struct mail *)letter; /* its first member */
        mail->arrive(worker, mail);
        letter = next;
    }
}

/* Asks the reactor, for at most so long, and passes on what has finished. */
static int collect(struct worker *worker, uint64_t timeout_ns)
{
    int error = reactor_wait(worker->reactor, timeout_ns);
    struct orr_io *io;
    while ((io = reactor_next_done(worker->reactor)))
        task_io_done(worker, io);
    return error;
}

static void collect_or_complain(struct worker *worker, uint64_t timeout_ns)
{
    int error = collect(worker, timeout_ns);
    if (error)
        log_line(&worker->log, ORR_LOG_ERROR, "worker %u cannot wait for I/O: %s", worker->number, strerror(-error));
}

static void poll_ready(struct worker *worker, uint64_t budget_ns)
{
    uint64_t end = budget_ns == ORR_NEVER ? ORR_NEVER : clock_after(clock_now(), budget_ns);
    for (int polls = 0; polls < TURN_POLLS;) {
        struct orr_task *task = queue_pop(&worker->ready);
        if (!task)
            break;
        if (!task_run(worker, task))
            continue;
        polls++;
        if (end != ORR_NEVER && clock_now() >= end)
            break;
    }
    queue_join(&worker->ready, &worker->deferred);
}

void worker_turn(struct worker *worker, uint64_t budget_ns)
{
    counter_add(&worker->turns, 1);
    collect_or_complain(worker, 0);
    take_wakes(worker);
    open_letters(worker, mailbox_take(&worker->mailbox));
    poll_ready(worker, budget_ns);
}

/* True if something arrived while we looked. */
static bool spin(struct worker *worker)
{
    uint64_t end = clock_after(clock_now(), worker->spin_ns);
    do {
        for (int i = 0; i < 64; i++) {
            if (worker_has_news(worker))
                return true;
            cpu_relax();
        }
    } while (clock_now() < end);
    return false;
}

void worker_sleep(struct worker *worker)
{
    if (worker->spin_ns && spin(worker))
        return;
    struct bell *bell = &worker->place->bell;
    bool io = reactor_in_flight(worker->reactor);
    bell_listen(bell, io ? BELL_EVENTFD : BELL_FUTEX);
    if (!worker_has_news(worker)) {
        counter_add(&worker->sleeps, 1);
        if (io)
            collect_or_complain(worker, ORR_NEVER);
        else
            bell_wait(bell, ORR_NEVER);
    }
    bell_ignore(bell);
}

void worker_park(struct worker *worker, bool watched)
{
    struct bell *bell = &worker->place->bell;
    int error = reactor_submit(worker->reactor);
    if (error)
        log_line(&worker->log, ORR_LOG_ERROR, "worker %u cannot start I/O: %s", worker->number, strerror(-error));
    if (!watched)
        return;
    bell_listen(bell, BELL_EVENTFD);
    if (worker_busy(worker) || worker_has_news(worker)) {
        bell_ignore(bell);
        bell_write(bell);
    }
}

static void end_all_tasks(struct worker *worker)
{
    for (uint32_t index = 0; index < worker->tasks.used; index++) {
        struct orr_task *task = tasks_at(&worker->tasks, index);
        if (task->life == TASK_LIVE)
            task_end(worker, task);
    }
    while (worker->tasks.ending) {
        int error = collect(worker, ORR_NEVER);
        if (!error)
            continue;
        /* The kernel may write to the buffers yet: better to leak them than to free them. */
        log_line(&worker->log, ORR_LOG_ERROR, "worker %u leaks %u tasks whose I/O cannot be cancelled: %s",
                 worker->number, worker->tasks.ending, strerror(-error));
        return;
    }
}

void worker_close(struct worker *worker)
{
    struct worker *outer = worker_current;
    worker_current = worker;
    worker->closing = true;
    open_letters(worker, mailbox_close(&worker->mailbox));
    end_all_tasks(worker);
    take_wakes(worker); /* so that the next holder of the place finds few zombies */
    worker_current = outer;
    tasks_close(&worker->tasks, &worker->alloc);
    reactor_close(worker->reactor);
}

void worker_release(struct worker *worker)
{
    place_release(worker->place);
}
