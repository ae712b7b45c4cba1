/*
 * The stack of a walk over tables, as encode.c and json/write.c go through values.  For each table
 * that the walk is in, L's stack holds one key and its value, from `base` on.  The value is the
 * next table.
 *
 *     base + 1   key of the first table
 *     base + 2   its value, which is the second table
 *     base + 3   key of the second table, and so on
 *
 * All access is raw: no script runs.
 */
#ifndef ORR_LUA_VALUES_WALK_H
#define ORR_LUA_VALUES_WALK_H

#include "lua/isolate/compat.h"
#include "lua/values/path.h"

#include <stdbool.h>

/* The index of the table `depth` tables deep, from 1.  `root` is the index of the first. */
static inline int walk_table(int root, int base, int depth)
{
    return depth == 1 ? root : base + 2 * (depth - 1);
}

/* The index of the key of that table. */
static inline int walk_key(int base, int depth)
{
    return base + 2 * depth - 1;
}

/*
 * Whether the walk can go on from a key of a table, after others may have changed the table: the
 * key is there; and if the walk is `inside` of the value, it is still the key's value.
 */
bool walk_can_go_on(lua_State *L, int table, int key, bool inside);

/*
 * Ends a walk: puts "PATH: REASON" in the place of its first key, and pops the rest.  Never raises.
 */
void walk_fail(lua_State *L, const struct path *path, const char *reason);

#endif
