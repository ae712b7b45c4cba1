/*
 * A runtime with one isolate, run until nothing is left to happen, or until it is told to end: what a script and the prompt share.
 *
 * Ending.  When the body of the script fails, at a signal, by os.exit(code, true), and when the prompt is left, everything ends: the
 * isolate is closed (lua/shutdown.h), so tasks are cancelled and have the grace period to clean up, nothing else begins, and past
 * the period no Lua runs.  A second signal shows the tree and ends the process.  Where a C function keeps all this from happening, the
 * process ends LAST_RESORT_MS after the grace period.  SIGQUIT shows the tree, and nothing else.
 */
#ifndef ORR_CLI_PROGRAM_H
#define ORR_CLI_PROGRAM_H

#include "cli/options.h"
#include "lua/task/body_watch.h"

struct lua_State;

enum { LAST_RESORT_MS = 2000 };

struct program {
    const struct options *options;
    struct orr_runtime *rt;
    struct lua_State *L;        /* NULL once it is closed */
    bool failed;                /* something did that nobody was left to be told of; it has been reported */
    bool over;                  /* the script has failed: all else is to end, too */
    bool ending;                /* everything is being ended */
    int signal;                 /* because of it; 0 for another reason */
    bool exiting;               /* os.exit(status, true) was called */
    int exit_status;            /* with this */
    struct body_watch body;     /* of the script */
    char *failure;              /* the report of its error, from when it was raised on; NULL for none */
    struct orr_timer *patience; /* with a body that fails, and cleans up for long; NULL for none */

    struct orr_task *until; /* the run ends when this is done, with others left; NULL for when all are */

    /* Called for SIGINT, before anything else; true if that is all that is to be done.  May be NULL. */
    bool (*interrupted)(void *data);
    void (*terminal_changed)(void *data); /* SIGWINCH, SIGCONT; may be NULL */
    void *hook_data;                      /* of both */
};

/* 0; or 1, and it has said why.  program_close() is due only after 0. */
int program_open(struct program *program, const struct options *options);

/* The script's task: should its body fail, everything ends.  Inside the runtime. */
void program_watch(struct program *program, struct orr_task *script);

/* Until all is done, or all that counts.  0, or the error of orr_runtime_run(). */
int program_run(struct program *program);

/* Ends what is left.  Answers the exit status, for one that came to `status` itself; or does not return, and dies of the signal. */
int program_close(struct program *program, int status);

#endif
