/*
 * Streams of a simulated network: connections, pairs and pipes, and connecting.  The ends
 * themselves are in simulated_end.h.  All of it belongs to the worker's owner.
 */
#ifndef ORR_IO_SIMULATED_STREAM_H
#define ORR_IO_SIMULATED_STREAM_H

#include "io/simulated_end.h"

/*
 * Makes a stream for an end that has none, and moves the end to the account of the stream.
 * -ENOMEM, or what the account answered; then the end is as it was.
 */
int simulated_stream_new(struct simulated_end *end, const struct orr_open *open, struct orr_stream **out);

/* As orr_pair() and orr_pipe(), on a host. */
int simulated_pair(struct orr_network_host *host, const struct orr_open *open, struct orr_stream *ends[2]);
int simulated_pipe(struct orr_network_host *host, const struct orr_open *open, struct orr_stream *ends[2]);

/* The end behind a stream that is open; NULL if it is of another kind. */
struct simulated_end *simulated_end_of(const struct orr_stream *stream);

/* Checks a setting as socket_set() does; the buffers are for the caller to set. */
int simulated_check_setting(int family, enum orr_setting setting, int64_t value);

#endif
