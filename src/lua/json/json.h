/*
 * JSON text, for scripts.  Reading it is jansson's: of Debian's C libraries for JSON that are still looked after, the one that keeps
 * integers of 64 bits (cJSON makes floats of them, json-c cuts off larger ones without a word), checks UTF-8 and says in which line and
 * column an error is.  Writing is ours: jansson would want a second tree first, and prints 0.1 with seventeen digits.
 *
 * null is json.null, a light userdata that is NULL.  A table is an object unless its keys are 1 to n, or json.array() has marked it; so
 * an empty one that is meant as an array has to be marked, and the empty arrays that are read are.
 */
#ifndef ORR_LUA_JSON_JSON_H
#define ORR_LUA_JSON_JSON_H

#include "lua/isolate.h"
#include "lua/values/message.h"

enum { JSON_DEPTH_MAX = VALUES_DEPTH_MAX, JSON_INDENT_MAX = 16 };

/*
 * Writes the value at an index as text into `out`, which is empty and flat; with so many spaces a level, or none and no line breaks.
 * Texts of more than `longest` bytes are refused; 0 for any length.  Answers and never raises as values_encode() does.
 */
int json_write(struct message *out, lua_State *L, int index, int indent, size_t longest);

/* Pushes what a text says.  Raises for what is wrong with it.  With `floats` every number is one. */
int json_read(struct orr_isolate *iso, lua_State *L, const char *text, size_t size, bool floats);

#endif
