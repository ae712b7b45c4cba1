/*
 * An isolate is one Lua state with its tasks, bound to one worker.  Only that worker's thread runs its Lua.
 *
 * This file only composes.  Each member belongs to the module whose header declares its struct; only that
 * module touches the fields, and other modules call its functions.  So this file includes headers of every
 * room, and none of those headers includes this one.
 */
#ifndef ORR_LUA_ISOLATE_H
#define ORR_LUA_ISOLATE_H

#include "exec/extend.h"
#include "lua/api/events.h"
#include "lua/api/schedule.h"
#include "lua/api/script_timers.h"
#include "lua/host/discard.h"
#include "lua/isolate/charge.h"
#include "lua/isolate/collector.h"
#include "lua/isolate/compat.h"
#include "lua/isolate/execution.h"
#include "lua/isolate/limits.h"
#include "lua/isolate/memory.h"
#include "lua/isolate/objects.h"
#include "lua/isolate/registry.h"
#include "lua/isolate/visit.h"
#include "lua/limits/notices.h"
#include "lua/limits/preemption.h"
#include "lua/limits/verdict.h"
#include "lua/task/body.h"
#include "lua/task/body_watch.h"
#include "lua/task/cancellation.h"
#include "lua/task/hold.h"
#include "lua/task/orphans.h"
#include "lua/task/script.h"
#include "lua/task/shutdown.h"
#include "lua/task/task_pool.h"
#include "lua/task/task_set.h"
#include "lua/task/unhandled.h"
#include "orrery.h"

struct settings;

struct orr_isolate {
    struct orr_runtime *rt;
    struct worker *worker;
    lua_State *L;
    unsigned references; /* held by the state, and by tasks that work for the isolate */
    bool owned;          /* the library made the state, and closes it */
    bool closing;        /* no more tasks begin; the isolate is closed when none is left */
    bool debug;          /* tasks remember where they were made */

    /* Touched by every slice. */
    struct execution execution;
    struct hold hold;           /* task/hold.c */
    struct task_pool task_pool; /* task/task_pool.c */
    struct share share;         /* of the worker's time */
    struct preemption preemption;
    struct limits limits;
    struct task_set tasks;      /* task/task_set.c, task/task.c, task/handle.c, task/drop.c */
    struct body_functions body; /* task/body.c */
    struct registry registry;
    struct memory_account memory;
    struct charge charge;
    struct collector collector;

    /* Touched now and then. */
    struct verdict verdict;
    struct notices notices;
    struct orphan_scan orphans;         /* task/orphans.c */
    struct unhandled unhandled;         /* task/unhandled.c */
    struct cancellations cancellations; /* task/cancellation.c */
    struct shutdowns shutdowns;         /* task/shutdown.c */
    struct discard discard;
    struct objects objects;
    struct scripts scripts;      /* task/script.c */
    struct body_watches bodies;  /* task/body_watch.c */
    struct event_queue events;   /* api/events.c */
    struct schedule schedule;    /* api/schedule.c */
    struct script_timers timers; /* api/script_timers.c */
    struct settings *settings;   /* a reference */
    struct alloc alloc;

    /* Hooks of the layers above. */
    unsigned job_slots; /* for jobs, in pools of its own */
    struct {
        void (*call)(void *data);
        void *data;
    } on_closed; /* called when the isolate is closed, just before it is freed */
};

/* The isolate of a C function of ours: its first upvalue. */
static inline struct orr_isolate *isolate_of(lua_State *L)
{
    return lua_touserdata(L, lua_upvalueindex(1));
}

/* Whether it, or a script in it, may be being ended: then shutdown.h knows more. */
static inline bool isolate_ends(const struct orr_isolate *iso)
{
    return iso->closing || iso->shutdowns.first || worker_grace_end(iso->worker);
}

/*
 * Closes it as orr_lua_close() does, in the turns that follow: from now on nothing of it begins.  `closed` is told when it is gone.
 * Negative errno, and nothing done.  The worker's thread.
 */
int isolate_close_soon(struct orr_isolate *iso);

void isolate_unref(struct orr_isolate *iso);

#endif
