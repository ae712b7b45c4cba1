/* What the command line asks of a script's runtime and isolate. */
#ifndef ORR_CLI_OPTIONS_H
#define ORR_CLI_OPTIONS_H

#include <orrery.h>

struct arguments {
    struct orr_options runtime;
    struct orr_lua_options lua;
    int script; /* its index in argv; argc if there is none */
};

/* Answers -1 to go on; else the exit status. */
int options_parse(int argc, char **argv, struct arguments *arguments);

#endif
