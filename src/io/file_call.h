/*
 * One operation on files, with copies of all that it needs, as system calls that block.
 *
 * A call belongs to one thread at a time: to the worker's, until it is started, and again when it
 * is over.  Its memory is one block, from malloc(): a thread may free it after its runtime.
 */
#ifndef ORR_IO_FILE_CALL_H
#define ORR_IO_FILE_CALL_H

#include "io/file_path.h"
#include "io/open_file.h"

struct file_call {
    enum orr_file_call kind;
    int flags;
    unsigned mode;
    uint64_t offset;
    struct file_path path, to;
    struct open_file *file, *other;
    char *bytes; /* `size` of them: to be written, or room for what is read */
    size_t size;

    struct orr_file_answer answer;
    int fd; /* what OPEN has opened; or -1 */
};

/* How many bytes the texts and the buffer of a request need; -EINVAL, -ENAMETOOLONG. */
ssize_t file_call_room(const struct orr_file_request *request);

/*
 * Fills in zeroed memory with `room` behind it; the files are referred to.  Negative errno: then
 * nothing is held.
 */
int file_call_init(struct file_call *call, const struct orr_file_request *request, struct open_file *file,
                   struct open_file *other, char *room);

/* Does it.  Blocks. */
void file_call_run(struct file_call *call);

/* Closes what it holds, and what it has opened. */
void file_call_end(struct file_call *call);

#endif
