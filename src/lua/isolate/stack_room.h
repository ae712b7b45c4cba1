/*
 * How much room is left on the stack of a coroutine that runs.
 *
 * Lua's stacks end at a million slots (LUAI_MAXSTACK).  A hook needs 20 of them, which Lua asks for
 * before it calls the hook.  If there are none left, Lua raises "stack overflow" in the script,
 * which has done nothing wrong.  So our hook is not set where there is no room.
 *
 * That must be known in a signal handler, between any two machine instructions, and no function of
 * Lua's tells it.  But three fields of the state and one field of the running frame do.  Which
 * fields these are is found out by watching them change.  If that gives no clear answer, with a Lua
 * that is built in another way, there is room everywhere.
 */
#ifndef ORR_LUA_LIMITS_STACK_ROOM_H
#define ORR_LUA_LIMITS_STACK_ROOM_H

#include <lua.h>

#include <stdbool.h>

/* Finds out where the fields are, once in the process.  May raise. */
void stack_room_learn(lua_State *L);

/*
 * Whether there is room for as many slots as the hook, and what runs before it can come by, may
 * need.  L is the coroutine that runs on this thread, or is about to.  While the frame or the stack
 * is being made, the size of the stack decides.  Async-signal-safe.
 */
bool stack_room_is_left(lua_State *L);

#endif
