/* `orrery info`: prints the versions and what this machine offers. */
#include "cli/commands.h"

#include <orrery.h>

#include <lua.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

static void ignore_log(void *data, enum orr_log level, const char *message)
{
    (void)data;
    (void)level;
    (void)message;
}

int info_main(int argc, char **argv)
{
    if (argc > 2) {
        fprintf(stderr, "orrery: info takes no arguments, but got '%s'\n", argv[2]);
        return 2;
    }
    printf("orrery %s\n", orr_version());
    printf("lua    %s\n", LUA_RELEASE);
    for (int kind = ORR_REACTOR_URING; kind <= ORR_REACTOR_EPOLL; kind++) {
        enum orr_reactor reactor = (enum orr_reactor)kind;
        struct orr_runtime *rt = orr_runtime_new(&(struct orr_options){ .reactor = reactor, .log = ignore_log });
        printf("%-6s %s\n", orr_reactor_name(reactor), rt ? "available" : strerror(errno));
        orr_runtime_free(rt);
    }
    return 0;
}
