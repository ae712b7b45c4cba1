#include "io/socket_path.h"

#include "io/address.h"
#include "io/socket.h"

#include <stddef.h>
#include <unistd.h>

/* The path of an address in the file system; NULL if it has none. */
static const struct sockaddr_un *path_of(const struct orr_address *address)
{
    const struct sockaddr_un *un = (const struct sockaddr_un *)address_kernel(address);
    bool named = address_family(address) == AF_UNIX && address->length > offsetof(struct sockaddr_un, sun_path);
    return named && un->sun_path[0] ? un : NULL;
}

void socket_path_note(struct socket_path *self, const struct orr_address *address)
{
    const struct sockaddr_un *un = path_of(address);
    struct stat made;
    if (!un || lstat(un->sun_path, &made) < 0)
        return;
    *self = (struct socket_path){ .there = true, .device = made.st_dev, .inode = made.st_ino, .address = *un };
}

void socket_path_remove(struct socket_path *self)
{
    struct stat now;
    if (self->there && lstat(self->address.sun_path, &now) == 0 && now.st_dev == self->device &&
        now.st_ino == self->inode)
        unlink(self->address.sun_path);
    self->there = false;
}

bool socket_path_remove_stale(const struct orr_address *address, int type)
{
    const struct sockaddr_un *un = path_of(address);
    struct stat now;
    if (!un || lstat(un->sun_path, &now) < 0 || !S_ISSOCK(now.st_mode))
        return false;
    int fd = socket_open(AF_UNIX, type, NULL);
    if (fd < 0)
        return false;
    bool stale = connect(fd, address_kernel(address), address->length) < 0 && errno == ECONNREFUSED;
    close(fd);
    return stale && unlink(un->sun_path) == 0;
}
