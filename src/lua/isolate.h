/*
 * An isolate is one Lua state with its tasks, bound to one worker.  Only that worker's thread runs
 * its Lua.
 *
 * This file only composes the struct.  Each member belongs to the module whose header declares the
 * member's struct.  Only that module touches the fields, and other modules call its functions.  So
 * this file includes headers of several folders in src/lua, and none of those headers includes this
 * file.
 */
#ifndef ORR_LUA_ISOLATE_H
#define ORR_LUA_ISOLATE_H

#include "exec/extend.h"
#include "lua/api/events.h"
#include "lua/api/open_objects.h"
#include "lua/api/schedule.h"
#include "lua/api/script_timers.h"
#include "lua/host/discard.h"
#include "lua/isolate/account.h"
#include "lua/isolate/ban.h"
#include "lua/isolate/calm.h"
#include "lua/isolate/charge.h"
#include "lua/isolate/collector.h"
#include "lua/isolate/compat.h"
#include "lua/isolate/execution.h"
#include "lua/isolate/interrupt.h"
#include "lua/isolate/late_free.h"
#include "lua/isolate/limits.h"
#include "lua/isolate/memory.h"
#include "lua/isolate/memory_alarm.h"
#include "lua/isolate/memory_lack.h"
#include "lua/isolate/missing.h"
#include "lua/isolate/objects.h"
#include "lua/isolate/oversized.h"
#include "lua/isolate/registry.h"
#include "lua/isolate/slab.h"
#include "lua/isolate/visit.h"
#include "lua/limits/grace_period.h"
#include "lua/limits/memory_limit.h"
#include "lua/limits/notices.h"
#include "lua/limits/slice.h"
#include "lua/limits/slow_call.h"
#include "lua/limits/statistics.h"
#include "lua/limits/timeout_report.h"
#include "lua/task/body.h"
#include "lua/task/body_watch.h"
#include "lua/task/cancellation.h"
#include "lua/task/hold.h"
#include "lua/task/orphans.h"
#include "lua/task/runner.h"
#include "lua/task/script.h"
#include "lua/task/shutdown.h"
#include "lua/task/task_pool.h"
#include "lua/task/task_set.h"
#include "lua/task/told.h"
#include "lua/task/unhandled.h"
#include "orrery.h"

struct settings;

struct orr_isolate {
    struct orr_runtime *rt;
    struct worker *worker;
    lua_State *L;
    unsigned references; /* held by the state, and by tasks and timers that work for the isolate */
    bool owned;          /* the library made the state, and closes it */
    bool closing;        /* no more tasks begin; the isolate is closed when none is left */
    bool debug;          /* tasks remember where they were made */

    /* Touched by every slice. */
    struct execution execution; /* isolate/execution.h */
    struct calm calm;           /* isolate/calm.h */
    struct visits visits;       /* isolate/visit.c */
    struct interrupt interrupt; /* isolate/interrupt.c */
    struct hold hold;           /* task/hold.c */
    struct task_pool task_pool; /* task/task_pool.c */
    struct runners runners;     /* task/runner.c */
    struct share share;         /* the isolate's share of the worker's time: exec/share.h */
    struct slice slice;         /* limits/slice.c, limits/slice_bounds.h, limits/slice_rare.c */
    /* Chosen when the isolate is made.  Limits never change, and every file may read them. */
    struct limits limits;
    struct task_set tasks;            /* task/task_set.c, task/task.c, task/handle.c, task/drop.c */
    struct body_functions body;       /* task/body.c */
    struct registry registry;         /* isolate/registry.c */
    struct account account;           /* isolate/account.h */
    struct memory memory;             /* isolate/memory.c */
    struct slab slab;                 /* isolate/slab.c */
    struct oversized oversized;       /* isolate/oversized.c */
    struct late_free late_free;       /* isolate/late_free.c */
    struct memory_alarm memory_alarm; /* isolate/memory_alarm.c */
    struct charge charge;             /* isolate/charge.c */
    struct collector collector;       /* isolate/collector.c */

    /* Touched now and then. */
    struct ban ban;                       /* isolate/ban.c */
    struct memory_lack memory_lack;       /* isolate/memory_lack.c */
    struct notices notices;               /* limits/notices.c */
    struct grace_periods grace_periods;   /* limits/grace_period.c */
    struct memory_limit memory_limit;     /* limits/memory_limit.c */
    struct timeout_report timeout_report; /* limits/timeout_report.c */
    struct slow_calls slow_calls;         /* limits/slow_call.c */
    struct limit_statistics statistics;   /* limits/statistics.h */
    struct orphan_scan orphans;           /* task/orphans.c */
    struct unhandled unhandled;           /* task/unhandled.c */
    struct cancellations cancellations;   /* task/cancellation.c */
    struct told told;                     /* task/told.c */
    struct shutdowns shutdowns;           /* task/shutdown.c */
    struct discard discard;               /* host/discard.c */
    struct objects objects;               /* isolate/objects.c */
    struct missing missing;               /* isolate/missing.c */
    struct scripts scripts;               /* task/script.c */
    struct body_watches bodies;           /* task/body_watch.c */
    struct event_queue events;            /* api/events.c */
    struct schedule schedule;             /* api/schedule.c */
    struct script_timers timers;          /* api/script_timers.c */
    struct open_objects opened;           /* api/open_objects.c */
    /* What the isolate reaches; NULL for everything.  Every file may pass it on. */
    struct orr_gate *gate;
    /* A reference.  Settings never change, and every file may read them. */
    struct settings *settings;
    struct alloc alloc;
    struct log log; /* the runtime's, with the name of the isolate; never changes */

    /* Hooks of the layers above. */
    unsigned job_slots; /* job slots in the worker pools that the isolate's scripts have made */
    struct {
        void (*call)(void *data);
        void *data;
    } on_closed; /* called when the isolate is closed, just before it is freed */
};

/*
 * The isolate of a running C function of the library, which is the function's first upvalue.  If L
 * is the coroutine that runs in the thread's slice, it belongs to the isolate of that slice, and
 * Lua need not be asked.
 */
static inline struct orr_isolate *isolate_of(lua_State *L)
{
    struct orr_isolate *iso = isolate_in_slice;
    return iso && execution_running(&iso->execution) == L ? iso : lua_touserdata(L, lua_upvalueindex(1));
}

/*
 * Whether the isolate, or a script in it, may be ending. limits/grace_period.h tells more.
 * Async-signal-safe.
 */
static inline bool isolate_ends(const struct orr_isolate *iso)
{
    return iso->closing || grace_period_any(&iso->grace_periods) || worker_grace_end(iso->worker);
}

/* Whether scripts run in the sandbox: the library made the state, for untrusted scripts. */
static inline bool isolate_is_sandboxed(const struct orr_isolate *iso)
{
    return iso->owned && iso->limits.profile == ORR_LUA_UNTRUSTED;
}

/* Whether some task must go on before any other Lua of the isolate. */
static inline bool isolate_has_urgent(const struct orr_isolate *iso)
{
    return hold_first(&iso->hold);
}

/*
 * Closes an isolate as orr_lua_close() does, in the turns that follow: from now on no new tasks
 * begin.  `on_closed` is called when the isolate is closed.  Returns a negative errno if nothing
 * was done, -EALREADY if the isolate is closing already.  The worker's thread.
 */
int isolate_close_soon(struct orr_isolate *iso);

#endif
