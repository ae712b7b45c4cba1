#include "exec/runtime.h"

#include "base/clock.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { SPIN_DEFAULT_US = 20, SPIN_MAX_US = 1000, SPIN_CORES = 4 };

const char *orr_version(void)
{
#define TEXT(x) #x
#define VERSION(major, minor, patch) TEXT(major) "." TEXT(minor) "." TEXT(patch)
    return VERSION(ORR_VERSION_MAJOR, ORR_VERSION_MINOR, ORR_VERSION_PATCH);
#undef VERSION
#undef TEXT
}

static int check_options(const struct orr_options *options, const struct log *log)
{
    if (options->workers > ORR_WORKERS_MAX) {
        log_line(log, ORR_LOG_ERROR, "option workers is %u, expected 1 to %d", options->workers, ORR_WORKERS_MAX);
        return -EINVAL;
    }
    if (options->max_tasks > ORR_TASKS_MAX) {
        log_line(log, ORR_LOG_ERROR, "option max_tasks is %u, expected 1 to %d", options->max_tasks, ORR_TASKS_MAX);
        return -EINVAL;
    }
    if (!orr_reactor_name(options->reactor)) {
        log_line(log, ORR_LOG_ERROR, "option reactor is %d, expected ORR_REACTOR_AUTO, _URING or _EPOLL",
                 (int)options->reactor);
        return -EINVAL;
    }
    if (options->spin_us < -1 || options->spin_us > SPIN_MAX_US) {
        log_line(log, ORR_LOG_ERROR, "option spin_us is %d, expected -1 to %d", options->spin_us, SPIN_MAX_US);
        return -EINVAL;
    }
    return 0;
}

static uint64_t spin_ns(int spin_us)
{
    if (spin_us == 0 && sysconf(_SC_NPROCESSORS_ONLN) >= SPIN_CORES)
        spin_us = SPIN_DEFAULT_US;
    return spin_us > 0 ? (uint64_t)spin_us * 1000 : 0;
}

/* What a turn leaves when a worker may have got rid of its last task. */
static void settle_errands(struct worker *worker)
{
    if (!worker->errands || counter_read(&worker->tasks.live))
        return;
    uint64_t errands = worker->errands;
    worker->errands = 0;
    runtime_finish_errands(worker->runtime, errands);
}

/* True to go on. */
static bool look_for_stop(struct worker *worker)
{
    worker_take_nudge(worker);
    return !runtime_stopping(worker->runtime);
}

static void *thread_main(void *data)
{
    struct worker *worker = data;
    char name[16];
    snprintf(name, sizeof name, "orrery/%u", worker->number);
    pthread_setname_np(pthread_self(), name);
    worker_current = worker;
    while (look_for_stop(worker)) {
        worker_turn(worker, ORR_NEVER);
        settle_errands(worker);
        if (!worker_busy(worker))
            worker_sleep(worker);
    }
    worker_close(worker);
    return NULL;
}

/* Threads take no signals: those are the host's. */
static int start_thread(struct worker *worker)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&worker->thread, NULL, thread_main, worker);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return -error;
}

static int open_workers(struct orr_runtime *rt, const struct orr_options *options)
{
    struct worker_config config = {
        .runtime = rt,
        .max_tasks = options->max_tasks ? options->max_tasks : ORR_TASKS_DEFAULT,
        .reactor = options->reactor,
        .spin_ns = spin_ns(options->spin_us),
        .alloc = rt->alloc,
        .log = rt->log,
    };
    for (unsigned number = 1; number <= rt->worker_count; number++) {
        config.number = number;
        int error = worker_open(runtime_worker(rt, number), &config);
        if (error) {
            while (--number) {
                worker_close(runtime_worker(rt, number));
                worker_release(runtime_worker(rt, number));
            }
            return error;
        }
    }
    return 0;
}

/* Ends workers 2 to `last`, which have threads, then the others, which have not. */
static void close_workers(struct orr_runtime *rt, unsigned last)
{
    orr_runtime_stop(rt);
    for (unsigned number = 2; number <= last; number++)
        pthread_join(runtime_worker(rt, number)->thread, NULL);
    for (unsigned number = last + 1; number <= rt->worker_count; number++)
        worker_close(runtime_worker(rt, number));
    worker_close(runtime_worker(rt, 1));
    for (unsigned number = 1; number <= rt->worker_count; number++)
        worker_release(runtime_worker(rt, number));
}

static int start_threads(struct orr_runtime *rt)
{
    for (unsigned number = 2; number <= rt->worker_count; number++) {
        int error = start_thread(runtime_worker(rt, number));
        if (!error)
            continue;
        close_workers(rt, number - 1);
        return error;
    }
    return 0;
}

static size_t workers_size(const struct orr_runtime *rt)
{
    return rt->worker_count * sizeof(struct worker);
}

static int runtime_open(struct orr_runtime **out, const struct orr_options *options, const struct log *log)
{
    struct alloc alloc = alloc_from(options->alloc, options->alloc_data);
    struct orr_runtime *rt = alloc_zeroed(&alloc, sizeof *rt);
    if (!rt)
        return -ENOMEM;
    rt->magic = RUNTIME_MAGIC;
    rt->alloc = alloc;
    rt->log = *log;
    rt->worker_count = options->workers ? options->workers : 1;
    rt->workers = alloc_zeroed(&alloc, workers_size(rt));
    int error = rt->workers ? open_workers(rt, options) : -ENOMEM;
    if (error)
        goto failed;
    error = start_threads(rt);
    if (error)
        goto failed;
    *out = rt;
    return 0;
failed:
    alloc_free(&alloc, rt->workers, workers_size(rt));
    alloc_free(&alloc, rt, sizeof *rt);
    return error;
}

struct orr_runtime *orr_runtime_new(const struct orr_options *options)
{
    static const struct orr_options defaults;
    if (!options)
        options = &defaults;
    struct log log = log_to(options->log, options->log_data);
    struct orr_runtime *rt = NULL;
    int error = check_options(options, &log);
    if (!error) {
        error = runtime_open(&rt, options, &log);
        if (error)
            log_line(&log, ORR_LOG_ERROR, "no runtime: %s", strerror(-error));
    }
    if (error)
        errno = -error;
    return rt;
}

int orr_runtime_stop(struct orr_runtime *rt)
{
    if (!runtime_valid(rt))
        return -EINVAL;
    atomic_store(&rt->stopping, true);
    for (unsigned number = 1; number <= rt->worker_count; number++)
        worker_nudge(runtime_worker(rt, number));
    return 0;
}

/* Becomes the driver of worker 1. */
static int drive(struct orr_runtime *rt)
{
    if (!runtime_valid(rt))
        return -EINVAL;
    if (worker_current && worker_current->runtime == rt)
        return -EBUSY;
    return atomic_exchange_explicit(&rt->driven, true, memory_order_acquire) ? -EBUSY : 0;
}

static void park(struct orr_runtime *rt)
{
    atomic_store_explicit(&rt->driven, false, memory_order_release);
}

int orr_runtime_free(struct orr_runtime *rt)
{
    if (!rt)
        return 0;
    int error = drive(rt);
    if (error)
        return error;
    close_workers(rt, rt->worker_count);
    rt->magic = 0;
    struct alloc alloc = rt->alloc;
    alloc_free(&alloc, rt->workers, workers_size(rt));
    alloc_free(&alloc, rt, sizeof *rt);
    return 0;
}

static bool all_done(struct orr_runtime *rt)
{
    return !counter_read(&runtime_worker(rt, 1)->tasks.live) &&
           !atomic_load_explicit(&rt->errands, memory_order_acquire);
}

int orr_runtime_run(struct orr_runtime *rt)
{
    int error = drive(rt);
    if (error)
        return error;
    struct worker *worker = runtime_worker(rt, 1);
    struct worker *outer = worker_current;
    worker_current = worker;
    for (;;) {
        if (!look_for_stop(worker)) {
            error = -ECANCELED;
            break;
        }
        worker_turn(worker, ORR_NEVER);
        settle_errands(worker);
        if (worker_busy(worker))
            continue;
        if (all_done(rt))
            break;
        worker_sleep(worker);
    }
    worker_current = outer;
    worker_park(worker, rt->fd_in_use);
    park(rt);
    return error;
}

int orr_runtime_turn(struct orr_runtime *rt, uint64_t budget_ns)
{
    int error = drive(rt);
    if (error)
        return error;
    struct worker *worker = runtime_worker(rt, 1);
    int more = -ESHUTDOWN;
    if (look_for_stop(worker)) {
        struct worker *outer = worker_current;
        worker_current = worker;
        bell_ignore(&worker->place->bell);
        worker_turn(worker, budget_ns);
        settle_errands(worker);
        worker_current = outer;
        more = worker_busy(worker) || worker_has_news(worker);
    } else {
        worker_nudge(worker); /* the descriptor stays readable, to say so again */
    }
    worker_park(worker, rt->fd_in_use);
    park(rt);
    return more;
}

int orr_runtime_fd(struct orr_runtime *rt)
{
    int error = drive(rt);
    if (error)
        return error;
    struct worker *worker = runtime_worker(rt, 1);
    int fd = reactor_fd(worker->reactor);
    if (fd >= 0 && !rt->fd_in_use) {
        rt->fd_in_use = true;
        worker_park(worker, true);
    }
    park(rt);
    return fd;
}

uint64_t orr_runtime_next_deadline(struct orr_runtime *rt)
{
    if (!runtime_valid(rt))
        return ORR_NEVER;
    struct worker *worker = runtime_worker(rt, 1);
    return worker_busy(worker) || worker_has_news(worker) ? 0 : ORR_NEVER;
}

static void add_stats(struct orr_stats *sum, struct worker *worker)
{
    sum->tasks_spawned += counter_read(&worker->tasks.spawned);
    sum->tasks_live += counter_read(&worker->tasks.live);
    sum->polls += counter_read(&worker->polls);
    sum->wakes_local += counter_read(&worker->wakes_local);
    sum->wakes_foreign += counter_read(&worker->wakes_foreign);
    sum->wakes_coalesced += counter_read(&worker->wakes_coalesced);
    struct bell *bell = &worker->place->bell;
    sum->eventfd_writes += atomic_load_explicit(&bell->eventfd_writes, memory_order_relaxed) -
                           worker->eventfd_writes_before;
    sum->futex_wakes += atomic_load_explicit(&bell->futex_wakes, memory_order_relaxed) - worker->futex_wakes_before;
    sum->sleeps += counter_read(&worker->sleeps);
    sum->turns += counter_read(&worker->turns);
}

int orr_runtime_stats(struct orr_runtime *rt, unsigned worker, struct orr_stats *stats)
{
    if (!runtime_valid(rt) || worker > rt->worker_count || !stats)
        return -EINVAL;
    *stats = (struct orr_stats){ .workers = rt->worker_count };
    unsigned first = worker ? worker : 1;
    unsigned last = worker ? worker : rt->worker_count;
    for (unsigned number = first; number <= last; number++)
        add_stats(stats, runtime_worker(rt, number));
    stats->reactor = runtime_worker(rt, first)->reactor_kind;
    return 0;
}
