/*
 * Values of the host (struct orr_value), to Lua and back.
 *
 * A value that the host owns consists of blocks.  Each block knows the allocator that it came from,
 * so the host can free it after the isolate is gone.  References to functions are the exception:
 * they are released on the thread of the isolate's worker.
 *
 * The functions here run on that thread, too.
 */
#ifndef ORR_LUA_HOST_VALUE_H
#define ORR_LUA_HOST_VALUE_H

#include "lua/isolate.h"

/* A Lua function that the host holds.  It counts as a reference to the isolate. */
struct orr_function {
    struct orr_isolate *iso;
    int reference;   /* to the Lua function, in the registry */
    uint32_t script; /* the script that has given it to the host */
    unsigned references;
};

/*
 * Pushes all values; or pushes nothing and returns a negative errno, as orr_lua_push_value() does.
 * Raises for lack of memory.
 */
int value_push_all(struct orr_isolate *iso, lua_State *L, const struct orr_value *values, size_t count);

/*
 * Copies `count` values from an absolute stack index on.  Returns what orr_lua_copy_value()
 * returns; on an error all of `values` are nil.  Never raises.
 *
 * With `borrow`, strings outside of tables are not copied: they point into Lua's memory, and last
 * as long as they are on the stack.  Free such values with value_return_all(), others with
 * orr_values_free().
 */
int value_copy_all(struct orr_isolate *iso, lua_State *L, int first, size_t count, bool borrow,
                   struct orr_value *values);
void value_return_all(struct orr_value *values, size_t count);

/*
 * The isolate of an open state, visited: isolate_leave() is due.  NULL if there is none, or if it
 * cannot be visited; then `error` is a negative errno.
 */
struct orr_isolate *value_visit(lua_State *L, int *error);

#endif
