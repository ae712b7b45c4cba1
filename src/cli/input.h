/*
 * Lines that somebody types at a prompt, or that come through a pipe: whoever has them waits for standard input to be readable, and then
 * asks; nothing here waits.
 */
#ifndef ORR_CLI_INPUT_H
#define ORR_CLI_INPUT_H

#include "cli/edit.h"

struct input {
    struct edit *edit; /* NULL: lines come as they are */
    bool terminal;
    const char *prompt; /* that is shown now; NULL for none */
    bool end;           /* nothing more will come */
    char *text;         /* without editing: what was read and not given out */
    size_t length, room, given;
};

void input_open(struct input *input, edit_complete_fn *complete, void *data);
void input_close(struct input *input);

/* Asks for a line, with a prompt on a terminal.  `prompt` must live until then. */
void input_begin(struct input *input, const char *prompt);

/* Gives up asking, and forgets what was typed. */
void input_stop(struct input *input);

/* Whether input_read() has something to do without more being read. */
bool input_waiting(const struct input *input);

/* Standard input is readable.  A line without its end, valid until the next call; or NULL: there is none yet, or, if `end` is set, ever. */
const char *input_read(struct input *input);

/* Between the two something else can be written. */
void input_hide(struct input *input);
void input_show(struct input *input);

/* The terminal has another size, or was somebody else's for a while. */
void input_renew(struct input *input);

/* Adds it to the history, if there is one. */
void input_remember(struct input *input, const char *line);

#endif
