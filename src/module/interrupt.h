/*
 * Ctrl-C while the loop runs.  The interpreter's own handler sets a hook on the state's main coroutine, which does not run then, so
 * nobody would hear of it.  Between catch and release it is ours: the first interrupts the run, a second one ends the process, as it
 * would without us.  Where SIGINT is ignored, it stays so.
 *
 * A process has one SIGINT.  Whoever catches it first, of several threads that run loops of their own, has it until it releases it;
 * the others run without.
 */
#ifndef ORR_MODULE_INTERRUPT_H
#define ORR_MODULE_INTERRUPT_H

#include <orrery.h>

#include <stdbool.h>

/* Whether it is ours now: then it is to be released. */
bool interrupt_catch(struct orr_runtime *rt);
void interrupt_release(void);

/* Whether it has come since it was caught.  Answers true once. */
bool interrupt_take(void);

#endif
