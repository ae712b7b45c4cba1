#include "base/pages.h"

#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

void pages_want_huge(void *block, size_t size)
{
    int before = errno;
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t begin = ((uintptr_t)block + page - 1) & ~(page - 1);
    uintptr_t end = ((uintptr_t)block + size) & ~(page - 1);
    if (begin < end)
        madvise((void *)begin, end - begin, MADV_HUGEPAGE);
    errno = before;
}

/* A mapping is aligned to a page only.  So it is made larger, and what is too much goes back. */
void *pages_map_huge(size_t size)
{
    size_t slack = PAGES_HUGE;
    char *all = mmap(NULL, size + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED)
        return NULL;
    size_t before = -(uintptr_t)all % PAGES_HUGE;
    if (before)
        munmap(all, before);
    if (slack - before)
        munmap(all + before + size, slack - before);
    pages_want_huge(all + before, size);
    return all + before;
}
