/*
 * Signals, for a program that runs a runtime.
 *
 * The handlers note what has come, and interrupt the run, which returns between two turns: signals_take() then tells.  So everything is
 * done where it may be done, also while a script is in an endless loop, which its slices end.
 *
 * There is one way past that: Lua that cannot be suspended, or a C function that does not return, keeps the run from returning.  Whoever
 * asks a second time before the first has been taken is answered in the handler itself: SIGINT and SIGTERM show the tree and end the
 * process, SIGQUIT shows the tree.  Nothing else happens then but that the one thread which changes the tree is stopped in the
 * handler; for people's times, as good as never in the middle of a change.
 *
 * A signal that was ignored when the program began stays ignored, as shells expect it of what they put into the background.
 */
#ifndef ORR_CLI_SIGNALS_H
#define ORR_CLI_SIGNALS_H

#include <orrery.h>

/* Handles SIGINT, SIGTERM and SIGQUIT for one runtime, until signals_release(). */
void signals_catch(struct orr_runtime *rt);

/* And those that say that a terminal has changed: SIGWINCH and SIGCONT. */
void signals_catch_terminal(void);
void signals_release(void);

/* Whatever becomes of a signal that ends the program, so many milliseconds after it the process ends. */
void signals_set_last_resort(unsigned ms);

/* The program is ending, for another reason: the same from now on, with an exit status. */
void signals_begin_last_resort(int status);

/* At the prompt, Ctrl-C does not end the program. */
void signals_at_prompt(bool is);

/* The next of those that have come and are not yet taken; 0 for none. */
int signals_take(void);

/* Shows the tree of tasks on stderr.  Inside the runtime, or in a handler. */
void signals_show_tree(void);

/* Ends the process by a signal, so that whoever waits for it sees that. */
_Noreturn void signals_die(int number);

#endif
