#include "harness.h"

#include "rings.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum orr_reactor harness_reactor;
struct ring_faults harness_rings = { .allowed = INT32_MAX };

static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;
static char log_last[512];
static unsigned log_lines;

int __wrap_orr_lua_new(struct orr_runtime *rt, const struct orr_lua_options *options, struct lua_State **L);

/*
 * Makes every isolate of a test program.  A busy machine, or a sanitizer, makes an ordinary script
 * run for as long as a hostile one: no script is ended for the time that it takes, as a whole or in
 * one step, unless the test sets a limit.
 */
int __wrap_orr_lua_new(struct orr_runtime *rt, const struct orr_lua_options *options, struct lua_State **L)
{
    struct orr_lua_options own = options ? *options : (struct orr_lua_options){ 0 };
    if (own.profile == ORR_LUA_UNTRUSTED && !own.longest_step_ns)
        own.longest_step_ns = 400 * MS;
    for (int entry = 0; entry < ORR_LUA_ENTRIES; entry++)
        if (!own.deadline_ns[entry])
            own.deadline_ns[entry] = ORR_NEVER;
    return __real_orr_lua_new(rt, &own, L);
}

ring_open_fn __real_io_uring_queue_init_params, __wrap_io_uring_queue_init_params;

/*
 * Opens every ring of a test program.  A ring that the test denies is not opened.  For others it
 * waits; where that does not help, the whole program is left out from here on.
 */
int __wrap_io_uring_queue_init_params(unsigned entries, struct io_uring *ring, struct io_uring_params *params)
{
    harness_rings.asked++;
    if (harness_rings.real)
        return __real_io_uring_queue_init_params(entries, ring, params);
    if (harness_rings.allowed-- <= 0)
        return harness_rings.error;
    int error = ring_open_patiently(__real_io_uring_queue_init_params, entries, ring, params);
    if (error == -ENOMEM && harness_reactor == ORR_REACTOR_URING) {
        rings_explain(error);
        _exit(RINGS_LEFT_OUT);
    }
    params->features &= ~harness_rings.missing_features;
    return error;
}

int harness_main(int argc, char **argv, const char *name, const struct CMUnitTest *tests, size_t count)
{
    const char *wanted = argc > 1 ? argv[1] : "uring";
    for (enum orr_reactor kind = ORR_REACTOR_URING; kind <= ORR_REACTOR_EPOLL; kind++)
        if (!strcmp(orr_reactor_name(kind), wanted))
            harness_reactor = kind;
    if (!harness_reactor) {
        fprintf(stderr, "usage: %s [uring|epoll] [pattern]\n", argv[0]);
        return 2;
    }
    if (harness_reactor == ORR_REACTOR_URING && !rings_available(__real_io_uring_queue_init_params))
        return RINGS_LEFT_OUT;
    if (argc > 2)
        cmocka_set_test_filter(argv[2]);
    return _cmocka_run_group_tests(name, tests, count, NULL, NULL);
}

static void keep_log(void *data, enum orr_log level, const char *message)
{
    (void)data;
    (void)level;
    pthread_mutex_lock(&log_lock);
    snprintf(log_last, sizeof log_last, "%s", message);
    log_lines++;
    pthread_mutex_unlock(&log_lock);
}

const char *harness_log(void)
{
    return log_last;
}

unsigned harness_log_lines(void)
{
    return log_lines;
}

struct orr_runtime *harness_runtime_with(struct orr_options options)
{
    log_last[0] = '\0';
    log_lines = 0;
    if (!options.reactor)
        options.reactor = harness_reactor;
    if (!options.log)
        options.log = keep_log;
    return orr_runtime_new(&options);
}

struct orr_runtime *harness_runtime(unsigned workers)
{
    struct orr_runtime *rt = harness_runtime_with((struct orr_options){ .workers = workers });
    assert_non_null(rt);
    return rt;
}

_Atomic long long allocated_bytes;

void *counting_alloc(void *data, void *block, size_t old_size, size_t size)
{
    (void)data;
    /* `old_size` is no size when Lua asks for a new block. */
    atomic_fetch_add(&allocated_bytes, (long long)size - (long long)(block ? old_size : 0));
    if (size)
        return realloc(block, size);
    free(block);
    return NULL;
}

uint64_t harness_seed(uint64_t otherwise)
{
    const char *given = getenv("ORR_TEST_SEED");
    uint64_t seed = given ? strtoull(given, NULL, 0) : otherwise;
    print_message("ORR_TEST_SEED=%" PRIu64 "\n", seed);
    return seed;
}

uint64_t random_bits(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

enum orr_poll probe_poll(struct orr_task *task, void *data)
{
    struct probe *probe = data;
    atomic_store(&probe->waker, orr_task_waker(task).bits);
    if (probe->each)
        probe->each(probe, task);
    unsigned polls = atomic_fetch_add(&probe->polls, 1) + 1;
    return polls == probe->done_after ? ORR_DONE : ORR_PENDING;
}

void probe_drop(void *data)
{
    struct probe *probe = data;
    atomic_fetch_add(&probe->drops, 1);
}

void probe_spawn(struct orr_runtime *rt, struct probe *probe, unsigned worker)
{
    struct orr_spawn what = { .poll = probe_poll, .data = probe, .drop = probe_drop, .worker = worker };
    assert_int_equal(orr_spawn(rt, &what), 0);
}

struct orr_waker probe_waker(struct probe *probe)
{
    return (struct orr_waker){ .bits = atomic_load(&probe->waker) };
}

void harness_settle(struct orr_runtime *rt)
{
    int more;
    while ((more = orr_runtime_turn(rt, ORR_NEVER)) > 0)
        continue;
    assert_int_equal(more, 0);
}

void harness_await(_Atomic unsigned *value, unsigned expected)
{
    while (atomic_load(value) < expected)
        sched_yield();
}

struct thread_call {
    void (*fn)(void *data);
    void *data;
};

static void *run_thread_call(void *data)
{
    struct thread_call *call = data;
    call->fn(call->data);
    return NULL;
}

void harness_on_stack(size_t stack_size, void (*fn)(void *data), void *data)
{
    pthread_t thread;
    pthread_attr_t attributes;
    struct thread_call call = { .fn = fn, .data = data };
    pthread_attr_init(&attributes);
    if (stack_size)
        assert_int_equal(pthread_attr_setstacksize(&attributes, stack_size), 0);
    assert_int_equal(pthread_create(&thread, &attributes, run_thread_call, &call), 0);
    pthread_join(thread, NULL);
    pthread_attr_destroy(&attributes);
}

void harness_on_thread(void (*fn)(void *data), void *data)
{
    harness_on_stack(0, fn, data);
}

void harness_wake(void *data)
{
    orr_waker_wake(*(struct orr_waker *)data);
}

bool harness_readable(int fd)
{
    struct pollfd ready = { .fd = fd, .events = POLLIN };
    return poll(&ready, 1, 0) == 1;
}

/* Counts the entries of a folder that `counts` wants, all of them if it is NULL. */
static unsigned count_entries(const char *path, bool (*counts)(const char *name))
{
    unsigned count = 0;
    DIR *folder = opendir(path);
    assert_non_null(folder);
    for (const struct dirent *entry; (entry = readdir(folder));)
        count += entry->d_name[0] != '.' && (!counts || counts(entry->d_name));
    closedir(folder);
    return count;
}

unsigned harness_open_fds(void)
{
    return count_entries("/proc/self/fd", NULL);
}

/*
 * Whether a thread is one of the program, and lives.  A thread that was joined is listed until the
 * kernel is through with it; io_uring's threads come and go as the kernel likes.  proc(5) has the
 * format; the flags are those of the kernel's `struct task_struct`.
 */
static bool is_living_thread(const char *id)
{
    enum { EXITING = 0x4, IO_WORKER = 0x10 };
    char path[64], line[512] = "";
    snprintf(path, sizeof path, "/proc/self/task/%.20s/stat", id);
    FILE *file = fopen(path, "r");
    if (!file)
        return false; /* it has gone meanwhile */
    bool read = fgets(line, sizeof line, file);
    fclose(file);
    const char *after_name = strrchr(line, ')');
    unsigned flags;
    if (!read || !after_name || sscanf(after_name, ") %*c %*d %*d %*d %*d %*d %u", &flags) != 1)
        return false;
    return !(flags & (EXITING | IO_WORKER));
}

unsigned harness_threads(void)
{
    return count_entries("/proc/self/task", is_living_thread);
}

struct orr_stats harness_stats(struct orr_runtime *rt, unsigned worker)
{
    struct orr_stats stats;
    assert_int_equal(orr_runtime_stats(rt, worker, &stats), 0);
    return stats;
}
