#include "exec/worker.h"

#include "base/clock.h"
#include "base/cpu.h"
#include "exec/grace.h"
#include "exec/runtime.h"
#include "exec/scope.h"
#include "exec/shuffle.h"
#include "exec/virtual.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

_Thread_local struct worker *worker_current __attribute__((tls_model("initial-exec")));

/* Opens up to so many letters, oldest first. */
static void open_letters(struct worker *worker, unsigned count)
{
    while (worker->letters && count--) {
        struct mail *mail = (struct mail *)worker->letters; /* its first member */
        worker->letters = worker->letters->next;
        mail->arrive(worker, mail);
    }
}

/* From now on; and those that have come are told. */
static void refuse_letters(struct worker *worker)
{
    worker->closing = true;
    open_letters(worker, UINT_MAX);
    worker->letters = mailbox_close(&worker->place->mailbox);
    open_letters(worker, UINT_MAX);
}

int worker_open(struct worker *worker, const struct worker_config *config)
{
    *worker = (struct worker){
        .runtime = config->runtime,
        .number = config->number,
        .alloc = config->alloc,
        .log = config->log,
        .spin_ns = config->spin_ns,
        .grace_ns = config->grace_ns,
        .shuffle = config->shuffle_seed ? config->shuffle_seed + config->number - 1 : 0,
        .top.flags = NEST_TOP | NEST_SUPERVISE,
        .keeper = config->keeper,
        .home = keeper_home(config->keeper, config->number - 1),
        .tasks.limit = config->max_tasks,
    };
    int error = place_acquire(&worker->place);
    if (error)
        return error;
    static _Atomic uint64_t identities;
    worker->identity = 1 + atomic_fetch_add_explicit(&identities, 1, memory_order_relaxed);
    worker->place_number = worker->place->number;
    worker->eventfd_writes_before = atomic_load_explicit(&worker->place->bell.eventfd_writes, memory_order_relaxed);
    worker->futex_wakes_before = atomic_load_explicit(&worker->place->bell.futex_wakes, memory_order_relaxed);
    error = reactor_open(&worker->reactor, config->reactor, &worker->alloc, &worker->log, worker->place->bell.fd);
    if (error) {
        refuse_letters(worker);
        place_release(worker->place);
        return error;
    }
    worker->watch = watch_open(worker->place_number, config->preempt_signal, &worker->log);
    worker->reactor_kind = reactor_kind(worker->reactor);
    worker->home->bell = &worker->place->bell;
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

/* A worker without timers does not read the clock. */
static void fire_timers(struct worker *worker)
{
    struct timer_home *home = worker->home;
    home_receive(home);
    if (!home->wheel.count)
        return;
    uint64_t now = keeper_now(worker->keeper);
    worker->now = now;
    home_publish(home, now, true);
    atomic_store_explicit(&home->load, home->wheel.count, memory_order_relaxed);
    home_fire(home, now, HOME_FIRES);
}

/* Whether timers have become due in the middle of a long turn: looked at now and then, or when the service says so. */
static bool timers_wait(struct worker *worker, int polls)
{
    enum { POLLS_PER_LOOK = 16 };
    struct timer_home *home = worker->home;
    if (atomic_load_explicit(&home->late, memory_order_relaxed)) {
        atomic_store_explicit(&home->late, false, memory_order_relaxed);
        return true;
    }
    return home->wheel.count && polls % POLLS_PER_LOOK == 0 && home_next(home) <= keeper_now(worker->keeper);
}

/* Polls what is ready; timers that come due meanwhile fire.  True if the turn has time left. */
static bool poll_ready(struct worker *worker, uint64_t end)
{
    bool time_left = true;
    for (int polls = 0, dead = 0; time_left && polls < TURN_POLLS && dead < TURN_DEAD;) {
        struct orr_task *task = worker->shuffle ? shuffle_pop(worker) : queue_pop(&worker->ready);
        if (!task)
            break;
        if (!task_run(worker, task)) {
            dead++;
            continue;
        }
        polls++;
        time_left = end == ORR_NEVER || clock_now() < end;
        if (timers_wait(worker, polls))
            fire_timers(worker);
    }
    queue_join(&worker->ready, &worker->deferred);
    return time_left;
}

void worker_ready_late(struct worker *worker, struct orr_task *task)
{
    if (task->queued)
        return;
    task->queued = true;
    if (worker->late_polls > 1 && clock_now() >= worker->watch->turn_end)
        queue_push_front(&worker->late, task);
    else
        queue_push(&worker->late, task);
}

/* What has used up its share once may do so again: its time is measured from its beginning. */
static void poll_late(struct worker *worker)
{
    struct orr_task *task;
    worker->late_owed = false;
    if (!worker->late.first)
        return;
    worker->late_polls++;
    watch_renew(worker->watch);
    for (int dead = 0; dead < TURN_DEAD && (task = queue_pop(&worker->late)); dead++)
        if (task_run(worker, task))
            break;
}

static void pass(struct worker *worker, uint64_t end)
{
    collect_or_complain(worker, 0);
    take_wakes(worker);
    if (!worker->letters)
        worker->letters = mailbox_take(&worker->place->mailbox);
    open_letters(worker, TURN_LETTERS);
    if (!worker_busy(worker))
        virtual_jump(worker);
    fire_timers(worker);
    if (worker->late_owed)
        poll_late(worker);
    bool time_left = poll_ready(worker, end);
    if (time_left)
        poll_late(worker);
    else
        worker->late_owed = worker->late.first;
    home_scrub(worker->home);
}

void worker_turn(struct worker *worker, uint64_t budget_ns)
{
    uint64_t end = budget_ns == ORR_NEVER ? ORR_NEVER : clock_after(clock_now(), budget_ns);
    uint64_t outer_end = worker->watch->turn_end;
    worker->watch->turn_end = end == ORR_NEVER ? WATCH_NO_END : end;
    enum { TURNS_PER_READING = 16 };
    if (counter_read(&worker->turns) % TURNS_PER_READING == 0) {
        worker->now = keeper_now(worker->keeper);
        watch_visit(worker->watch); /* a task may have taken the signal's handler away */
    }
    counter_add(&worker->turns, 1);
    worker->late_polls = 0;
    do
        pass(worker, end);
    while (end != ORR_NEVER && worker->late.first && clock_now() < end);
    worker->watch->turn_end = outer_end;
    if (atomic_load_explicit(&worker->home->turning, memory_order_relaxed))
        atomic_store_explicit(&worker->home->turning, false, memory_order_relaxed);
}

uint64_t worker_deadline(struct worker *worker)
{
    if (worker_busy(worker) || worker_has_news(worker) || virtual_can_jump(worker))
        return 0;
    uint64_t next = home_next(worker->home);
    return next != ORR_NEVER && next <= keeper_now(worker->keeper) ? 0 : next;
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

/* Until the next deadline; ORR_NEVER where there is none, or where it is not the machine's time that counts. */
static uint64_t time_to_sleep(struct worker *worker)
{
    uint64_t next = home_next(worker->home);
    if (next == ORR_NEVER)
        return ORR_NEVER;
    uint64_t now = keeper_now(worker->keeper);
    if (next <= now)
        return 0;
    return worker->keeper->clock == ORR_CLOCK_MONOTONIC ? next - now : ORR_NEVER;
}

static void block(struct worker *worker, bool io, uint64_t timeout_ns)
{
    counter_add(&worker->sleeps, 1);
    virtual_falls_asleep(worker, io);
    if (io)
        collect_or_complain(worker, timeout_ns);
    else
        bell_wait(&worker->place->bell, timeout_ns);
    virtual_wakes_up(worker, io);
    worker->now = keeper_now(worker->keeper);
}

void worker_sleep(struct worker *worker, uint64_t longest_ns)
{
    uint64_t timeout = time_to_sleep(worker);
    timeout = timeout < longest_ns ? timeout : longest_ns;
    if (!timeout || (worker->spin_ns && spin(worker)))
        return;
    home_publish(worker->home, atomic_load_explicit(&worker->home->now, memory_order_relaxed), false);
    struct bell *bell = &worker->place->bell;
    bool io = reactor_in_flight(worker->reactor);
    bell_listen(bell, io ? BELL_EVENTFD : BELL_FUTEX);
    if (!worker_has_news(worker))
        block(worker, io, timeout);
    bell_ignore(bell);
}

void worker_park(struct worker *worker, bool watched)
{
    struct bell *bell = &worker->place->bell;
    int error = reactor_submit(worker->reactor);
    if (error)
        log_line(&worker->log, ORR_LOG_ERROR, "worker %u cannot start I/O: %s", worker->number, strerror(-error));
    home_publish(worker->home, atomic_load_explicit(&worker->home->now, memory_order_relaxed), false);
    if (!watched)
        return;
    bell_listen(bell, BELL_EVENTFD);
    uint64_t next = worker_deadline(worker);
    if (next == 0) {
        bell_ignore(bell);
        bell_write(bell);
    } else if (worker->keeper->clock == ORR_CLOCK_MONOTONIC) {
        error = reactor_show_deadline(worker->reactor, next);
        if (error)
            log_line(&worker->log, ORR_LOG_ERROR, "worker %u cannot show its deadline: %s", worker->number,
                     strerror(-error));
    }
}

/* The kernel may write to the buffers yet: better to leak them than to free them. */
static void wait_for_io(struct worker *worker)
{
    while (worker->tasks.io_ending) {
        int error = collect(worker, ORR_NEVER);
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
        if (task->life == TASK_LIVE)
            scope_drop_body(task);
    }
    wait_for_io(worker);
    scope_forget_references(worker);
}

void worker_close(struct worker *worker)
{
    struct worker *outer = worker_enter(worker);
    if (worker->farewell)
        worker->farewell(worker);
    grace_give(worker);
    refuse_letters(worker);
    end_all_tasks(worker);
    home_close(worker->home);
    take_wakes(worker); /* so that the next holder of the place finds few zombies */
    worker_leave(outer);
    tasks_close(&worker->tasks, &worker->alloc);
    reactor_close(worker->reactor);
}

void worker_release(struct worker *worker)
{
    watch_close(worker->watch);
    place_release(worker->place);
}
