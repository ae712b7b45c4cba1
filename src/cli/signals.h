/*
 * Signals, for a program that runs a runtime.
 *
 * The handlers note the signal and interrupt the run, which returns between two turns; then
 * signals_take() returns the signal.  So everything is done in normal code.  That works in an
 * endless loop, too, because slices end it.
 *
 * There is one exception: Lua that cannot be suspended, or a C function that does not return, keeps
 * the run from returning.  A second signal that comes before the first was taken is therefore
 * handled in the handler itself: SIGINT and SIGTERM show the tree and end the process, SIGQUIT
 * shows the tree.  The one thread that changes the tree is then stopped in the handler; at the
 * speed of people it is practically never in the middle of a change.
 *
 * A signal that was ignored when the program began stays ignored, as shells expect for background
 * programs.
 */
#ifndef ORR_CLI_SIGNALS_H
#define ORR_CLI_SIGNALS_H

#include <orrery.h>

/* Handles SIGINT, SIGTERM and SIGQUIT for one runtime, until signals_release(). */
void signals_catch(struct orr_runtime *rt);

/* Also handles the signals of a changed terminal: SIGWINCH and SIGCONT. */
void signals_catch_terminal(void);
void signals_release(void);

/*
 * Sets the last resort: the process ends this many milliseconds after a signal that ends it,
 * whatever happens.
 */
void signals_set_last_resort(unsigned ms);

/* Starts the last resort now, because the program ends for another reason, with an exit status. */
void signals_begin_last_resort(int status);

/* At the prompt, Ctrl-C does not end the program. */
void signals_at_prompt(bool is);

/* Returns the next signal that has come and was not taken yet; 0 for none. */
int signals_take(void);

/* Shows the tree of tasks on stderr.  Call it inside the runtime, or in a handler. */
void signals_show_tree(void);

/* Ends the process by a signal, so that its parent sees the signal. */
_Noreturn void signals_die(int number);

#endif
