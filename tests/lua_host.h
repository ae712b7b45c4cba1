/*
 * What the tests of Lua and its limits share: a host that remembers what its scripts say, what its sink is told, and what
 * it is given notice of.  A new runtime forgets it all.
 */
#ifndef ORR_TESTS_LUA_HOST_H
#define ORR_TESTS_LUA_HOST_H

#include "harness.h"

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>

#define MS UINT64_C(1000000)

extern char noted[4096];                      /* what scripts have passed to note(), each with a semicolon */
extern char sunk[8192];                       /* the last failure that nobody saw */
extern unsigned notices[ORR_LUA_COUNTED + 1]; /* by kind */
extern int64_t disabled_handler;              /* of the last notice */
extern char notice_text[8192];                /* of the last */

struct orr_runtime *host_runtime(void);
struct orr_runtime *host_runtime_with(struct orr_options options);

/* A trusted isolate, mounted as `game`, whose scripts have note(). */
lua_State *open_with(struct orr_runtime *rt, struct orr_lua_options options);

/* One of the profile that the options name, untrusted if they do not; the rest as above. */
lua_State *open_as_chosen(struct orr_runtime *rt, struct orr_lua_options options);

/* For scripts: note(value); and call_back(fn), a call from the host, which answers its error and what it left. */
int host_note(lua_State *L);
int host_call_back(lua_State *L);

void load(lua_State *L, const char *code);
struct orr_task *start(lua_State *L, const char *code);

/* Closes the isolate, unless it is NULL, and frees the runtime. */
void finish(struct orr_runtime *rt, lua_State *L);

/* Turns until the task is done; answers how many turns that took.  Fails if it can never be. */
unsigned turn_until_done(struct orr_runtime *rt, struct orr_task *task, uint64_t budget);

/* What the task, which is done, has come to; gives up the reference. */
int error_of(struct orr_runtime *rt, struct orr_task *task);

/* The task has ended well; else the test fails, and shows the task's message.  Takes the reference. */
void expect_success(struct orr_runtime *rt, struct orr_task *task);

/* One of game.runtime.stats(). */
int figure(lua_State *L, const char *name);

#endif
