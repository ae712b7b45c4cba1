/*
 * Line editing on a terminal, with history and completion, one key at a time.  It never waits
 * longer than for the rest of a key's sequence, so a loop goes on between two keys.
 *
 * It uses libedit, not GNU Readline, whose licence would become that of the program. libedit is
 * loaded when a prompt is opened, not linked: linking it would add a third to the start time of a
 * script.  Where it is not installed, there is no editing.
 */
#ifndef ORR_CLI_EDIT_H
#define ORR_CLI_EDIT_H

#include <stdbool.h>
#include <stddef.h>

struct edit;

/*
 * Completes the end of `text`.  Returns a string that the caller frees: its first line is the text
 * to insert, each further line a candidate to show.  NULL for nothing.
 */
typedef char *edit_complete_fn(void *data, const char *text, size_t length);

/* Returns NULL where editing is impossible. */
struct edit *edit_open(edit_complete_fn *complete, void *data);
void edit_close(struct edit *edit);

/* Shows the prompt, which must live until edit_stop(), and takes the terminal. */
void edit_begin(struct edit *edit, const char *prompt);

/* Gives the terminal back as it was, and discards what was typed. */
void edit_stop(struct edit *edit);

/*
 * Takes the next key; there must be one.  Returns NULL, or the line without its newline, valid
 * until the next call.  Sets `end` if no more lines will come.
 */
const char *edit_key(struct edit *edit, bool *end);

/*
 * Between edit_hide() and edit_show(), other output can be written: the prompt and what was typed
 * disappear, and come back.
 */
void edit_hide(struct edit *edit);
void edit_show(struct edit *edit);

/*
 * Takes the terminal again, with what was typed, after its size has changed or another program had
 * it.
 */
void edit_renew(struct edit *edit);

/* Adds a line to the history, which is kept in a file for the next time. */
void edit_remember(struct edit *edit, const char *line);

#endif
