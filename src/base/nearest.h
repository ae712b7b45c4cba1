/* Finds the name that was probably meant by a mistyped word. */
#ifndef ORR_BASE_NEAREST_H
#define ORR_BASE_NEAREST_H

#include <stddef.h>

/*
 * Returns the name that differs from the word by the fewest letters left out, added, changed or
 * swapped; the first of equals.  NULL if no name is near enough.
 */
const char *nearest(const char *word, const char *const *names, size_t count);

#endif
