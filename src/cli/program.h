/*
 * A runtime with one isolate, run until nothing is left to do, or until it is told to end.  A
 * script and the prompt share it.
 *
 * Ending.  When the body of the script fails, at a signal, at os.exit(code, true), and when the
 * user leaves the prompt, everything ends.  The isolate is closed (lua/task/shutdown.h): tasks are
 * cancelled and have the grace period to clean up, nothing else begins, and after the period no Lua
 * runs.  A second signal shows the tree and ends the process.  Where a C function prevents all
 * this, the process ends LAST_RESORT_MS after the grace period.  SIGQUIT only shows the tree.
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
    struct lua_State *L;    /* NULL once it is closed */
    bool failed;            /* a failure was reported that nobody else handles */
    bool script_failed;     /* everything else must end, too */
    bool ending;            /* everything is being ended */
    int signal;             /* the signal that ends it; 0 for another reason */
    bool exiting;           /* os.exit(status, true) was called */
    int exit_status;        /* the status of that call */
    struct body_watch body; /* watches the script */
    /* The report of the script's error, once it was raised; NULL for none. */
    char *failure;
    /* Limits the cleanup of a script that has failed; NULL for none. */
    struct orr_timer *failure_timer;

    struct orr_task *until; /* the run ends when this task is done; NULL: when all tasks are */

    /* Called first for SIGINT.  Returns true if nothing else is to be done.  May be NULL. */
    bool (*interrupted)(void *data);
    void (*terminal_changed)(void *data); /* SIGWINCH, SIGCONT; may be NULL */
    void *hook_data;                      /* for both functions */
};

/* Returns 0; or 1 after a message.  Call program_close() only after 0. */
int program_open(struct program *program, const struct options *options);

/* Watches the script's task: if its body fails, everything ends.  Inside the runtime. */
void program_watch(struct program *program, struct orr_task *script);

/* Runs until everything is done, or `until` is.  Returns 0, or the error of orr_runtime_run(). */
int program_run(struct program *program);

/*
 * Ends what is left.  Returns the exit status, `status` if nothing else failed; or dies of the
 * signal and does not return.
 */
int program_close(struct program *program, int status);

#endif
