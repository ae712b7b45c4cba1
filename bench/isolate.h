/* What the benchmarks of Lua's limits share: isolates that are not to end by themselves, their scripts, and percentiles. */
#ifndef ORR_BENCH_ISOLATE_H
#define ORR_BENCH_ISOLATE_H

#include "bench.h"

#include <lua.h>

#define BENCH_MS UINT64_C(1000000)

/* With the machine's reactor, or that of the option; what is left of its tasks at the end is dropped, not waited for. */
struct orr_runtime *isolate_runtime(enum orr_reactor reactor);

/* Trusted, interrupted by the signal after `slice_ns`; `deadline_ns` for its script and its tasks; the API is the global `orrery`. */
lua_State *isolate_open(struct orr_runtime *rt, uint64_t slice_ns, uint64_t deadline_ns);
void isolate_close(lua_State *L);

/* Pushes the chunk; exits with the message if there is none. */
void isolate_load(lua_State *L, const char *code);

/* Starts the function at the top of the stack, or a chunk. */
void isolate_start_function(lua_State *L);
void isolate_start(lua_State *L, const char *code);

/* A global number of the isolate. */
double isolate_number(lua_State *L, const char *name);

/* How often the kernel has taken the core from the calling thread: what lay between two different answers was disturbed. */
long disturbances(void);

/* Sorts.  `part` of 0.5 is the median, of 1 the largest. */
double percentile(double *values, unsigned count, double part);

#endif
