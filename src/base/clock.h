/*
 * Nanoseconds of CLOCK_MONOTONIC: never goes back, does not count while the machine is suspended.
 */
#ifndef ORR_BASE_CLOCK_H
#define ORR_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

#define NS_PER_SECOND UINT64_C(1000000000)

static inline uint64_t clock_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * NS_PER_SECOND + (uint64_t)now.tv_nsec;
}

/*
 * The CPU time of the calling thread: time that the kernel gives to others does not count.
 * Async-signal-safe.
 */
static inline uint64_t clock_thread(void)
{
    struct timespec used;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return (uint64_t)used.tv_sec * NS_PER_SECOND + (uint64_t)used.tv_nsec;
}

/* `start` plus `ns`; UINT64_MAX if that overflows. */
static inline uint64_t clock_after(uint64_t start, uint64_t ns)
{
    uint64_t sum = start + ns;
    return sum < start ? UINT64_MAX : sum;
}

static inline struct timespec clock_timespec(uint64_t ns)
{
    return (struct timespec){ .tv_sec = (time_t)(ns / NS_PER_SECOND), .tv_nsec = (long)(ns % NS_PER_SECOND) };
}

#endif
