/*
 * A runtime with one isolate, run until nothing is left to happen, or until it is told to end: what a script and the prompt share.
 *
 * Ending.  SIGINT, SIGTERM and os.exit(code, true) cancel the whole tree, once; then all that cleans up may take the time that it needs,
 * as long as it waits.  A task that runs for a second without waiting is ended by force.  A second signal shows the tree and ends the
 * process.  SIGQUIT shows the tree, and nothing else.
 */
#ifndef ORR_CLI_PROGRAM_H
#define ORR_CLI_PROGRAM_H

#include "cli/options.h"

struct lua_State;

struct program {
    const struct options *options;
    struct orr_runtime *rt;
    struct lua_State *L;
    bool failed;       /* something did that nobody was left to be told of; it has been reported */
    bool ending;       /* all tasks are cancelled */
    int signal;        /* because of it; 0 for another reason */
    bool exiting;      /* os.exit(status, true) was called */
    int exit_status;   /* with this */
    unsigned left;     /* of the tasks that were cancelled at the top */
    struct last *last; /* those */

    struct orr_task *until; /* the run ends when this is done, with others left; NULL for when all are */

    /* Called for SIGINT, before anything else; true if that is all that is to be done.  May be NULL. */
    bool (*interrupted)(void *data);
    void (*terminal_changed)(void *data); /* SIGWINCH, SIGCONT; may be NULL */
    void *hook_data;                      /* of both */
};

/* 0; or 1, and it has said why.  program_close() is due only after 0. */
int program_open(struct program *program, const struct options *options);

/* Until all is done, or all that counts.  0, or the error of orr_runtime_run(). */
int program_run(struct program *program);

/* Ends what is left.  Answers the exit status, for one that came to `status` itself; or does not return, and dies of the signal. */
int program_close(struct program *program, int status);

#endif
