/*
 * The command line of `orrery [options] script [arguments]` and `orrery repl [options]`.
 *
 * The options are those of `lua`, with the same letters and in the same order, and our own, which
 * are words.  Texts point into argv and live as long.
 */
#ifndef ORR_CLI_OPTIONS_H
#define ORR_CLI_OPTIONS_H

#include "cli/rule_list.h"

#include <orrery.h>

/* Steps before the script, in the order given. */
enum step_kind {
    STEP_CODE,   /* -e code */
    STEP_MODULE, /* -l module, or -l global=module */
    STEP_WARN,   /* -W */
};

struct step {
    enum step_kind kind;
    const char *text;
};

enum colour {
    COLOUR_AUTO, /* on a terminal, unless NO_COLOR is set */
    COLOUR_ALWAYS,
    COLOUR_NEVER,
};

struct options {
    struct orr_options runtime;
    struct orr_lua_options lua;
    struct step *steps;
    int step_count;
    const char **roots; /* --root: folders that an untrusted script may require from */
    int root_count;
    struct rule_list connect, listen; /* --allow-net, --allow-listen */
    struct orr_grants grants;         /* both, for `lua` */
    int script;                       /* its index in argv; argc if there is none */
    bool interactive;                 /* -i: open a prompt when the script has returned */
    bool version;                     /* -v */
    bool ignore_environment;          /* -E, or untrusted */
    bool stats;
    enum colour colour;
};

/*
 * Reads argv from index `first` on.  Returns -1 to go on; else the exit status: it has printed what
 * was asked for, or an error message.  Call options_free() in either case.
 */
int options_parse(int argc, char **argv, int first, struct options *options);
void options_free(struct options *options);

#endif
