/*
 * An open file on disk, which a stream and the operations under way on it share.  The last of them
 * closes it.  Closing may wait for a disk, or for a server, so a thread does it.
 *
 * Any thread may take and give up references.
 */
#ifndef ORR_IO_OPEN_FILE_H
#define ORR_IO_OPEN_FILE_H

#include "io/blocking_pool.h"

#include <stdatomic.h>

/* The pool of all operations on files. */
extern struct blocking_pool file_pool;

struct open_file {
    struct blocking_job closing;
    _Atomic unsigned references;
    int fd;
};

/* Takes a descriptor over, with one reference.  NULL without memory: it is still the caller's. */
struct open_file *open_file_new(int fd);

static inline struct open_file *open_file_ref(struct open_file *handle)
{
    atomic_fetch_add_explicit(&handle->references, 1, memory_order_relaxed);
    return handle;
}

/* Not with the pool's mutex held.  NULL is allowed. */
void open_file_unref(struct open_file *handle);

#endif
