/* Errors as people read them: the message, and the stack of every task in the chain, newest first. */
#ifndef ORR_LUA_TASK_REPORT_H
#define ORR_LUA_TASK_REPORT_H

#include "lua/task/task.h"

/* Bytes that are kept of an error's text, and of the stacks that it was raised on: beyond, they are cut, and say so. */
enum { REPORT_TEXT = 4096, REPORT_STACK = 8192 };

/* Keeps the text of the error at `index`, with the stack that it is raised on, in the task.  May raise. */
void report_keep(struct ltask *self, lua_State *L, int index);

/* Pushes the stacks of the tasks that a task waits for, of itself, and of those above it, after `message` if that is not NULL. */
void report_push_traceback(lua_State *L, struct ltask *self, const char *message);

/* Pushes the full report of a failed task: the error, where it arose, and the way that it took up. */
void report_push_failure(lua_State *L, struct orr_task *task);

/* Whether a level, asked for "S", is in a script, and not in Lua of ours. */
bool report_is_of_script(const lua_Debug *at);

/* Pushes "file:line" of the innermost function of a script's, from a level of a coroutine on; or an empty text.  May raise. */
void report_push_location(lua_State *L, lua_State *co, int level);

/* Keeps, with the innermost level, a report of its being ended because the time of one is up.  In a hook of L, or in a C function. */
struct level;
void report_timeout(struct orr_isolate *iso, lua_State *L, const struct level *expired);

/* In a return hook: the C function that returns has run while the slice ended. */
void report_note_culprit(struct orr_isolate *iso, lua_State *L, lua_Debug *event);

#endif
