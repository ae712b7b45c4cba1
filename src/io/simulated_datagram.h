/*
 * Datagram sockets in a simulated network.  As datagram.c does with sockets, one is a stream
 * without bytes; all that tasks do is there, and here is what the kernel does for real sockets.
 *
 * A message belongs to the socket that gets it as soon as it was sent: on its way, and then in the
 * queue.  Both are on the account of that socket and count for its receive buffer.  A message that
 * does not fit is lost, as is one whose socket is opened only after it was sent.  A path loses
 * nothing: there the sender waits.
 *
 * All of it belongs to the worker's owner.
 */
#ifndef ORR_IO_SIMULATED_DATAGRAM_H
#define ORR_IO_SIMULATED_DATAGRAM_H

#include "io/stream.h"

/*
 * A task that sends to a path whose queue is full waits for RETRY_DUE, an event besides those of
 * streams: nobody says when there is room.  It comes after RETRY_NS.
 */
enum { RETRY_DUE = 128, RETRY_NS = 1000 * 1000 };

/* As orr_datagram_open() with sound options, on a host. */
int simulated_datagram_open(struct orr_network_host *host, const struct orr_datagram_options *options,
                            struct orr_stream **out);

/* Whether a stream is such a socket. */
bool simulated_datagram_is(const struct orr_stream *stream);

/* Whether it belongs to paths. */
bool simulated_datagram_is_unix(const struct orr_stream *stream);

/* Send or receive a sound message now: 0, -EAGAIN, or an error. */
int simulated_datagram_send(struct orr_stream *stream, const struct orr_message *message);
int simulated_datagram_receive(struct orr_stream *stream, struct orr_message *message);

/* As the public functions whose names end in the same way. */
int simulated_datagram_address(const struct orr_stream *stream, enum orr_end which, struct orr_address *address);
int simulated_datagram_join(struct orr_stream *stream, const struct orr_address *group, unsigned interface);
int simulated_datagram_leave(struct orr_stream *stream, const struct orr_address *group, unsigned interface);
int simulated_datagram_set_multicast(struct orr_stream *stream, unsigned hops, bool loop);

#endif
