/*
 * A Lua task: a core task whose body is a coroutine.
 *
 * The handle that scripts hold is a full userdata, struct ltask.  The isolate anchors it until the
 * core has dropped the task.  While the body runs, the handle's user value is its coroutine.  When
 * the body is over, it is the result: one value, or the coroutine if that has several.  A coroutine
 * that ended well and holds nothing goes back to the registry's pool.
 *
 * A task that a script starts runs at once, and most end before they wait.  Until the first step is
 * over, such a task is *provisional*: its creator, a C function, has the handle at index 1 of its
 * frame, which keeps it alive, and the coroutine has its seat in the pool.  The anchor is reserved
 * only.  ltask_settle() makes a task ordinary, when it outlives its first step, when it does not
 * end well, or when somebody asks for its handle.
 *
 * The files around a task, lowest first; each includes only those before it:
 *
 *     task            the handle: its state, its anchor, its tie to the core's task
 *     task_set        how many there are
 *     script          which script a task belongs to
 *     cancellation    the error "closed"
 *     trace           the stacks of the tasks that an error came through
 *     told            the failures that scripts were told of last
 *     task_finalizer  what remains when a handle is collected
 *     orphans         tasks that nobody can reach any more
 *     result          values and errors of tasks
 *     error_text      error values as people read them
 *     report          errors as people read them, with the stacks of tasks
 *     suspend         waiting
 *     body_watch      who is told when a script's body fails
 *     body            the bottom of a coroutine, and what a body ends with
 *     handler         strikes against callbacks that time out
 *     hold            what runs first
 *     housekeeper     tasks in C that work for the isolate
 *     unhandled       failures that nobody has seen
 *     task_pool       handles and coroutines that are used again
 *     drop            the end of a task
 *     run             polling, starting at once, closing
 *     create          the constructor
 *     callback        callbacks of timers, schedule() and events
 *     runner          tasks that call them, one after another
 *     shutdown        the end of all tasks of a script
 *
 * Everything here belongs to the isolate's worker's thread.
 */
#ifndef ORR_LUA_TASK_TASK_H
#define ORR_LUA_TASK_TASK_H

#include "exec/extend.h"
#include "lua/isolate.h"

#define LTASK_CLASS "orrery.task"
#define ESCRIPT EREMOTEIO /* the error code of a task that ended with a Lua error */

/* User values of a handle. */
enum {
    LTASK_VALUE = 1, /* the coroutine, later the result */
    LTASK_NAME,
    LTASK_HANDLER,
    LTASK_USER_VALUES = LTASK_HANDLER,
};

/* How far a task has come.  From LTASK_OK on the core has dropped it, and its result is settled. */
enum ltask_phase {
    LTASK_NEW,   /* its body has not begun */
    LTASK_BEGUN, /* its body runs or waits */
    LTASK_OVER,  /* its coroutine has returned, or was closed; it may still wait for its children */
    LTASK_OK,
    LTASK_FAILED,
    LTASK_CLOSED,
};

/* Whether a task is on the stack of the hold: see hold.h. */
enum ltask_held {
    HELD_NOT,
    HELD_READY,  /* it runs when its turn comes there */
    HELD_PAUSED, /* it is suspended until its turn comes there */
};

/* What holds the handle while the core has the task: see orphans.h. */
enum ltask_reach {
    REACH_ANCHORED,
    REACH_SEEN_WAITING, /* anchored, and the orphan scan has met it in this wait */
    REACH_WEAK,         /* held only by the object that it waits for */
};

struct trace;

/*
 * What the core keeps of a task that has failed: the error and its trace.  The core owns it, as the
 * value of the task's result.  The error is the handle's user value as long as the isolate anchors
 * the handle; from then on the handle's anchor is the error's.  So the handle of a task that has
 * failed can be collected, and with it the core's task, if nobody else refers to that.
 */
struct kept_error {
    struct orr_isolate *iso;
    struct ltask *handle; /* NULL when `anchor` holds the error */
    int anchor;
    struct trace *trace; /* owned; NULL for none */
    bool timeout_told;   /* the host had a notice that the task has timed out */
};

/*
 * What a task keeps only while it does not wait: it lies where a wait has the links in its source's
 * list (see wait.h).  A task that waits has used nothing, and is not done.
 */
struct ltask_apart {
    unsigned char of_wait[offsetof(struct orr_wait, in_source)];
    union {
        uint64_t used;    /* of the limit, since it last waited of its own accord; not 0 */
        uint64_t done_as; /* when the core has dropped it: its number in the order of completion */
    };
    struct ltask *next_unhandled; /* of a failed task: it may still be in the hold, by `next` */
};

static_assert(sizeof(struct ltask_apart) == offsetof(struct orr_wait, in_source) + sizeof(struct orr_link),
              "what a wait does not use unless it is WAITING");
static_assert(ORR_LUA_ENTRIES <= 8, "a handle has three bits for an entry");

struct ltask {
    struct orr_isolate *iso;
    struct orr_task *task; /* a reference; NULL when the core has no more to tell */
    lua_State *co;         /* NULL when over, unless several results are on it */
    union {
        lua_State *suspended; /* the coroutine in which it waits; NULL before */
        lua_State *creator;   /* of a provisional task: the coroutine that started it */
    };
    struct ltask *next;                    /* on the stack of the hold, or in the pool */
    struct task_finalizer *task_finalizer; /* NULL for none */
    union {
        uint64_t limit;           /* nanoseconds or instructions without a wait; 0: none */
        struct kept_error *error; /* when over, if `keeps_error` */
    };
    int anchor;         /* of the handle; 0 when it is given back */
    int completed_with; /* anchor of a coroutine with results of task:complete(), or 0 */
    union {
        int arguments;             /* before it begins: values on the coroutine */
        uint32_t awaited_callback; /* then: the number of the callback that it waits for; or 0 */
        int results;               /* when over: 0, 1 (the user value), or more on the coroutine */
    };
    uint32_t script; /* whose it is: see script.h */
    /* Mostly bytes, not bits: these change in every step. */
    uint8_t phase;          /* enum ltask_phase */
    uint8_t held : 2;       /* enum ltask_held */
    bool bare : 1;          /* its body is the function in which it waits: see run.h */
    bool solitary : 1;      /* its failure goes to the sink, not to its parent */
    uint8_t reach;          /* enum ltask_reach */
    uint8_t seat;           /* of a provisional task's coroutine; 0 for other tasks */
    uint8_t cancellations;  /* waits that have raised "closed" in it, up to 255 */
    uint8_t entry : 3;      /* enum orr_lua_entry */
    uint8_t stack_base : 3; /* values below its body's on the coroutine: see task_pool.h */
    bool has_used : 1;      /* `apart.used` is not 0 */
    bool fair : 1;          /* other Lua of the isolate may run while its slice is suspended */
    /* A byte of its own: a runner sets all of it, for each call. */
    uint8_t emit_depth : 6; /* how many events:emit calls it began inside, until it waits */
    bool cleanup : 1;       /* it was made while its script, or isolate, was being ended */
    bool name_on_stack : 1; /* its name is a string on its coroutine */
    bool pooled : 1;        /* no script has its handle */
    bool exposed : 1;       /* a script has its coroutine */
    bool completed : 1;     /* by task:complete() */
    bool keeps_error : 1;   /* the core keeps its error, which is its user value */
    bool unhandled : 1;     /* it has failed, and is in the list of unhandled failures */
    bool loading : 1;       /* a script's body before its first wait: events are queued */
    bool watched : 1;       /* a body_watch is told when it fails */
    bool handles : 1;       /* it is the call of a handler, which is the third user value */
    /* Last: the pool clears what comes before. */
    union {
        struct orr_wait wait;
        struct ltask_apart apart; /* where the wait has its links; only while it does not wait */
    };
};

static_assert(sizeof(struct ltask) == 152, "the handle of a sleeping task, without Lua's own part");

/* Whether the creator holds the handle. */
static inline bool ltask_is_provisional(const struct ltask *self)
{
    return self->seat;
}

/* The innermost coroutine of a task that does not run: the one in which it waits, if it does. */
static inline lua_State *ltask_innermost(const struct ltask *self)
{
    return self->suspended && !self->seat ? self->suspended : self->co;
}

/* Whether the coroutine has returned, or was closed. */
static inline bool ltask_is_over(const struct ltask *self)
{
    return self->phase >= LTASK_OVER;
}

/* Whether the core has dropped the task: its result is settled. */
static inline bool ltask_is_done(const struct ltask *self)
{
    return self->phase >= LTASK_OK;
}

/* What the task has used of its limit since it last waited of its own accord. */
static inline uint64_t ltask_used(const struct ltask *self)
{
    return self->has_used ? self->apart.used : 0;
}

/* The task does not wait, unless it has used nothing. */
static inline void ltask_set_used(struct ltask *self, uint64_t used)
{
    assert(!used || self->wait.state != WAIT_WAITING);
    self->has_used = used;
    if (used)
        self->apart.used = used;
}

/* Makes the class of handles.  May raise. */
void ltask_open(struct orr_isolate *iso, lua_State *L);

/* The Lua task of a core task; NULL for others, and when its handle is gone. */
struct ltask *ltask_of(const struct orr_task *task);

/* The handle at an index; NULL if it is none. */
struct ltask *ltask_test(lua_State *L, int index);

/* The handle at an argument; raises if it is none. */
struct ltask *ltask_check(lua_State *L, int index);

/*
 * The call that messages tell a script to start a task with.  Where nothing drives the loop but a
 * function of the script's own, that function is named: ltask_set_starter() keeps the pointer.
 */
const char *ltask_starter(const struct orr_isolate *iso);
void ltask_set_starter(struct orr_isolate *iso, const char *call);

/* The task whose Lua runs now; raises outside tasks. */
struct ltask *ltask_current(lua_State *L, const char *what);

/* Pushes the handle of a task, for a script to have.  May raise. */
void ltask_push(lua_State *L, struct ltask *self);

/* A provisional task becomes an ordinary one.  Never allocates. */
void ltask_settle(struct ltask *self);

/* Pushes the handle of a task whose anchor is not given back.  Never allocates. */
void ltask_push_handle(lua_State *L, struct ltask *self);

/* Gives up the anchor of the handle if nothing here needs the handle any more. */
void ltask_release(struct ltask *self);

/*
 * Makes what the core is to keep of a task that fails with its user value.  The trace, which may be
 * NULL, is taken over.  NULL for lack of memory, and the trace is freed.
 */
struct kept_error *ltask_keep_error(struct ltask *self, struct trace *trace);

/* Frees a kept error.  The `drop` of a result. */
void kept_error_drop(void *value);

/* What the core keeps of a task that has failed by itself; NULL for others. */
const struct kept_error *kept_error_of(struct orr_task *task);

/* Pushes the error.  Never allocates. */
void kept_error_push(const struct kept_error *self, lua_State *L);

/* Lowers the time limit of a task's body.  A task that has failed has none: its error is there. */
void ltask_lower_limit(struct ltask *self, uint64_t limit);

/*
 * Gives up the anchor, and perhaps the seat, of a handle that has not become a task, or whose task
 * is over.
 */
void ltask_give_up(struct ltask *self);

/*
 * --- The core's task
 * -------------------------------------------------------------------------------------
 *
 * A core task may outlive its handle: as a failure that its parent keeps, or by a reference of the
 * host's.  It is charged to the isolate until it is freed, so it holds a reference to the isolate
 * as long.
 */

/* The destructor of a core task that is a Lua task: calls what task_set.h was given for that. */
void ltask_drop(void *data);

/* A core task, charged for already, becomes the handle's.  ltask_freed() ends the charge. */
void ltask_bind(struct ltask *self, struct orr_task *core);

/* The worker's `task_freed`. */
void ltask_freed(struct orr_task *core);

/* A core task that is done refers to no handle any more. */
void ltask_forget_handle(struct orr_task *core, struct orr_isolate *iso);

/* Gives up the reference of a handle that is gone, or that has nothing more to ask. */
void ltask_leave_core(struct orr_task *core, struct orr_isolate *iso);

#endif
