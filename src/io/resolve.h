/*
 * Lookups of host names by getaddrinfo(), on threads of their own.
 *
 * getaddrinfo() blocks, for seconds if a server is silent, and cannot be interrupted.  So it runs
 * on a pool of threads that do nothing else: blocking_pool.h says what clients, lines and abandoned
 * jobs are.  The answer of an abandoned lookup is dropped.
 */
#ifndef ORR_IO_RESOLVE_H
#define ORR_IO_RESOLVE_H

#include "io/blocking_pool.h"
#include "orrery.h"

#include <netdb.h>
#include <sys/socket.h>

enum {
    RESOLVE_THREADS = 8,  /* of the process */
    RESOLVE_RUNNING = 2,  /* of one client */
    RESOLVE_WAITING = 64, /* of one client, in line */
    RESOLVE_ADDRESSES = 64,
};

struct lookup;

/* NULL without memory.  Any thread. */
struct blocking_client *resolve_client_new(void);

/* Its lookups in line are abandoned.  NULL is allowed.  Any thread. */
void resolve_client_free(struct blocking_client *client);

/* What a lookup found.  At most RESOLVE_ADDRESSES, in the order in which they should be tried. */
struct resolve_answer {
    int error;        /* 0, or one of EAI_* */
    int system_error; /* errno, for EAI_SYSTEM */
    unsigned count;
    struct sockaddr_storage addresses[];
};

/*
 * Looks up stream addresses of a host.  `family` is AF_UNSPEC, AF_INET or AF_INET6.  -EINVAL for an
 * empty or too long name, -ENOBUFS if the client has too many lookups, -ENOMEM, -EAGAIN if there is
 * no thread and none can be made, or an error of orr_future_new().  The caller, a thread of the
 * runtime's, owns the lookup and abandons it in the end.
 */
int resolve_start(struct orr_runtime *rt, struct blocking_client *client, const char *host, uint16_t port, int family,
                  struct lookup **out);

/* Completed when there is an answer.  Lives as long as the lookup, or longer if referred to. */
struct orr_future *lookup_future(const struct lookup *lookup);

/* The answer; NULL before the future is completed.  Lives as long as the future. */
const struct resolve_answer *lookup_answer(const struct lookup *lookup);

/*
 * Gives up a lookup, finished or not.  Tasks that still wait for its future are not woken: cancel
 * them, or let them withdraw, before.  NULL is allowed.
 */
void lookup_abandon(struct lookup *lookup);

/* Replaces getaddrinfo() and freeaddrinfo() in tests; NULL restores them.  While no lookup runs. */
typedef int resolve_fn(const char *host, const char *service, const struct addrinfo *hints, struct addrinfo **found);
void resolve_replace(resolve_fn *lookup, void (*release)(struct addrinfo *found));

/* For tests: how many threads there are, and how many lookups run or wait. */
struct resolve_numbers {
    unsigned threads, running, waiting;
};
struct resolve_numbers resolve_numbers(void);

#endif
