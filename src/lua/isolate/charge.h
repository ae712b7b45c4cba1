/*
 * Charging: what C holds for a script is on the script's account, beside what Lua itself has
 * allocated: timers, tasks of the core, reports, the items of queues.
 *
 * Charging has the same limit and the same consequences as allocating in Lua: at the limit the
 * alarm is raised, and the script gets `not enough memory` if collecting does not help.  The
 * collector is told, too, or it would take a handle of 40 bytes that holds 400 bytes of C's for 40.
 *
 * The limit is a quota, shared by a script and the jobs of its workers.  An isolate draws from it
 * in chunks; what it has drawn and overdrawn together is never less than what is in use.  If more
 * than two chunks are drawn and not in use, they go back at the end of a slice.
 *
 * The isolate's worker's thread.
 */
#ifndef ORR_LUA_ISOLATE_CHARGE_H
#define ORR_LUA_ISOLATE_CHARGE_H

#include "base/alloc.h"
#include "lua/isolate/compat.h"

#include <stdbool.h>
#include <stddef.h>

struct orr_isolate;
struct quota;

struct charge {
    struct quota *quota; /* borrowed from its settings; NULL without a limit */
    /* The isolate is a script's, and not a job's: it may have the script's own share */
    bool for_script;
    /* A report is being written on why something was ended: it is not refused memory */
    bool writes_report;
    size_t drawn; /* bytes from the quota */
    /* Bytes besides, because the script is only being told that there is no more */
    size_t overdrawn;
    /* Bytes in use up to which it may be overdrawn: the script has just been told */
    size_t overdraft_end;
    size_t host_overdraft; /* the same for plain code of the host, since the last slice */
    size_t untold;         /* bytes charged that the collector has not been told of */
    size_t collected_at;   /* bytes in use after the last collection of charge_collect() */
};

/* What a task costs besides its handle: the core's struct, and its slot in the task table. */
enum { CHARGE_TASK = 232 };

/* To be called when the isolate is made.  `for_script`: it is a script's, and not a job's. */
void charge_open(struct charge *self, struct quota *quota, bool for_script);

/*
 * Charges so many bytes.  -ENOMEM if there may be no more, even for a moment.  May run a step of
 * the collector, and so finalizers: to be called where Lua might allocate.
 */
int charge_take(struct orr_isolate *iso, size_t bytes);

/* Charges what is there already, and cannot be refused.  Runs no collector. */
void charge_force(struct orr_isolate *iso, size_t bytes);

void charge_give(struct orr_isolate *iso, size_t bytes);

/* An allocator whose memory is charged to the isolate, which outlives it.  Runs no collector. */
struct alloc charge_alloc(struct orr_isolate *iso);

/* A charged copy of a text; NULL for none, or for lack of memory. */
char *charge_copy(struct orr_isolate *iso, const char *text);

/* Frees such a copy, and sets the pointer to NULL. */
void charge_free_text(struct orr_isolate *iso, char **text);

/*
 * Tells the collector that an object of Lua's holds so many bytes more, which are on the quota, or
 * on nobody's account.  May run a step of the collector, and so finalizers.
 */
void charge_tell_collector(struct orr_isolate *iso, size_t bytes);

/*
 * The quota has refused something.  Collects, if enough has been allocated since the last time that
 * this may help.  True if another try is worth it.  May run finalizers.
 */
bool charge_collect(struct orr_isolate *iso, lua_State *L);

/*
 * The quota has refused something, in a function that can be suspended.  True if collecting may
 * help: then whole cycles are owed (preempt_collect()), and charge_collected() follows.
 */
bool charge_begin_to_collect(struct orr_isolate *iso);
void charge_collected(struct orr_isolate *iso);

/*
 * Between the two, the account may be overdrawn where no hook looks: for little that Lua needs to
 * begin with, and that is told of the lack at its first instruction.
 */
size_t charge_overdraw_begin(struct orr_isolate *iso);
void charge_overdraw_end(struct orr_isolate *iso, size_t before);

/* Between the two, a report is written on why something was ended: no memory is refused. */
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

/* Whether so much more may be in use.  If that is beyond the limit, the alarm has been raised. */
bool charge_may_have(struct orr_isolate *iso, size_t more);

/* Whether plain code of the host asks, and may overdraw the account by so much more. */
bool charge_host_may_overdraw(const struct orr_isolate *iso, size_t more);

/* How much more may be in use before the next look. */
size_t charge_room(const struct orr_isolate *iso);

/* So much more will be in use, and cannot be refused. */
void charge_cover(struct orr_isolate *iso, size_t more);

/* The hook has collected.  True if too much is still in use, or overdrawn. */
bool charge_settle(struct orr_isolate *iso);

/*
 * Between slices: gives back what is not in use; the next look is at the limit again, if memory has
 * gone down.
 */
void charge_end_slice(struct orr_isolate *iso);

/* The isolate is gone, and all of its memory. */
void charge_close(struct orr_isolate *iso);

#endif
