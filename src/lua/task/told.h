/*
 * The failures that scripts of an isolate were told of last: by an await, or by a call of a worker.
 *
 * A script that does not catch such an error, or catches it and raises it again, fails with the
 * same value.  Its report begins with the trace of the task where the error arose: this list says
 * which task that is.  It holds the last TOLD_MAX failures weakly, so an error that was caught
 * leaves nothing behind: when the failed task's handle is collected, its trace is gone.
 *
 * The isolate's worker's thread.
 */
#ifndef ORR_LUA_TASK_TOLD_H
#define ORR_LUA_TASK_TOLD_H

#include "lua/isolate/compat.h"

#include <stdbool.h>

struct orr_isolate;

enum { TOLD_MAX = 8 };

/* Part of the isolate. */
struct told {
    unsigned next; /* where the next failure goes */
};

/* A failure outside the isolate: a userdata whose user value is the error. */
struct told_elsewhere {
    size_t message; /* bytes of the error's own text */
    char text[];    /* its report; ends with a NUL */
};

/* May raise. */
void told_open(struct orr_isolate *iso, lua_State *L);

/* A script is about to get the error of the failed task whose handle is at an index. */
void told_note(struct orr_isolate *iso, lua_State *L, int handle);

/*
 * A script is about to get the error at an index, which was raised in another isolate.  `report` is
 * its report there.  May raise.
 */
void told_note_elsewhere(struct orr_isolate *iso, lua_State *L, int error, const char *report);

/*
 * Pushes the handle of a task, or a `struct told_elsewhere`, and answers its type; the last failure
 * has the number 0.  Answers LUA_TNIL, with nothing pushed, if it is gone.
 */
int told_push(const struct orr_isolate *iso, lua_State *L, unsigned number);

/* Forgets all failures. */
void told_clear(struct orr_isolate *iso);

/* Forgets a failure. */
void told_forget(const struct orr_isolate *iso, lua_State *L, unsigned number);

/* The failure outside the isolate at the top of L; NULL if it is a task's. */
const struct told_elsewhere *told_elsewhere_at_top(lua_State *L);

#endif
