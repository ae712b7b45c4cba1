/*
 * An isolate is one Lua state with its tasks, bound to one worker.  Only that worker's thread runs its Lua.
 *
 * A Lua task is a core task whose poll is lua_resume (task.h).  The isolate knows which task's Lua runs at the moment
 * (`current`), in which coroutine (`running`), and through which coroutines of the script's own it got there (`chain`).
 *
 * What a task needs to stay alive is anchored in one table, by an index that the task keeps, from its start until
 * the core has dropped it, and with it every value on its coroutine's stack.
 *
 * Starting and closing tasks takes effect at once: the other task runs before the caller goes on.  Up to NEST_MAX deep
 * that is a nested poll.  Deeper, the callers suspend themselves on `urgent`, a stack of tasks that are to run, in that order,
 * before any other Lua of the isolate; it is worked off by the outermost, so the C stack does not grow with it.
 */
#ifndef ORR_LUA_ISOLATE_H
#define ORR_LUA_ISOLATE_H

#include "exec/runtime.h"
#include "lua/host/discard.h"
#include "lua/isolate/charge.h"
#include "lua/isolate/collector.h"
#include "lua/isolate/compat.h"
#include "lua/isolate/limits.h"
#include "lua/isolate/memory.h"
#include "lua/isolate/objects.h"
#include "lua/task/shutdown.h"
#include "orrery.h"

enum {
    NEST_MAX = 16,       /* nested polls while the caller could also suspend itself */
    NEST_HARD_MAX = 120, /* and when it could not */
    POOL_MAX = 256,      /* coroutines kept for the next tasks */
    HANDY_ANCHORS = 16,
};

struct ltask;
struct settings;

/* What is checked often is told by the address of its metatable, not by the name of that. */
enum object_class {
    OBJECT_TASK,
    OBJECT_EVENT,
    OBJECT_SEMAPHORE,
    OBJECT_MUTEX,
    OBJECT_CONDITION,
    OBJECT_QUEUE,
    OBJECT_FUTURE,
    OBJECT_TIMER,
    OBJECT_HANDLER,
    OBJECT_SCHEDULED,
    OBJECT_CLASSES,
};

/* A coroutine of the script's own that runs inside a task, or that one. */
struct chain {
    struct chain *outer;
    lua_State *L;  /* who resumed it */
    lua_State *co; /* it */
    bool in_hook;  /* our hook runs on it; or has raised an error there, after which Lua leaves its hooks off */
};

/* Of the host. */
struct event_figures {
    uint64_t emitted, refused, dropped, coalesced;
    bool pending; /* some are queued */
};

/* Whom calls of the host's act for: see script.h. */
struct callers {
    uint32_t sole; /* the script that has the isolate to itself; 0 for none */
    uint32_t now;
};

/* Tasks that have failed at the top and are not reported yet, in the order in which they did: see task.c. */
struct unseen {
    struct ltask *first, *last;
    uint64_t failed, reported; /* so far: those that were ever in the list, and those of them that have left it */
};

/* Callbacks for the next turns: see schedule.c. */
struct schedule {
    struct scheduled *first, *last;
    unsigned count;   /* of those not cancelled */
    uint64_t made;    /* so far */
    uint64_t settled; /* of these, the first ones: they have begun, or never will */
    uint64_t run;     /* those that have begun, so far */
    bool dispatching;
};

/* What became of the timers of scripts: see loop.c. */
struct timer_figures {
    uint64_t pending; /* started, and still to fire */
    uint64_t fired, cancelled, rearmed;
    uint64_t dropped; /* that were still to fire when their script or isolate ended, or were disabled */
};

struct orr_isolate {
    struct orr_runtime *rt;
    struct worker *worker;
    lua_State *L;
    unsigned references; /* of the state, and of tasks of ours that see to it */
    bool owned;          /* the state is ours to close */

    struct ltask *current;
    lua_State *volatile running;
    struct chain *chain;
    struct level *level; /* the innermost; see budget.h */
    struct ltask *urgent;
    struct ltask *spares; /* for the next hidden tasks: see callback.h */
    int spare_count;
    struct share share;   /* of the worker's time */
    struct queue parked;  /* polled while the isolate was held */
    struct queue belated; /* the same, of fair tasks that had used up their share */
    struct unseen unseen; /* failures at the top that are not reported yet */
    uint32_t serials;     /* of waits for callbacks */
    uint32_t look_next;   /* the task to be looked at next */
    unsigned depth;       /* polls inside polls */
    unsigned visits;      /* inside one another, of which the outermost came from outside; 0 in ordinary turns */
    unsigned calls;       /* from and to the host under way */
    unsigned closes;      /* of coroutines, inside one another */
    bool slicing;         /* Lua runs, watched */
    bool plain;           /* and the host's plain code waits for it */
    bool suspending;      /* a task's coroutines are on their way out, for the task to wait */
    bool preempting;      /* or because the slice is over: all tasks out to the worker follow */
    bool closing;         /* no more tasks; and closed, when there are none left */
    bool look;            /* the collector has finished a cycle: see reach.c */
    bool debug;           /* remember where tasks were made */

    /* References into the registry. */
    int anchors, pool, base, base_handler, task_class, task_methods;
    const void *identities[OBJECT_CLASSES];
    int classes[OBJECT_CLASSES];
    int free_anchor;                  /* the first of a list of free indices, 0 for none */
    int handy_anchors[HANDY_ANCHORS]; /* more of them, */
    int handy;                        /* so many */
    int last_anchor;
    int pooled;
    uint64_t tasks;             /* that the core has not dropped */
    uint64_t tasks_done;        /* so far: their order is that in which they were done */
    struct orr_waker closer;    /* told when the last of them has gone */
    struct shutdown *shutdowns; /* of all or of scripts, that are under way */
    struct shutdown shutdown;   /* of all */
    struct swallower swallower;
    struct discard discard;

    /* What budget.h is about. */
    struct limits limits;
    struct watch_outer watched; /* the slice, of another isolate on the same worker, inside which ours is */
    uint64_t slice_end;         /* when instructions are counted */
    bool counted;               /* no timer interrupts the slice: its hook looks at the clock */
    bool counted_told;          /* the host, of that */
    volatile bool requested;    /* the hook is wanted: the slice is over, or there is something to do about memory */
    volatile bool slice_over;   /* the first of these */
    volatile bool fresh, moving, after_call;
    bool condemned;       /* none of its Lua runs any more, */
    char verdict[160];    /* and why */
    lua_Hook script_hook; /* of scripts, which looks by itself: see hooks.h; NULL if they can have none */
    unsigned skips;       /* of moments that were not good ones */
    uint64_t requested_at;
    uint64_t requested_cpu;    /* the same by the thread's own clock */
    lua_State *volatile armed; /* has our hook */
    struct {
        lua_Hook hook; /* its own, meanwhile */
        int mask, count;
    } own;
    lua_State *ended_in; /* where a call that was ended stands */
    struct notice *notices;
    uint64_t preemptions, timeouts;
    struct event_figures events;
    struct schedule schedule;
    struct timer_object *timers; /* not closed */
    struct timer_figures timer_figures;
    uint32_t scripts; /* loaded so far */
    struct callers callers;
    struct body_watch *bodies;  /* of scripts, whose failure somebody is to be told: see script.h */
    unsigned places;            /* for jobs, in pools of its own */
    uint32_t loading;           /* of those, whose bodies have not begun: events wait for that */
    int64_t disabled;           /* in a notice of that: the handler */
    void (*closed)(void *data); /* told when it is, just before it is freed */
    void *closed_data;
    void (*unhandled)(void *data, struct orr_task *task); /* told of failures that nobody saw, in place of the sink */
    void *unhandled_data;
    uint64_t schedule_errors;
    char culprit[80];          /* the C function that ran when the slice was over, and for how long */
    struct settings *settings; /* a reference */

    /* Memory: see memory.h and collector.h. */
    size_t memory, memory_peak;
    bool over_memory;    /* the limit is passed, and the hook is to see to it; */
    bool forced_already; /* whole cycles were begun because of that */
    bool soft_passed;    /* the soft limit, and the host was told */
    struct memory_account account;
    struct charge charge;
    struct collector collector;
    struct idle_work idle; /* the collector's */
    struct objects objects;
    struct alloc alloc;
};

/* The isolate of a C function of ours: its first upvalue. */
static inline struct orr_isolate *isolate_of(lua_State *L)
{
    return lua_touserdata(L, lua_upvalueindex(1));
}

/* Whether it, or a script in it, may be being ended: then shutdown.h knows more. */
static inline bool isolate_ends(const struct orr_isolate *iso)
{
    return iso->closing || iso->shutdowns || iso->worker->grace_end;
}

/* A state on settings of the caller's, who keeps a reference of its own.  -ENOMEM.  The thread that runs its worker. */
int isolate_new(struct orr_runtime *rt, struct settings *settings, lua_State **out);

/* Frees one that was made like that, and that has no tasks and no Lua running.  The same thread. */
void isolate_free(struct orr_isolate *iso);

/*
 * Closes it as orr_lua_close() does, in the turns that follow: from now on nothing of it begins.  `closed` is told when it is gone.
 * Negative errno, and nothing done.  The worker's thread.
 */
int isolate_close_soon(struct orr_isolate *iso);

/* Whether a task of it was suspended in mid-slice, and is to go on before any other Lua runs. */
bool isolate_is_held(struct orr_isolate *iso);

/* The isolate of a state; NULL if it is none. */
struct orr_isolate *isolate_find(lua_State *L);

void isolate_unref(struct orr_isolate *iso);

/* Registers C functions with the isolate as their first upvalue, into the table at the top. */
void isolate_register(struct orr_isolate *iso, lua_State *L, const luaL_Reg *functions);

/* Pushes the table of a class's methods. */
void isolate_push_methods(lua_State *L, const char *name);

/* Makes a class: a metatable named `name` with those whose names begin with two underscores, and a table of the others. */
void isolate_class(struct orr_isolate *iso, lua_State *L, const char *name, const luaL_Reg *methods);

/* The same for one of those above. */
void isolate_object_class(struct orr_isolate *iso, lua_State *L, enum object_class which, const char *name,
                          const luaL_Reg *methods);

/* Makes what is at the top an object of one of those. */
void isolate_set_class(lua_State *L, enum object_class which);

/* The object at an index; NULL if it is none of that class. */
void *isolate_test(lua_State *L, int index, enum object_class which);

/* The same; raises. */
void *isolate_check(lua_State *L, int index, enum object_class which, const char *name);

/*
 * Between the two the calling thread runs the isolate's worker, if it did not before: for calls that come from plain code of
 * the host.  -EBUSY if another thread drives it.  Nothing in between may raise; after a failure there is nothing to leave.
 */
int isolate_visit(struct orr_isolate *iso);
void isolate_leave(struct orr_isolate *iso);

/* Anchors the value at the top of L, which stays there, at a free index.  May raise. */
int isolate_anchor(struct orr_isolate *iso, lua_State *L);

/* Pushes what is anchored.  Never allocates. */
void isolate_push_anchored(struct orr_isolate *iso, lua_State *L, int anchor);

/* Never allocates. */
void isolate_unanchor(struct orr_isolate *iso, lua_State *L, int anchor);

/* Puts the value at the top of L, which is taken off, at an anchor that is in use; or nothing.  Never allocates. */
void isolate_set_anchor(struct orr_isolate *iso, lua_State *L, int anchor, bool value);

/* A coroutine to run a task on, pushed on L too.  May raise. */
lua_State *isolate_coroutine(struct orr_isolate *iso, lua_State *L);

/* Keeps a coroutine that ended well for the next.  Never allocates. */
void isolate_recycle(struct orr_isolate *iso, lua_State *co);

#endif
