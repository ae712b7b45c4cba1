/* Addresses as the kernel has them, and as text.  Nothing here looks up a name.  Any thread. */
#ifndef ORR_IO_ADDRESS_H
#define ORR_IO_ADDRESS_H

#include "orrery.h"

#include <sys/socket.h>

static inline const struct sockaddr *address_kernel(const struct orr_address *address)
{
    return (const struct sockaddr *)address->bytes;
}

/* Whether it can be an address: long enough to have a family, short enough for its memory. */
bool address_is_sound(const struct orr_address *address);

/* The family of a sound address. */
static inline int address_family(const struct orr_address *address)
{
    return address_kernel(address)->sa_family;
}

/* Copies an address of the kernel.  Cuts what is too long, which no address is. */
void address_from_kernel(struct orr_address *address, const struct sockaddr *from, socklen_t length);

/* The address of one end of a socket.  Negative errno. */
int address_of_socket(int fd, enum orr_end end, struct orr_address *address);

#endif
