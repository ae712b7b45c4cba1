/*
 * Texts for people.  Names and errors of scripts may be as long as their memory allows; what C
 * keeps and shows of them is cut to a length.  Durations are written alike everywhere.
 */
#ifndef ORR_BASE_TEXT_H
#define ORR_BASE_TEXT_H

#include <stddef.h>
#include <stdint.h>

enum {
    TEXT_NAME = 128,                /* bytes kept of a name: of a task, a job, a chunk */
    TEXT_NAME_ROOM = TEXT_NAME + 1, /* with the terminator */
    TEXT_DURATION_ROOM = 40,        /* for any duration */
    TEXT_SIZE_ROOM = 32,            /* for any size */
};

/* How many bytes of a text to keep: at most `most`, and no UTF-8 character is cut in two. */
size_t text_cut(const char *text, size_t length, size_t most);

/*
 * Writes a duration to three digits: "850 ms", "1.5 ms", "12.3 s", "2 min 5 s", "3 h 20 min";
 * shorter ones in "us" and "ns".
 */
void text_duration(char out[TEXT_DURATION_ROOM], uint64_t ns);

/* Writes a number of bytes to three digits: "512 bytes", "1.5 KB", "64 MB". */
void text_size(char out[TEXT_SIZE_ROOM], size_t bytes);

/* Writes a name; of a long one the beginning and "...". */
void text_name(char out[TEXT_NAME_ROOM], const char *name);

#endif
