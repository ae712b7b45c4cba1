/*
 * Objects of scripts that hold a primitive of src/sync: event, queue, semaphore, mutex, condition,
 * future.
 *
 * The primitive is part of a userdata, so it lives in Lua's memory.  Lua frees that memory after
 * the finalizer has ended the primitive.  A primitive that a task still waits for cannot be ended;
 * then the object is finalized again after the next cycle of the collector.
 *
 * The isolate's worker's thread.
 */
#ifndef ORR_LUA_API_PRIMITIVE_H
#define ORR_LUA_API_PRIMITIVE_H

#include "lua/isolate.h"

/*
 * Evaluates a call of the core that needs the worker's thread, in code that may run outside of
 * tasks, too. Gives the answer of the call, or the error of isolate_visit().
 */
#define VISITED(iso, call) \
    __extension__({ \
        int answer_ = isolate_visit(iso); \
        if (!answer_) { \
            answer_ = (call); \
            isolate_leave(iso); \
        } \
        answer_; \
    })

/*
 * Pushes a new object of a class, filled with zeros, which is how an ended primitive looks.  Raises
 * if the script has too many objects.
 */
void *primitive_new(lua_State *L, const char *class, size_t size, int user_values);

/* Raises an error of the core in the function `what`. */
int primitive_raise(lua_State *L, const char *what, int error);

/* Returns the new object at the top, unless making its primitive has failed: then raises. */
int primitive_made(lua_State *L, const char *what, int error);

/* Ends a finalizer, with the object at 1: `error` is what ending its primitive has answered. */
int primitive_ended(lua_State *L, const char *class, int error);

#endif
