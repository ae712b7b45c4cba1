/*
 * The Lua side of the prompt: lines become tasks, and their values are shown.
 *
 * Tasks that a line has started are detached when its body returns, and go on: else nothing could
 * be typed before they are done.  A line that fails ends the tasks that it has started, as any task
 * does.
 */
#ifndef ORR_CLI_SESSION_H
#define ORR_CLI_SESSION_H

#include "cli/program.h"

/*
 * Loads the Lua code of the prompt, and makes the API's modules globals.  Returns 0; or 1 after a
 * message.
 */
int session_open(struct program *program, bool coloured);

enum session_answer {
    SESSION_STARTED,
    SESSION_INCOMPLETE, /* more lines are needed */
    SESSION_REFUSED,    /* it does not compile, and a message was printed */
};

/* Starts a chunk as a task, and returns a reference to it in `task`. */
enum session_answer session_start(struct program *program, const char *text, const char *name, struct orr_task **task);

/* An edit_complete_fn; its data is the program. */
char *session_complete(void *data, const char *text, size_t length);

/* What .help and .timers print. */
void session_print_help(struct program *program);
void session_print_timers(struct program *program);

#endif
