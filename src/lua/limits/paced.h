/*
 * Paced work: long work of a C function, done in steps.  The function can be suspended between two
 * steps.  Examples are writing a value with a million tables, and reading megabytes of text.
 *
 * The work begins in the C function's own frame, and short work also ends there.  After its first
 * steps, long work moves into a userdata, at a slot of the Lua stack that the caller has reserved.
 * From then on Lua owns the work, so errors and dropped tasks leak nothing.  While the function is
 * suspended, no other Lua of the isolate runs (preempt_hold()), so nothing changes the values that
 * the work traverses.
 *
 * The isolate's worker's thread.
 */
#ifndef ORR_LUA_LIMITS_PACED_H
#define ORR_LUA_LIMITS_PACED_H

#include "lua/isolate.h"

enum { PACED_STEPS = 4096 }; /* between two checks of the slice: some 100 microseconds */

struct paced;

struct paced_kind {
    size_t size; /* of the structure whose first member is the struct paced */

    /*
     * Works for about `steps` steps, or until `*hurry` is true.  Returns -EAGAIN if work is left;
     * else the result of the work.
     */
    int (*step)(struct paced *work, lua_State *L, int steps, const volatile bool *hurry);

    /* Moves the work to a block of `size` bytes; `from` is not used afterwards.  Never raises. */
    void (*move)(struct paced *to, struct paced *from);

    /* Frees all resources of the work.  May be called again. */
    void (*free)(struct paced *work);
};

struct paced {
    const struct paced_kind *kind;
    int slot;  /* on the Lua stack, reserved for the userdata */
    bool kept; /* the work is in the userdata at the slot */
};

/*
 * Runs steps until the work is done, or until the function must suspend itself.  To suspend, this
 * returns -EAGAIN, and the function returns `preempt_hold(L, k, (lua_KContext)*work)`.  `*work`
 * changes when the work moves.  Any other result is that of `step`, and the caller frees the work.
 *
 * May raise, and leaks nothing: work in the userdata belongs to Lua, and other work is freed before
 * this raises.  A `step` that raises before its first -EAGAIN must hold no resources.
 */
int paced_run(lua_State *L, struct paced **work);

/*
 * Returns the work, in a continuation.  Raises if the slot holds another value, which a script can
 * put there with the debug library.
 */
struct paced *paced_kept(lua_State *L, int slot, lua_KContext context);

/*
 * Calls `function` with a pointer to the work, and leaves `results` values on the stack.  Then
 * frees the work.  If `function` raises, frees the work and raises the same error.
 */
void paced_finish(lua_State *L, struct paced *work, lua_CFunction function, int results);

/* Frees the work, and raises the text on top, with the position in the script put before it. */
int paced_fail(lua_State *L, struct paced *work);

void paced_open(struct orr_isolate *iso, lua_State *L);

/* PACED_STEPS by default; tests make it smaller. */
extern int paced_steps;

#endif
