/* The prompt: see repl.c. */
#ifndef ORR_CLI_REPL_H
#define ORR_CLI_REPL_H

#include "cli/program.h"

struct input;

/* Reads and runs lines until there are no more, or until .exit.  Returns the exit status. */
int repl_run(struct program *program, struct input *input);

#endif
