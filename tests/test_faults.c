/*
 * Resources run out.  Every allocation fails in turn: the runtime's own through its allocator, the
 * others through replaced functions of libc.  Descriptors run out.  The kernel forbids io_uring.
 */
#include "failing.h"
#include "harness.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

static void deny_io_uring(int error)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
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

/* Runs in a child process, because a seccomp filter cannot be removed.  Returns 0 for success. */
static int without_io_uring(int error)
{
    char line[200] = "";
    deny_io_uring(error);
    struct orr_options options = { .reactor = ORR_REACTOR_AUTO, .log = keep_line, .log_data = line };
    struct orr_runtime *rt = orr_runtime_new(&options);
    if (!rt)
        return 1;
    struct orr_stats stats;
    orr_runtime_stats(rt, 0, &stats);
    if (stats.reactor != ORR_REACTOR_EPOLL)
        return 2;
    if (!strstr(line, "io_uring is not available") || !strstr(line, "using epoll"))
        return 3;
    struct probe probe = { .done_after = 1 };
    orr_spawn(rt, &(struct orr_spawn){ .poll = probe_poll, .data = &probe });
    if (orr_runtime_run(rt) || probe.polls != 1 || orr_runtime_free(rt))
        return 4;
    options.reactor = ORR_REACTOR_URING; /* a reactor that is asked for by name is not replaced */
    if (orr_runtime_new(&options) || errno != error || !strstr(line, "no runtime"))
        return 5;
    return 0;
}

static void epoll_is_used_where_seccomp_denies_io_uring(void **state)
{
    (void)state;
    static const int errors[] = { EPERM, ENOSYS, EACCES };
    for (size_t i = 0; i < LENGTH(errors); i++) {
        pid_t child = fork();
        if (child == 0)
            _exit(without_io_uring(errors[i]));
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
    }
}

static const struct CMUnitTest fault_tests[] = {
    cmocka_unit_test(every_allocation_fails_in_turn_and_nothing_is_lost),
    cmocka_unit_test(running_out_of_descriptors_is_a_clear_error),
    cmocka_unit_test(epoll_is_used_where_seccomp_denies_io_uring),
};

HARNESS_MAIN(fault_tests)
