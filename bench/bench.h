/*
 * What the benchmarks share: a clock, medians of repeated runs, and one line a figure:
 *
 *     name value unit ratio peer
 *
 * The ratio is our figure by the peer's of the same run; both runs alternate, so that the noise of a shared
 * machine falls on both.  A line without a peer has two dashes.
 */
#ifndef ORR_BENCH_H
#define ORR_BENCH_H

#include "orrery.h"

#include <stdint.h>

enum { BENCH_RUNS = 9 };

uint64_t bench_now(void);

/* Runs `subject` and `peer` (may be NULL) by turns; each answers its figure.  Gives the medians. */
struct bench_result {
    double value, peer;
};
struct bench_result bench_alternate(double (*subject)(void), double (*peer)(void));

/* Prints a line; `peer` NULL for none. */
void bench_line(const char *name, double value, const char *unit, double ratio, const char *peer);

/* Measures, and prints one line for the subject and one for the peer. */
struct bench_result bench_compare(const char *name, const char *unit, double (*subject)(void), const char *peer_name,
                                  double (*peer)(void));

/* A runtime that the calling thread has entered, so that what belongs on the worker's thread can be made and freed. */
struct orr_runtime *bench_open(void);
void bench_close(struct orr_runtime *rt);

/* Runs such a runtime until nothing is left to do.  Answers the nanoseconds. */
double bench_run(struct orr_runtime *rt);

/* Keeps the calling thread, and those it makes, on one core. */
void bench_pin(int core);

/* Says why and exits if a call of the library failed. */
void bench_must(int result, const char *what);

#endif
