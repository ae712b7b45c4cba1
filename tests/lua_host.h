/*
 * The Lua host is the fixture of tests that run Lua.  It keeps what scripts pass to note(), the
 * message of the last failure that reached the sink, and the notices.  host_runtime() clears all of
 * them.
 */
#ifndef ORR_TESTS_LUA_HOST_H
#define ORR_TESTS_LUA_HOST_H

#include "harness.h"

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>

extern char noted[4096];                      /* what scripts passed to note(), each with a ";" */
extern char sink_text[8192];                  /* the last failure that reached the sink */
extern unsigned notices[ORR_LUA_BLOCKED + 1]; /* how many notices of each kind */
extern int64_t disabled_handler;              /* the handler that the last notice disabled */
extern char notice_text[8192];                /* the text of the last notice */

/*
 * A runtime with this host's sink.  host_runtime() fails the test when there is none,
 * host_runtime_with() returns NULL.
 */
struct orr_runtime *host_runtime(void);
struct orr_runtime *host_runtime_with(struct orr_options options);

/* A runtime that allocates with counting_alloc(); sets allocated_bytes to 0. */
struct orr_runtime *host_counting_runtime(void);

/*
 * An isolate with these options, mounted as `game`, whose scripts have note().  As always, the
 * profile is untrusted unless it is set.
 */
lua_State *open_isolate(struct orr_runtime *rt, struct orr_lua_options options);

/* An isolate as open_isolate() makes, but trusted. */
lua_State *open_trusted(struct orr_runtime *rt, struct orr_lua_options options);

/*
 * Lua functions.  note(value) appends to `noted`.  call_back(fn) calls fn as the host does, and
 * returns the error and the results.
 */
int host_note(lua_State *L);
int host_call_back(lua_State *L);

/* Loads a script, and leaves the function on the stack; the test fails when it does not compile. */
void load(lua_State *L, const char *code);

/* Starts a script as a task.  The caller owns the reference. */
struct orr_task *start(lua_State *L, const char *code);

/* Closes the isolate, unless it is NULL, and frees the runtime. */
void finish(struct orr_runtime *rt, lua_State *L);

/* finish(), and then every byte of the runtime must be free again. */
void finish_counting(struct orr_runtime *rt, lua_State *L);

/*
 * Turns until the task is done and returns how many turns that took.  Fails the test when the task
 * can never be done.
 */
unsigned turn_until_done(struct orr_runtime *rt, struct orr_task *task, uint64_t budget);

/* The error of a task that is done.  Takes the reference. */
int error_of(struct orr_runtime *rt, struct orr_task *task);

/*
 * Fails the test and shows the task's message, unless the task has succeeded.  Takes the reference.
 */
void expect_success(struct orr_runtime *rt, struct orr_task *task);

/* One field of game.runtime.stats(). */
int runtime_stat(lua_State *L, const char *name);

#endif
