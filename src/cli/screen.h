/*
 * What scripts print while somebody types: it goes above the prompt, and the prompt comes back below it.
 *
 * stdout becomes a stream that does so, which works for all that goes through stdio: print, io.write, io.stdout.  It must be opened before
 * the Lua state, which keeps the stream that it finds.
 */
#ifndef ORR_CLI_SCREEN_H
#define ORR_CLI_SCREEN_H

#include "cli/input.h"

/* Nothing changes where input does not come from a terminal. */
void screen_open(struct input *input);
void screen_close(void);

/* To stderr, above the prompt likewise. */
void screen_complain(const char *text);

/* Ends a line that something has printed only in part, so that a prompt begins on its own. */
void screen_fresh_line(void);

#endif
