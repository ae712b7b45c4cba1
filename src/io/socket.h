/*
 * Sockets that are streams: TCP and Unix.  All of it belongs to the worker's owner.
 */
#ifndef ORR_IO_SOCKET_H
#define ORR_IO_SOCKET_H

#include "io/address.h"
#include "io/descriptor.h"

struct gate_request;

/*
 * Makes the struct of a stream for a socket of a family that is still to be opened; nothing can be
 * done with it but socket_adopt() or socket_discard().  -EPERM, -ENOMEM, what the account answered.
 */
int socket_prepare(int family, const struct orr_open *open, struct orr_stream **stream);

/* Gives a prepared stream its socket; `peer` may be NULL. */
void socket_adopt(struct orr_stream *stream, int fd, const struct orr_address *peer);

/* Frees a prepared stream that got no socket. */
void socket_discard(struct orr_stream *stream);

/* Opens a socket that does not block and is closed on exec, with the options.  Negative errno. */
int socket_open(int family, int type, const struct orr_socket_options *options);

/*
 * bind(2) and connect(2) for sockets, through a gate (gate.h), which may be NULL.  The address is
 * sound.  Negative errno.
 */
int socket_bind(int fd, int type, const struct orr_gate *gate, const struct gate_request *request);
int socket_connect(int fd, const struct orr_gate *gate, const struct orr_address *address);

/* Changes a setting of a socket.  Negative errno. */
int socket_set(int fd, int family, enum orr_setting setting, int64_t value);

/* Sets an option of a socket to a number.  Negative errno. */
int socket_option(int fd, int level, int option, int value);

#endif
