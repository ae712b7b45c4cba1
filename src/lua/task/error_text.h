/*
 * Error values as people read them.
 *
 * A string is its own text.  A value with `__tostring` is what that returns.  A table without it is
 * shown with its fields, `{ code = "ENOENT", path = { "a", "b" } }`: read raw, in a fixed order,
 * and only so many, so deep, so long.
 *
 * `__tostring` is the only function of the script that is called.  It runs protected, cannot wait,
 * and has a time limit of its own: if it fails, the fields are shown.
 *
 * The isolate's worker's thread.
 */
#ifndef ORR_LUA_TASK_ERROR_TEXT_H
#define ORR_LUA_TASK_ERROR_TEXT_H

#include "lua/isolate/compat.h"

struct orr_isolate;

/* Pushes the text of the value at an index.  May raise if memory runs out. */
void error_text_push(struct orr_isolate *iso, lua_State *L, int index);

#endif
