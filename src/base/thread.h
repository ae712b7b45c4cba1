/* Starting a thread that keeps out of the host's way. */
#ifndef ORR_BASE_THREAD_H
#define ORR_BASE_THREAD_H

#include <pthread.h>

/*
 * The new thread takes no signals, which are the host's, except those that are its own fault: a
 * crash handler of the host's sees them.  Negative errno.
 */
int thread_start(pthread_t *thread, void *(*main)(void *data), void *data);

#endif
