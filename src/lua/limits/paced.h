/*
 * Long work of a C function, done in steps, so that the function can be suspended between two
 * steps: writing a value with a million tables, reading a text of megabytes.
 *
 * The work begins in the C function's own frame; short work ends there, too.  After its first steps
 * it moves into a userdata, at a slot of the Lua stack that the caller has reserved.  From then on
 * Lua owns it, so that errors, and tasks that are dropped, leave nothing behind.  While the
 * function is suspended no other Lua of the isolate runs (preempt_hold()), so the values that the
 * work walks over stay as they are.
 *
 * The isolate's worker's thread.
 */
#ifndef ORR_LUA_LIMITS_PACED_H
#define ORR_LUA_LIMITS_PACED_H

#include "lua/isolate.h"

enum { PACED_STEPS = 4096 }; /* between two looks at the budget: some 100 microseconds */

struct paced;

struct paced_kind {
    size_t size; /* of the structure that a struct paced is the first member of */

    /*
     * Goes on for about so many steps, or until `*hurry` is true.  -EAGAIN if that was not all;
     * else what has come of it.
     */
    int (*step)(struct paced *work, lua_State *L, int steps, const volatile bool *hurry);

    /* Moves it to a block of that size; the old place is not used any more.  Never raises. */
    void (*move)(struct paced *to, struct paced *from);

    /* Gives up all that it holds.  May be called again. */
    void (*free)(struct paced *work);
};

struct paced {
    const struct paced_kind *kind;
    int slot;  /* on the Lua stack */
    bool kept; /* in the userdata there */
};

/*
 * Works until it is done, or the function is to suspend itself: then the answer is -EAGAIN, and the
 * function returns `preempt_hold(L, k, (lua_KContext)*work)`.  `*work` changes when the work
 * moves.  Where `step` answers anything else, so does this, and the caller frees the work.
 *
 * May raise: what is kept is Lua's, and what is not has been freed by then, if it is raised here.
 * A `step` that raises before it has answered -EAGAIN once must hold nothing.
 */
int paced_run(lua_State *L, struct paced **work);

/*
 * In a continuation: the work.  Raises if somebody, with the debug library, has put something else
 * in its place.
 */
struct paced *paced_kept(lua_State *L, int slot, lua_KContext context);

/*
 * Calls `function` with a pointer to the work, and leaves `results`.  Frees the work in the end,
 * also if that raises an error.
 */
void paced_finish(lua_State *L, struct paced *work, lua_CFunction function, int results);

/*
 * Frees it, and raises the value at the top: a text that says where and why, to which this adds
 * where in the script.
 */
int paced_fail(lua_State *L, struct paced *work);

void paced_open(struct orr_isolate *iso, lua_State *L);

/* PACED_STEPS; tests make it smaller. */
extern int paced_steps;

#endif
