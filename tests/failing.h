/*
 * For tests in which memory runs out.  The test defines may_allocate().  While that returns false,
 * calloc() and aligned_alloc() of the library and of libc fail, and so does failing_alloc(), the
 * runtime's allocator.
 *
 * The program is linked with --wrap for both functions: see tests/meson.build.
 */
#ifndef ORR_TESTS_FAILING_H
#define ORR_TESTS_FAILING_H

#include "harness.h"

static bool may_allocate(void);

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size)
{
    return may_allocate() ? __real_calloc(count, size) : NULL;
}

void *__real_aligned_alloc(size_t alignment, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
    return may_allocate() ? __real_aligned_alloc(alignment, size) : NULL;
}

/*
 * Asks may_allocate() when a block is new or grows: Lua relies on it that a block can always
 * shrink.
 */
static void *failing_alloc(void *data, void *block, size_t old_size, size_t size)
{
    if (size && (!block || size > old_size) && !may_allocate())
        return NULL;
    return counting_alloc(data, block, old_size, size);
}

#endif
