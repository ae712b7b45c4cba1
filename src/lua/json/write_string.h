/* Writes strings as JSON, a long one in pieces. */
#ifndef ORR_LUA_JSON_WRITE_STRING_H
#define ORR_LUA_JSON_WRITE_STRING_H

#include "lua/json/writer.h"

/*
 * Writes the string at an index; of a long one only the first piece, and then `string` is not 0.
 * -EINVAL if it is not UTF-8, -ENOMEM, -E2BIG.
 */
int json_string_put(struct json_writer *w, int index);

/* Writes a piece of a long string. */
int json_string_put_piece(struct json_writer *w);

#endif
