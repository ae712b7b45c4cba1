#include "io/open_file.h"

#include <stdlib.h>
#include <unistd.h>

enum {
    FILE_THREADS = 8, /* of the process */
    FILE_RUNNING = 4, /* of one client */
};

/* Lines have no end: what waits is on the accounts of those who wait. */
struct blocking_pool file_pool = BLOCKING_POOL(file_pool, FILE_THREADS, FILE_RUNNING, (unsigned)-1);

struct open_file *open_file_new(int fd)
{
    struct open_file *handle = calloc(1, sizeof *handle);
    if (!handle)
        return NULL;
    list_init(&handle->closing.in_line);
    atomic_init(&handle->references, 1);
    handle->fd = fd;
    return handle;
}

static void run(struct blocking_job *job)
{
    close(container_of(job, struct open_file, closing)->fd);
}

static void end(struct blocking_job *job)
{
    free(container_of(job, struct open_file, closing));
}

static const struct blocking_kind closing_kind = { .run = run, .over = end, .drop = end };

void open_file_unref(struct open_file *handle)
{
    /*
     * Release: everything done with the file comes before its end.  Acquire: for the thread that
     * ends it.
     */
    if (!handle || atomic_fetch_sub_explicit(&handle->references, 1, memory_order_acq_rel) != 1)
        return;
    if (!blocking_start_for(&file_pool, &closing_kind, &handle->closing, &closing_kind))
        return;
    run(&handle->closing); /* there is no thread */
    end(&handle->closing);
}
