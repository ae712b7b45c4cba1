#include "exec/open.h"

#include "base/clock.h"
#include "base/thread.h"
#include "exec/drive.h"
#include "exec/sleep.h"
#include "exec/turn.h"
#include "exec/virtual.h"
#include "exec/worker_life.h"
#include "time/open.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { SPIN_DEFAULT_US = 20, SPIN_MAX_US = 1000, SPIN_CORES = 4, GRACE_DEFAULT_MS = 1000 };

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
    if (options->pool_threads > ORR_WORKERS_MAX) {
        log_line(log, ORR_LOG_ERROR, "option pool_threads is %u, expected 1 to %d", options->pool_threads,
                 ORR_WORKERS_MAX);
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
    if (options->clock > ORR_CLOCK_MANUAL) {
        log_line(log, ORR_LOG_ERROR, "option clock is %d, expected ORR_CLOCK_MONOTONIC, _VIRTUAL or _MANUAL",
                 (int)options->clock);
        return -EINVAL;
    }
    int signal = options->preempt_signal;
    if (signal && signal != SIGUSR1 && signal != SIGUSR2 && signal != SIGURG &&
        (signal < SIGRTMIN || signal > SIGRTMAX)) {
        log_line(log, ORR_LOG_ERROR,
                 "option preempt_signal is %d, expected one from SIGRTMIN to SIGRTMAX, SIGUSR1, SIGUSR2 or SIGURG",
                 signal);
        return -EINVAL;
    }
    if (options->spin_us < -1 || options->spin_us > SPIN_MAX_US) {
        log_line(log, ORR_LOG_ERROR, "option spin_us is %d, expected -1 to %d", options->spin_us, SPIN_MAX_US);
        return -EINVAL;
    }
    return 0;
}

/* How many cores the calling thread, and those that it starts, may run on. */
static int cores(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) ? (int)sysconf(_SC_NPROCESSORS_ONLN) : CPU_COUNT(&set);
}

static struct spin choose_spin(int spin_us)
{
    if (spin_us)
        return (struct spin){ .ns = spin_us > 0 ? (uint64_t)spin_us * 1000 : 0 };
    int count = cores();
    if (count >= SPIN_CORES)
        return (struct spin){ .ns = (uint64_t)SPIN_DEFAULT_US * 1000 };
    return (struct spin){ .ns = count > 1 ? SPIN_TRY_NS : 0, .tries = true };
}

static void *thread_main(void *data)
{
    struct worker *worker = data;
    char name[16];
    snprintf(name, sizeof name, "orrery/%u", worker->number);
    pthread_setname_np(pthread_self(), name);
    worker_enter(worker);
    while (worker_may_go_on(worker)) {
        worker_turns(worker);
        if (worker_busy(worker))
            continue;
        worker_settle(worker);
        worker_sleep(worker, ORR_NEVER);
    }
    worker_close(worker);
    worker_finish_spawns(worker);
    virtual_ends(worker);
    return NULL;
}

static int start_thread(struct worker *worker)
{
    return thread_start(&worker->thread, thread_main, worker);
}

/*
 * A ring may be refused to any worker: the user's locked memory has a limit, and the kernel gives
 * back that of a closed ring with a delay.  So AUTO decides for each worker.  Workers that open
 * after the first refusal do not ask again; so the log has one line about it.
 */
static void note_fallback(struct worker_config *config, const struct worker *opened)
{
    if (opened->reactor_kind == ORR_REACTOR_EPOLL)
        config->reactor = ORR_REACTOR_EPOLL;
}

static int open_workers(struct orr_runtime *rt, const struct orr_options *options)
{
    struct worker_config config = {
        .runtime = rt,
        .max_tasks = options->max_tasks ? options->max_tasks : ORR_TASKS_DEFAULT,
        .reactor = options->reactor,
        .spin = choose_spin(options->spin_us),
        .preempt_signal = options->preempt_signal,
        .shuffle_seed = options->shuffle_seed,
        .grace_ns = (options->grace_ms ? options->grace_ms : GRACE_DEFAULT_MS) * UINT64_C(1000000),
        .timers = rt->timers,
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
        note_fallback(&config, runtime_worker(rt, number));
    }
    rt->pool_config = config;
    return 0;
}

/* Ends workers 2 to `last`, which have threads, then those without. */
static void close_workers(struct orr_runtime *rt, unsigned last)
{
    orr_runtime_stop(rt);
    for (unsigned number = 2; number <= last; number++)
        pthread_join(runtime_worker(rt, number)->thread, NULL);
    for (unsigned number = last + 1; number <= runtime_open_workers(rt); number++)
        worker_close(runtime_worker(rt, number));
    worker_close(runtime_worker(rt, 1));
    timers_close(rt->timers);
    for (unsigned number = 1; number <= runtime_open_workers(rt); number++)
        worker_release(runtime_worker(rt, number));
}

/*
 * orr_runtime_stop() says that the runtime stops, then looks which workers are open.  This function
 * says that a worker is open, then looks whether the runtime stops.  All four are sequentially
 * consistent, so one sees the other, and the worker is nudged.
 */
static int open_one(struct orr_runtime *rt, unsigned number, void (*on_close)(struct worker *worker))
{
    struct worker *worker = runtime_worker(rt, number);
    rt->pool_config.number = number;
    int error = worker_open(worker, &rt->pool_config);
    if (error)
        return error;
    note_fallback(&rt->pool_config, worker);
    worker->extension.on_close = on_close;
    atomic_fetch_add(&rt->virtual.awake, 1);
    atomic_store(&worker->shard->living, true);
    shard_attend(worker->shard);
    error = start_thread(worker);
    if (error) {
        atomic_fetch_sub(&rt->virtual.awake, 1);
        worker_close(worker);
        worker_release(worker);
        return error;
    }
    atomic_store(&rt->open, number);
    if (atomic_load(&rt->stopping))
        worker_nudge(worker);
    return 0;
}

int runtime_grow(struct orr_runtime *rt, void (*on_close)(struct worker *worker))
{
    if (runtime_open_workers(rt) > rt->worker_count)
        return 0;
    pthread_mutex_lock(&rt->growing);
    int error = runtime_stopping(rt) ? -ESHUTDOWN : 0;
    while (!error && runtime_open_workers(rt) < rt->capacity)
        error = open_one(rt, runtime_open_workers(rt) + 1, on_close);
    pthread_mutex_unlock(&rt->growing);
    return runtime_open_workers(rt) > rt->worker_count ? 0 : error;
}

void *runtime_extension(struct orr_runtime *rt, void *(*make)(struct orr_runtime *rt), void (*free)(void *extension))
{
    pthread_mutex_lock(&rt->growing);
    if (!rt->extension) {
        rt->extension = make(rt);
        rt->extension_free = free;
    }
    void *extension = rt->extension;
    pthread_mutex_unlock(&rt->growing);
    return extension;
}

static int start_threads(struct orr_runtime *rt)
{
    for (unsigned number = 2; number <= rt->worker_count; number++) {
        shard_attend(runtime_worker(rt, number)->shard);
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
    return rt->capacity * sizeof(struct worker);
}

static unsigned pool_size(const struct orr_options *options, unsigned workers)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    unsigned size = options->pool_threads ? options->pool_threads : cores > 0 ? (unsigned)cores : 1;
    return size < ORR_WORKERS_MAX - workers ? size : ORR_WORKERS_MAX - workers;
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
    rt->sink = options->sink;
    rt->sink_data = options->sink_data;
    rt->deadlock = options->deadlock;
    rt->deadlock_data = options->deadlock_data;
    rt->worker_count = options->workers ? options->workers : 1;
    rt->capacity = rt->worker_count + pool_size(options, rt->worker_count);
    rt->open = rt->worker_count;
    pthread_mutex_init(&rt->growing, NULL);
    virtual_init(rt);
    int error = -ENOMEM;
    rt->workers = alloc_zeroed(&alloc, workers_size(rt));
    if (!rt->workers)
        goto no_workers;
    error = timers_open(&rt->timers, &(struct timers_config){
                                         .shards = rt->capacity,
                                         .clock = options->clock,
                                         .alloc = alloc,
                                         .log = *log,
                                         .wake = orr_waker_wake,
                                         .sleep_over = sleep_over,
                                     });
    if (error)
        goto no_timers;
    /* Pool threads do not live yet. */
    for (unsigned number = rt->worker_count; number < rt->capacity; number++)
        atomic_store(&timers_shard(rt->timers, number)->living, false);
    error = open_workers(rt, options);
    if (error) {
        timers_close(rt->timers);
        goto no_timers;
    }
    error = start_threads(rt);
    if (error)
        goto no_timers;
    *out = rt;
    return 0;
no_timers:
    alloc_free(&alloc, rt->workers, workers_size(rt));
no_workers:
    pthread_mutex_destroy(&rt->growing);
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
    atomic_fetch_add(&rt->stoppers, 1);
    atomic_store(&rt->stopping, true);
    /* It turns no more, so it must adopt no timers. */
    atomic_store(&runtime_worker(rt, 1)->shard->living, false);
    for (unsigned number = 1, last = runtime_open_workers(rt); number <= last; number++)
        worker_nudge(runtime_worker(rt, number));
    /*
     * The driver may have seen `stopping` already, and be about to free the runtime.  Pairs with
     * the load in orr_runtime_free().
     */
    atomic_fetch_sub_explicit(&rt->stoppers, 1, memory_order_release);
    return 0;
}

int orr_runtime_interrupt(struct orr_runtime *rt)
{
    if (!runtime_valid(rt))
        return -EINVAL;
    atomic_store(&rt->interrupted, true);
    worker_nudge(runtime_worker(rt, 1));
    return 0;
}

int orr_worker_stop(struct orr_runtime *rt, unsigned number)
{
    if (!runtime_valid(rt) || number < 2 || number > rt->worker_count)
        return -EINVAL;
    struct worker *worker = runtime_worker(rt, number);
    atomic_store_explicit(&worker->remote.stopped, true, memory_order_release);
    worker_nudge(worker);
    return 0;
}

int runtime_open_beside(struct orr_runtime *rt, unsigned pool_threads, struct orr_runtime **out)
{
    pthread_mutex_lock(&rt->growing);
    const struct worker_config *like = &rt->pool_config;
    struct orr_options options = {
        .pool_threads = pool_threads,
        .max_tasks = like->max_tasks,
        .reactor = like->reactor,
        .grace_ms = (unsigned)(like->grace_ns / 1000000),
        .preempt_signal = like->preempt_signal,
        .alloc = rt->alloc.fn,
        .alloc_data = rt->alloc.data,
    };
    pthread_mutex_unlock(&rt->growing);
    return runtime_open(out, &options, &rt->log);
}

int orr_runtime_free(struct orr_runtime *rt)
{
    if (!rt)
        return 0;
    int error = runtime_drive(rt);
    if (error)
        return error;
    orr_runtime_stop(rt);
    /* Waits for a thread that opens pool threads; none will after. */
    pthread_mutex_lock(&rt->growing);
    unsigned open = runtime_open_workers(rt);
    pthread_mutex_unlock(&rt->growing);
    close_workers(rt, open);
    if (rt->extension)
        rt->extension_free(rt->extension);
    while (atomic_load_explicit(&rt->stoppers, memory_order_acquire))
        sched_yield();
    rt->magic = 0;
    pthread_mutex_destroy(&rt->growing);
    struct alloc alloc = rt->alloc;
    alloc_free(&alloc, rt->workers, workers_size(rt));
    alloc_free(&alloc, rt, sizeof *rt);
    return 0;
}
