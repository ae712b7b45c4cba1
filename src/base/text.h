/*
 * Texts for people.  What scripts name, and what they raise, may be as long as their memory allows;
 * what C keeps and shows of it may not: it is cut to a length.  Amounts of time are written alike
 * everywhere.
 */
#ifndef ORR_BASE_TEXT_H
#define ORR_BASE_TEXT_H

#include <stddef.h>
#include <stdint.h>

enum {
    TEXT_NAME = 128,                /* bytes of a name that are kept: of a task, a worker, a chunk */
    TEXT_NAME_ROOM = TEXT_NAME + 1, /* with its end */
    TEXT_DURATION_ROOM = 40,        /* for any amount of time */
};

/*
 * How much of a text of `length` bytes to keep so that it is at most `most`, and no character of
 * UTF-8 is cut in two.
 */
size_t text_cut(const char *text, size_t length, size_t most);

/*
 * Writes an amount of time as people do, to three digits: "850 ms", "1.5 ms", "12.3 s", "2 min 5
 * s", "3 h 20 min"; shorter ones in "us" and "ns".
 */
void text_duration(char out[TEXT_DURATION_ROOM], uint64_t ns);

/* Writes a name, or the beginning of a long one and "...". */
void text_name(char out[TEXT_NAME_ROOM], const char *name);

#endif
