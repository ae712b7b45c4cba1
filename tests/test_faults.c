/*
 * Resources run out.  Every allocation fails in turn: the runtime's own through its allocator, the
 * others through replaced functions of libc.  Descriptors run out.  The kernel forbids io_uring, at
 * each step of opening a ring.
 */
#include "failing.h"
#include "harness.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/io_uring.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* Each allocation decrements this; an allocation that finds 0 or less fails. */
static _Atomic int allowed = INT32_MAX;

static bool may_allocate(void)
{
    return atomic_fetch_sub(&allowed, 1) > 0;
}

struct workload {
    unsigned made, dropped;
    int pipe[2];
};

static void count_drop(void *data)
{
    struct workload *workload = data;
    workload->dropped++;
}

struct reader {
    struct orr_io io;
    struct workload *workload;
    int started;
};

static enum orr_poll read_once(struct orr_task *task, void *data)
{
    struct reader *reader = data;
    if (!reader->io.task)
        reader->started = orr_io_wait(task, &reader->io, reader->workload->pipe[0], POLLIN);
    return reader->started || orr_io_done(&reader->io) ? ORR_DONE : ORR_PENDING;
}

static void reader_drop(void *data)
{
    count_drop(((struct reader *)data)->workload);
}

static enum orr_poll end_at_once(struct orr_task *task, void *data)
{
    (void)task;
    (void)data;
    return ORR_DONE;
}

static enum orr_poll spawn_many(struct orr_task *task, void *data)
{
    struct workload *workload = data;
    for (int i = 0; i < 300; i++) { /* enough for several chunks of the waker table */
        struct orr_spawn what = { .poll = end_at_once, .data = workload, .drop = count_drop };
        int error = orr_spawn(orr_task_runtime(task), &what);
        if (!error)
            workload->made++;
        else
            assert_int_equal(error, -ENOMEM);
    }
    return ORR_DONE;
}

/* Does a little of everything that allocates.  True if nothing failed. */
static bool run_workload(void)
{
    struct workload workload = { 0 };
    assert_int_equal(pipe(workload.pipe), 0);
    assert_int_equal(write(workload.pipe[1], "x", 1), 1);
    struct orr_runtime *rt = harness_runtime_with((struct orr_options){ .workers = 2, .alloc = failing_alloc });
    if (!rt) {
        assert_int_equal(errno, ENOMEM);
        assert_non_null(strstr(harness_log(), "no runtime: Cannot allocate memory"));
    } else {
        struct reader reader = { .workload = &workload };
        struct orr_spawn reading = { .poll = read_once, .data = &reader, .drop = reader_drop };
        struct orr_spawn many = { .poll = spawn_many, .data = &workload, .drop = count_drop };
        struct orr_spawn *each[] = { &reading, &many };
        for (size_t i = 0; i < LENGTH(each); i++) {
            int error = orr_spawn(rt, each[i]);
            if (!error)
                workload.made++;
            else
                assert_int_equal(error, -ENOMEM);
        }
        assert_int_equal(orr_runtime_run(rt), 0);
        int fd = orr_runtime_fd(rt);
        assert_true(fd >= 0 || fd == -ENOMEM);
        assert_int_equal(orr_runtime_free(rt), 0);
    }
    assert_int_equal(workload.made, workload.dropped);
    assert_int_equal(allocated_bytes, 0);
    close(workload.pipe[0]);
    close(workload.pipe[1]);
    return allowed > 0;
}

static void every_allocation_fails_in_turn_and_nothing_is_lost(void **state)
{
    (void)state;
    int point = 0;
    bool through;
    do {
        allowed = point++;
        through = run_workload();
        allowed = INT32_MAX;
    } while (!through);
    print_message("%d points of failure\n", point - 1);
    assert_true(point > 10);
    assert_true(run_workload());
}

/* Lets the process open at most `spare` more descriptors. */
static void limit_descriptors(unsigned spare)
{
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    int lowest = dup(0);
    close(lowest);
    limit.rlim_cur = (unsigned)lowest + spare;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

static void running_out_of_descriptors_is_a_clear_error(void **state)
{
    (void)state;
    struct rlimit before;
    getrlimit(RLIMIT_NOFILE, &before);
    unsigned spare = 0;
    struct orr_runtime *rt;
    do {
        unsigned open_before = harness_open_fds();
        limit_descriptors(spare++);
        /* More waker tables than the pool has. */
        rt = harness_runtime_with((struct orr_options){ .workers = 40 });
        if (!rt) {
            assert_true(errno == EMFILE || errno == ENFILE);
            assert_non_null(strstr(harness_log(), "Too many open files"));
        }
        setrlimit(RLIMIT_NOFILE, &before);
        if (!rt) /* only the pool of waker tables may have grown, and it keeps its descriptors */
            assert_true(harness_open_fds() <= open_before + 40);
        assert_true(spare < 200);
    } while (!rt);
    assert_true(spare > 1);
    limit_descriptors(0);
    int fd = orr_runtime_fd(rt);
    setrlimit(RLIMIT_NOFILE, &before);
    if (harness_reactor == ORR_REACTOR_URING)
        assert_int_equal(fd, -EMFILE); /* io_uring needs one more descriptor */
    else
        assert_true(fd >= 0);
    assert_true(orr_runtime_fd(rt) >= 0);
    assert_int_equal(orr_runtime_free(rt), 0);
}

/* A step of opening a ring. */
enum step { SETUP, MAP_RING, MAP_ENTRIES, ENTER };

#define ARGUMENT(n) offsetof(struct seccomp_data, args[n]) /* its lower half */

/* Makes a step fail from now on: the kernel refuses the step's system call. */
static void deny(enum step step, int error)
{
    static const unsigned calls[] = { SYS_io_uring_setup, SYS_mmap, SYS_mmap, SYS_io_uring_enter };
    /* Only a ring is mapped like this, and tells by the offset what it maps. */
    unsigned flags = MAP_SHARED | MAP_POPULATE;
    unsigned offset = step == MAP_ENTRIES ? (unsigned)IORING_OFF_SQES : (unsigned)IORING_OFF_SQ_RING;
    bool maps = step == MAP_RING || step == MAP_ENTRIES;
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, calls[step], 0, 5),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, ARGUMENT(3)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, flags, 0, maps ? 3 : 0),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, ARGUMENT(5)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, offset, 0, maps ? 1 : 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = { .len = LENGTH(filter), .filter = filter };
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
        _exit(99);
}

static void keep_line(void *data, enum orr_log level, const char *message)
{
    (void)level;
    snprintf(data, 200, "%s", message);
}

/* Whether the runtime works: a task runs on each worker. */
static bool works(struct orr_runtime *rt, unsigned workers)
{
    struct probe probe = { .done_after = 1 };
    for (unsigned worker = 1; worker <= workers; worker++) {
        atomic_store(&probe.polls, 0);
        orr_spawn(rt, &(struct orr_spawn){ .poll = probe_poll, .data = &probe, .worker = worker });
        if (orr_runtime_run(rt) || atomic_load(&probe.polls) != 1)
            return false;
    }
    return true;
}

/* Runs in a child process, because a seccomp filter cannot be removed.  Returns 0 for success. */
static int without_io_uring(enum step step, int error)
{
    enum { WORKERS = 3 };
    char line[200] = "";
    harness_rings.real = true;
    deny(step, error);
    unsigned open_before = harness_open_fds();
    struct orr_options options = { .workers = WORKERS, .log = keep_line, .log_data = line };
    struct orr_runtime *rt = orr_runtime_new(&options);
    if (!rt)
        return 1;
    for (unsigned worker = 0; worker <= WORKERS; worker++)
        if (harness_stats(rt, worker).reactor != ORR_REACTOR_EPOLL)
            return 2;
    if (!strstr(line, "io_uring is not available") || !strstr(line, "using epoll") || !strstr(line, strerror(error)))
        return 3;
    if (!works(rt, WORKERS) || orr_runtime_free(rt))
        return 4;
    options.reactor = ORR_REACTOR_URING; /* a reactor that is asked for by name is not replaced */
    if (orr_runtime_new(&options) || errno != error || !strstr(line, "no runtime"))
        return 5;
    /* The waker tables keep an eventfd each. */
    return harness_open_fds() <= open_before + WORKERS ? 0 : 6;
}

static void check_without_io_uring(enum step step, int error)
{
    pid_t child = fork();
    if (child == 0)
        _exit(without_io_uring(step, error));
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void epoll_is_used_where_any_step_of_opening_a_ring_is_denied(void **state)
{
    (void)state;
    /* Where there is no io_uring, the steps after the first do not happen. */
    enum step last = harness_reactor == ORR_REACTOR_URING ? ENTER : SETUP;
    static const int errors[] = { EPERM, ENOSYS, EACCES, ENOMEM, EINVAL, EFAULT, EAGAIN, EMFILE, ENFILE };
    for (enum step step = SETUP; step <= last; step++)
        for (size_t i = 0; i < LENGTH(errors); i++)
            check_without_io_uring(step, errors[i]);
}

/* A runtime on AUTO, with a log. */
static struct orr_runtime *open_auto(unsigned workers, char line[200])
{
    struct orr_options options = { .workers = workers, .alloc = counting_alloc, .log = keep_line, .log_data = line };
    struct orr_runtime *rt = orr_runtime_new(&options);
    assert_non_null(rt);
    return rt;
}

static void epoll_is_used_where_the_kernel_lacks_a_feature(void **state)
{
    (void)state;
    for (unsigned bit = 0; bit < 2; bit++) {
        char line[200] = "";
        harness_rings.missing_features = bit ? IORING_FEAT_RSRC_TAGS : IORING_FEAT_EXT_ARG;
        struct orr_runtime *rt = open_auto(1, line);
        harness_rings.missing_features = 0;
        assert_int_equal(harness_stats(rt, 1).reactor, ORR_REACTOR_EPOLL);
        assert_non_null(strstr(line, "io_uring is not available"));
        assert_true(works(rt, 1));
        assert_int_equal(orr_runtime_free(rt), 0);
        assert_int_equal(allocated_bytes, 0);
    }
}

static void workers_after_one_that_got_no_ring_use_epoll_and_do_not_ask(void **state)
{
    (void)state;
    enum { WORKERS = 4 };
    int most = harness_reactor == ORR_REACTOR_URING ? WORKERS - 1 : 0; /* else there may be none */
    for (int rings = 0; rings <= most; rings++) {
        char line[200] = "";
        harness_rings = (struct ring_faults){ .allowed = rings, .error = -ENOMEM };
        struct orr_runtime *rt = open_auto(WORKERS, line);
        int asked = harness_rings.asked;
        harness_rings = (struct ring_faults){ .allowed = INT32_MAX };
        assert_int_equal(asked, rings + 1);
        for (int worker = 1; worker <= WORKERS; worker++)
            assert_int_equal(harness_stats(rt, (unsigned)worker).reactor,
                             worker <= rings ? ORR_REACTOR_URING : ORR_REACTOR_EPOLL);
        assert_non_null(strstr(line, "ulimit -l"));
        assert_true(works(rt, WORKERS));
        assert_int_equal(orr_runtime_free(rt), 0);
        assert_int_equal(allocated_bytes, 0);
    }
}

/* Runs in a child process, because it gives up its rights.  Returns 0 for success. */
static int as_ordinary_user(rlim_t locked_memory)
{
    enum { WORKERS = 4, ROUNDS = 50 };
    harness_rings.real = true;
    struct rlimit limit = { .rlim_cur = locked_memory, .rlim_max = locked_memory };
    if (setrlimit(RLIMIT_MEMLOCK, &limit) || (geteuid() == 0 && setuid(65534)))
        return 99;
    char line[200] = "";
    struct orr_options options = { .workers = WORKERS, .log = keep_line, .log_data = line };
    for (int round = 0; round < ROUNDS; round++) {
        struct orr_runtime *rt = orr_runtime_new(&options);
        if (!rt || !works(rt, WORKERS) || orr_runtime_free(rt))
            return 1;
    }
    return 0;
}

static void an_ordinary_user_with_little_locked_memory_gets_a_runtime(void **state)
{
    (void)state;
    static const rlim_t limits[] = { 0, 40000, 100000 }; /* no ring, one, three */
    for (size_t i = 0; i < LENGTH(limits); i++) {
        pid_t child = fork();
        if (child == 0)
            _exit(as_ordinary_user(limits[i]));
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
    }
}

static const struct CMUnitTest fault_tests[] = {
    cmocka_unit_test(every_allocation_fails_in_turn_and_nothing_is_lost),
    cmocka_unit_test(running_out_of_descriptors_is_a_clear_error),
    cmocka_unit_test(epoll_is_used_where_any_step_of_opening_a_ring_is_denied),
    cmocka_unit_test(an_ordinary_user_with_little_locked_memory_gets_a_runtime),
    cmocka_unit_test(epoll_is_used_where_the_kernel_lacks_a_feature),
    cmocka_unit_test(workers_after_one_that_got_no_ring_use_epoll_and_do_not_ask),
};

HARNESS_MAIN(fault_tests)
