/*
 * What the benchmarks of Lua's limits share: isolates whose scripts run for ever, and percentiles.
 */
#ifndef ORR_BENCH_ISOLATE_H
#define ORR_BENCH_ISOLATE_H

#include "bench.h"

#include <lua.h>

#define BENCH_MS UINT64_C(1000000)

/*
 * A runtime on this reactor.  Tasks that are left at the end are dropped; the runtime does not wait
 * for them.
 */
struct orr_runtime *isolate_runtime(enum orr_reactor reactor);

/*
 * A trusted isolate.  The signal interrupts it after `slice_ns`; its script and its tasks have this
 * deadline.  The API is the global `orrery`.
 */
lua_State *isolate_open(struct orr_runtime *rt, uint64_t slice_ns, uint64_t deadline_ns);
void isolate_close(lua_State *L);

/* Pushes the chunk; prints the message and exits if it does not compile. */
void isolate_load(lua_State *L, const char *code);

/* Starts the function at the top of the stack, or a chunk. */
void isolate_start_function(lua_State *L);
void isolate_start(lua_State *L, const char *code);

/* A global number of the isolate. */
double isolate_number(lua_State *L, const char *name);

/*
 * How often the kernel has taken the core from the calling thread.  Work during which this number
 * changed was disturbed.
 */
long disturbances(void);

/* Sorts the values.  `part` 0.5 is the median, 1 the largest. */
double percentile(double *values, unsigned count, double part);

#endif
