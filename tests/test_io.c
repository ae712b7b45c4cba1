/* I/O of tasks; both reactors must behave the same. */
#include "harness.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* A task that does one operation, or several in a row, and keeps the results. */
enum op { OP_WAIT, OP_READ, OP_WRITE };

struct io_task {
    enum op op;
    int fd;
    unsigned events;
    char buffer[64];
    size_t length;
    unsigned repeat; /* number of operations; 0 means 1 */
    int start_error;
    bool started;
    bool finished;
    bool abandon; /* end right after the start */
    int drops;
    unsigned done;
    struct orr_io io;
    struct orr_waker waker;
};

static int start_op(struct orr_task *task, struct io_task *io_task)
{
    switch (io_task->op) {
    case OP_WAIT:
        return orr_io_wait(task, &io_task->io, io_task->fd, io_task->events);
    case OP_READ:
        return orr_io_read(task, &io_task->io, io_task->fd, io_task->buffer, io_task->length);
    case OP_WRITE:
        return orr_io_write(task, &io_task->io, io_task->fd, io_task->buffer, io_task->length);
    }
    return -ENOSYS;
}

static enum orr_poll io_task_poll(struct orr_task *task, void *data)
{
    struct io_task *io_task = data;
    io_task->waker = orr_task_waker(task);
    for (;;) {
        if (!io_task->started) {
            io_task->started = true;
            io_task->start_error = start_op(task, io_task);
            if (io_task->start_error || io_task->abandon)
                return ORR_DONE;
        }
        if (!orr_io_done(&io_task->io))
            return ORR_PENDING;
        if (io_task->io.result < 0 || ++io_task->done >= io_task->repeat) {
            io_task->finished = true;
            return ORR_DONE;
        }
        io_task->started = false;
    }
}

static void io_task_drop(void *data)
{
    struct io_task *io_task = data;
    io_task->drops++;
}

static void io_task_start(struct orr_runtime *rt, struct io_task *io_task)
{
    if (!io_task->length)
        io_task->length = sizeof io_task->buffer;
    assert_int_equal(orr_spawn(rt, &(struct orr_spawn){ .poll = io_task_poll, .data = io_task, .drop = io_task_drop }),
                     0);
}

/* Turns until `*flag` is set: the kernel needs some time for I/O. */
static void turn_until(struct orr_runtime *rt, const bool *flag)
{
    int fd = orr_runtime_fd(rt);
    assert_true(fd >= 0);
    while (!*flag) {
        struct pollfd ready = { .fd = fd, .events = POLLIN };
        poll(&ready, 1, 1000);
        assert_true(orr_runtime_turn(rt, ORR_NEVER) >= 0);
    }
}

struct pipe_ends {
    int read, write;
};

static struct pipe_ends open_pipe(int flags)
{
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC | flags), 0);
    return (struct pipe_ends){ ends[0], ends[1] };
}

static void close_pipe(struct pipe_ends ends)
{
    close(ends.read);
    close(ends.write);
}

static void put(int fd, const char *text)
{
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
}

static void read_waits_for_data(void **state)
{
    (void)state;
    static const int modes[] = { 0, O_NONBLOCK };
    for (size_t i = 0; i < LENGTH(modes); i++) {
        struct orr_runtime *rt = harness_runtime(1);
        struct pipe_ends ends = open_pipe(modes[i]);
        struct io_task io_task = { .op = OP_READ, .fd = ends.read };
        io_task_start(rt, &io_task);
        harness_settle(rt);
        assert_false(io_task.finished);
        put(ends.write, "hello");
        turn_until(rt, &io_task.finished);
        assert_int_equal(io_task.io.result, 5);
        assert_memory_equal(io_task.buffer, "hello", 5);
        assert_int_equal(io_task.drops, 1);
        assert_int_equal(orr_runtime_free(rt), 0);
        close_pipe(ends);
    }
}

static void read_of_available_data_completes_with_a_wake(void **state)
{
    (void)state;
    struct orr_runtime *rt = harness_runtime(1);
    struct pipe_ends ends = open_pipe(0);
    put(ends.write, "abc");
    struct io_task io_task = { .op = OP_READ, .fd = ends.read };
    io_task_start(rt, &io_task);
    assert_int_equal(orr_runtime_run(rt), 0);
    assert_int_equal(io_task.io.result, 3);
    assert_int_equal(harness_stats(rt, 0).polls, 2);
    assert_int_equal(orr_runtime_free(rt), 0);
    close_pipe(ends);
}

static void end_of_input_is_a_read_of_nothing(void **state)
{
    (void)state;
    struct orr_runtime *rt = harness_runtime(1);
    struct pipe_ends ends = open_pipe(0);
    struct io_task io_task = { .op = OP_READ, .fd = ends.read };
    io_task_start(rt, &io_task);
    harness_settle(rt);
    close(ends.write);
    assert_int_equal(orr_runtime_run(rt), 0);
    assert_int_equal(io_task.io.result, 0);
    assert_int_equal(orr_runtime_free(rt), 0);
    close(ends.read);
}

static void write_waits_for_room(void **state)
{
    (void)state;
    static const int modes[] = { 0, O_NONBLOCK };
    for (size_t i = 0; i < LENGTH(modes); i++) {
        struct orr_runtime *rt = harness_runtime(1);
        struct pipe_ends ends = open_pipe(O_NONBLOCK);
        char junk[4096] = { 0 };
        unsigned pages = 0;
        while (write(ends.write, junk, sizeof junk) > 0)
            pages++;
        fcntl(ends.write, F_SETFL, modes[i]);
        struct io_task io_task = { .op = OP_WRITE, .fd = ends.write, .buffer = "tail", .length = 4 };
        io_task_start(rt, &io_task);
        harness_settle(rt);
        assert_false(io_task.finished);
        while (pages--)
            assert_int_equal(read(ends.read, junk, sizeof junk), sizeof junk);
        turn_until(rt, &io_task.finished);
        assert_int_equal(io_task.io.result, 4);
        assert_int_equal(read(ends.read, junk, sizeof junk), 4);
        assert_memory_equal(junk, "tail", 4);
        assert_int_equal(orr_runtime_free(rt), 0);
        close_pipe(ends);
    }
}

static void wait_tells_what_a_descriptor_is_ready_for(void **state)
{
    (void)state;
    struct orr_runtime *rt = harness_runtime(1);
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    struct io_task reader = { .op = OP_WAIT, .fd = ends[0], .events = POLLIN };
    struct io_task either = { .op = OP_WAIT, .fd = ends[0], .events = POLLIN | POLLOUT };
    io_task_start(rt, &reader);
    io_task_start(rt, &either);
    turn_until(rt, &either.finished);
    assert_int_equal(either.io.result, POLLOUT);
    assert_false(reader.finished);
    put(ends[1], "x");
    turn_until(rt, &reader.finished);
    assert_int_equal(reader.io.result, POLLIN);
    struct io_task hangup = { .op = OP_WAIT, .fd = ends[0], .events = POLLRDHUP };
    io_task_start(rt, &hangup);
    harness_settle(rt);
    assert_false(hangup.finished);
    close(ends[1]);
    turn_until(rt, &hangup.finished);
    assert_true(hangup.io.result & POLLRDHUP);
    assert_true(hangup.io.result & POLLHUP);
    assert_int_equal(orr_runtime_free(rt), 0);
    close(ends[0]);
}

static void wait_for_a_descriptor_is_one_shot(void **state)
{
    (void)state;
    struct orr_runtime *rt = harness_runtime(1);
    struct pipe_ends ends = open_pipe(0);
    put(ends.write, "x");
    struct io_task io_task = { .op = OP_WAIT, .fd = ends.read, .events = POLLIN, .repeat = 5 };
    io_task_start(rt, &io_task); /* nobody reads, so the pipe is ready each time */
    assert_int_equal(orr_runtime_run(rt), 0);
    assert_int_equal(io_task.done, 5);
    assert_int_equal(io_task.io.result, POLLIN);
    assert_int_equal(orr_runtime_free(rt), 0);
    close_pipe(ends);
}

static void reader_and_writer_share_a_descriptor(void **state)
{
    (void)state;
    struct orr_runtime *rt = harness_runtime(1);
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    struct io_task reader = { .op = OP_READ, .fd = ends[0] };
    struct io_task writer = { .op = OP_WRITE, .fd = ends[0], .buffer = "ping", .length = 4 };
    io_task_start(rt, &reader);
    io_task_start(rt, &writer);
    turn_until(rt, &writer.finished);
    assert_false(reader.finished);
    char got[8];
    assert_int_equal(read(ends[1], got, sizeof got), 4);
    put(ends[1], "pong!");
    turn_until(rt, &reader.finished);
    assert_int_equal(reader.io.result, 5);
    assert_int_equal(orr_runtime_free(rt), 0);
    close(ends[0]);
    close(ends[1]);
}

static void two_readers_of_one_descriptor_both_get_something(void **state)
{
    (void)state;
    struct orr_runtime *rt = harness_runtime(1);
    struct pipe_ends ends = open_pipe(0);
    struct io_task first = { .op = OP_READ, .fd = ends.read, .length = 1 };
    struct io_task second = { .op = OP_READ, .fd = ends.read, .length = 1 };
    io_task_start(rt, &first);
    io_task_start(rt, &second);
    harness_settle(rt);
    put(ends.write, "a");
    while (!first.finished && !second.finished) /* the kernel may serve either */
        assert_true(orr_runtime_turn(rt, ORR_NEVER) >= 0);
    put(ends.write, "b");
    assert_int_equal(orr_runtime_run(rt), 0);
    assert_int_equal(first.buffer[0] + second.buffer[0], 'a' + 'b');
    assert_int_equal(orr_runtime_free(rt), 0);
    close_pipe(ends);
}

static void regular_file_is_read_and_written_at_its_position(void **state)
{
    (void)state;
    struct orr_runtime *rt = harness_runtime(1);
    char path[] = "/tmp/orrery-test-XXXXXX";
    int fd = mkostemp(path, O_CLOEXEC);
    assert_true(fd >= 0);
    unlink(path);
    struct io_task writer = { .op = OP_WRITE, .fd = fd, .buffer = "0123456789", .length = 5, .repeat = 2 };
    io_task_start(rt, &writer);
    assert_int_equal(orr_runtime_run(rt), 0);
    assert_int_equal(lseek(fd, 0, SEEK_CUR), 10);
    assert_int_equal(lseek(fd, 3, SEEK_SET), 3);
    struct io_task reader = { .op = OP_READ, .fd = fd };
    struct io_task waiter = { .op = OP_WAIT, .fd = fd, .events = POLLIN };
    io_task_start(rt, &reader);
    io_task_start(rt, &waiter);
    assert_int_equal(orr_runtime_run(rt), 0);
    assert_int_equal(reader.io.result, 7);
    assert_memory_equal(reader.buffer, "3401234", 7);
    assert_int_equal(waiter.io.result, POLLIN);
    assert_int_equal(orr_runtime_free(rt), 0);
    close(fd);
}

static void closed_descriptor_is_an_error_of_the_operation(void **state)
{
    (void)state;
    struct orr_runtime *rt = harness_runtime(1);
    static const int bad[] = { -1, 1000000, 900 };
    for (enum op op = OP_WAIT; op <= OP_WRITE; op++) {
        for (size_t i = 0; i < LENGTH(bad); i++) {
            struct io_task io_task = { .op = op, .fd = bad[i], .events = POLLIN };
            io_task_start(rt, &io_task);
            assert_int_equal(orr_runtime_run(rt), 0);
            assert_int_equal(io_task.start_error, 0);
            assert_int_equal(io_task.io.result, -EBADF);
        }
    }
    struct pipe_ends ends = open_pipe(0);
    struct io_task wrong_way = { .op = OP_READ, .fd = ends.write };
    io_task_start(rt, &wrong_way);
    assert_int_equal(orr_runtime_run(rt), 0);
    assert_int_equal(wrong_way.io.result, -EBADF);
    close_pipe(ends);
    assert_int_equal(orr_runtime_free(rt), 0);
}

struct canceller {
    struct io_task *victim;
    int results[2];
};

static enum orr_poll cancel_it(struct orr_task *task, void *data)
{
    (void)task;
    struct canceller *self = data;
    self->results[0] = orr_io_cancel(&self->victim->io);
    self->results[1] = orr_io_cancel(&self->victim->io); /* a second cancel does nothing */
    return ORR_DONE;
}

static void cancelled_operation_comes_back_and_leaves_the_data(void **state)
{
    (void)state;
    for (enum op op = OP_WAIT; op <= OP_READ; op++) {
        struct orr_runtime *rt = harness_runtime(1);
        struct pipe_ends ends = open_pipe(0);
        struct io_task io_task = { .op = op, .fd = ends.read, .events = POLLIN };
        io_task_start(rt, &io_task);
        harness_settle(rt);
        struct canceller canceller = { .victim = &io_task };
        assert_int_equal(orr_spawn(rt, &(struct orr_spawn){ .poll = cancel_it, .data = &canceller }), 0);
        assert_int_equal(orr_runtime_run(rt), 0);
        assert_int_equal(canceller.results[0], 0);
        assert_int_equal(canceller.results[1], 0);
        assert_int_equal(io_task.io.result, -ECANCELED);
        assert_int_equal(orr_io_cancel(&io_task.io), -EALREADY);
        put(ends.write, "left");
        char got[8];
        assert_int_equal(read(ends.read, got, sizeof got), 4);
        assert_int_equal(orr_runtime_free(rt), 0);
        close_pipe(ends);
    }
}

static void reused_descriptor_number_after_a_cancel_is_a_new_descriptor(void **state)
{
    (void)state;
    struct orr_runtime *rt = harness_runtime(1);
    for (int round = 0; round < 3; round++) {
        struct pipe_ends ends = open_pipe(0); /* the same two descriptor numbers each time */
        struct io_task first = { .op = OP_WAIT, .fd = ends.read, .events = POLLIN };
        io_task_start(rt, &first);
        harness_settle(rt);
        struct canceller canceller = { .victim = &first };
        assert_int_equal(orr_spawn(rt, &(struct orr_spawn){ .poll = cancel_it, .data = &canceller }), 0);
        assert_int_equal(orr_runtime_run(rt), 0);
        close_pipe(ends);

        ends = open_pipe(0);
        struct io_task second = { .op = OP_WAIT, .fd = ends.read, .events = POLLIN };
        io_task_start(rt, &second);
        harness_settle(rt);
        assert_false(second.finished);
        put(ends.write, "x");
        assert_int_equal(orr_runtime_run(rt), 0);
        assert_int_equal(second.io.result, POLLIN);
        close_pipe(ends);
    }
    assert_int_equal(orr_runtime_free(rt), 0);
}

static void task_that_ends_with_io_in_flight_is_dropped_when_the_kernel_is_done(void **state)
{
    (void)state;
    struct orr_runtime *rt = harness_runtime(1);
    struct pipe_ends ends = open_pipe(0);
    struct io_task io_task = { .op = OP_READ, .fd = ends.read, .abandon = true };
    io_task_start(rt, &io_task);
    assert_int_equal(orr_runtime_run(rt), 0); /* the run waits for the kernel */
    assert_int_equal(io_task.drops, 1);
    assert_int_equal(harness_stats(rt, 0).tasks_live, 0);
    put(ends.write, "x");
    char got;
    assert_int_equal(read(ends.read, &got, 1), 1); /* nobody else has read it */
    assert_int_equal(orr_runtime_free(rt), 0);
    close_pipe(ends);
}

static void runtime_is_freed_with_io_in_flight(void **state)
{
    (void)state;
    enum { MANY = 600 }; /* more than the ring has entries */
    struct orr_runtime *rt = harness_runtime(1);
    struct pipe_ends ends = open_pipe(0);
    struct io_task *tasks = calloc(MANY, sizeof *tasks);
    for (int i = 0; i < MANY; i++) {
        tasks[i] = (struct io_task){ .op = i % 2 ? OP_READ : OP_WAIT, .fd = ends.read, .events = POLLIN };
        io_task_start(rt, &tasks[i]);
    }
    harness_settle(rt);
    assert_int_equal(orr_runtime_free(rt), 0);
    for (int i = 0; i < MANY; i++)
        assert_int_equal(tasks[i].drops, 1);
    free(tasks);
    close_pipe(ends);
}

static void many_operations_at_once_all_finish(void **state)
{
    (void)state;
    enum { MANY = 2000 };
    struct orr_runtime *rt = harness_runtime(1);
    struct pipe_ends ends = open_pipe(0);
    put(ends.write, "x");
    struct io_task *tasks = calloc(MANY, sizeof *tasks);
    for (int i = 0; i < MANY; i++) {
        tasks[i] = (struct io_task){ .op = OP_WAIT, .fd = ends.read, .events = POLLIN, .repeat = 3 };
        io_task_start(rt, &tasks[i]);
    }
    assert_int_equal(orr_runtime_run(rt), 0);
    for (int i = 0; i < MANY; i++)
        assert_int_equal(tasks[i].done, 3);
    assert_int_equal(orr_runtime_free(rt), 0);
    free(tasks);
    close_pipe(ends);
}

static void settle_here(void *data)
{
    harness_settle(data);
}

static void io_goes_on_when_the_thread_that_started_it_is_gone(void **state)
{
    (void)state;
    struct orr_runtime *rt = harness_runtime(1);
    struct pipe_ends ends = open_pipe(0);
    struct io_task io_task = { .op = OP_READ, .fd = ends.read };
    io_task_start(rt, &io_task);
    harness_on_thread(settle_here, rt); /* io_uring cancels the operations of a thread that ends */
    harness_settle(rt);
    assert_false(io_task.finished);
    put(ends.write, "still");
    turn_until(rt, &io_task.finished);
    assert_int_equal(io_task.io.result, 5);
    assert_int_equal(orr_runtime_free(rt), 0);
    close_pipe(ends);
}

static void wake_reaches_a_worker_that_waits_for_io(void **state)
{
    (void)state;
    struct orr_runtime *rt = harness_runtime(2);
    struct pipe_ends ends = open_pipe(0);
    struct io_task io_task = { .op = OP_READ, .fd = ends.read };
    io_task.length = sizeof io_task.buffer;
    struct probe probe = { .done_after = 2 };
    assert_int_equal(orr_spawn(rt, &(struct orr_spawn){ .poll = io_task_poll, .data = &io_task, .worker = 2 }), 0);
    probe_spawn(rt, &probe, 2);
    harness_await(&probe.polls, 1);
    uint64_t sleeps = harness_stats(rt, 2).sleeps;
    while (harness_stats(rt, 2).sleeps < sleeps + (sleeps == 0))
        usleep(100);
    orr_waker_wake(probe_waker(&probe));
    harness_await(&probe.drops, 1);
    put(ends.write, "x");
    assert_int_equal(orr_runtime_run(rt), 0);
    assert_int_equal(orr_runtime_free(rt), 0);
    close_pipe(ends);
}

static int misuse_results[10];

static enum orr_poll misuse(struct orr_task *task, void *data)
{
    struct io_task *io_task = data;
    int *result = misuse_results;
    *result++ = orr_io_wait(NULL, &io_task->io, io_task->fd, POLLIN);
    *result++ = orr_io_wait(task, NULL, io_task->fd, POLLIN);
    *result++ = orr_io_wait(task, &io_task->io, io_task->fd, 0);
    *result++ = orr_io_wait(task, &io_task->io, io_task->fd, POLLNVAL);
    *result++ = orr_io_read(task, &io_task->io, io_task->fd, NULL, 1);
    *result++ = orr_io_read(task, &io_task->io, io_task->fd, io_task->buffer, (size_t)INT32_MAX + 1);
    *result++ = orr_io_cancel(NULL);
    *result++ = orr_io_cancel(&io_task->io);
    *result++ = orr_io_wait(task, &io_task->io, io_task->fd, POLLIN);
    *result++ = orr_io_wait(task, &io_task->io, io_task->fd, POLLIN);
    return ORR_DONE;
}

static void misuse_is_refused(void **state)
{
    (void)state;
    struct orr_runtime *rt = harness_runtime(1);
    struct pipe_ends ends = open_pipe(0);
    struct io_task io_task = { .fd = ends.read };
    assert_false(orr_io_done(&io_task.io));
    assert_false(orr_io_done(NULL));
    assert_int_equal(orr_spawn(rt, &(struct orr_spawn){ .poll = misuse, .data = &io_task }), 0);
    assert_int_equal(orr_runtime_run(rt), 0);
    static const int expected[] = {
        -EINVAL, -EINVAL, -EINVAL, -EINVAL, -EINVAL, -EINVAL, -EINVAL, -EALREADY, 0, -EBUSY
    };
    for (size_t i = 0; i < LENGTH(expected); i++)
        assert_int_equal(misuse_results[i], expected[i]);
    assert_int_equal(orr_runtime_free(rt), 0);
    close_pipe(ends);
}

struct trespass {
    struct orr_task *task;
    struct orr_io io;
    int fd, started, cancelled;
};

static void start_elsewhere(void *data)
{
    struct trespass *trespass = data;
    struct orr_io own = { 0 };
    trespass->started = orr_io_wait(trespass->task, &own, trespass->fd, POLLIN);
    trespass->cancelled = orr_io_cancel(&trespass->io);
}

static enum orr_poll let_trespass(struct orr_task *task, void *data)
{
    struct trespass *trespass = data;
    trespass->task = task;
    assert_int_equal(orr_io_wait(task, &trespass->io, trespass->fd, POLLIN), 0);
    harness_on_thread(start_elsewhere, trespass);
    return ORR_DONE;
}

static void io_of_a_task_on_another_thread_is_refused(void **state)
{
    (void)state;
    struct orr_runtime *rt = harness_runtime(1);
    struct pipe_ends ends = open_pipe(0);
    struct trespass trespass = { .fd = ends.read };
    assert_int_equal(orr_spawn(rt, &(struct orr_spawn){ .poll = let_trespass, .data = &trespass }), 0);
    assert_int_equal(orr_runtime_run(rt), 0);
    assert_int_equal(trespass.started, -EPERM);
    assert_int_equal(trespass.cancelled, -EPERM);
    assert_int_equal(orr_runtime_free(rt), 0);
    close_pipe(ends);
}

static const struct CMUnitTest io_tests[] = {
    cmocka_unit_test(read_waits_for_data),
    cmocka_unit_test(read_of_available_data_completes_with_a_wake),
    cmocka_unit_test(end_of_input_is_a_read_of_nothing),
    cmocka_unit_test(write_waits_for_room),
    cmocka_unit_test(wait_tells_what_a_descriptor_is_ready_for),
    cmocka_unit_test(wait_for_a_descriptor_is_one_shot),
    cmocka_unit_test(reader_and_writer_share_a_descriptor),
    cmocka_unit_test(two_readers_of_one_descriptor_both_get_something),
    cmocka_unit_test(regular_file_is_read_and_written_at_its_position),
    cmocka_unit_test(closed_descriptor_is_an_error_of_the_operation),
    cmocka_unit_test(cancelled_operation_comes_back_and_leaves_the_data),
    cmocka_unit_test(reused_descriptor_number_after_a_cancel_is_a_new_descriptor),
    cmocka_unit_test(task_that_ends_with_io_in_flight_is_dropped_when_the_kernel_is_done),
    cmocka_unit_test(runtime_is_freed_with_io_in_flight),
    cmocka_unit_test(many_operations_at_once_all_finish),
    cmocka_unit_test(io_goes_on_when_the_thread_that_started_it_is_gone),
    cmocka_unit_test(wake_reaches_a_worker_that_waits_for_io),
    cmocka_unit_test(misuse_is_refused),
    cmocka_unit_test(io_of_a_task_on_another_thread_is_refused),
};

HARNESS_MAIN(io_tests)
