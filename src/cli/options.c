#include "cli/options.h"

#include <stdio.h>
#include <string.h>

static const char usage[] =
    "usage: orrery [options] script.lua [arguments]\n"
    "       orrery info\n"
    "\n"
    "Runs a script as a task.  Ends when the script and all tasks that it has started are done: with 0, or\n"
    "with 1 and a report on stderr if it failed.\n"
    "\n"
    "options:\n"
    "  --mount NAME   have the API as a global of this name, besides require \"orrery\"\n"
    "  --reactor R    auto, uring or epoll\n"
    "  --virtual      run on a virtual clock, on which waiting takes no time\n"
    "  --version      print the version\n"
    "  --help         print this\n"
    "\n"
    "info tells what this machine offers.\n";

static int refuse(const char *what, const char *value)
{
    fprintf(stderr, "orrery: %s%s%s\n%s", what, value ? " " : "", value ? value : "", usage);
    return 2;
}

static bool parse_reactor(const char *name, enum orr_reactor *reactor)
{
    for (int kind = ORR_REACTOR_AUTO; kind <= ORR_REACTOR_EPOLL; kind++) {
        *reactor = (enum orr_reactor)kind;
        if (name && !strcmp(orr_reactor_name(*reactor), name))
            return true;
    }
    return false;
}

int options_parse(int argc, char **argv, struct arguments *arguments)
{
    arguments->lua.profile = ORR_LUA_TRUSTED;
    for (int entry = 0; entry < ORR_LUA_ENTRIES; entry++)
        arguments->lua.deadline_ns[entry] = ORR_NEVER;
    int i = 1;
    for (; i < argc && argv[i][0] == '-' && argv[i][1]; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (!strcmp(argv[i], "--")) {
            i++;
            break;
        } else if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) {
            fputs(usage, stdout);
            return 0;
        } else if (!strcmp(argv[i], "--version") || !strcmp(argv[i], "-v")) {
            printf("orrery %s\n", orr_version());
            return 0;
        } else if (!strcmp(argv[i], "--mount")) {
            if (!value)
                return refuse("--mount needs a name", NULL);
            arguments->lua.mount = argv[++i];
        } else if (!strcmp(argv[i], "--reactor")) {
            if (!parse_reactor(value, &arguments->runtime.reactor))
                return refuse("--reactor needs auto, uring or epoll, not", value ? value : "nothing");
            i++;
        } else if (!strcmp(argv[i], "--virtual")) {
            arguments->runtime.clock = ORR_CLOCK_VIRTUAL;
        } else {
            return refuse("unknown option", argv[i]);
        }
    }
    arguments->script = i;
    return i < argc ? -1 : refuse("no script given", NULL);
}
