/*
 * Editing a line on a terminal, with history and completion, a key at a time: it never waits for more than the rest of a key's sequence,
 * so that a loop goes on between two keys.
 *
 * It is libedit's doing.  Not GNU Readline's, whose licence would become that of the program.  And it is loaded when a prompt is opened,
 * not linked: it would take a third of the time that a script takes to start.  Where it is not installed, there is no editing.
 */
#ifndef ORR_CLI_EDIT_H
#define ORR_CLI_EDIT_H

#include <stdbool.h>
#include <stddef.h>

struct edit;

/*
 * What can stand in the place of the end of `text`: a string that is the caller's to free, its first line what to insert, each further one a
 * candidate to show.  NULL for nothing.
 */
typedef char *edit_complete_fn(void *data, const char *text, size_t length);

/* NULL where this cannot be done. */
struct edit *edit_open(edit_complete_fn *complete, void *data);
void edit_close(struct edit *edit);

/* Shows the prompt, which must live until edit_stop(), and takes the terminal. */
void edit_begin(struct edit *edit, const char *prompt);

/* Gives it back as it was.  What was typed is forgotten. */
void edit_stop(struct edit *edit);

/*
 * Takes the next key; there must be one.  Answers NULL, or the line, without its end, valid until the next call; sets `end` where there will
 * be no more.
 */
const char *edit_key(struct edit *edit, bool *end);

/* Between the two, something else can be written: the prompt and what was typed make room, and come back. */
void edit_hide(struct edit *edit);
void edit_show(struct edit *edit);

/* The terminal has another size, or was somebody else's for a while: takes it again, with what was typed. */
void edit_renew(struct edit *edit);

/* Adds a line to the history, which is kept in a file for the next time. */
void edit_remember(struct edit *edit, const char *line);

#endif
