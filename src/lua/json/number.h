/*
 * Floats as decimal text and back, both exact.  Reading gives the float nearest to the text. 
 * Writing gives the fewest digits that are read as the same float, and of those texts the nearest
 * to it.  Nothing depends on the locale.  Any thread.
 */
#ifndef ORR_LUA_JSON_NUMBER_H
#define ORR_LUA_JSON_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { NUMBER_TEXT = 40 }; /* bytes that the text of a float takes at most */

/*
 * The float nearest to `digits` times ten to the `exponent`.  False, and nothing set, in rare cases
 * that only number_read() can decide.
 */
bool number_from_decimal(uint64_t digits, int exponent, double *value);

/*
 * The float nearest to a JSON number, from `text` to `end`.  Takes time in proportion to the text,
 * and allocates nothing.  False if the number is too large for a float.
 */
bool number_read(const char *text, const char *end, double *value);

/* Writes a finite float, with a point or an exponent.  Answers how many bytes it wrote. */
size_t number_write(char *out, double value);

/* Writes an integer of up to 20 digits.  Answers how many bytes it wrote. */
size_t number_write_unsigned(char *out, uint64_t value);

#endif
