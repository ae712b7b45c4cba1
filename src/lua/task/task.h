/*
 * A Lua task: a core task whose body is a coroutine.
 *
 * It is a full userdata, the handle that scripts hold, anchored by the isolate until the core has dropped the task.  While
 * it runs, its user value is its coroutine.  At the bottom of that is one C function of ours, which calls the body protected, so
 * that errors unwind inside the coroutine, where `<close>` may wait.  When the body is over, the user value
 * becomes what it has come to: one value, or the coroutine, if there are several on it; and a coroutine that ended
 * well and holds nothing goes back to the pool.
 *
 * A wait of Lua code is a C function that calls a wait function of the core, and if that says -EAGAIN, suspend()s with itself as the
 * continuation: so beginning and going on are the same code.  ltask_poll() resumes the coroutine only when the wait is over.
 *
 * The errors of the core become Lua errors in wait_raise(): -ECANCELED is the string "closed", -ECHILD the error value of the
 * child itself.
 */
#ifndef ORR_LUA_TASK_TASK_H
#define ORR_LUA_TASK_TASK_H

#include "exec/scope.h"
#include "exec/wait.h"
#include "lua/isolate.h"
#include "lua/task/handler.h"

#define LTASK_CLASS "orrery.task"
#define ESCRIPT EREMOTEIO /* what a task that ended with a Lua error has failed with */

/* User values of a handle, the first of which is its coroutine, and later what it has come to. */
enum {
    LTASK_VALUE = 1,
    LTASK_NAME,
    LTASK_HANDLER,
    LTASK_USER_VALUES = LTASK_HANDLER,
};

enum ltask_state {
    LTASK_LIVE,
    LTASK_OK,
    LTASK_FAILED,
    LTASK_CLOSED,
};

struct ltask {
    struct orr_isolate *iso;
    struct orr_task *task; /* a reference; NULL when there is nothing more to ask the core */
    lua_State *co;         /* NULL when it is over, unless several results are on it */
    struct ltask *next_urgent;
    struct ltask *next_unseen;
    struct handler *handler; /* that it is a call of, in its third user value; or NULL */
    uint64_t limit;          /* of its deadline: nanoseconds, or instructions; 0 for none */
    union {
        uint64_t used;    /* of that, since it last waited of its own accord */
        uint64_t done_as; /* when the core has dropped it: lower than those that were done later */
    };
    int anchor;
    union {
        int arguments; /* on the coroutine's stack, before it has begun */
        int results;   /* when it is over: none, the user value, or so many on the coroutine */
    };
    uint32_t serial; /* of the callback that it waits for */
    uint32_t script; /* whose it is: see script.h */
    uint8_t state;   /* enum ltask_state */
    uint8_t entry;   /* enum orr_lua_entry */
    uint8_t emits;   /* inside how many events:emit it began, until it waits */
    uint8_t below;   /* values on its coroutine that are none of its body's: see callback.h */
    uint8_t told;    /* how many waits have raised "closed" in it; it stays at the highest */
    bool begun : 1;
    bool over : 1;         /* the coroutine has returned */
    bool loading : 1;      /* it is a script's body that has not begun, and events wait for that */
    bool hidden : 1;       /* no script has its handle: see callback.h */
    bool borrowed : 1;     /* its name is that of a string on its coroutine */
    bool fair : 1;         /* others may run while its slice is suspended */
    bool completed : 1;    /* from outside */
    bool urgent : 1;       /* in the isolate's list of that name */
    bool paused : 1;       /* and suspended until its turn comes there */
    bool dropped : 1;      /* by the core */
    bool unseen : 1;       /* it has failed, and is in the isolate's list of that name */
    bool keeps_error : 1;  /* the core keeps its result, and so its handle is kept */
    int given;             /* the anchor of the coroutine with the results given from outside; 0 for none */
    bool weak : 1;         /* held only by what it waits for: see reach.c */
    bool exposed : 1;      /* a script has its coroutine */
    bool looked_at : 1;    /* by reach.c, in this wait */
    bool watched : 1;      /* somebody is to be told when it has failed: see script.h */
    bool cleanup : 1;      /* it was made while its isolate, or its script, was being ended */
    bool for_callback : 1; /* it waits for one, whose arguments go to the stack of `suspended` */
    lua_State *suspended;  /* the coroutine in which it waits */
    struct task_finalizer *task_finalizer; /* see there; NULL for none */
    struct orr_wait wait;
};

/* The task whose Lua runs now; raises outside tasks. */
struct ltask *ltask_current(lua_State *L, const char *what);

/* The same for what begins something that must not be left in the middle: raises where Lua cannot yield, too. */
struct ltask *ltask_waiting(lua_State *L, const char *what);

/* Raises where one more task cannot be started at once. */
void ltask_check_depth(lua_State *L);

/* The task at an argument; raises. */
struct ltask *ltask_check(lua_State *L, int index);

/* NULL if it is not one. */
struct ltask *ltask_test(lua_State *L, int index);

/* Pushes the handle of a task, for a script to have.  May raise. */
void ltask_push(lua_State *L, struct ltask *self);

/* The Lua task that a core task is; NULL for others, and when its handle is gone. */
struct ltask *ltask_of(const struct orr_task *task);

struct ltask_options {
    const char *name;
    bool detached;
    bool fair;
    bool lasting; /* the name outlives the task */
    bool steps;   /* the function answers the steps of the body, one by one: see script_start_steps() */
    int name_at;  /* or it is the string at this index of L; 0 for elsewhere */
    int handler;  /* the index on L of what calls it; 0 for none */
    enum orr_lua_entry entry;
    uint32_t script;      /* whose it is; 0: of the one that runs now, or for a call of a handler, the host's */
    uint64_t deadline_ns; /* 0: as the isolate has it for such an entry */
};

/*
 * Makes a task of the function and its arguments at the top of L, which are taken off, and leaves the handle there.  It has not
 * begun.  May raise.
 */
struct ltask *ltask_new(struct orr_isolate *iso, lua_State *L, int arguments, const struct ltask_options *options);

/*
 * Runs a task that has not begun, or those that `first` leads by `next_urgent`, before whoever calls goes on: a C function
 * returns what this answers.  `k` goes on; it is called here, or later.
 */
int ltask_run_first(lua_State *L, struct ltask *first, lua_KFunction k, lua_KContext context);

/*
 * Has the running task wait; `k` goes on when the core has polled it.  To be returned by a C function.  Raises where Lua
 * cannot yield, and says why.
 */
int suspend(lua_State *L, lua_KFunction k, lua_KContext context);

/* Whether a task runs here that can be suspended. */
bool can_suspend(lua_State *L);

/* Pushes, or raises, what a wait that ended badly means. */
void wait_push_error(lua_State *L, int error);
int wait_raise(lua_State *L, int error);

/* Pushes what a done task has come to on L: true and its results, or false and its error.  Answers how many. */
int ltask_push_outcome(lua_State *L, struct ltask *self, int handle);

/* The same, but first an error, or nil. */
int ltask_push_results(lua_State *L, struct ltask *self, int handle);

/* Pushes the error of a result. */
void push_error_of(lua_State *L, struct orr_isolate *iso, const struct orr_result *result);

/* Completes a task with the values on the coroutine at 2.  Raises if it is too late. */
int ltask_complete(lua_State *L, struct ltask *self);

/* Starts the function and its arguments at the top of L, which are taken off, soon.  May raise. */
void ltask_start_soon(struct orr_isolate *iso, lua_State *L, int arguments, const struct ltask_options *options);

/* Cancels a task, and runs what that wakes before the caller goes on.  To be returned by a C function. */
int ltask_close(lua_State *L, struct ltask *self, const char *reason, lua_KFunction k, lua_KContext context);

/* Lets go of the handle if nothing needs it any more. */
void ltask_release(struct ltask *self);

/* Tells the sink of failures that nobody saw, here and now. */
void ltask_report_unseen(struct orr_isolate *iso);

/* Of failed tasks that the host keeps: their errors were Lua values. */
void ltask_forget_errors(struct orr_isolate *iso);

void ltask_open(struct orr_isolate *iso, lua_State *L);

#endif
