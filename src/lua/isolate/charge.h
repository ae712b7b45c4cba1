/*
 * What C holds for a script is on the script's account, beside what Lua itself has allocated: timers, tasks of the core, reports, the
 * items of queues.  Charging adds to `iso->memory.used`, under the same limit and with the same consequences as allocating in Lua does: at the
 * limit the hook is asked to collect, and raises `not enough memory` if that does not help; and the collector is told, or it would take a
 * handle of 40 bytes that holds 400 of C's for 40.
 *
 * The limit is one for a script and for the jobs of its workers: a quota.  An isolate draws from it in chunks; what it has drawn and
 * overdrawn is never less than `memory`.  What is drawn and not in use, once it is more than two chunks, goes back at the end of a slice.
 *
 * All on the isolate's thread.
 */
#ifndef ORR_LUA_ISOLATE_CHARGE_H
#define ORR_LUA_ISOLATE_CHARGE_H

#include "base/alloc.h"
#include "lua/isolate/compat.h"

#include <stdbool.h>
#include <stddef.h>

struct orr_isolate;
struct quota;

/* Part of the isolate. */
struct charge {
    struct quota *quota; /* borrowed from its settings; NULL without a limit */
    bool own;            /* it is the script's, and not that of a job */
    size_t drawn;        /* from the quota */
    size_t overdrawn;    /* besides, because the script is only being told that there is no more */
    size_t patience;     /* up to here it may be overdrawn: the script has just been told that there is no more */
    size_t plain;        /* the same for plain code of the host's, since the last slice */
    size_t untold;       /* charged, and the collector has not heard of it */
    size_t collected_at; /* what was in use after the last collection of charge_collect() */
    bool reports;        /* a report is being written on why something was ended: that is not refused memory */
};

/* What a task costs besides its handle: the core's struct, and its slot in the place. */
enum { CHARGE_TASK = 232 };

/*
 * Charges so many bytes.  -ENOMEM if there may be no more, even for a moment.  May run a step of the collector, and so finalizers: to be
 * called where Lua might allocate.
 */
int charge_take(struct orr_isolate *iso, size_t bytes);

/* The same for what is there already, and cannot be refused.  Runs no collector. */
void charge_force(struct orr_isolate *iso, size_t bytes);

void charge_give(struct orr_isolate *iso, size_t bytes);

/* An allocator whose memory is charged to the isolate, which outlives it.  Runs no collector. */
struct alloc charge_alloc(struct orr_isolate *iso);

/* A copy of a text, charged; NULL for none, or for lack of memory.  Freed by charge_free_text(), which makes it NULL. */
char *charge_copy(struct orr_isolate *iso, const char *text);
void charge_free_text(struct orr_isolate *iso, char **text);

/* The collector is told that something of Lua's holds so much more that is on the quota, or on nobody's account.  As charge_take(). */
void charge_tell(struct orr_isolate *iso, size_t bytes);

/*
 * Collects, if enough has been allocated since the last time that this may help: for something on the quota that was refused.  True if it
 * is worth another try.  May run finalizers.
 */
bool charge_collect(struct orr_isolate *iso, lua_State *L);

/*
 * The same in steps, for functions that can be suspended: whether it may help; then it is owed (budget_pay()).
 */
bool charge_collects(struct orr_isolate *iso);

/* That is paid. */
void charge_collected(struct orr_isolate *iso);

/*
 * Between the two, the account may be overdrawn where no hook looks: for little that Lua needs to begin with, and that is told of the lack
 * at its first instruction.
 */
size_t charge_overdraw_begin(struct orr_isolate *iso);
void charge_overdraw_end(struct orr_isolate *iso, size_t before);

/* As Lua's own error of that name. */
int charge_raise(lua_State *L);

/* --- For the account ------------------------------------------------------------------------------------------------------ */

/* Whether so much more may be in use.  If that is beyond the limit, the hook has been asked for. */
bool charge_may_have(struct orr_isolate *iso, size_t more);

/* Whether plain code of the host's asks, and may overdraw the account by so much more. */
bool charge_overdraws_plainly(const struct orr_isolate *iso, size_t more);

/* How much more may be in use before the next look. */
size_t charge_room(const struct orr_isolate *iso);

/* So much more will be in use, whatever there is. */
void charge_cover(struct orr_isolate *iso, size_t more);

/* The hook has collected.  True if it is still too much, all in all. */
bool charge_settle(struct orr_isolate *iso);

/* Between slices: gives back what is not in use. */
void charge_end_slice(struct orr_isolate *iso);

/* The isolate is gone, and all of its memory. */
void charge_close(struct orr_isolate *iso);

#endif
