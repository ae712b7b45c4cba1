/*
 * Marks: metatables that say what a table means, and that copies of values keep.  A state has one
 * of each.
 *
 *   - The array mark: json.array() sets it, to say that a table is an array even if it is empty.
 *     JSON text keeps it, too.
 *   - The error mark: the table is an error of an operation, with the fields `code`, `message`,
 *     `operation` and `address`; tostring() makes a sentence of them.
 *
 * Scripts cannot reach the metatables.
 */
#ifndef ORR_LUA_VALUES_MARK_H
#define ORR_LUA_VALUES_MARK_H

#include "lua/isolate/compat.h"

enum mark {
    MARK_NONE, /* no metatable */
    MARK_ARRAY,
    MARK_ERROR,
    MARK_FOREIGN, /* another metatable */
};

/* Makes the marks of a state.  May raise. */
void marks_make(lua_State *L);

/* Pushes the array mark or the error mark; nil in a state that has none.  Never raises. */
void mark_push(lua_State *L, enum mark mark);

/* What metatable the table at an index has.  Needs two slots of the stack.  Never raises. */
enum mark mark_of(lua_State *L, int index);

#endif
