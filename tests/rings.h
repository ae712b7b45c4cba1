/*
 * Whether tests can have io_uring here.
 *
 * An ordinary user may be forbidden to use it, or may have little locked memory, which rings count
 * towards on many kernels.  The kernel gives back the memory of a closed ring with a delay.  So a
 * test that asks for io_uring by name waits for its ring, and is left out, with the reason, if
 * waiting does not help.
 */
#ifndef ORR_TESTS_RINGS_H
#define ORR_TESTS_RINGS_H

#include <liburing.h>
#include <stdbool.h>

enum {
    RINGS_NEEDED = 44, /* at once: the most that a test program opens, and some to spare */
    RING_ENTRIES = 256,
    RINGS_LEFT_OUT = 77, /* the exit status of a program that is left out, for meson */
};

/* How a function opens a ring: io_uring_queue_init_params(), or what takes its place in a test. */
typedef int ring_open_fn(unsigned entries, struct io_uring *ring, struct io_uring_params *params);

/* Opens a ring; waits for as long as the user has too little locked memory, 20 seconds at most. */
int ring_open_patiently(ring_open_fn *open, unsigned entries, struct io_uring *ring, struct io_uring_params *params);

/* Whether RINGS_NEEDED rings can be had.  If not, prints why the tests are left out. */
bool rings_available(ring_open_fn *open);

/* Prints why no ring can be had; `error` is negative errno. */
void rings_explain(int error);

#endif
