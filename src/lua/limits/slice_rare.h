/*
 * What happens rarely when a slice begins or ends (slice_bounds.h).
 *
 * The isolate's worker's thread.
 */
#ifndef ORR_LUA_LIMITS_SLICE_RARE_H
#define ORR_LUA_LIMITS_SLICE_RARE_H

#include <stdbool.h>

struct orr_isolate;

/* A slice begins where no signal interrupts Lua.  Sets its end where instructions are counted. */
void slice_rare_set_end(struct orr_isolate *iso);

/*
 * A slice begins that no timer can interrupt.  Its instructions are counted, and the host is told.
 */
void slice_rare_count(struct orr_isolate *iso);

/* A slice begins that takes the short way, and the watch has more to do than usual. */
void slice_rare_watch(struct orr_isolate *iso);

/* A slice has ended in which the hook was requested.  `over`: because its time was over. */
void slice_rare_end_request(struct orr_isolate *iso, bool over);

/* After a slice: begins the calm, if nothing is pending (isolate/calm.h). */
void slice_rare_look_for_calm(struct orr_isolate *iso);

#endif
