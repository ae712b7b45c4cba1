/*
 * Operations on files, for the files of src/io: what a worker knows of one.
 *
 * A work has two parts.  The struct orr_file_work is the worker's: it is among what is opened, so
 * it is freed with the worker at the latest.  The errand is the process's: a thread has it until
 * the operation is over.  Then a letter brings it back to the worker.  A work that was freed before
 * leaves its errand alone: the thread, or the letter that arrives, frees it.
 *
 * All of it belongs to the worker's owner.
 */
#ifndef ORR_IO_FILE_WORK_H
#define ORR_IO_FILE_WORK_H

#include "exec/await.h"
#include "exec/opened.h"
#include "io/file_call.h"

struct file_errand;

struct orr_file_work {
    struct opened opened;
    struct file_errand *errand;
    struct orr_link *line; /* of waits */
    size_t charged;        /* for the errand */
    bool over;

    /* Called once, when the operation is over, unless it was freed before; NULL for nobody. */
    void (*notify)(struct orr_file_work *work, void *data);
    void *data;
};

/* Starts a request on these files, which may be NULL; the stream fields of the request are not
 * looked at, but that there must be one. */
int file_work_start(const struct orr_file_request *request, struct open_file *file, struct open_file *other,
                    const struct orr_open *open, struct orr_file_work **out);

/* The call of a work that is over. */
struct file_call *file_work_call(const struct orr_file_work *work);

/* Frees the work; the operation is done all the same, if the process lives so long. */
void file_work_leave(struct orr_file_work *work);

#endif
