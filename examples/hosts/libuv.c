/*
 * A host on libuv, as Neovim and Node are.  A uv_poll watches the runtime's descriptor.
 *
 *     libuv SCRIPT [SECONDS]
 */
#include "guest.h"

#include <stdio.h>
#include <stdlib.h>
#include <uv.h>

struct host {
    struct guest guest;
    uv_loop_t loop;
    uv_poll_t runtime;
    uv_timer_t tick, end;
    uv_signal_t interrupt, terminate;
    int error;
};

static void close_handle(uv_handle_t *handle, void *data)
{
    (void)data;
    if (!uv_is_closing(handle))
        uv_close(handle, NULL);
}

/* uv_run() returns when the last handle is closed. */
static void finish(struct host *host)
{
    uv_walk(&host->loop, close_handle, NULL);
}

/*
 * Gives one turn in each round. libuv fires its timers once in every round, so the host's timers
 * fire between two turns, however long a script loops.  Errors of the descriptor itself arrive as
 * `status`.
 */
static void on_runtime(uv_poll_t *handle, int status, int events)
{
    struct host *host = handle->data;
    (void)events;
    int more = status < 0 ? status : orr_runtime_turn(host->guest.rt, TURN_NS);
    if (more < 0) {
        host->error = more;
        finish(host);
    }
}

static void on_tick(uv_timer_t *handle)
{
    struct host *host = handle->data;
    guest_tick(&host->guest);
}

static void on_end(uv_timer_t *handle)
{
    finish(handle->data);
}

static void on_signal(uv_signal_t *handle, int number)
{
    (void)number;
    finish(handle->data);
}

/* The loop knows its handles, so finish() closes those that were created, whatever fails here. */
static int start_handles(struct host *host, int fd, uint64_t seconds)
{
    host->runtime.data = host->tick.data = host->end.data = host->interrupt.data = host->terminate.data = host;
    uv_timer_init(&host->loop, &host->tick); /* these two cannot fail */
    uv_timer_init(&host->loop, &host->end);
    uv_timer_start(&host->tick, on_tick, TICK_MS, TICK_MS);
    uv_timer_start(&host->end, on_end, seconds * 1000, 0);
    int error = uv_poll_init(&host->loop, &host->runtime, fd);
    if (!error)
        error = uv_poll_start(&host->runtime, UV_READABLE, on_runtime);
    if (!error)
        error = uv_signal_init(&host->loop, &host->interrupt);
    if (!error)
        error = uv_signal_start(&host->interrupt, on_signal, SIGINT);
    if (!error)
        error = uv_signal_init(&host->loop, &host->terminate);
    if (!error)
        error = uv_signal_start(&host->terminate, on_signal, SIGTERM);
    return error;
}

static int run(struct host *host, int fd, uint64_t seconds)
{
    int error = uv_loop_init(&host->loop);
    if (error)
        return error;
    error = start_handles(host, fd, seconds);
    if (error)
        finish(host);
    uv_run(&host->loop, UV_RUN_DEFAULT);
    uv_loop_close(&host->loop); /* before the runtime, whose descriptor it watches */
    return error ? error : host->error;
}

int main(int argc, char **argv)
{
    struct host host = { 0 };
    if (argc < 2) {
        fprintf(stderr, "usage: libuv SCRIPT [SECONDS]\n");
        return 2;
    }
    if (guest_open(&host.guest))
        return 1;
    int fd = orr_runtime_fd(host.guest.rt);
    int error = fd < 0 ? fd : guest_load(&host.guest, "host", argv[1], NULL, NULL);
    if (!error)
        error = run(&host, fd, argc > 2 ? strtoul(argv[2], NULL, 10) : 2);
    if (error < 0)
        fprintf(stderr, "host: %s\n", uv_strerror(error));
    guest_summary(&host.guest);
    return guest_close(&host.guest) || error ? 1 : 0;
}
