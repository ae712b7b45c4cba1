/*
 * Huge pages for large blocks of memory.
 *
 * A processor knows the places of some thousand pages.  A program that touches many megabytes in no
 * order waits for a look-up in the page tables at almost every access, unless the pages are huge.
 * The kernel gives huge pages to those who ask (transparent huge pages, `madvise`), for whole
 * huge pages inside the block.  The first touch of such a page takes all of it, so the process may
 * hold up to 2 MB more than was touched; what the block's user counts as used does not change.
 *
 * Any thread.
 */
#ifndef ORR_BASE_PAGES_H
#define ORR_BASE_PAGES_H

#include <stddef.h>

/* The size of a huge page, or of several, on the machines that we know. */
#define PAGES_HUGE ((size_t)2 << 20)

/* Asks for huge pages for a block that was not touched yet.  A kernel that has none gives none. */
void pages_want_huge(void *block, size_t size);

/*
 * Maps `size` bytes, a multiple of PAGES_HUGE, aligned to that, and asks for huge pages.  The user
 * unmaps them.  NULL when there is no memory.
 */
void *pages_map_huge(size_t size);

#endif
