/*
 * Texts that are cut to a length.  What scripts name, and what they raise, may be as long as their memory allows; what C keeps and shows
 * of it may not.
 */
#ifndef ORR_BASE_TEXT_H
#define ORR_BASE_TEXT_H

#include <stddef.h>

enum {
    TEXT_NAME = 128,                /* bytes of a name that are kept: of a task, a worker, a chunk */
    TEXT_NAME_ROOM = TEXT_NAME + 1, /* with its end */
};

/* How much of a text of `length` bytes to keep so that it is at most `most`, and no character of UTF-8 is cut in two. */
size_t text_cut(const char *text, size_t length, size_t most);

/* Writes a name, or the beginning of a long one and "...". */
void text_name(char out[TEXT_NAME_ROOM], const char *name);

#endif
