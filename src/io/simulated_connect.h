/* Connecting in a simulated network.  All of it belongs to the worker's owner. */
#ifndef ORR_IO_SIMULATED_CONNECT_H
#define ORR_IO_SIMULATED_CONNECT_H

#include "io/simulated_stream.h"

/* As orr_connect() with sound arguments, for a wait that has not begun. */
int simulated_connect(struct orr_task *task, struct orr_wait *wait, struct orr_network_host *host,
                      const struct orr_address *address, const struct orr_socket_options *options,
                      struct orr_stream **out);

/* Whether a wait was begun by simulated_connect(), which goes on with it by the next function. */
bool simulated_connect_waits(const struct orr_wait *wait);
int simulated_connect_on(struct orr_task *task, struct orr_wait *wait, struct orr_stream **out);

#endif
