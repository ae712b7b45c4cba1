/* The program.  Before it can run scripts, it tells what it is and what this machine offers it. */
#include "orrery.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char usage[] = "usage: orrery [--version | --help | info]\n"
                            "\n"
                            "  info        what this machine offers: cores, reactors\n"
                            "  --version   the version of the library\n"
                            "  --help      this text\n";

static void stay_silent(void *data, enum orr_log level, const char *message)
{
    (void)data;
    (void)level;
    (void)message;
}

static void show_reactor(enum orr_reactor reactor)
{
    struct orr_options options = { .reactor = reactor, .log = stay_silent };
    struct orr_runtime *rt = orr_runtime_new(&options);
    const char *name = orr_reactor_name(reactor);
    struct orr_stats stats;
    if (!rt) {
        printf("%-8s no: %s\n", name, strerror(errno));
        return;
    }
    orr_runtime_stats(rt, 1, &stats);
    printf("%-8s %s%s\n", name, reactor == ORR_REACTOR_AUTO ? "is " : "yes",
           reactor == ORR_REACTOR_AUTO ? orr_reactor_name(stats.reactor) : "");
    orr_runtime_free(rt);
}

static int info(void)
{
    printf("orrery   %s\n", orr_version());
    printf("cores    %ld\n", sysconf(_SC_NPROCESSORS_ONLN));
    show_reactor(ORR_REACTOR_AUTO);
    show_reactor(ORR_REACTOR_URING);
    show_reactor(ORR_REACTOR_EPOLL);
    return 0;
}

int main(int argc, char **argv)
{
    const char *command = argc == 2 ? argv[1] : NULL;
    if (command && !strcmp(command, "info"))
        return info();
    if (command && !strcmp(command, "--version")) {
        printf("orrery %s\n", orr_version());
        return 0;
    }
    if (command && !strcmp(command, "--help")) {
        fputs(usage, stdout);
        return 0;
    }
    if (argc > 1)
        fprintf(stderr, "orrery: cannot make sense of '%s'\n", argv[1]);
    fputs(usage, stderr);
    return 2;
}
