/*
 * Calling the handlers of an event: those of a script's event at once, those of the host's soon.
 *
 * The isolate's worker's thread.
 */
#ifndef ORR_LUA_API_EVENT_CALLS_H
#define ORR_LUA_API_EVENT_CALLS_H

#include "lua/isolate/compat.h"

/* Where `lists` of lua/events.lua has the table of lists by name. */
enum { EVENT_LISTS = 1 };

/*
 * new_emit(events, open, check_self, find_open, remove): makes the function events:emit() of the
 * table `events`.  `open` has the lists by name, for names that scripts may emit.
 * check_self(self, "emit") raises if the function is called on something else; find_open(name)
 * makes a list, and raises if scripts may not emit the name; remove(handler) removes a handler that
 * is called once, before it is called.
 */
int event_calls_new_emit(lua_State *L);

/* set_open(emit, open): has such a function look up names in another table.  Never raises. */
int event_calls_set_open(lua_State *L);

/*
 * Has the handlers from `next` to `last` of the list at an index of L called soon.  `name` and
 * `data` are indexes, too.  May raise.
 */
void event_calls_soon(lua_State *L, int list, lua_Integer next, lua_Integer last, int name, int data);

#endif
