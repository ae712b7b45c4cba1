/*
 * Ctrl-C while the loop runs.  The interpreter's own handler sets a hook on the state's main
 * coroutine, which does not run then, so it would have no effect.  Between catch and release the
 * handler is ours: the first Ctrl-C interrupts the run, a second one ends the process, as it would
 * without us.  If SIGINT is ignored, it stays ignored.
 *
 * A process has one SIGINT.  If several threads run loops of their own, the first one that catches
 * it has it until release; the others run without it.
 */
#ifndef ORR_MODULE_INTERRUPT_H
#define ORR_MODULE_INTERRUPT_H

#include <orrery.h>

#include <stdbool.h>

/* Returns true if SIGINT is ours now; then it must be released. */
bool interrupt_catch(struct orr_runtime *rt);
void interrupt_release(void);

/* Returns whether it has come since it was caught; true once. */
bool interrupt_take(void);

#endif
