/*
 * A seed of a simulated network replays exactly: the same servers and clients, with every fault the
 * network knows, do the same things at the same times, on either reactor.
 */
#include "io_task.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    CLIENTS = 5,
    ROUNDS = 8,
    BYTES = 3000,
    /* Less than a message, so writers wait; one is woken when a third of it is free.  Both sides
     * write before they read, which two thirds of it in each direction leave room for. */
    WINDOW = 2600,
    CONNECTIONS = 256,
    TRACE_MOST = 512 * 1024,
};

/* What happens, line by line. */
struct trace {
    char *text;
    size_t length;
};

struct play;

/* A task that echoes what comes on one connection. */
struct echo {
    struct play *play;
    unsigned number;
    struct orr_stream *stream;
    struct orr_wait wait;
    char bytes[BYTES];
    size_t got, sent;
};

/* A task that connects, sends a message and reads it back, again and again. */
struct client {
    struct play *play;
    unsigned number, round;
    enum { CONNECT, SEND, READ, PAUSE } step;
    struct orr_address address;
    struct orr_stream *stream;
    struct orr_wait wait;
    char bytes[BYTES];
    size_t got, back;
};

struct play {
    struct orr_runtime *rt;
    struct trace trace;
    struct orr_network_host *server_host, *client_host;
    struct orr_listener *listener;
    struct orr_wait wait;
    unsigned connections, left;
    struct echo *echoes;
    struct client clients[CLIENTS];
};

static void note(struct play *play, const char *who, unsigned number, const char *what, long long value)
{
    struct trace *trace = &play->trace;
    size_t room = TRACE_MOST - trace->length;
    unsigned long long now = (unsigned long long)orr_runtime_now(play->rt);
    int length = snprintf(trace->text + trace->length, room, "%llu %s %u %s %lld\n", now, who, number, what, value);
    assert_true(length > 0 && (size_t)length < room);
    trace->length += (size_t)length;
}

static enum orr_poll echo_poll(struct orr_task *task, void *data)
{
    struct echo *self = data;
    for (;;) {
        int result;
        if (self->sent < self->got) {
            struct iovec part = { self->bytes, self->got };
            result = orr_stream_write(task, &self->wait, self->stream, &part, 1, &self->sent);
        } else {
            self->got = self->sent = 0;
            result = orr_stream_read(task, &self->wait, self->stream, self->bytes, BYTES, &self->got);
        }
        if (result == -EAGAIN)
            return ORR_PENDING;
        note(self->play, "echo", self->number, self->sent ? "sent" : "got", result ? result : (long long)self->got);
        if (result || !self->got) {
            orr_stream_free(self->stream);
            return ORR_DONE;
        }
    }
}

static enum orr_poll server_poll(struct orr_task *task, void *data)
{
    struct play *play = data;
    for (;;) {
        assert_true(play->connections < CONNECTIONS);
        struct echo *echo = &play->echoes[play->connections];
        int result = orr_accept(task, &play->wait, play->listener, NULL, &echo->stream);
        if (result == -EAGAIN)
            return ORR_PENDING;
        if (result)
            return ORR_DONE;
        echo->play = play;
        echo->number = play->connections++;
        note(play, "server", echo->number, "accept", result);
        assert_int_equal(orr_spawn(play->rt, &(struct orr_spawn){ .poll = echo_poll, .data = echo }), 0);
    }
}

/* One step of a client: 0, -EAGAIN, or an error. */
static int client_step(struct orr_task *task, struct client *self)
{
    struct orr_socket_options options = { .open.host = self->play->client_host };
    struct iovec part = { self->bytes, BYTES };
    int result = 0;
    switch (self->step) {
    case CONNECT:
        return orr_connect(task, &self->wait, &self->address, &options, &self->stream);
    case SEND:
        return orr_stream_write(task, &self->wait, self->stream, &part, 1, NULL);
    case READ:
        result = orr_stream_read(task, &self->wait, self->stream, self->bytes, BYTES, &self->got);
        self->back += result ? 0 : self->got;
        return result || !self->got ? (result ? result : -EPIPE) : 0;
    case PAUSE:
        return orr_sleep(task, &self->wait, (1 + self->number) * MS);
    }
    return result;
}

/* What comes after a step that is over. */
static void client_next(struct client *self, int result)
{
    bool whole = self->step == READ && self->back == BYTES;
    if (result || whole) {
        orr_stream_free(self->stream);
        self->stream = NULL;
        self->back = 0;
        self->step = PAUSE;
    } else if (self->step == PAUSE) {
        self->round++;
        self->step = CONNECT;
    } else if (self->step != READ) {
        self->step++;
    }
}

static enum orr_poll client_poll(struct orr_task *task, void *data)
{
    struct client *self = data;
    while (self->round < ROUNDS) {
        int result = client_step(task, self);
        if (result == -EAGAIN)
            return ORR_PENDING;
        if (self->step == CONNECT && result)
            self->stream = NULL;
        note(self->play, "client", self->number, &"connect\0send   \0read   \0pause  "[self->step * 8],
             result ? result : (long long)self->got);
        client_next(self, result);
    }
    if (!--self->play->left)
        orr_listener_close(self->play->listener);
    return ORR_DONE;
}

/* Plays the scene with a seed, and answers what happened; the caller frees it. */
static char *play_scene(enum orr_reactor reactor, uint64_t seed)
{
    enum orr_reactor before = harness_reactor;
    harness_reactor = reactor;
    struct play *play = calloc(1, sizeof *play);
    play->trace.text = calloc(1, TRACE_MOST);
    play->echoes = calloc(CONNECTIONS, sizeof *play->echoes);
    play->left = CLIENTS;
    play->rt = harness_runtime_with((struct orr_options){ .workers = 1, .clock = ORR_CLOCK_VIRTUAL });
    assert_non_null(play->rt);
    assert_int_equal(orr_runtime_enter(play->rt), 0);
    struct orr_network *network;
    struct orr_network_options options = { .seed = seed,
                                           .latency = 5 * MS,
                                           .jitter = 3 * MS,
                                           .bandwidth = 1000 * 1000,
                                           .short_reads = 0.3,
                                           .short_writes = 0.3,
                                           .resets = 0.05,
                                           .window = WINDOW };
    assert_int_equal(orr_network_new(&options, &network), 0);
    assert_int_equal(orr_network_host(network, "server", &play->server_host), 0);
    assert_int_equal(orr_network_host(network, "client", &play->client_host), 0);
    struct orr_address any = io_address("0.0.0.0:7");
    struct orr_listen_options listen = { .socket.open.host = play->server_host };
    assert_int_equal(orr_listen(&any, &listen, &play->listener), 0);
    assert_int_equal(orr_spawn(play->rt, &(struct orr_spawn){ .poll = server_poll, .data = play }), 0);
    for (unsigned i = 0; i < CLIENTS; i++) {
        play->clients[i] = (struct client){ .play = play, .number = i };
        assert_int_equal(orr_network_lookup(play->client_host, "server", 7, 0, &play->clients[i].address), 0);
        assert_int_equal(orr_spawn(play->rt, &(struct orr_spawn){ .poll = client_poll, .data = &play->clients[i] }), 0);
    }
    assert_int_equal(orr_runtime_leave(play->rt), 0);
    assert_int_equal(orr_runtime_run(play->rt), 0);
    assert_int_equal(orr_runtime_free(play->rt), 0);
    harness_reactor = before;
    char *text = play->trace.text;
    free(play->echoes);
    free(play);
    return text;
}

static void a_seed_replays_exactly_on_both_reactors(void **state)
{
    (void)state;
    uint64_t seed = harness_seed(1);
    for (uint64_t i = 0; i < 5; i++) {
        char *first = play_scene(harness_reactor, seed + i), *again = play_scene(harness_reactor, seed + i);
        char *epoll = play_scene(ORR_REACTOR_EPOLL, seed + i);
        assert_string_equal(first, again);
        assert_string_equal(first, epoll);
        assert_non_null(strstr(first, "-104")); /* a connection was reset: faults are part of it */
        free(first);
        free(again);
        free(epoll);
    }
}

static void another_seed_plays_differently(void **state)
{
    (void)state;
    char *first = play_scene(harness_reactor, 1), *other = play_scene(harness_reactor, 2);
    assert_string_not_equal(first, other);
    free(first);
    free(other);
}

static const struct CMUnitTest replay_tests[] = {
    cmocka_unit_test(a_seed_replays_exactly_on_both_reactors),
    cmocka_unit_test(another_seed_plays_differently),
};

HARNESS_MAIN(replay_tests)
