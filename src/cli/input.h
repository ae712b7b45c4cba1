/*
 * Lines that the user types at a prompt, or that come through a pipe.  The caller waits for
 * standard input to become readable, and then asks; nothing here waits.
 */
#ifndef ORR_CLI_INPUT_H
#define ORR_CLI_INPUT_H

#include "cli/edit.h"

struct input {
    struct edit *edit; /* NULL: lines are not edited */
    bool terminal;
    const char *prompt; /* the prompt on the screen; NULL for none */
    bool end;           /* no more lines will come */
    char *text;         /* without editing: bytes that were read and not returned yet */
    size_t length, room, given;
};

void input_open(struct input *input, edit_complete_fn *complete, void *data);
void input_close(struct input *input);

/*
 * Asks for a line, with a prompt on a terminal.  `prompt` must live until the line is read or
 * input_stop().
 */
void input_begin(struct input *input, const char *prompt);

/* Stops asking, and discards what was typed. */
void input_stop(struct input *input);

/* Returns whether input_read() has something to return without reading more. */
bool input_waiting(const struct input *input);

/*
 * Call it when standard input is readable.  Returns a line without its newline, valid until the
 * next call; or NULL if there is none yet, or, if `end` is set, if there will be none.
 */
const char *input_read(struct input *input);

/* Between input_hide() and input_show(), other output can be written. */
void input_hide(struct input *input);
void input_show(struct input *input);

/* Redraws after the terminal's size has changed, or another program had the terminal. */
void input_renew(struct input *input);

/* Adds a line to the history, if there is one. */
void input_remember(struct input *input, const char *line);

#endif
