/*
 * C libraries that scripts load.
 *
 * Functions of C libraries may sleep in system calls and may not expect a signal to interrupt them.
 * Once a script has loaded a library, the worker's thread gets no signal while it sleeps
 * (exec/sentinel.h).
 */
#ifndef ORR_LUA_API_C_LIBRARIES_H
#define ORR_LUA_API_C_LIBRARIES_H

#include "lua/isolate/compat.h"

struct orr_isolate;

/* Wraps the functions of `package` that load C libraries.  May raise. */
void c_libraries_open(struct orr_isolate *iso, lua_State *L);

/* C functions that scripts of the isolate call may sleep from now on.  The worker's thread. */
void c_libraries_may_sleep(struct orr_isolate *iso);

#endif
