/* Where in the text the reader is, and the errors that say so. */
#ifndef ORR_LUA_JSON_READ_FAULT_H
#define ORR_LUA_JSON_READ_FAULT_H

#include "lua/json/reader.h"

/*
 * Counts lines, and columns in characters, up to `at`.  Each step does so: an error in a long text
 * takes no longer.
 */
void json_fault_count(struct json_reader *r, const char *at);

/* Raises an error with the line and column of `at`. */
int json_fault_at(struct json_reader *r, const char *at, const char *what);

/* Raises an error with the line and column of the reader's place. */
int json_fault(struct json_reader *r, const char *what);

#endif
