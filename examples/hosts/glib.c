/*
 * A host on GLib's main loop, as GTK programs are.  The runtime is a GSource.
 *
 *     glib SCRIPT [SECONDS]
 */
#include "guest.h"

#include <glib-unix.h>
#include <glib.h>

#include <stdio.h>
#include <stdlib.h>

struct host {
    struct guest guest;
    GMainLoop *loop;
    int error;
};

/* --- The runtime, as a source ----------------------------------------------------------------- */

struct source {
    GSource base;
    struct host *host;
    gpointer tag; /* of the descriptor */
};

/*
 * Called before the loop sleeps: returns whether it need not.  Saves a poll(2) when a script has
 * more to do.
 */
static gboolean source_prepare(GSource *base, gint *timeout)
{
    struct source *source = (struct source *)base;
    *timeout = -1; /* the descriptor knows the runtime's timers */
    return orr_runtime_next_deadline(source->host->guest.rt) == 0;
}

static gboolean source_check(GSource *base)
{
    return g_source_query_unix_fd(base, ((struct source *)base)->tag) != 0;
}

static gboolean source_dispatch(GSource *base, GSourceFunc callback, gpointer data)
{
    struct host *host = ((struct source *)base)->host;
    (void)callback;
    (void)data;
    int more = orr_runtime_turn(host->guest.rt, TURN_NS);
    if (more >= 0)
        return G_SOURCE_CONTINUE;
    host->error = more;
    g_main_loop_quit(host->loop);
    return G_SOURCE_REMOVE;
}

static GSourceFuncs source_functions = {
    .prepare = source_prepare,
    .check = source_check,
    .dispatch = source_dispatch,
};

/*
 * Its priority is below that of the host's own sources, timers and drawing.  In each round GLib
 * dispatches only the ready sources with the highest priority.  So a script that is always ready
 * never keeps a source of the host waiting for longer than a turn.
 */
static GSource *source_new(struct host *host, int fd)
{
    GSource *base = g_source_new(&source_functions, sizeof(struct source));
    struct source *source = (struct source *)base;
    source->host = host;
    source->tag = g_source_add_unix_fd(base, fd, G_IO_IN);
    g_source_set_priority(base, G_PRIORITY_DEFAULT_IDLE);
    g_source_set_name(base, "orrery");
    g_source_attach(base, NULL);
    return base;
}

/* --- The host's own sources ------------------------------------------------------------------- */

static gboolean on_tick(gpointer data)
{
    guest_tick(&((struct host *)data)->guest);
    return G_SOURCE_CONTINUE;
}

static gboolean on_end(gpointer data)
{
    g_main_loop_quit(((struct host *)data)->loop);
    return G_SOURCE_CONTINUE;
}

static void run(struct host *host, int fd, guint seconds)
{
    host->loop = g_main_loop_new(NULL, FALSE);
    GSource *source = source_new(host, fd);
    guint own[] = {
        g_timeout_add(TICK_MS, on_tick, host),
        g_timeout_add_seconds(seconds, on_end, host),
        g_unix_signal_add(SIGINT, on_end, host),
        g_unix_signal_add(SIGTERM, on_end, host),
    };
    g_main_loop_run(host->loop); /* handles EINTR itself */
    for (size_t i = 0; i < G_N_ELEMENTS(own); i++)
        g_source_remove(own[i]);
    g_source_destroy(source); /* before the runtime, whose descriptor it watches */
    g_source_unref(source);
    g_main_loop_unref(host->loop);
}

int main(int argc, char **argv)
{
    struct host host = { 0 };
    if (argc < 2) {
        fprintf(stderr, "usage: glib SCRIPT [SECONDS]\n");
        return 2;
    }
    if (guest_open(&host.guest))
        return 1;
    int fd = orr_runtime_fd(host.guest.rt);
    host.error = fd < 0 ? fd : guest_load(&host.guest, "host", argv[1], NULL, NULL);
    if (!host.error)
        run(&host, fd, argc > 2 ? (guint)strtoul(argv[2], NULL, 10) : 2);
    guest_summary(&host.guest);
    return guest_close(&host.guest) || host.error ? 1 : 0;
}
