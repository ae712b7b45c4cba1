/*
 * What went wrong, for people: on stderr, with the line of the script that it happened in, and what may have been meant instead of a
 * name that is not there.
 *
 * The text is dressed by lua/cli/report.lua, in a Lua state of its own, made when it is first needed: the script's may be out of memory,
 * or in a sandbox, or the very thing that is broken.  Whatever fails on the way, the bare text is printed.
 */
#ifndef ORR_CLI_REPORT_H
#define ORR_CLI_REPORT_H

#include "cli/options.h"

struct lua_State;

/* Decides on colours, for stderr and stdout. */
void report_open(enum colour colour);
void report_close(void);

bool report_coloured(int fd);

/* Has texts written by this function instead, each with a newline at its end; NULL for stderr again. */
void report_through(void (*write)(const char *text));

/* A message alone, with a newline added. */
void report_line(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The text of an error.  The script's state, for the names that are there, may be NULL. */
void report_text(struct lua_State *script, const char *text);

/* How a task failed, the way of the error included.  The worker's thread. */
void report_task(struct lua_State *L, struct orr_task *task);

#endif
