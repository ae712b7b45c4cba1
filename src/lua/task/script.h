/*
 * Which script a thing belongs to.
 *
 * Every script has a number in its isolate; 0 is the host.  What a task makes belongs to the task's
 * script. What the host calls outside tasks acts for the script that has the isolate to itself.  A
 * function that a script has given to the host acts for that script.  Everything else acts for the
 * host.
 *
 * The isolate's worker's thread.
 */
#ifndef ORR_LUA_TASK_SCRIPT_H
#define ORR_LUA_TASK_SCRIPT_H

#include "lua/isolate/compat.h"

#include <stdbool.h>
#include <stdint.h>

struct ltask;
struct orr_isolate;

/* The name of a script that shares an isolate, in the memory of the script's owner. */
struct script_name {
    struct script_name *next;
    uint32_t number;
    const char *text;
};

/* Part of the isolate. */
struct scripts {
    uint32_t last_number; /* the highest number given so far */
    uint32_t sole;        /* the script that has the isolate to itself; 0 for none */
    uint32_t caller;      /* the script that a call of the host acts for now */
    uint32_t loading;     /* bodies of scripts that have not begun: events wait for them */
    struct script_name *names;
};

/* Gives a script a name for reports, until script_remove_name().  The name may not be there. */
void script_add_name(struct scripts *self, struct script_name *name);
void script_remove_name(struct scripts *self, const struct script_name *name);

/* What reports call a script: its name, or the name that the host gave the isolate; or NULL. */
const char *script_name(const struct orr_isolate *iso, uint32_t number);

/* A number that no script of the isolate had before. */
static inline uint32_t script_new_number(struct scripts *self)
{
    return ++self->last_number;
}

/* The script that has the isolate to itself; 0 for none. */
static inline uint32_t script_sole(const struct scripts *self)
{
    return self->sole;
}

/* The isolate belongs to one script alone. */
void script_own_isolate(struct scripts *self, uint32_t script);

/* Whether the body of a script has yet to begin. */
static inline bool script_any_loading(const struct scripts *self)
{
    return self->loading;
}

/* The script that the code running now acts for. */
uint32_t script_running(const struct orr_isolate *iso);

/* A call of the host acts for `script` until script_end_call() gets the answer back. */
static inline uint32_t script_begin_call(struct scripts *self, uint32_t script)
{
    uint32_t before = self->caller;
    self->caller = script;
    return before;
}

static inline void script_end_call(struct scripts *self, uint32_t before)
{
    self->caller = before;
}

/*
 * Gives the chunk at the top of L a number: a task that the host starts with it is a script of its
 * own. May raise.
 */
void script_number_chunk(struct orr_isolate *iso, lua_State *L);

/* The number of the function at an index; 0 if it has none.  May raise. */
uint32_t script_of_chunk(lua_State *L, int index);

/* A task is the body of a script, and has not begun: events wait until script_body_began(). */
void script_body_loads(struct ltask *body);

/* A body that was loading has come to its first wait, or to its end. */
void script_body_began(struct ltask *body);

#endif
