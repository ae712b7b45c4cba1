/*
 * The command line of `orrery [options] script [arguments]`, and of `orrery repl [options]`.
 *
 * Options are those of `lua`, with the same letters and in the same order, and ours, which are words.  Texts are those of argv and
 * live as long.
 */
#ifndef ORR_CLI_OPTIONS_H
#define ORR_CLI_OPTIONS_H

#include <orrery.h>

/* What is done before the script, in the order given. */
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
    int script;              /* its index in argv; argc if there is none */
    bool interactive;        /* -i: a prompt when the script has returned */
    bool version;            /* -v */
    bool ignore_environment; /* -E, or untrusted */
    bool stats;
    enum colour colour;
};

/*
 * Reads argv from index `first` on.  Answers -1 to go on; else the exit status: something was asked for that has been printed, or something
 * is wrong, and that was said.  Either way options_free() is due.
 */
int options_parse(int argc, char **argv, int first, struct options *options);
void options_free(struct options *options);

#endif
