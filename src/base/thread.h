/* Starts threads that keep out of the host's way. */
#ifndef ORR_BASE_THREAD_H
#define ORR_BASE_THREAD_H

#include <pthread.h>

/*
 * Starts a thread that blocks all signals, which are the host's, except those that a fault of the
 * thread raises: a crash handler of the host sees them.  Negative errno.
 */
int thread_start(pthread_t *thread, void *(*main)(void *data), void *data);

#endif
