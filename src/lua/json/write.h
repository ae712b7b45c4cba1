/*
 * Writes a value as JSON text (RFC 8259), straight into a message, a few thousand values at a time,
 * so that a task that writes much can be suspended in between.
 *
 * json.null, a light userdata that is NULL, is written as null.  A table is an object unless its
 * keys are 1 to n, or it has the array mark (values/mark.h): an empty table that is meant as
 * an array has to be marked.
 *
 * The writer walks over tables (values/walk.h).  The values, and L's stack above `base`, must stay
 * as they are until it is done.  The thread of L.
 */
#ifndef ORR_LUA_JSON_WRITE_H
#define ORR_LUA_JSON_WRITE_H

#include "lua/json/writer.h"

/*
 * Begins to write the value at an index into `out`, which is empty and flat.  `indent` is the
 * number of spaces a level; with 0 there are no line breaks.  A text of more than `longest` bytes
 * is refused; 0 for any length.
 */
void json_writer_begin(struct json_writer *w, struct message *out, lua_State *L, int index, int indent, size_t longest);

/* Moves a writer, and its text to `out`. */
void json_writer_move(struct json_writer *to, const struct json_writer *from, struct message *out);

/*
 * Goes on for about `steps` steps, or until `*hurry` is true.  -EAGAIN: there is more to write.  0:
 * the text is complete.  Otherwise the message is freed, and a text that says where and why is
 * pushed: -EINVAL for a value that JSON does not have, -E2BIG for one that is too deep or too
 * large, -ENOMEM.  Raises only if the debug library has changed L's stack meanwhile.
 */
int json_writer_step(struct json_writer *w, lua_State *L, int steps, const volatile bool *hurry);

#endif
