/*
 * A network in memory: its hosts, the partitions between them, its chance, and the list of what
 * works on it.  Ports are in simulated_port.h, connections in simulated_end.h.
 *
 * What works on a network is a node: an end of a connection, a listener, a datagram socket.  A node
 * has a host from node_join() to node_leave().  Each one keeps the memory of the network and its
 * hosts alive.  So orr_network_free() tells all nodes that the network is down, and the last node
 * to leave frees it.
 *
 * The memory of hosts and partitions is on the account of the network until orr_network_free().
 *
 * All of it belongs to the worker's owner.
 */
#ifndef ORR_IO_SIMULATED_NETWORK_H
#define ORR_IO_SIMULATED_NETWORK_H

#include "exec/opened.h"
#include "exec/worker.h"

struct orr_network_host {
    struct orr_link in_network;
    struct orr_network *network;
    struct orr_link bindings; /* simulated_port.c */
    uint16_t number;          /* from 1: the last two bytes of its addresses */
    uint16_t last_port;       /* simulated_port.c: the last one that was chosen for somebody */
    bool apart;               /* cut off from all others */
    char name[];
};

/* A partition between two hosts. */
struct partition {
    struct orr_link in_network;
    const struct orr_network_host *a, *b;
};

struct orr_network {
    struct opened opened;
    struct orr_network_options options; /* without `open`; `window` is filled in */
    uint64_t random;
    struct orr_link hosts, partitions, nodes;
    unsigned host_count;
    size_t references; /* its nodes, and its user */
    bool down;
};

struct node {
    struct orr_link in_network;
    struct orr_network_host *host;
    void (*down)(struct node *node);   /* the network ends */
    void (*healed)(struct node *node); /* all partitions have ended; may be NULL */
};

/* As orr_network_new(). */
int network_new(const struct orr_network_options *options, struct orr_network **out);

/* As orr_network_free(), except that nobody is told but its nodes. */
void network_close(struct orr_network *network);

/* The host "main". */
struct orr_network_host *network_main(const struct orr_network *network);

/* The host with this name or number; NULL if there is none. */
struct orr_network_host *network_host_named(const struct orr_network *network, const char *name);
struct orr_network_host *network_host_numbered(const struct orr_network *network, unsigned number);

/* Puts a node in zeroed memory on a host, and takes it off.  A node that is on none may leave. */
void node_join(struct node *node, struct orr_network_host *host);
void node_leave(struct node *node);

static inline struct orr_network *node_network(const struct node *node)
{
    return node->host->network;
}

static inline struct worker *node_worker(const struct node *node)
{
    return node->host->network->opened.worker;
}

static inline uint64_t network_now(const struct orr_network *network)
{
    return timers_now(network->opened.worker->timers);
}

/* Whether a partition is between two hosts. */
bool network_is_cut(const struct orr_network_host *a, const struct orr_network_host *b);

/* How long something takes from one end to the other. */
uint64_t network_delay(struct orr_network *network);

/* How long a number of bytes takes to be sent. */
uint64_t network_sending_time(const struct orr_network *network, size_t bytes);

/* Whether something happens that has this probability. */
bool network_chance(struct orr_network *network, double probability);

/* A number from 1 to `most`. */
size_t network_choose(struct orr_network *network, size_t most);

#endif
