/*
 * Shows what scripts print while the user types: it goes above the prompt, and the prompt comes
 * back below it.
 *
 * stdout becomes a stream that does this, for everything that uses stdio: print, io.write,
 * io.stdout.  Open it before the Lua state, which keeps the stream that it finds.
 */
#ifndef ORR_CLI_SCREEN_H
#define ORR_CLI_SCREEN_H

#include "cli/input.h"

/* Changes nothing if input does not come from a terminal. */
void screen_open(struct input *input);
void screen_close(void);

/* Writes to stderr, above the prompt, too. */
void screen_complain(const char *text);

/* Ends an unfinished line of output, so that the prompt begins on its own line. */
void screen_fresh_line(void);

#endif
