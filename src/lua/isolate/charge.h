/*
 * Charging puts memory that C holds for a script on the script's account, beside the memory that
 * Lua allocated: timers, tasks of the core, reports, the items of queues.
 *
 * Charging has the same limit and the same consequences as allocating in Lua.  At the limit the
 * alarm is raised, and the script gets `not enough memory` if collecting does not help.  The
 * collector is told as well.  Otherwise it would count a 40-byte handle that holds 400 bytes of C
 * memory as 40 bytes.
 *
 * The limit is a quota that a script shares with the jobs of its workers.  An isolate draws from
 * the quota in chunks.  Invariant: the drawn and the overdrawn bytes together are never less than
 * the bytes in use.  If more than two chunks are drawn and not in use, they go back at the end of a
 * slice.
 *
 * Only the isolate's worker thread may call these functions.
 */
#ifndef ORR_LUA_ISOLATE_CHARGE_H
#define ORR_LUA_ISOLATE_CHARGE_H

#include "base/alloc.h"
#include "lua/isolate/account.h"
#include "lua/isolate/compat.h"

#include <stdbool.h>
#include <stddef.h>

struct orr_isolate;
struct quota;

struct charge {
    struct quota *quota; /* borrowed from the isolate's settings; NULL without a limit */
    /* The isolate runs a script, not a job: it may use the share reserved for the script */
    bool for_script;
    /* A report of why something was ended is being written: no memory is refused for it */
    bool writes_report;
    size_t drawn; /* bytes taken from the quota */
    /* Bytes beyond the quota, until the script has been told that there is no more memory */
    size_t overdrawn;
    /* Bytes in use up to which the account may be overdrawn, after the script has been told */
    size_t overdraft_end;
    /* Bytes in use up to which plain code of the host may overdraw, until the next slice ends */
    size_t host_overdraft;
    /* Bytes in use when charge_end_slice() was called last; SIZE_MAX if it has more to do */
    size_t settled_used;
    size_t untold;       /* bytes charged that were not reported to the collector yet */
    size_t collected_at; /* bytes in use after the last collection for the quota */
};

/* Bytes that a task costs besides its handle: the core's struct, and its slot in the task table. */
enum { CHARGE_TASK = 232 };

/* Must be called when the isolate is made.  `for_script`: it runs a script, not a job. */
void charge_open(struct charge *self, struct quota *quota, bool for_script);

/*
 * Charges bytes.  -ENOMEM if the account must not have them, not even as an overdraft.  May run a
 * step of the collector, and so finalizers: call it only where Lua might allocate.
 */
int charge_take(struct orr_isolate *iso, size_t bytes);

/* Charges bytes that are already allocated, and cannot be refused.  Runs no collector. */
void charge_force(struct orr_isolate *iso, size_t bytes);

void charge_give(struct orr_isolate *iso, size_t bytes);

/*
 * An allocator whose memory is charged to the isolate.  The isolate outlives the allocator.  Runs
 * no collector.
 */
struct alloc charge_alloc(struct orr_isolate *iso);

/* A charged copy of a text; NULL if `text` is NULL, or for lack of memory. */
char *charge_copy(struct orr_isolate *iso, const char *text);

/* Frees a copy that charge_copy() made, and sets the pointer to NULL. */
void charge_free_text(struct orr_isolate *iso, char **text);

/*
 * Tells the collector that a Lua object holds `bytes` more bytes, which are on the quota or on no
 * account.  May run a step of the collector, and so finalizers.
 */
void charge_tell_collector(struct orr_isolate *iso, size_t bytes);

/*
 * After a refusal of the quota: collects, if enough has been allocated since the last collection
 * that this may help.  True if another try is worth it.  May run finalizers.
 */
bool charge_collect(struct orr_isolate *iso, lua_State *L);

/*
 * After a refusal of the quota, in a function that can be suspended: true if collecting may help.
 * Then whole cycles are owed.  The caller pays them with preempt_collect(), and calls
 * charge_collected().
 */
bool charge_begin_to_collect(struct orr_isolate *iso);
void charge_collected(struct orr_isolate *iso);

/*
 * Between the two calls the account may be overdrawn where no hook runs.  It is for the little
 * memory that Lua needs to begin, before its first instruction, where it is told of the lack.
 * charge_overdraw_end() takes what charge_overdraw_begin() returned.
 */
size_t charge_overdraw_begin(struct orr_isolate *iso);
void charge_overdraw_end(struct orr_isolate *iso, size_t before);

/*
 * Between the two calls a report of why something was ended is written: no memory is refused.
 * charge_end_report() takes what charge_begin_report() returned.
 */
static inline bool charge_begin_report(struct charge *self)
{
    bool before = self->writes_report;
    self->writes_report = true;
    return before;
}

static inline void charge_end_report(struct charge *self, bool before)
{
    self->writes_report = before;
}

static inline bool charge_writes_report(const struct charge *self)
{
    return self->writes_report;
}

/* Bytes that the isolate has drawn from the quota. */
static inline size_t charge_drawn(const struct charge *self)
{
    return self->drawn;
}

/* Raises `not enough memory`, as Lua does. */
int charge_raise(lua_State *L);

/* --- For the allocator ------------------------------------------------------------------------ */

/* Whether `more` more bytes may be in use.  Raises the alarm if that is beyond the limit. */
bool charge_may_have(struct orr_isolate *iso, size_t more);

/*
 * Whether `more` more bytes may be in use, without an overdraft and without the alarm: for bytes
 * that a peer sends, where the caller can do without them.  Runs no collector.
 */
bool charge_has_room(struct orr_isolate *iso, size_t more);

/* Whether the request comes from plain code of the host, which may overdraw by `more` bytes. */
bool charge_host_may_overdraw(const struct orr_isolate *iso, size_t more);

/* Bytes that may be taken before the next check. */
size_t charge_room(const struct orr_isolate *iso);

/* Draws or overdraws for `more` bytes, which cannot be refused. */
void charge_cover(struct orr_isolate *iso, size_t more);

/* After the hook has collected: true if too much is still in use, or overdrawn. */
bool charge_settle(struct orr_isolate *iso);

/*
 * Between slices: gives back drawn bytes that are not in use.  If memory has gone down, the next
 * check is at the limit again.
 */
void charge_end_slice(struct orr_isolate *iso);

/*
 * Whether charge_end_slice() would change nothing, because nothing was allocated or charged since
 * it was called last.
 */
static inline bool charge_is_settled(const struct charge *self, const struct account *account)
{
    return account_used(account) == self->settled_used;
}

/* Gives everything back to the quota, after all of the isolate's memory has been freed. */
void charge_close(struct orr_isolate *iso);

#endif
