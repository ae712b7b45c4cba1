/*
 * Error reports for people: on stderr, with the line of the script, and a hint if a name was
 * mistyped.
 *
 * lua/cli/report.lua formats the text, in its own Lua state that is created for the first report:
 * the script's state may be out of memory, in a sandbox, or broken.  If anything fails on the way,
 * the plain text is printed.
 */
#ifndef ORR_CLI_REPORT_H
#define ORR_CLI_REPORT_H

#include "cli/options.h"

struct lua_State;

/* Decides about colours, for stderr and stdout. */
void report_open(enum colour colour);
void report_close(void);

bool report_coloured(int fd);

/* Makes `write` receive the texts, each with a newline at its end; NULL for stderr again. */
void report_through(void (*write)(const char *text));

/* Prints a message, and adds a newline. */
void report_line(const char *format, ...) __attribute__((format(printf, 1, 2)));

/*
 * Prints the text of an error.  `script` is the script's state, for the names that exist; it may be
 * NULL.
 */
void report_text(struct lua_State *script, const char *text);

/* Prints how a task failed, with the tasks that the error passed through.  The worker's thread. */
void report_task(struct lua_State *L, struct orr_task *task);

#endif
