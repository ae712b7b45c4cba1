/*
 * The Lua function `schedule`: callbacks that run in the next turns, first come, first served.
 *
 * The isolate's worker's thread.
 */
#ifndef ORR_LUA_API_SCHEDULE_H
#define ORR_LUA_API_SCHEDULE_H

#include "lua/isolate/compat.h"
#include "lua/task/housekeeper.h"

#include <stdbool.h>
#include <stdint.h>

struct orr_isolate;
struct ltask;
struct scheduled;

/* Part of the isolate. */
struct schedule {
    struct scheduled *first, *last;
    unsigned count;                /* callbacks not cancelled */
    uint64_t made;                 /* callbacks ever scheduled */
    uint64_t settled;              /* callbacks, from the first on, that have begun or never will */
    uint64_t run;                  /* callbacks that have begun */
    struct housekeeper dispatcher; /* begins callbacks; there while some wait */
};

/* The isolate is closed: none of the callbacks begins any more.  Lua frees them with the state. */
void schedule_close(struct schedule *self);

/* How many callbacks wait. */
static inline unsigned schedule_count(const struct schedule *self)
{
    return self->count;
}

/* How many callbacks have begun. */
static inline uint64_t schedule_run(const struct schedule *self)
{
    return self->run;
}

/* Adds `schedule` to the table at the top of L.  May raise. */
void schedule_open(struct orr_isolate *iso, lua_State *L);

/*
 * [function] -> nothing: schedules the function, for another function of the API that calls back.
 * If its script is being ended, nothing is called.  May raise.
 */
void schedule_callback(lua_State *L);

/* Cancels the waiting callbacks of a script, or of EVERY_SCRIPT. */
void schedule_cancel(struct orr_isolate *iso, uint32_t script);

/* Appends a description of each waiting callback of a script to the list at the top.  May raise. */
void schedule_list(struct orr_isolate *iso, lua_State *L, uint32_t script);

/*
 * A mark that a task waits for when it lets others run first.  The next mark is behind as many of
 * the waiting callbacks as one turn begins; the last mark is behind all of them.
 */
uint64_t schedule_next_mark(const struct orr_isolate *iso);
uint64_t schedule_last_mark(const struct orr_isolate *iso);

/*
 * Lets others run until every callback before the mark has begun or never will.  The first yields
 * at least once; the second, a continuation, does not if the mark is passed already.  A C function
 * of a task returns what these return: no values.
 */
int schedule_yield(lua_State *L, struct ltask *self, uint64_t mark);
int schedule_pass(lua_State *L, int status, lua_KContext mark);

#endif
