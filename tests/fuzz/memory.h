/* A Lua allocator that aborts when a fuzzed input makes Lua use more than `most` bytes. */
#ifndef ORR_TESTS_FUZZ_MEMORY_H
#define ORR_TESTS_FUZZ_MEMORY_H

#include <stdio.h>
#include <stdlib.h>

static size_t held, most;

static void *account(void *data, void *block, size_t old_size, size_t size)
{
    (void)data;
    held += size - (block ? old_size : 0);
    if (held > most) {
        fprintf(stderr, "%zu bytes of memory are asked for, and %zu would do\n", held, most);
        abort();
    }
    if (size)
        return realloc(block, size);
    free(block);
    return NULL;
}

#endif
