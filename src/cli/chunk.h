/* Loads Lua code for the program: from a file, standard input or the command line. */
#ifndef ORR_CLI_CHUNK_H
#define ORR_CLI_CHUNK_H

struct lua_State;

/*
 * Both push a function, or raise an error that says what is wrong.  Call them inside a task of the
 * isolate.
 */
void chunk_push_text(struct lua_State *L, const char *text, const char *name);

/*
 * Accepts any kind of file, pipes included; "-" is standard input.  Skips a first line for the
 * shell.
 */
void chunk_push_file(struct lua_State *L, const char *path);

#endif
