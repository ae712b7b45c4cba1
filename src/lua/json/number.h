/*
 * Floats as decimal text and back, both exact: what is read is the float nearest to the text, and what is written are the fewest digits that
 * are read as the same float.  Numbers of up to 19 digits and of moderate size are done here, in integers of 128 bits; the rest is left to
 * libc.  None of it depends on the locale.
 */
#ifndef ORR_LUA_JSON_NUMBER_H
#define ORR_LUA_JSON_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { NUMBER_TEXT = 40 }; /* bytes that a float takes at most */

/* The float nearest to `digits` times ten to the `exponent`.  False if that is not of moderate size: nothing is known then. */
bool number_from_decimal(uint64_t digits, int exponent, double *value);

/*
 * The float nearest to a text that is a number of JSON, from `text` to `end`.  Takes time in proportion to the text, and no memory.  False if
 * it is too large for a float.
 */
bool number_read(const char *text, const char *end, double *value);

/* Writes a finite float, with a point or an exponent.  Answers how many bytes, at most NUMBER_TEXT. */
size_t number_write(char *out, double value);

#endif
