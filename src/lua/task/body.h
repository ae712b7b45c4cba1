/*
 * The body of a task: the C function at the bottom of its coroutine, and what a body ends with.
 *
 * The C function calls the body protected, so errors unwind inside the coroutine, where `<close>`
 * may wait.
 *
 * The isolate's worker's thread.
 */
#ifndef ORR_LUA_TASK_BODY_H
#define ORR_LUA_TASK_BODY_H

#include "exec/task.h"
#include "lua/isolate/compat.h"

#include <stdbool.h>

struct level;
struct ltask;
struct orr_isolate;

/* Part of the isolate: references into the registry. */
struct body_functions {
    int base;            /* the bottom of a coroutine */
    int message_handler; /* writes the report of an error before the stack unwinds */
};

enum { BODY_BASE = 2 }; /* values that body_push_base() pushes */

/* May raise. */
void body_open(struct orr_isolate *iso, lua_State *L);

/* Pushes what calls a body: a function and its arguments follow.  Never allocates. */
void body_push_base(const struct body_functions *self, lua_State *co);

/*
 * Pushes what calls a body in steps: a function follows, which is called first, and then after each
 * step.  It answers the next step, as a function and its arguments, or nothing when there are no
 * more.  May raise on L.
 */
void body_push_base_of_steps(struct orr_isolate *iso, lua_State *L, lua_State *co);

/* The coroutine has returned values, or failed. */
enum orr_poll body_over(struct ltask *self, bool failed, int results);

/*
 * The body of a task that is closed is over where it waits.  The coroutine is not resumed any more,
 * and need not be closed.  Never allocates.
 */
void body_leave_waiting(struct ltask *self);

/*
 * The limits have ended the body, wherever it stands.  It is not resumed any more, and is closed
 * when its children are done.  What it has returned or raised meanwhile does not count.
 */
enum orr_poll body_timed_out(struct ltask *self, struct level *level, int status);

/* Whether the result is that of a body that timed out, and the host had a notice of it. */
bool body_timeout_was_told(const struct orr_result *result);

/* A C function that is not ours has yielded in the body: nobody would resume it. */
enum orr_poll body_foreign_yield(struct ltask *self);

#endif
