/*
 * Whose a thing is: every script has a number in its isolate, and 0 is the host.  What a task makes is its script's.  What the host
 * calls outside tasks acts for the script that has the isolate to itself; for a function that a script has given to the host, for that
 * script; else for the host.
 */
#ifndef ORR_LUA_HOST_SCRIPT_H
#define ORR_LUA_HOST_SCRIPT_H

#include "lua/isolate.h"

/* The script that what runs now acts for. */
uint32_t script_running(const struct orr_isolate *iso);

/* A call of the host's acts for this script until the answer is given back to script_end_call(). */
uint32_t script_begin_call(struct orr_isolate *iso, uint32_t script);
void script_end_call(struct orr_isolate *iso, uint32_t before);

/*
 * Gives the chunk at the top of L a number: tasks that the host starts with it are a script of their own.  script_of_chunk() is that
 * number, for the function at an index; 0 for one that has none.  Both may raise.
 */
void script_number_chunk(struct orr_isolate *iso, lua_State *L);
uint32_t script_of_chunk(lua_State *L, int index);

/*
 * Starts a script that has several steps, as orr_lua_start() starts a function.  The function at the top of the stack, which is taken off,
 * is called for each step: it answers a function and its arguments, which are called then, or nothing when there is no more.
 */
int script_start_steps(lua_State *L, const char *name, struct orr_task **out);

struct ltask;

/*
 * Whoever is told when the body of a script fails: once when it has raised an error that it does not catch, before what it has to close
 * is closed, which may take long; and when it is over, in the middle of its last slice, while what it has begun goes on.
 */
struct body_watch {
    struct body_watch *next;
    struct ltask *body; /* NULL when it is over, or was never watched */
    void (*failing)(void *data);
    void (*failed)(void *data);
    void *data;
    bool told; /* that it is failing */
};

/* Between the two, a body is watched; it need not be unwatched when it is over.  The worker's thread. */
void body_watch(struct body_watch *watch, struct ltask *body);
void body_unwatch(struct orr_isolate *iso, struct body_watch *watch);

/* A body that is watched has raised an error that it does not catch. */
void body_is_failing(struct ltask *body);

/* A body that is watched has come to its result. */
void body_is_over(struct ltask *body);

#endif
