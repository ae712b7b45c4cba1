/*
 * A memory barrier in all threads of the process at once, made by the one thread that needs it
 * (membarrier(2)).
 *
 * Two threads each write one variable and read the other's.  If neither may miss the other, each
 * needs a full barrier between its write and its read.  Where one of them does this all the time
 * and the other hardly ever, the rare one pays for both: it writes, calls barrier_in_all_threads(),
 * and reads.  The frequent one only keeps the compiler from changing the order of its two.
 *
 * Any thread.
 */
#ifndef ORR_BASE_BARRIER_H
#define ORR_BASE_BARRIER_H

#include <stdbool.h>

/*
 * Whether the kernel can do this.  The first call in a process asks it to, which may take some
 * milliseconds; later calls cost nothing.
 */
bool barrier_is_possible(void);

/* Only after barrier_is_possible() has answered true.  False if the kernel refuses after all. */
bool barrier_in_all_threads(void);

#endif
