/*
 * The input buffer of a stream: what was read ahead.  Its memory is there only while it holds
 * bytes, and is on the account of the stream, its `owner`.
 */
#ifndef ORR_IO_INPUT_H
#define ORR_IO_INPUT_H

#include "exec/opened.h"

/* `length` bytes, from `start`. */
struct input {
    char *bytes;
    size_t start, length, capacity;
};

/* Gives back the buffer with all that is in it. */
void input_drop(struct input *input, const struct opened *owner);

/* Gives back a buffer without bytes. */
void input_settle(struct input *input, const struct opened *owner);

/*
 * Makes room, so that the buffer can hold `least` bytes, and one more than it does.  A buffer that
 * is full doubles, up to `most`.  -ENOMEM, or what the account answered.
 */
int input_reserve(struct input *input, const struct opened *owner, size_t least, size_t most);

/* Appends bytes.  -ENOMEM, or what the account answered. */
int input_append(struct input *input, const struct opened *owner, const void *bytes, size_t length);

#endif
