/*
 * Listening in a simulated network: the part of a listener that the kernel has for real sockets.
 *
 * A request that arrives becomes a connection in the backlog, or waits in line until there is room.
 * The ends in the backlog are the listener's, on its account, until they are accepted.  Those in
 * line belong to the tasks that connect.
 *
 * All of it belongs to the worker's owner.
 */
#ifndef ORR_IO_SIMULATED_LISTENER_H
#define ORR_IO_SIMULATED_LISTENER_H

#include "io/simulated_stream.h"

struct simulated_listener {
    struct node node;
    struct binding binding;
    struct orr_link backlog, line; /* of ends, by `in_line` */
    unsigned backlog_count, backlog_most;
    size_t receive_window, send_window; /* of its connections; 0: the network's */
    const struct orr_account *account;
    bool wanted; /* somebody is to be notified of the next connection */
    bool down;   /* the network is */
    /* There is a connection, or the network is down.  It may close the listener. */
    void (*notify)(struct simulated_listener *listener);
};

/* Listens, in zeroed memory; `backlog` is greater than 0.  -EADDRINUSE, -EADDRNOTAVAIL. */
int simulated_listen(struct simulated_listener *listener, struct orr_network_host *host,
                     const struct orr_address *address, const struct orr_listen_options *options, int backlog,
                     void (*notify)(struct simulated_listener *listener));

/* Resets the connections in the backlog, and refuses those in line. */
void simulated_listener_close(struct simulated_listener *listener);

/* Whether a try to accept is due now.  If not, and it is `wanted`, notify() is called then. */
bool simulated_listener_want(struct simulated_listener *listener, bool wanted);

/* Accepts a connection: 0, -EAGAIN, -ENETDOWN, -ENOMEM, or what the account answered. */
int simulated_accept(struct simulated_listener *listener, const struct orr_open *open, struct orr_stream **out);

/* A request for a connection has arrived. */
void simulated_listener_receive(struct simulated_listener *listener, struct simulated_end *caller);

/* The listener that gets requests for an address of a host; NULL if nobody listens. */
struct simulated_listener *simulated_listener_at(const struct orr_network_host *host,
                                                 const struct orr_address *address);

#endif
