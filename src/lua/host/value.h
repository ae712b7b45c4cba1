/*
 * Conversion between Lua values and values of the host (struct orr_value).
 *
 * A value that the host owns consists of blocks.  Each block records its allocator, so the host can
 * free the value after the isolate is gone.  References to functions are the exception: they must
 * be released on the isolate's worker's thread.
 *
 * The functions here must be called on the isolate's worker's thread, except those for any thread.
 */
#ifndef ORR_LUA_HOST_VALUE_H
#define ORR_LUA_HOST_VALUE_H

#include "lua/isolate.h"

/* A Lua function that the host holds.  It holds a reference to the isolate. */
struct orr_function {
    struct orr_isolate *iso;
    int reference;   /* to the Lua function, in the registry */
    uint32_t script; /* the script that passed the function to the host */
    unsigned references;
};

/*
 * Pushes all values.  On an error, pushes nothing and returns a negative errno, as
 * orr_lua_push_value() does.  Raises if memory runs out.
 */
int value_push_all(struct orr_isolate *iso, lua_State *L, const struct orr_value *values, size_t count);

/*
 * Copies `count` values, starting at the absolute stack index `first`.  Returns the errors of
 * orr_lua_copy_value().  On an error all of `values` are nil.  Never raises.
 *
 * With `borrow`, strings outside of tables are not copied: they point into Lua's memory, and are
 * valid while the string is on the Lua stack.  Free the values with value_return_all() if `borrow`
 * was true, else with orr_values_free().
 */
int value_copy_all(struct orr_isolate *iso, lua_State *L, int first, size_t count, bool borrow,
                   struct orr_value *values);
void value_return_all(struct orr_value *values, size_t count);

/*
 * Copies values of the host, without a Lua state; they must hold no functions.  Any thread.
 * Returns 0, -EINVAL, -ELOOP or -ENOMEM; on an error there is no copy.
 */
int value_clone(const struct alloc *alloc, const struct orr_value *value, struct orr_value *out);
int value_clone_all(const struct alloc *alloc, const struct orr_value *values, size_t count, struct orr_value **out);
void value_clone_free(struct orr_value *clones, size_t count);

/*
 * Finds the isolate of a state and calls isolate_visit().  The caller must call isolate_leave().
 * Returns NULL, and a negative errno in `*error`, if there is no open isolate, or if it cannot be
 * visited.
 */
struct orr_isolate *value_visit(lua_State *L, int *error);

#endif
