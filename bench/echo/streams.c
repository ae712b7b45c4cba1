/*
 * A TCP echo server on streams, in C: what streams cost beside bare system calls (bare.c), without
 * Lua.  A task for each connection.
 *
 *     streams uring|epoll
 *
 * Prints its port, and runs until it is killed.
 *
 * On io_uring a busy worker asks one epoll set for all descriptors, and the ring polls that set
 * while the worker sleeps (src/reactor/readiness.h).  bench/FIGURES.md has the measurements of
 * other ways, and the reasons of the choice.
 */
#include "orrery.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES = 16 * 1024 };

struct connection {
    struct orr_stream *stream;
    struct orr_wait wait;
    size_t length; /* bytes to be written; 0 while it reads */
};

struct server {
    struct orr_listener *listener;
    struct orr_wait wait;
};

static enum orr_poll over(struct connection *self)
{
    orr_stream_free(self->stream);
    free(self);
    return ORR_DONE;
}

/* What was read stays in the stream's input until all of it is written. */
static enum orr_poll serve(struct orr_task *task, void *data)
{
    struct connection *self = data;
    for (;;) {
        if (!self->length) {
            int error = orr_stream_fill(task, &self->wait, self->stream, 1, BYTES);
            if (error == -EAGAIN)
                return ORR_PENDING;
            if (error)
                return over(self);
        }
        const void *bytes;
        self->length = orr_stream_peek(self->stream, &bytes);
        struct iovec part = { (void *)bytes, self->length };
        int error = orr_stream_write(task, &self->wait, self->stream, &part, 1, NULL);
        if (error == -EAGAIN)
            return ORR_PENDING;
        if (error)
            return over(self);
        orr_stream_consume(self->stream, self->length);
        self->length = 0;
    }
}

static enum orr_poll accept_all(struct orr_task *task, void *data)
{
    struct server *self = data;
    for (;;) {
        struct orr_stream *stream;
        int error = orr_accept(task, &self->wait, self->listener, NULL, &stream);
        if (error == -EAGAIN)
            return ORR_PENDING;
        if (error)
            return orr_task_fail(task, error);
        struct connection *connection = calloc(1, sizeof *connection);
        if (!connection)
            abort();
        connection->stream = stream;
        struct orr_spawn spawn = { .poll = serve, .data = connection, .detached = true };
        if (orr_spawn(orr_task_runtime(task), &spawn))
            abort();
    }
}

int main(int argc, char **argv)
{
    struct orr_options options = { .reactor = argc > 1 && !strcmp(argv[1], "uring") ? ORR_REACTOR_URING
                                                                                    : ORR_REACTOR_EPOLL };
    struct orr_runtime *rt = orr_runtime_new(&options);
    struct orr_address address;
    struct server server = { 0 };
    char text[ORR_ADDRESS_TEXT];
    if (!rt || orr_runtime_enter(rt) || orr_address_parse("127.0.0.1:0", 11, &address) ||
        orr_listen(&address, NULL, &server.listener) || orr_listener_address(server.listener, &address) ||
        orr_address_print(&address, text, sizeof text) < 0 || orr_runtime_leave(rt)) {
        fprintf(stderr, "streams: cannot listen\n");
        return 1;
    }
    printf("%s\n", strrchr(text, ':') + 1);
    fflush(stdout);
    if (orr_spawn(rt, &(struct orr_spawn){ .poll = accept_all, .data = &server }))
        return 1;
    int error = orr_runtime_run(rt);
    orr_runtime_free(rt);
    return error != 0;
}
