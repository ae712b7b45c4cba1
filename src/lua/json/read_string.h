/*
 * Reads strings and names of a JSON text.  A string is read from the text itself until its first
 * escape, and through a buffer from there on.
 *
 * Objects of one kind have the same names, and often the same words as values.  So names and values
 * of up to 15 bytes are kept on L's stack: a string that comes again is not looked up among Lua's
 * strings.  Each has one slot, by its hash; the last string of a slot is kept.  When too few
 * strings come again, no more are kept.
 */
#ifndef ORR_LUA_JSON_READ_STRING_H
#define ORR_LUA_JSON_READ_STRING_H

#include "lua/json/reader.h"

/* Begins to read strings.  `base` + 1 is the place of the buffer, kept strings are above. */
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
