/*
 * The Lua side of the prompt: lines become tasks, whose values are shown.
 *
 * Whatever a line has started when its body returns is let go, and goes on by itself: else nothing could be typed before it is done.  A
 * line that fails takes with it what it has started, as any task does.
 */
#ifndef ORR_CLI_SESSION_H
#define ORR_CLI_SESSION_H

#include "cli/program.h"

/* Loads what is written in Lua, and makes the API's modules globals.  0, or 1 and it has said why. */
int session_open(struct program *program, bool coloured);

enum session_answer {
    SESSION_STARTED,
    SESSION_INCOMPLETE, /* more lines are needed */
    SESSION_REFUSED,    /* it does not compile; that has been reported */
};

/* Starts a chunk as a task, with a reference to it. */
enum session_answer session_start(struct program *program, const char *text, const char *name, struct orr_task **task);

/* As edit_complete_fn, with the program as its data. */
char *session_complete(void *data, const char *text, size_t length);

/* What .help and .timers print. */
void session_print_help(struct program *program);
void session_print_timers(struct program *program);

#endif
