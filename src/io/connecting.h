/*
 * What waits for a connection have in common, by sockets and in simulated networks: the source is
 * the stream that is to be connected, in its writer's slot, and it belongs to the wait until then.
 *
 * All of it belongs to the worker's owner.
 */
#ifndef ORR_IO_CONNECTING_H
#define ORR_IO_CONNECTING_H

#include "io/stream.h"

/* For struct orr_wait_kind. */
void connecting_withdraw(struct orr_wait *wait, bool granted);
void connecting_describe(const struct orr_wait *wait, char *text, size_t size);

#endif
