#include "io/bound_path.h"

#include "io/address.h"

#include <stddef.h>
#include <unistd.h>

/* The path of an address in the file system; NULL if it has none. */
static const struct sockaddr_un *path_of(const struct orr_address *address)
{
    const struct sockaddr_un *un = (const struct sockaddr_un *)address_kernel(address);
    bool named = address_family(address) == AF_UNIX && address->length > offsetof(struct sockaddr_un, sun_path);
    return named && un->sun_path[0] ? un : NULL;
}

void bound_path_note(struct bound_path *self, const struct orr_address *address)
{
    const struct sockaddr_un *un = path_of(address);
    struct stat made;
    if (!un || lstat(un->sun_path, &made) < 0)
        return;
    *self = (struct bound_path){ .there = true, .device = made.st_dev, .inode = made.st_ino, .address = *un };
}

void bound_path_remove(struct bound_path *self)
{
    struct stat now;
    if (self->there && lstat(self->address.sun_path, &now) == 0 && now.st_dev == self->device &&
        now.st_ino == self->inode)
        unlink(self->address.sun_path);
    self->there = false;
}
