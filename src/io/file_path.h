/*
 * Paths of operations on files: a copy of a struct orr_path, and where it leads.
 *
 * Every path that is `beneath` a directory is resolved here, by openat2(2): its parent with
 * RESOLVE_BENEATH and RESOLVE_NO_MAGICLINKS, and then the system call gets the parent's descriptor
 * and the last component, which no call follows.
 *
 * A thread of the pool calls all but the first two functions: they block.
 */
#ifndef ORR_IO_FILE_PATH_H
#define ORR_IO_FILE_PATH_H

#include "orrery.h"

struct file_path {
    char *text;    /* in the caller's memory; place_find() cuts it in two */
    int directory; /* a copy of the descriptor, to be closed; or AT_FDCWD */
    bool beneath;
};

/* Copies a path; `text` has room for it.  -EMFILE and other errors of fcntl(2). */
int file_path_init(struct file_path *self, const struct orr_path *path, char *text);
void file_path_end(struct file_path *self);

/* Where the last component of a path is. */
struct file_place {
    int directory;
    const char *name;
    int parent; /* a descriptor to be closed, or -1 */
};

/* 0, or an errno.  -EXDEV: it leads out of its directory. */
int file_place_find(struct file_path *path, struct file_place *place);
void file_place_end(struct file_place *place);

/* Opens a path as open(2) does.  A descriptor, or negative errno. */
int file_path_open(const struct file_path *path, int flags, unsigned mode);

#endif
