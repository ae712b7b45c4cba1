/*
 * System functions for the test runner: processes of this program, directories, signals, the clock.
 * Each is a small C function for Lua; lua/cli/test/ uses them.
 */
#ifndef ORR_CLI_PROCESS_H
#define ORR_CLI_PROCESS_H

struct lua_State;

enum { PROCESS_RECORDS = 3 }; /* the descriptor on which a started process sends its records */

/* Pushes a table of the functions.  May raise. */
int process_push_functions(struct lua_State *L);

/* Pushes the real time in milliseconds. */
int process_clock(struct lua_State *L);

#endif
