/*
 * What a worker runs: its code, compiled nowhere yet, and the settings on which it does.  A program never changes once made, so the
 * isolates that run it, on several threads, share it by references.
 */
#ifndef ORR_LUA_WORKER_PROGRAM_H
#define ORR_LUA_WORKER_PROGRAM_H

#include "lua/isolate.h"
#include "lua/isolate/settings.h"

struct code {
    char *name; /* of the chunk, as lua_load() takes it */
    char *bytes;
    size_t size;
    bool binary; /* a function that was dumped, by us */
};

/* A module that the script can require, and has as a global. */
struct program_module {
    struct program_module *next;
    char *name;
    struct code code;
};

struct program {
    _Atomic unsigned references;
    struct alloc alloc;
    struct settings *settings;
    size_t charged;  /* to the quota of its settings */
    bool over_quota; /* which has refused */
    struct code code;
    struct program_module *modules; /* in the order in which they are loaded */
};

/* On the settings for workers of an isolate, and on its quota.  NULL for lack of memory. */
struct program *program_new(struct orr_isolate *iso, size_t memory);

/*
 * Sets a program's code, or adds a module, from a text or a function at an index of L.  False, with why not pushed: a syntax error, or
 * a function with upvalues.  Raises for lack of memory only.
 */
bool program_set_code(struct program *program, lua_State *L, int index, const char *name);
bool program_add_module(struct program *program, lua_State *L, int index, const char *module, const char *name);

/* Pushes the code as a function on L, of an isolate that lives on the program's settings.  False, with why not pushed. */
bool program_load(const struct code *code, lua_State *L);

struct program *program_ref(struct program *program);
void program_unref(struct program *program);

#endif
