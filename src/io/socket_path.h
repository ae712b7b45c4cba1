/*
 * The path of a Unix socket in the file system: bind() makes it, and the kernel never removes it.
 * Whoever has bound a socket removes its path when the socket is closed, and a path that an earlier
 * process has left behind when the path is needed.
 */
#ifndef ORR_IO_SOCKET_PATH_H
#define ORR_IO_SOCKET_PATH_H

#include "orrery.h"

#include <stdbool.h>
#include <sys/stat.h>
#include <sys/un.h>

struct socket_path {
    bool there;
    dev_t device; /* what is at the path */
    ino_t inode;
    struct sockaddr_un address;
};

/* Remembers what bind() has made.  Nothing, if the address has no path. */
void socket_path_note(struct socket_path *self, const struct orr_address *address);

/* Removes the path, unless something else is there by now. */
void socket_path_remove(struct socket_path *self);

/*
 * Removes the path of a socket, of type SOCK_STREAM or SOCK_DGRAM, that nobody has open any more.
 * Answers whether it did.
 */
bool socket_path_remove_stale(const struct orr_address *address, int type);

#endif
