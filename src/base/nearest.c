#include "base/nearest.h"

#include <string.h>

enum { LONGEST = 40 }; /* longer names are not compared */

static unsigned least(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

/*
 * Counts letters that were left out, added, changed, or swapped with their neighbour.  Both names
 * have at most LONGEST letters.
 */
static unsigned distance(const char *from, size_t from_length, const char *to, size_t to_length)
{
    unsigned rows[3][LONGEST + 1];
    unsigned *before = rows[0], *above = rows[1], *row = rows[2];
    for (unsigned j = 0; j <= to_length; j++)
        above[j] = before[j] = j;
    for (unsigned i = 1; i <= from_length; i++) {
        row[0] = i;
        for (unsigned j = 1; j <= to_length; j++) {
            unsigned change = above[j - 1] + (from[i - 1] != to[j - 1]);
            row[j] = least(change, least(above[j], row[j - 1]) + 1);
            if (i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1])
                row[j] = least(row[j], before[j - 2] + 1);
        }
        unsigned *spare = before;
        before = above;
        above = row;
        row = spare;
    }
    return above[to_length];
}

const char *nearest(const char *word, const char *const *names, size_t count)
{
    size_t length = strlen(word);
    const char *best = NULL;
    unsigned limit = length <= 3 ? 2 : length <= 6 ? 3 : 4; /* a smaller distance counts as near */
    if (length < 2 || length > LONGEST)
        return NULL;
    for (size_t i = 0; i < count; i++) {
        size_t other = strlen(names[i]);
        unsigned steps = other <= LONGEST ? distance(word, length, names[i], other) : limit;
        if (steps < limit && steps < length && steps < other) {
            best = names[i];
            limit = steps;
        }
    }
    return best;
}
