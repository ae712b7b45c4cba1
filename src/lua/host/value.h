/*
 * Values of the host's, to Lua and back.  What is owned consists of blocks, each of which knows the allocator that it came from, so that
 * it can be freed without the isolate; except for references to functions, which are given up on the worker's thread.
 */
#ifndef ORR_LUA_HOST_VALUE_H
#define ORR_LUA_HOST_VALUE_H

#include "lua/isolate.h"

/* A reference to a function, in the registry.  It counts as a reference to the isolate. */
struct orr_function {
    struct orr_isolate *iso;
    int place;
    uint32_t script; /* who has given it to the host */
    unsigned references;
};

/* Pushes so many, or nothing and a negative errno: as orr_lua_push_value() answers.  May raise for lack of memory. */
int values_push(struct orr_isolate *iso, lua_State *L, const struct orr_value *values, size_t count);

/*
 * Copies what is from an absolute index of the stack on; what it answers is as for orr_lua_copy_value().  Never raises.  If they may
 * borrow, strings among them, though not those inside of tables, are left where they are: then values_return() frees the rest.
 */
int values_copy(struct orr_isolate *iso, lua_State *L, int first, size_t count, bool borrow, struct orr_value *values);
void values_return(struct orr_value *values, size_t count);

/* Between the two, as isolate_visit() and _leave(): the isolate of a state that is to be used.  NULL, and why not. */
struct orr_isolate *value_visit(lua_State *L, int *error);

#endif
