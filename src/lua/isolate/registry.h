/*
 * What an isolate keeps in Lua's registry: anchors, classes and spare coroutines.
 *
 * An anchor is an index into one table.  The value there stays alive until the anchor is given
 * back.  Classes that hot paths check are compared by metatable pointer, not by name.  Coroutines
 * of tasks that ended well are kept for the next tasks.
 *
 * Only the isolate's worker thread may call these functions.
 */
#ifndef ORR_LUA_ISOLATE_REGISTRY_H
#define ORR_LUA_ISOLATE_REGISTRY_H

#include "lua/isolate/compat.h"

#include <stdbool.h>

struct orr_isolate;

enum {
    COROUTINES_MAX = 256, /* coroutines kept for the next tasks */
    SPARE_ANCHORS = 16,   /* free anchors kept outside the table */
};

enum object_class {
    OBJECT_TASK,
    OBJECT_EVENT,
    OBJECT_SEMAPHORE,
    OBJECT_MUTEX,
    OBJECT_CONDITION,
    OBJECT_QUEUE,
    OBJECT_FUTURE,
    OBJECT_TIMER,
    OBJECT_HANDLER,
    OBJECT_SCHEDULED,
    OBJECT_CLASSES,
};

struct registry {
    int anchors;     /* reference to the table of anchored values */
    int free_anchor; /* head of the list of free anchors in that table; 0 for none */
    int last_anchor; /* the highest anchor ever used */
    int spare_count; /* how many of `spare_anchors` are filled */
    int spare_anchors[SPARE_ANCHORS];
    int coroutines;                         /* reference to the table of spare coroutines */
    int coroutine_count;                    /* number of spare coroutines */
    int coroutine_places;                   /* size of that table: recycling must not allocate */
    int classes[OBJECT_CLASSES];            /* references to the metatables */
    const void *identities[OBJECT_CLASSES]; /* the addresses of the metatables */
};

/* Makes the tables.  May raise. */
void registry_open(struct orr_isolate *iso, lua_State *L);

/* Pushes the table of anchored values, by anchor.  Never allocates. */
static inline void registry_push_anchors(const struct registry *self, lua_State *L)
{
    lua_rawgeti(L, LUA_REGISTRYINDEX, self->anchors);
}

/* Pushes a new table whose keys are weak.  May raise. */
void registry_push_weak_table(lua_State *L);

/* Registers C functions with the isolate as their first upvalue, into the table at the top of L. */
void isolate_register(struct orr_isolate *iso, lua_State *L, const luaL_Reg *functions);

/* Pushes the table of a class's methods. */
void isolate_push_methods(lua_State *L, const char *name);

/*
 * Makes a class: a metatable `name` that holds the functions whose names begin with two
 * underscores, and a table of methods that holds the others.
 */
void isolate_class(struct orr_isolate *iso, lua_State *L, const char *name, const luaL_Reg *methods);

/* Makes a class that is compared by metatable pointer. */
void isolate_object_class(struct orr_isolate *iso, lua_State *L, enum object_class which, const char *name,
                          const luaL_Reg *methods);

/* Gives the userdata at the top of L its class. */
void isolate_set_class(lua_State *L, enum object_class which);

/* The object at an index; NULL if it is not of that class. */
void *isolate_test(lua_State *L, int index, enum object_class which);

/* The object at an index; raises if it is not of that class. */
void *isolate_check(lua_State *L, int index, enum object_class which, const char *name);

/* Anchors the value at the top of L, which stays there.  May raise. */
int isolate_anchor(struct orr_isolate *iso, lua_State *L);

/* Pushes the anchored value.  Never allocates. */
void isolate_push_anchored(struct orr_isolate *iso, lua_State *L, int anchor);

/* Gives an anchor back.  Never allocates. */
void isolate_unanchor(struct orr_isolate *iso, lua_State *L, int anchor);

/*
 * Replaces the value at an anchor in use.  With `value`, pops the new value from the top of L;
 * without it, clears the anchor.  Never allocates.
 */
void isolate_set_anchor(struct orr_isolate *iso, lua_State *L, int anchor, bool value);

/* Returns a coroutine to run a task on, and pushes it on L.  May raise. */
lua_State *isolate_coroutine(struct orr_isolate *iso, lua_State *L);

/* Keeps a coroutine that ended well for the next task.  Never allocates. */
void isolate_recycle(struct orr_isolate *iso, lua_State *co);

#endif
