/* Lua code for the program to run: of a file, of standard input, of the command line. */
#ifndef ORR_CLI_CHUNK_H
#define ORR_CLI_CHUNK_H

struct lua_State;

/* Both push a function, or raise with what is wrong.  Inside a task of the isolate. */
void chunk_push_text(struct lua_State *L, const char *text, const char *name);

/* A file of any kind, pipes too; "-" is standard input.  A first line for the shell is skipped. */
void chunk_push_file(struct lua_State *L, const char *path);

#endif
