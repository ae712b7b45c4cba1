/*
 * A program is what jobs run: the script and its modules, as bytecode, and the settings of the
 * isolates that run it.  A program never changes once it is made, so job isolates on several
 * threads share it by references.
 */
#ifndef ORR_LUA_WORKER_PROGRAM_H
#define ORR_LUA_WORKER_PROGRAM_H

#include "lua/isolate.h"
#include "lua/isolate/settings.h"

struct code {
    char *name;  /* of the chunk, as lua_load() takes it */
    char *bytes; /* of a function that lua_dump() wrote */
    size_t size;
};

/* A module that the script can require, and that is a global of the script. */
struct program_module {
    struct program_module *next;
    char *name;
    struct code code;
};

struct program {
    _Atomic unsigned references;
    struct alloc alloc;
    struct settings *settings;
    size_t charged;  /* to the quota of the settings */
    bool over_quota; /* the quota has refused once */
    struct code code;
    struct program_module *modules; /* in the order in which they are loaded */
};

/*
 * A program with the settings for jobs of an isolate, charged to the isolate's quota.  `memory` is
 * the memory limit of a job, if it is smaller than the isolate's; 0 for none.  NULL for lack of
 * memory.
 */
struct program *program_new(struct orr_isolate *iso, size_t memory);

/*
 * Sets the script, or adds a module, from a text or a function at an index of L.  False, with the
 * reason pushed: a syntax error, a function with upvalues, or a lack of memory.  Raises for lack of
 * memory only.
 */
bool program_set_code(struct program *program, lua_State *L, int index, const char *name);
bool program_add_module(struct program *program, lua_State *L, int index, const char *module, const char *name);

/*
 * Pushes the code as a function on L, a state with the program's settings.  False, with the error
 * pushed.
 */
bool program_load(const struct code *code, lua_State *L);

/*
 * Whether isolates of one program can run the other: both have the same modules, and settings made
 * from the same host's.  Only the scripts differ.
 */
bool program_is_kin(const struct program *one, const struct program *other);

struct program *program_ref(struct program *program);
void program_unref(struct program *program);

#endif
