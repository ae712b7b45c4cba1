/*
 * The cancellation matrix in a simulated network: every operation on streams, listeners and
 * datagram sockets is cancelled before it begins, while it waits, when it has become ready, and
 * after its end.  Whatever the moment, no buffer or byte is lost, and the object goes on as if the
 * task had never come.  test_io_cancel.c has the matrix for sockets of the kernel.
 */
#include "io_task.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum moment {
    BEFORE,   /* the task has not been polled */
    DURING,   /* it waits */
    AT_READY, /* its wait was granted, and it has not been polled since */
    AFTER,    /* it has its result */
    MOMENTS,
};

/* What an operation is made on. */
struct scene {
    struct orr_runtime *rt;
    struct orr_network *network;
    struct orr_stream *ends[2], *more[2];
    struct orr_listener *listener;
    struct orr_datagram *datagrams[2];
    struct orr_address address;
    struct io_task subject;
    char bytes[64];
    struct iovec part;
};

/* One operation: how to prepare it so that it waits, how to let it go on, how to check the end. */
struct row {
    enum operation operation;
    const char *name;
    void (*prepare)(struct scene *scene);
    /* The other side acts in a poll of this task. */
    void (*let)(struct scene *scene, struct orr_task *task);
    /* `done`: the operation has ended with success. */
    void (*check)(struct scene *scene, bool done);
};

/* Cancels by asking the task, or by ending it. */
static void cancel(struct io_task *subject, bool drop)
{
    if (drop)
        orr_task_drop(orr_task_waker(subject->task));
    else
        orr_task_cancel(subject->task, NULL);
}

/* A task that acts for the other side, or cancels the subject, or both in this order. */
struct actor {
    struct scene *scene;
    void (*act)(struct scene *scene, struct orr_task *task);
    bool cancels, drop, done;
};

static enum orr_poll poll_actor(struct orr_task *task, void *data)
{
    struct actor *self = data;
    if (self->act)
        self->act(self->scene, task);
    if (self->cancels && !self->scene->subject.done)
        cancel(&self->scene->subject, self->drop);
    self->done = true;
    return ORR_DONE;
}

static void run_actor(struct actor actor)
{
    struct orr_runtime *rt = actor.scene->rt;
    assert_int_equal(orr_spawn(rt, &(struct orr_spawn){ .poll = poll_actor, .data = &actor }), 0);
    io_turn_until(rt, &actor.done);
}

/* Has the other side act. */
static void act(struct scene *scene, void (*function)(struct scene *scene, struct orr_task *task))
{
    run_actor((struct actor){ .scene = scene, .act = function });
}

static void open_pair(struct scene *scene)
{
    struct orr_open open = { .account = &io_account };
    assert_int_equal(orr_pair(&open, scene->ends), 0);
    scene->subject.stream = scene->ends[0];
    scene->subject.bytes = scene->bytes;
    scene->subject.size = sizeof scene->bytes;
    scene->subject.least = 3;
    scene->subject.most = 100;
}

static void put_abc(struct scene *scene, struct orr_task *task)
{
    struct orr_wait wait = { 0 };
    struct iovec part = { "abc", 3 };
    assert_int_equal(orr_stream_write(task, &wait, scene->ends[1], &part, 1, NULL), 0);
}

/* The three bytes are read once: by the subject, or by the next reader. */
static void check_read(struct scene *scene, bool done)
{
    size_t got = scene->subject.got;
    if (!done)
        assert_int_equal(io_read(scene->rt, scene->ends[0], scene->bytes, 64, &got), 0);
    assert_int_equal(got, 3);
    assert_memory_equal(scene->bytes, "abc", 3);
    assert_int_equal(orr_stream_peek(scene->ends[0], NULL), 0);
}

static void check_fill(struct scene *scene, bool done)
{
    size_t got;
    if (done)
        assert_int_equal(orr_stream_peek(scene->ends[0], NULL), 3);
    assert_int_equal(io_read(scene->rt, scene->ends[0], scene->bytes, 64, &got), 0);
    assert_int_equal(got, 3);
}

enum { WINDOW = 64 * 1024 }; /* of the simulated network */

static void fill_up(struct orr_stream *stream, struct orr_task *task)
{
    static char junk[WINDOW];
    struct orr_wait wait = { 0 };
    struct iovec part = { junk, sizeof junk };
    assert_int_equal(orr_stream_write(task, &wait, stream, &part, 1, NULL), 0);
}

/* Reads and drops what is there. */
static void drain(struct orr_stream *stream, struct orr_task *task)
{
    static char junk[65536];
    struct orr_wait wait = { 0 };
    size_t got;
    while (orr_stream_read(task, &wait, stream, junk, sizeof junk, &got) == 0)
        continue;
    orr_wait_withdraw(&wait);
}

static void fill_first(struct scene *scene, struct orr_task *task)
{
    fill_up(scene->ends[0], task);
}

static void prepare_write(struct scene *scene)
{
    open_pair(scene);
    act(scene, fill_first);
    scene->subject.bytes = "xyz";
    scene->subject.size = 3;
}

static void make_room(struct scene *scene, struct orr_task *task)
{
    drain(scene->ends[1], task);
}

/* All of it has gone out, or nothing. */
static void check_write(struct scene *scene, bool done)
{
    act(scene, make_room);
    assert_int_equal(orr_stream_written(scene->ends[0]), 0);
    assert_int_equal(scene->subject.got, done ? 3 : 0);
    assert_int_equal(io_write(scene->rt, scene->ends[0], "next"), 0);
}

static void prepare_loss(struct scene *scene)
{
    open_pair(scene);
    scene->subject.events = ORR_ENDED;
}

static void lose(struct scene *scene, struct orr_task *task)
{
    struct orr_wait wait = { 0 };
    assert_int_equal(orr_stream_shutdown(task, &wait, scene->ends[1]), 0);
}

static void check_loss(struct scene *scene, bool done)
{
    (void)done;
    struct io_task again = { .operation = DO_LOSS, .stream = scene->ends[0], .events = ORR_ENDED };
    act(scene, lose);
    assert_int_equal(io_task_run(scene->rt, &again), 0);
}

static void prepare_accept(struct scene *scene)
{
    static const struct orr_open open = { .account = &io_account };
    struct orr_address any = io_address("127.0.0.1:0");
    assert_int_equal(orr_listen(&any, &(struct orr_listen_options){ .socket.open = open }, &scene->listener), 0);
    assert_int_equal(orr_listener_address(scene->listener, &scene->address), 0);
    scene->subject.listener = scene->listener;
    scene->subject.open = &open;
}

static void come(struct scene *scene, struct orr_task *task)
{
    struct orr_stream *stream;
    struct orr_wait wait = { 0 };
    assert_int_equal(orr_connect(task, &wait, &scene->address, NULL, &stream), 0);
    assert_int_equal(orr_stream_free(stream), 0);
}

/* The one connection is accepted once. */
static void check_accept(struct scene *scene, bool done)
{
    struct io_task accepting = { .operation = DO_ACCEPT, .listener = scene->listener };
    if (!done)
        assert_int_equal(io_task_run(scene->rt, &accepting), 0);
    assert_int_equal(orr_stream_free(done ? scene->subject.stream : accepting.stream), 0);
}

/* A path whose backlog is full makes a connect wait for as long as the test likes. */
static void prepare_connect(struct scene *scene)
{
    static const struct orr_open open = { .account = &io_account };
    char path[64];
    snprintf(path, sizeof path, "unix:@orrery-cancel-%d", (int)getpid());
    scene->address = scene->subject.address = io_address(path);
    struct orr_listen_options options = { .socket.open = open, .backlog = 1 };
    assert_int_equal(orr_listen(&scene->address, &options, &scene->listener), 0);
    scene->subject.open = &open;
    for (int i = 0; i < 2; i++) {
        struct io_task connecting = { .operation = DO_CONNECT, .address = scene->address };
        assert_int_equal(io_task_run(scene->rt, &connecting), 0);
        scene->more[i] = connecting.stream;
    }
}

static void accept_one(struct scene *scene, struct orr_task *task)
{
    struct orr_stream *stream;
    struct orr_wait wait = { 0 };
    assert_int_equal(orr_accept(task, &wait, scene->listener, NULL, &stream), 0);
    assert_int_equal(orr_stream_free(stream), 0);
}

static void check_connect(struct scene *scene, bool done)
{
    if (done)
        assert_int_equal(orr_stream_free(scene->subject.stream), 0);
}

/* A listener whose backlog is full takes no connection before one is accepted. */
static void prepare_tcp_connect(struct scene *scene)
{
    static const struct orr_open open = { .account = &io_account };
    struct orr_address any = io_address("127.0.0.1:0");
    struct orr_listen_options options = { .socket.open = open, .backlog = 1 };
    assert_int_equal(orr_listen(&any, &options, &scene->listener), 0);
    assert_int_equal(orr_listener_address(scene->listener, &scene->address), 0);
    scene->subject.address = scene->address;
    scene->subject.open = &open;
    act(scene, come);
    act(scene, come);
}

static void accept_two(struct scene *scene, struct orr_task *task)
{
    accept_one(scene, task);
    accept_one(scene, task);
}

static void prepare_receive(struct scene *scene)
{
    struct orr_address any = io_address("127.0.0.1:0");
    for (int i = 0; i < 2; i++) {
        struct orr_datagram_options options = { .open.account = &io_account, .local = &any };
        assert_int_equal(orr_datagram_open(&options, &scene->datagrams[i]), 0);
    }
    assert_int_equal(orr_datagram_address(scene->datagrams[0], ORR_LOCAL, &scene->address), 0);
    scene->part = (struct iovec){ scene->bytes, sizeof scene->bytes };
    scene->subject.datagram = scene->datagrams[0];
    scene->subject.message = (struct orr_message){ .parts = &scene->part, .count = 1 };
}

static void send_one(struct scene *scene, struct orr_task *task)
{
    struct orr_wait wait = { 0 };
    struct iovec part = { "abc", 3 };
    struct orr_message message = { .parts = &part, .count = 1, .address = &scene->address };
    assert_int_equal(orr_datagram_send(task, &wait, scene->datagrams[1], &message), 0);
}

static void check_receive(struct scene *scene, bool done)
{
    struct io_task receiving = { .operation = DO_RECEIVE, .datagram = scene->datagrams[0] };
    receiving.message = (struct orr_message){ .parts = &scene->part, .count = 1 };
    if (!done)
        assert_int_equal(io_task_run(scene->rt, &receiving), 0);
    assert_int_equal(done ? scene->subject.message.size : receiving.message.size, 3);
}

static void prepare_copy(struct scene *scene)
{
    struct orr_open open = { .account = &io_account };
    open_pair(scene);
    assert_int_equal(orr_pair(&open, scene->more), 0);
    scene->subject.to = scene->more[0];
}

/* A copy goes on after these: so it is never done, but has moved them. */
static void check_copy(struct scene *scene, bool done)
{
    (void)done;
    size_t got, through = scene->subject.copy.bytes;
    assert_true(through == 0 || through == 3);
    struct orr_stream *where = through ? scene->more[1] : scene->ends[0];
    assert_int_equal(io_read(scene->rt, where, scene->bytes, 64, &got), 0);
    assert_int_equal(got, 3);
    assert_int_equal(io_write(scene->rt, scene->more[0], "whole"), 0);
}

static void fill_target(struct scene *scene, struct orr_task *task)
{
    fill_up(scene->more[0], task);
}

static void prepare_pipe_copy(struct scene *scene)
{
    prepare_copy(scene);
    act(scene, fill_target); /* the copy waits for room */
    act(scene, put_abc);
}

static void make_room_for_copy(struct scene *scene, struct orr_task *task)
{
    drain(scene->more[1], task);
}

static void check_pipe_copy(struct scene *scene, bool done)
{
    (void)done;
    size_t got, through = scene->subject.copy.bytes;
    if (through)
        return; /* the bytes are behind the junk */
    assert_int_equal(io_read(scene->rt, scene->ends[0], scene->bytes, 64, &got), 0);
    assert_int_equal(got, 3);
    assert_memory_equal(scene->bytes, "abc", 3);
}

static const struct row rows[] = {
    { DO_READ, "read", open_pair, put_abc, check_read },
    { DO_FILL, "fill", open_pair, put_abc, check_fill },
    { DO_WRITE, "write", prepare_write, make_room, check_write },
    { DO_LOSS, "loss", prepare_loss, lose, check_loss },
    { DO_ACCEPT, "accept", prepare_accept, come, check_accept },
    { DO_CONNECT, "connect to a path", prepare_connect, accept_one, check_connect },
    { DO_CONNECT, "connect by TCP", prepare_tcp_connect, accept_two, check_connect },
    { DO_RECEIVE, "receive", prepare_receive, send_one, check_receive },
    { DO_COPY, "copy from", prepare_copy, put_abc, check_copy },
    { DO_COPY, "copy to", prepare_pipe_copy, make_room_for_copy, check_pipe_copy },
};

static void free_scene(struct scene *scene)
{
    for (int i = 0; i < 2; i++) {
        assert_int_equal(orr_stream_free(scene->ends[i]), 0);
        assert_int_equal(orr_stream_free(scene->more[i]), 0);
        assert_int_equal(orr_datagram_free(scene->datagrams[i]), 0);
    }
    assert_int_equal(orr_listener_free(scene->listener), 0);
}

/* The wait is granted and the subject cancelled in one poll. */
static void cancel_when_granted(struct scene *scene, const struct row *row, bool drop)
{
    run_actor((struct actor){ .scene = scene, .act = row->let, .cancels = true, .drop = drop });
}

static struct orr_network *use_network(void)
{
    struct orr_network *network;
    struct orr_network_options options = { .open.account = &io_account, .window = WINDOW };
    assert_int_equal(orr_network_new(&options, &network), 0);
    assert_int_equal(orr_network_use(network), 0);
    return network;
}

static void try_row(const struct row *row, enum moment moment, bool drop)
{
    struct scene scene = { .rt = io_open(), .subject.operation = row->operation };
    scene.network = use_network();
    unsigned fds = harness_open_fds();
    row->prepare(&scene);
    if (moment == BEFORE)
        act(&scene, row->let);
    io_task_start(scene.rt, &scene.subject);
    if (moment == DURING)
        io_settle(scene.rt);
    if (moment == AT_READY) {
        io_settle(scene.rt);
        assert_false(scene.subject.done);
        cancel_when_granted(&scene, row, drop);
    }
    bool ends = row->operation != DO_COPY;
    if (moment == AFTER) {
        io_settle(scene.rt);
        if (!scene.subject.done)
            act(&scene, row->let);
        if (ends)
            io_turn_until(scene.rt, &scene.subject.done);
        else
            io_settle(scene.rt);
    }
    if (!scene.subject.done && moment != AT_READY)
        cancel(&scene.subject, drop);
    io_settle(scene.rt);
    if (!drop && !scene.subject.done && row->operation == DO_COPY)
        cancel(&scene.subject, drop);
    if (!drop && !scene.subject.done)
        io_turn_until(scene.rt, &scene.subject.done);
    io_task_end(&scene.subject);
    bool done = scene.subject.done && scene.subject.result == 0;
    if (scene.subject.done && !done)
        assert_int_equal(scene.subject.result, -ECANCELED);
    if (moment == DURING)
        act(&scene, row->let);
    row->check(&scene, done);
    free_scene(&scene);
    assert_int_equal(orr_network_free(scene.network), 0);
    assert_int_equal(harness_open_fds(), fds);
    assert_int_equal(io_counted.bytes, 0);
    io_close(scene.rt);
}

static void nothing_is_lost_whenever_an_operation_is_cancelled(void **state)
{
    (void)state;
    for (size_t i = 0; i < LENGTH(rows); i++)
        for (enum moment moment = BEFORE; moment < MOMENTS; moment++)
            for (int drop = 0; drop < 2; drop++) {
                const char *only = getenv("ORR_TEST_ONLY");
                if (only && strcmp(only, rows[i].name) != 0)
                    continue;
                if (only)
                    print_message("%s, moment %d, drop %d\n", rows[i].name, moment, drop);
                try_row(&rows[i], moment, drop);
            }
}

static const struct CMUnitTest simulated_cancel_tests[] = {
    cmocka_unit_test(nothing_is_lost_whenever_an_operation_is_cancelled),
};

HARNESS_MAIN(simulated_cancel_tests)
