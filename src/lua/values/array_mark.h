/*
 * The array mark: the metatable that json.array() sets, to say that a table is an array even if it
 * is empty.  A state has one.  Copies of values and JSON text keep the mark.
 */
#ifndef ORR_LUA_VALUES_ARRAY_MARK_H
#define ORR_LUA_VALUES_ARRAY_MARK_H

#include "lua/isolate/compat.h"

enum array_mark {
    ARRAY_MARK_NONE,    /* no metatable */
    ARRAY_MARK_SET,     /* the array mark */
    ARRAY_MARK_FOREIGN, /* another metatable */
};

/* Makes the mark of a state.  May raise. */
void array_mark_make(lua_State *L);

/* Pushes the mark; nil in a state that has none.  Never raises. */
void array_mark_push(lua_State *L);

/* What metatable the table at an index has.  Needs two slots of the stack.  Never raises. */
enum array_mark array_mark_of(lua_State *L, int index);

#endif
