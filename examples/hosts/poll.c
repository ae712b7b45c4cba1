/*
 * A host with its own loop around poll(2).  It watches four descriptors: a timer for its ticks, the
 * standard input, whose lines become events for the script, signals that ask it to end, and the
 * runtime's.
 *
 *     poll SCRIPT [SECONDS]
 */
#include "guest.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

enum { TICKS, INPUT, SIGNALS, RUNTIME, WATCHED };

struct host {
    struct guest guest;
    struct pollfd watched[WATCHED];
    char line[256];
    size_t length; /* of the part of a line that has been read */
    bool over;
};

/* --- The host's own descriptors --------------------------------------------------------------- */

static int open_ticks(void)
{
    int fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    struct timespec tick = { .tv_nsec = TICK_MS * 1000000L };
    if (fd >= 0 && timerfd_settime(fd, 0, &(struct itimerspec){ .it_value = tick, .it_interval = tick }, NULL) == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

/* Blocks only these two: the signal that interrupts Lua, SIGRTMIN + 4, must get through. */
static int open_signals(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    return sigprocmask(SIG_BLOCK, &set, NULL) == 0 ? signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC) : -1;
}

static void on_ticks(struct host *host)
{
    uint64_t expired;
    if (read(host->watched[TICKS].fd, &expired, sizeof expired) == sizeof expired)
        guest_tick(&host->guest);
}

static void on_input(struct host *host)
{
    size_t room = sizeof host->line - 1 - host->length;
    ssize_t got = read(host->watched[INPUT].fd, host->line + host->length, room);
    if (got < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (got <= 0) {
        host->watched[INPUT].fd = -1; /* the end: poll(2) skips it from now on */
        return;
    }
    host->length += (size_t)got;
    host->line[host->length] = 0;
    char *from = host->line;
    for (char *end; (end = strchr(from, '\n')); from = end + 1) {
        *end = 0;
        guest_emit(&host->guest, "line", &(struct orr_pair){ orr_value_string("text"), orr_value_string(from) }, 1);
    }
    host->length = strlen(from);
    if (host->length == sizeof host->line - 1)
        host->length = 0; /* too long for a line */
    memmove(host->line, from, host->length);
}

/* --- The loop --------------------------------------------------------------------------------- */

/*
 * The runtime's descriptor is readable while there is something to do, its timers included, so
 * poll(2) needs no time limit for it.  A script that loops without end keeps it readable all the
 * time, and gets a turn in each round, after the host's own work.  The signal that interrupts Lua
 * may arrive a little late: EINTR is nothing special.
 */
static int run(struct host *host, uint64_t seconds)
{
    uint64_t end = orr_runtime_now(host->guest.rt) + seconds * SECOND;
    while (!host->over && orr_runtime_now(host->guest.rt) < end) {
        if (poll(host->watched, WATCHED, -1) < 0) {
            if (errno == EINTR)
                continue;
            perror("poll");
            return -errno;
        }
        if (host->watched[SIGNALS].revents)
            host->over = true;
        if (host->watched[TICKS].revents)
            on_ticks(host);
        if (host->watched[INPUT].revents)
            on_input(host);
        if (host->watched[RUNTIME].revents) {
            int more = orr_runtime_turn(host->guest.rt, TURN_NS);
            if (more < 0)
                return more;
        }
    }
    return 0;
}

int main(int argc, char **argv)
{
    struct host host = { 0 };
    if (argc < 2) {
        fprintf(stderr, "usage: poll SCRIPT [SECONDS]\n");
        return 2;
    }
    if (guest_open(&host.guest))
        return 1;
    int descriptors[WATCHED] = {
        [TICKS] = open_ticks(),
        [INPUT] = STDIN_FILENO,
        [SIGNALS] = open_signals(),
        [RUNTIME] = orr_runtime_fd(host.guest.rt),
    };
    int error = 0;
    for (int i = 0; i < WATCHED; i++) {
        host.watched[i] = (struct pollfd){ .fd = descriptors[i], .events = POLLIN };
        if (descriptors[i] < 0)
            error = -EMFILE;
    }
    if (error)
        fprintf(stderr, "host: not all descriptors could be opened\n");
    if (!error)
        error = guest_load(&host.guest, "host", argv[1], NULL, NULL);
    if (!error)
        error = run(&host, argc > 2 ? strtoul(argv[2], NULL, 10) : 2);
    guest_summary(&host.guest);
    if (guest_close(&host.guest) || error)
        return 1;
    close(host.watched[TICKS].fd);
    close(host.watched[SIGNALS].fd);
    return 0;
}
