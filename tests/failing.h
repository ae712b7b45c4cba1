/* For tests in which memory runs out: what the library and libc ask for is given as long as may_allocate(), the test's own, says so. */
#ifndef ORR_TESTS_FAILING_H
#define ORR_TESTS_FAILING_H

#include <stdbool.h>
#include <stddef.h>

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

#endif
