/*
 * A *cell* is an isolate, on one thread of the crew, in which jobs of one program run, one at a time.
 *
 * A new cell is *born* when the program's modules are loaded, and what it is like then is remembered.  After a job it is made as it was
 * (birth.h), and kept for the next job of the same program; unless it is *single*, because what cannot be put back was part of it from
 * its birth, or *spoiled*, because that came later, or it was ended by force, or it has run out of memory.  Then it is freed.
 *
 * A *station* is what a thread has for its jobs.  All of it belongs to that thread.
 */
#ifndef ORR_LUA_WORKER_CELL_H
#define ORR_LUA_WORKER_CELL_H

#include "lua/worker/pool.h"

/* On the stack of a cell's state. */
enum {
    CELL_LIBRARY = 1, /* until it is born, what it has of ours; */
    CELL_SCRIPT = 1,  /* from then on, the function, */
    CELL_BIRTH,       /* what it was like, */
    CELL_MAIN,        /* and, while there is one, the handle of the job's task */
};

struct cell {
    struct cell *next; /* of the spares; or of those that could not be freed yet */
    struct station *station;
    struct program *program; /* a reference */
    lua_State *L;
    struct orr_isolate *iso;
    size_t newborn; /* its memory when it was born */
    size_t spared;  /* on the quota, as that of a spare one */
    bool unfit;     /* it could not be prepared: why is on the stack */
    bool born, single, spoiled;

    /* Of the job, for perform.c. */
    struct job *job; /* NULL while it is spare */
    struct ltask *main;
    bool begun, stopping;
    bool taken;    /* what the script returned has been copied, or is being copied, */
    bool collects; /* by a task, because it is much */
};

struct station {
    struct worker *worker;
    struct cell *spares, *remains; /* newest first */
    unsigned spare_count;
    bool ending;
};

/* The calling thread's own.  NULL for lack of memory. */
struct station *station_of(struct worker *worker);

/* A spare cell of the job's program, or a new one.  NULL for lack of memory. */
struct cell *cell_get(struct station *station, struct job *job);

/* Its modules are loaded.  False if it cannot be born after all, with why not on the stack. */
bool cell_bear(struct cell *cell);

/* For an isolate of a cell: something that nobody awaits has failed.  In perform.c. */
void perform_note_stray(void *data, struct orr_task *task);

/* Whether it holds a good part of what its script may have. */
bool cell_is_large(const struct cell *cell);

/* Its job is over: makes it ready for another, or frees it. */
void cell_leave(struct cell *cell);

#endif
