/*
 * What the benchmarks share: a clock, medians of repeated runs, and one line for each figure:
 *
 *     name value unit ratio peer
 *
 * The ratio is our figure divided by the peer's of the same run.  Both alternate, so that the noise
 * of a shared machine falls on both.  A line without a peer has two dashes.
 */
#ifndef ORR_BENCH_H
#define ORR_BENCH_H

#include "orrery.h"

#include <stddef.h>
#include <stdint.h>

enum { BENCH_RUNS = 9 };

/* Nanoseconds of CLOCK_MONOTONIC, and of CPU time that the calling thread has used. */
uint64_t bench_now(void);
uint64_t bench_cpu_now(void);

/* An allocator for struct orr_options.alloc that counts the bytes in use; one thread only. */
extern size_t bench_allocated;
void *bench_alloc(void *data, void *block, size_t old_size, size_t size);

/*
 * Runs `subject` and `peer`, which may be NULL, in turn.  Each returns its figure.  Returns the
 * medians.
 */
struct bench_result {
    double value, peer;
};
struct bench_result bench_alternate(double (*subject)(void), double (*peer)(void));

/* Prints a line; `peer` is NULL for none. */
void bench_line(const char *name, double value, const char *unit, double ratio, const char *peer);

/* Measures, and prints one line for the subject and one for the peer. */
struct bench_result bench_compare(const char *name, const char *unit, double (*subject)(void), const char *peer_name,
                                  double (*peer)(void));

/*
 * A runtime that the calling thread has entered, so that objects of the worker's thread can be
 * created and freed.
 */
struct orr_runtime *bench_open(void);
void bench_close(struct orr_runtime *rt);

/* Runs such a runtime until nothing is left to do; returns nanoseconds. */
double bench_run(struct orr_runtime *rt);

/* Pins the calling thread, and the threads that it creates, to one core. */
void bench_pin(int core);

/* Prints the error and exits if a call of the library failed. */
void bench_must(int result, const char *what);

#endif
