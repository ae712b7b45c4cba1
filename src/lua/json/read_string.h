/*
 * Reads strings and names of a JSON text.  A string is read from the text itself until its first
 * escape, and through a buffer from there on.
 *
 * Objects of one kind have the same names.  Names of up to 15 bytes are kept on L's stack, so that
 * a name that was met before need not be looked up in Lua's table of strings.  Each name has one
 * slot, by its hash; the last name of a slot is kept.
 */
#ifndef ORR_LUA_JSON_READ_STRING_H
#define ORR_LUA_JSON_READ_STRING_H

#include "lua/json/read.h"

/* Begins to read strings.  `base` + 1 is the place of the buffer, the names are above.  May raise. */
void json_strings_begin(struct json_reader *r);

/*
 * Begins a string, or a name, after its quote, and reads about a piece of it.  True if it ends: it
 * is pushed.  May raise, as all functions here.
 */
bool json_string_begin(struct json_reader *r);
bool json_name_begin(struct json_reader *r);

/* Reads about one more piece of a string or name.  True if it ends: it is pushed. */
bool json_string_more(struct json_reader *r);

#endif
