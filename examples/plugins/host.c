/*
 * A host with plugins.  It loads every *.lua of a folder, loads one again when its file changes,
 * and unloads it when the file is gone.  It ends at Ctrl-C or SIGTERM, or when its time is up.
 *
 *     plugin-host FOLDER [SECONDS]
 *
 * Its loop waits for three things: a timer, on which it scans the folder and emits a tick, signals,
 * and the runtime.  The runtime gets a millisecond at a time, whatever a plugin does with it.  So a
 * plugin that loops for ever delays the next tick by that much, until it is ended.
 */
#include "plugin.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define TURN_NS UINT64_C(1000000)
#define TICK_MS 100

enum { TIMER, SIGNALS, RUNTIME, WATCHED };

struct host {
    struct orr_runtime *rt;
    const char *folder;
    struct plugin *plugins;
    int64_t ticks, last_tick;
};

/* --- The folder ------------------------------------------------------------------------------- */

static struct plugin *find(const struct host *host, const char *name)
{
    struct plugin *plugin = host->plugins;
    while (plugin && strcmp(plugin->name, name) != 0)
        plugin = plugin->next;
    return plugin;
}

static void look_at_file(struct host *host, const char *file)
{
    char path[4096], name[64];
    struct stat status;
    size_t length = strlen(file);
    if (length < 5 || strcmp(file + length - 4, ".lua") != 0 || file[0] == '.')
        return;
    snprintf(path, sizeof path, "%s/%s", host->folder, file);
    snprintf(name, sizeof name, "%.*s", (int)length - 4, file);
    if (stat(path, &status) || !S_ISREG(status.st_mode))
        return;
    struct plugin *plugin = find(host, name);
    if (plugin) {
        plugin_update(plugin, &status);
    } else {
        plugin = plugin_load(host->rt, name, path, &status);
        if (!plugin)
            return;
        plugin->next = host->plugins;
        host->plugins = plugin;
    }
    plugin->seen = true;
}

/* Unloads the plugins that the last scan has not seen. */
static void unload_unseen(struct host *host)
{
    struct plugin **at = &host->plugins;
    while (*at) {
        struct plugin *plugin = *at;
        if (plugin->seen) {
            plugin->seen = false;
            at = &plugin->next;
        } else {
            *at = plugin->next;
            plugin_unload(plugin);
        }
    }
}

static void scan(struct host *host)
{
    struct dirent **files;
    int count = scandir(host->folder, &files, NULL, alphasort);
    if (count < 0) {
        fprintf(stderr, "plugin-host: %s: %s\n", host->folder, strerror(errno));
        return; /* as if nothing had changed */
    }
    for (int i = 0; i < count; i++) {
        look_at_file(host, files[i]->d_name);
        free(files[i]);
    }
    free(files);
    unload_unseen(host);
}

/* --- The loop --------------------------------------------------------------------------------- */

static void tick(struct host *host, int timer)
{
    uint64_t expired;
    if (read(timer, &expired, sizeof expired) != sizeof expired)
        return;
    scan(host);
    host->ticks++;
    for (const struct plugin *plugin = host->plugins; plugin; plugin = plugin->next)
        plugin_emit(plugin, "tick", host->ticks);
}

static int open_timer(void)
{
    int fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    struct timespec interval = { .tv_nsec = TICK_MS * 1000000L };
    struct itimerspec start = { .it_value = { .tv_nsec = 1 }, .it_interval = interval };
    if (fd >= 0)
        timerfd_settime(fd, 0, &start, NULL);
    return fd;
}

/* Blocks only these two: the signal that interrupts Lua must get through. */
static int open_signals(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_BLOCK, &set, NULL);
    return signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
}

static int run(struct host *host)
{
    struct pollfd watched[WATCHED] = {
        [TIMER] = { .fd = open_timer(), .events = POLLIN },
        [SIGNALS] = { .fd = open_signals(), .events = POLLIN },
        [RUNTIME] = { .fd = orr_runtime_fd(host->rt), .events = POLLIN },
    };
    int error = watched[TIMER].fd < 0 || watched[SIGNALS].fd < 0 || watched[RUNTIME].fd < 0 ? -EMFILE : 0;
    while (!error && !watched[SIGNALS].revents && host->ticks < host->last_tick) {
        if (poll(watched, WATCHED, -1) < 0) {
            error = errno == EINTR ? 0 : -errno;
            continue;
        }
        if (watched[TIMER].revents)
            tick(host, watched[TIMER].fd);
        if (watched[RUNTIME].revents && orr_runtime_turn(host->rt, TURN_NS) < 0)
            error = -EIO;
    }
    unload_unseen(host); /* no scan has marked any since: unloads all */
    close(watched[TIMER].fd);
    close(watched[SIGNALS].fd);
    return error;
}

/* --- Start and end ---------------------------------------------------------------------------- */

static void log_line(void *data, enum orr_log level, const char *message)
{
    (void)data;
    if (level != ORR_LOG_INFO)
        printf("host: %.*s\n", (int)strcspn(message, "\n"), message);
}

/* Reports a plugin that has failed by itself.  Each plugin counts its own timeouts. */
static void failure(void *data, struct orr_task *task)
{
    const struct orr_result *result = orr_task_result(task);
    (void)data;
    if (!result || result->error == -ETIME)
        return;
    const char *why = result->message ? result->message : strerror(-result->error);
    printf("host: a plugin has failed: %.*s\n", (int)strcspn(why, "\n"), why);
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: plugin-host FOLDER [SECONDS]\n");
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    struct host host = { .folder = argv[1],
                         .last_tick = argc > 2 ? strtol(argv[2], NULL, 10) * 1000 / TICK_MS : INT64_MAX };
    host.rt = orr_runtime_new(&(struct orr_options){ .log = log_line, .sink = failure, .grace_ms = 100 });
    if (!host.rt)
        return 1;
    int error = run(&host);
    printf("host: %lld ticks\n", (long long)host.ticks);
    orr_runtime_free(host.rt);
    return error ? 1 : 0;
}
