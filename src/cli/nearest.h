/* What somebody may have meant who wrote a word that is not there. */
#ifndef ORR_CLI_NEAREST_H
#define ORR_CLI_NEAREST_H

#include <stddef.h>

/*
 * The one of the names that takes the fewest letters left out, put in, changed or swapped to come from the word; the first of equals.
 * NULL if none is near enough to be worth a mention.
 */
const char *nearest(const char *word, const char *const *names, size_t count);

#endif
