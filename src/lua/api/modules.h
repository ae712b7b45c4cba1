/* The Lua modules, one file each, and the little that they share. */
#ifndef ORR_LUA_API_MODULES_H
#define ORR_LUA_API_MODULES_H

#include "lua/isolate.h"

/* Makes the module `orrery`, and mounts it as a global, as the isolate's settings say.  May raise. */
void modules_open(struct orr_isolate *iso, lua_State *L);

/* Each adds its functions to the table at the top of L.  May raise. */
void async_open(struct orr_isolate *iso, lua_State *L);
void block_open(struct orr_isolate *iso, lua_State *L);
void handle_open(struct orr_isolate *iso, lua_State *L);
void sync_open(struct orr_isolate *iso, lua_State *L);
void future_open(struct orr_isolate *iso, lua_State *L);
void group_open(struct orr_isolate *iso, lua_State *L);
void loop_open(struct orr_isolate *iso, lua_State *L);
void schedule_open(struct orr_isolate *iso, lua_State *L);
void info_open(struct orr_isolate *iso, lua_State *L);
void values_open(struct orr_isolate *iso, lua_State *L);
void json_open(struct orr_isolate *iso, lua_State *L);
void testing_open(struct orr_isolate *iso, lua_State *L);

/* Pushes what lua/events.lua gets; and keeps, from that at the top, what it has made of it for the host. */
void events_push_private(struct orr_isolate *iso, lua_State *L);
void events_keep_host(lua_State *L);

/* The same for lua/eventloop.lua. */
void eventloop_push_private(struct orr_isolate *iso, lua_State *L);
void eventloop_keep_host(lua_State *L);

/* The state is about to be closed: lets go of all handlers.  May raise. */
void events_forget_host(lua_State *L);

/* Takes away what a script has registered, or scheduled. */
void events_remove(struct orr_isolate *iso, uint32_t script);
void schedule_cancel(struct orr_isolate *iso, uint32_t script);

/* Append to the list at the top of L what tells of each of those.  May raise. */
void events_list(lua_State *L, uint32_t script);
void schedule_list(struct orr_isolate *iso, lua_State *L, uint32_t script);
void eventloop_list(lua_State *L, uint32_t script);

/* Drops what the private loops of a script have that do not run; or only keeps them in mind no longer.  May raise. */
void eventloop_dispose(lua_State *L, uint32_t script);
void eventloop_forget(lua_State *L, uint32_t script);

/*
 * How far the schedule is to get before a task goes on that lets others go first: through as many callbacks as one turn begins, of those that
 * wait now; or through all of them.
 */
uint64_t schedule_next_mark(const struct orr_isolate *iso);
uint64_t schedule_last_mark(const struct orr_isolate *iso);

/* Whether it has got there: all callbacks before the mark have begun, or never will. */
bool schedule_has_passed(const struct orr_isolate *iso, uint64_t mark);

/* Whether a coroutine is inside async.scope or its like, which it must not yield out of. */
struct ltask;
bool block_is_open(const struct ltask *self, const lua_State *L);

/* Puts ours in the place of Lua's own. */
void coroutine_open(struct orr_isolate *iso, lua_State *L);

/* Looks out for C libraries that scripts load; and: functions that scripts of the isolate can call may sleep.  The second, the worker's thread. */
void libraries_open(struct orr_isolate *iso, lua_State *L);
void libraries_may_sleep(struct orr_isolate *iso);

/* Who resumed a coroutine that waits inside a task, or was suspended in mid-slice; NULL for others. */
lua_State *coroutine_resumer(lua_State *L, lua_State *co);

/* Milliseconds at an argument, as nanoseconds; raises for what is no length of time. */
uint64_t check_ms(lua_State *L, int index);

/* await, which others call too. */
int async_await(lua_State *L);

/* Whether a future is at `index`; waiting for it, as a continuation with it at 1. */
bool future_test(lua_State *L, int index);
int future_await(lua_State *L, int status, lua_KContext context);

/* Puts ours in the place of Lua's collectgarbage(). */
void garbage_open(struct orr_isolate *iso, lua_State *L);

#endif
