/*
 * Reads JSON text (RFC 8259, strictly) as a Lua value, straight onto Lua's stack, a few thousand
 * values at a time, so that a task that reads much can be suspended in between.
 *
 * null is read as json.null, a light userdata that is NULL.  An empty array gets the array mark
 * (values/mark.h).
 *
 * What the reader allocates is on L's stack, above `base`, so it may raise at any point.  The text
 * and the stack above `base` must stay as they are until it is done.  The thread of L.
 */
#ifndef ORR_LUA_JSON_READ_H
#define ORR_LUA_JSON_READ_H

#include "lua/json/reader.h"

/* Begins to read a text, which stays where it is. */
void json_reader_begin(struct json_reader *r, const char *text, size_t size, bool floats);

/*
 * Goes on for about `steps` steps, or until `*hurry` is true.  -EAGAIN: there is more to read.  1:
 * the value is pushed.  Raises for malformed text, for lack of memory, and if the debug library has
 * changed L's stack meanwhile.
 */
int json_reader_step(struct json_reader *r, lua_State *L, int steps, const volatile bool *hurry);

#endif
