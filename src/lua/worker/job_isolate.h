/*
 * A job isolate is an isolate on a pool thread.  Jobs of one program run in it, one at a time, until
 * it is given to a kindred program (program.h): then only the script is loaded.
 *
 * A job isolate is *prepared* when the libraries are adapted and the host's prepare function has
 * run.  It is *ready* when the program's modules are loaded and a snapshot of its Lua state is
 * taken (snapshot.h).  After each job it is restored from the snapshot and kept as a spare, for the
 * next job of the same program.  It is freed instead if it is not reusable: something that cannot
 * be restored was in it from the start, or came with the job; or the job was ended by force; or it
 * ran out of memory.
 *
 * The pool thread that made a job isolate owns it.
 */
#ifndef ORR_LUA_WORKER_JOB_ISOLATE_H
#define ORR_LUA_WORKER_JOB_ISOLATE_H

#include "lua/worker/dirty.h"
#include "lua/worker/pool.h"

struct job_thread;

enum job_isolate_state {
    JOB_ISOLATE_UNPREPARED, /* preparing it failed: the error is on the stack */
    JOB_ISOLATE_PREPARED,
    JOB_ISOLATE_READY,
};

/* How far its job is. */
enum job_progress {
    PROGRESS_ASSIGNED, /* the task that runs the job was not polled yet */
    PROGRESS_LOADING,  /* the program's modules run */
    PROGRESS_RUNNING,  /* the script runs, or tasks, timers or callbacks that it left */
    PROGRESS_COPYING,  /* a task copies the results, because they are large */
    PROGRESS_COPIED,   /* the results were copied */
    PROGRESS_STOPPING, /* the job ends early: all that it began is being cancelled */
};

/* The stack of the Lua state. */
enum {
    JOB_ISOLATE_LIBRARY = 1, /* while it is prepared: the set of the library's functions */
    JOB_ISOLATE_SCRIPT = 1,  /* while it is ready: the script's function, */
    JOB_ISOLATE_SNAPSHOT,    /* the snapshot, */
    JOB_ISOLATE_MAIN,        /* and, if there is one, the handle of the main task */
};

struct job_isolate {
    struct job_isolate *next; /* among the thread's spares, or those that it could not free yet */
    struct job_thread *thread;
    struct program *program; /* a reference */
    lua_State *L;
    struct orr_isolate *iso;
    enum job_isolate_state state;
    bool reusable;       /* all that is in it can be restored */
    struct dirty dirty;  /* the tables of the snapshot */
    size_t base_memory;  /* that it used when it became ready, without the script */
    size_t ready_memory; /* that it would use now without garbage, with the script */
    size_t spare_memory; /* charged to the quota for spares; 0 while a job runs */

    /* The job's, for run_job.c. */
    struct job *job; /* NULL while it is a spare */
    enum job_progress progress;
    struct ltask *main; /* the task that runs the modules or the script, or copies the results */
};

/*
 * Called on the pool thread, with the job isolate, for a task that failed and that nobody awaits.
 */
typedef void job_isolate_unhandled(void *isolate, struct orr_task *task);

/*
 * A prepared job isolate for a job; or an unprepared one, with an error.  NULL for lack of memory.
 */
struct job_isolate *job_isolate_new(struct job_thread *thread, struct job *job, job_isolate_unhandled *on_unhandled);

/* False, and nothing done, while it has tasks: the kernel still holds their I/O. */
bool job_isolate_free(struct job_isolate *isolate);

/* The modules are loaded: makes it ready.  False, with the error pushed. */
bool job_isolate_init(struct job_isolate *isolate);

/*
 * Restores it after a job, and charges it as a spare.  False if that cannot be: it is to be freed.
 */
bool job_isolate_make_spare(struct job_isolate *isolate);

/*
 * Takes a spare for a job of its program, or of a kindred one.  False for lack of memory: it is to
 * be freed.
 */
bool job_isolate_use_spare(struct job_isolate *isolate, struct job *job);

/* Whether it holds a good part of the memory that its script may have. */
bool job_isolate_is_large(const struct job_isolate *isolate);

/* Whether it holds so little beyond what it had when it became ready that a spare may keep it. */
bool job_isolate_has_little_garbage(const struct job_isolate *isolate);

/* Pushes a C function whose first upvalue is the isolate (isolate_of()).  May raise. */
void job_isolate_push_function(const struct job_isolate *isolate, lua_State *L, lua_CFunction function);

/* Starts the main task: [function] [arguments...] -> [handle].  May raise. */
void job_isolate_start_task(struct job_isolate *isolate, lua_State *L, int arguments, const char *name);

#endif
