/*
 * How much room is left on the stack of a coroutine that runs.
 *
 * A Lua stack has at most a million slots (LUAI_MAXSTACK).  A hook needs 20 of them, and Lua asks
 * for them before it calls the hook.  If too few are left, Lua raises "stack overflow" in the
 * script, although the script has done nothing wrong.  So the library's hook is not set where there
 * is no room.
 *
 * A signal handler must know the room between any two machine instructions, and no function of Lua
 * tells it.  But three fields of the state and one field of the running frame do.
 * stack_room_learn() finds these fields by watching them change.  If that gives no clear answer,
 * because Lua was built in another way, stack_room_is_left() is always true.
 */
#ifndef ORR_LUA_ISOLATE_STACK_ROOM_H
#define ORR_LUA_ISOLATE_STACK_ROOM_H

#include <lua.h>

#include <stdbool.h>

/* Finds the fields, once per process.  May raise. */
void stack_room_learn(lua_State *L);

/*
 * Whether there is room for the slots that the hook may need, and the code that runs before it.  L
 * is the coroutine that runs on this thread, or is about to.  While Lua makes the frame or the
 * stack, the answer depends on the size of the stack alone.  Async-signal-safe.
 */
bool stack_room_is_left(lua_State *L);

#endif
