/*
 * Cancellation as scripts see it: the error "closed".
 *
 * A wait of a cancelled task raises the string "closed".  A task that catches it is to clean up and return.
 * The isolate counts how often each task was told, for reports on tasks that go on regardless.
 *
 * The isolate's worker's thread.
 */
#ifndef ORR_LUA_TASK_CANCELLATION_H
#define ORR_LUA_TASK_CANCELLATION_H

#include "lua/isolate/compat.h"

#include <stdbool.h>

struct ltask;
struct orr_isolate;

#define CANCELLATION_TEXT "closed" /* part of the Lua API */

/* Part of the isolate: the last task that was told of its cancellation a second time, and in which wait. */
struct cancellations {
    const struct ltask *task;
    char place[80]; /* " at file:line" */
};

/* Whether the error at an index is that of a wait that was cancelled.  Never allocates. */
bool cancellation_is_error(lua_State *L, int index);

/* The wait that L is in is about to raise the error. */
void cancellation_note(struct ltask *task, lua_State *L);

/* How often a task was told, for people: "over 254" or "3".  For a task that was told at least twice. */
const char *cancellation_count(const struct ltask *task, char text[16]);

/*
 * If a task, which may be NULL, has gone on after it was told: where it was told a second time, or an empty
 * text.  Else NULL.
 */
const char *cancellation_ignored(const struct orr_isolate *iso, const struct ltask *task);

/* Writes " at file:line" of where a coroutine, which may be NULL, stands in a script; "" if it is in none. */
void cancellation_find_place(lua_State *co, char *text, size_t size);

#endif
