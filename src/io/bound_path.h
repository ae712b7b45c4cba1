/*
 * The path of a Unix socket in the file system: bind() makes it, and the kernel never removes it.
 * Whoever has bound a socket removes its path when the socket is closed.
 */
#ifndef ORR_IO_BOUND_PATH_H
#define ORR_IO_BOUND_PATH_H

#include "orrery.h"

#include <stdbool.h>
#include <sys/stat.h>
#include <sys/un.h>

struct bound_path {
    bool there;
    dev_t device; /* what is at the path */
    ino_t inode;
    struct sockaddr_un address;
};

/* Remembers what bind() has made.  Nothing, if the address has no path. */
void bound_path_note(struct bound_path *self, const struct orr_address *address);

/* Removes the path, unless something else is there by now. */
void bound_path_remove(struct bound_path *self);

#endif
