/*
 * What an isolate keeps in Lua's registry: anchors, classes and spare coroutines.
 *
 * An anchor is a number, and stands for a slot of a table.  The value there stays alive until the
 * anchor is given back.  There are as many tables as needed, with ANCHORS_EACH slots in each: the
 * collector visits a table in one piece, which must be short even if there are a million tasks; and
 * a store makes it visit one table again, not all anchors.  Key 0 of a table is not used, since it
 * would not be in the table's array.
 *
 * Classes that hot paths check are compared by metatable pointer, not by name.
 *
 * Coroutines of tasks that ended well are kept for the next tasks, each in a *seat*: an index into
 * another table, which keeps the coroutine alive.  A seat is spare, taken or empty.  A coroutine
 * may run while it has its seat: so a task that ends before it waits costs no access to that table.
 * A coroutine that is to live on by other means leaves its seat, which is empty then.
 *
 * Only the isolate's worker thread may call these functions.
 */
#ifndef ORR_LUA_ISOLATE_REGISTRY_H
#define ORR_LUA_ISOLATE_REGISTRY_H

#include "lua/isolate/compat.h"

#include <stdbool.h>
#include <stdint.h>

struct orr_isolate;

enum {
    COROUTINES_MAX = 128, /* seats for coroutines */
    SPARE_ANCHORS = 16,   /* free anchors kept outside the tables */
    ANCHORS_EACH = 1024,  /* a power of two; a table has one slot less */
    ANCHOR_TABLES = 4,    /* tables whose references need no list of their own */
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
    OBJECT_STREAM,
    OBJECT_CLASSES,
};

struct registry {
    int *tables;                   /* references to the tables of anchored values */
    int table_count, table_room;   /* how many there are, and fit into `tables` */
    int few_tables[ANCHOR_TABLES]; /* `tables` at first */
    int many_tables;               /* reference to the userdata that is `tables` later */
    int free_anchor;               /* the first free anchor in the tables; 0 for none */
    int last_anchor;               /* the highest anchor ever used */
    int spare_count;               /* how many of `spare_anchors` are filled */
    int spare_anchors[SPARE_ANCHORS];
    int coroutines; /* reference to the table of coroutines with a seat */
    /* From the front: the spare seats.  From the back: the empty ones.  Taken ones are not here. */
    uint8_t seats[COROUTINES_MAX];
    uint8_t seat_count;                     /* seats made so far: recycling must not allocate */
    uint8_t spare_seats, empty_seats;       /* how many there are */
    lua_State *seated[COROUTINES_MAX];      /* the coroutine of each seat that is not empty */
    int classes[OBJECT_CLASSES];            /* references to the metatables */
    const void *identities[OBJECT_CLASSES]; /* the addresses of the metatables */
};

/* Makes the tables.  May raise. */
void registry_open(struct orr_isolate *iso, lua_State *L);

/*
 * Pushes the table that holds the value of an anchor.  Returns the key of the value.  The value of
 * anchor 0, which is none, is nil.  Never allocates.
 */
static inline int registry_push_table_of(const struct registry *self, lua_State *L, int anchor)
{
    lua_rawgeti(L, LUA_REGISTRYINDEX, self->tables[(unsigned)anchor / ANCHORS_EACH]);
    return (int)((unsigned)anchor % ANCHORS_EACH);
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

/* Makes a class that is compared by metatable pointer, unless it is there already. */
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

/*
 * Takes an anchor without a value, to be filled later.  May raise.  isolate_fill_anchor() anchors
 * the value at an index of L, and never allocates; isolate_unreserve_anchor() gives an anchor back
 * that was not filled.
 */
int isolate_reserve_anchor(struct orr_isolate *iso, lua_State *L);
void isolate_fill_anchor(struct orr_isolate *iso, lua_State *L, int anchor, int index);
void isolate_unreserve_anchor(struct orr_isolate *iso, int anchor);

/* Pushes the anchored value.  Never allocates. */
void isolate_push_anchored(struct orr_isolate *iso, lua_State *L, int anchor);

/*
 * Few anchors are in use at once, so most are in the first table.  A C function that has this table
 * as its upvalue FIRST_ANCHORS, and runs on L, gets at them in one step.
 */
enum { FIRST_ANCHORS = 2 };

/* Pushes the first table. */
static inline void registry_push_first_table(const struct registry *self, lua_State *L)
{
    lua_rawgeti(L, LUA_REGISTRYINDEX, self->tables[0]);
}

/* What isolate_push_anchored(), isolate_anchor() and isolate_unanchor() do, in such a function. */
static inline void isolate_push_near(struct orr_isolate *iso, lua_State *L, int anchor)
{
    if ((unsigned)anchor < ANCHORS_EACH)
        lua_rawgeti(L, lua_upvalueindex(FIRST_ANCHORS), anchor);
    else
        isolate_push_anchored(iso, L, anchor);
}

int isolate_anchor_near(struct orr_isolate *iso, lua_State *L);
void isolate_unanchor_near(struct orr_isolate *iso, lua_State *L, int anchor);

/* Gives an anchor back.  Never allocates. */
void isolate_unanchor(struct orr_isolate *iso, lua_State *L, int anchor);

/*
 * Replaces the value at an anchor in use.  With `value`, pops the new value from the top of L;
 * without it, clears the anchor.  Never allocates.
 */
void isolate_set_anchor(struct orr_isolate *iso, lua_State *L, int anchor, bool value);

/* Returns a coroutine to run a task on, and pushes it on L.  May raise. */
lua_State *isolate_coroutine(struct orr_isolate *iso, lua_State *L);

/* Keeps a coroutine that ended well, and has no seat, for the next task.  Never allocates. */
void isolate_recycle(struct orr_isolate *iso, lua_State *co);

/* Takes a spare seat, from 1 on; 0 if there is none. */
static inline int isolate_take_seat(struct registry *self)
{
    return self->spare_seats ? 1 + self->seats[--self->spare_seats] : 0;
}

/* The coroutine of a seat that is taken. */
static inline lua_State *isolate_seated(const struct registry *self, int seat)
{
    return self->seated[seat - 1];
}

/* Gives back a seat.  Its coroutine has ended well, or not begun.  Never allocates. */
void isolate_return_seat(struct orr_isolate *iso, int seat);

/* The coroutine leaves its seat; the caller keeps it alive from now on.  Never allocates. */
void isolate_leave_seat(struct orr_isolate *iso, lua_State *L, int seat);

#endif
