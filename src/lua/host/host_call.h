/*
 * One call of a function of the host by a script, with values: struct orr_call.
 *
 * The isolate's worker's thread.
 */
#ifndef ORR_LUA_HOST_HOST_CALL_H
#define ORR_LUA_HOST_HOST_CALL_H

#include "lua/isolate/compat.h"
#include "orrery.h"

#include <stdarg.h>

struct orr_isolate;

/* Calls the host's function for a call whose arguments are set.  Must not raise. */
typedef int host_call_fn(void *data, struct orr_isolate *iso, lua_State *L, struct orr_call *call);

/*
 * Converts the arguments on the stack, from index `first` up, calls `fn`, and frees the arguments.
 * Returns the answer of `fn`, or why an argument cannot be converted; host_call_raise() raises it.
 * Never raises, so that the arguments are always freed.
 */
int host_call_run(struct orr_isolate *iso, lua_State *L, int first, struct orr_call *call, host_call_fn *fn,
                  void *data);

/* Raises the error of a call: the path of the function, and the message of the call or `error`. */
int host_call_raise(lua_State *L, const char *path, const struct orr_call *call, int error);

/* Formats a message.  Dots at its end stand for what does not fit. */
void host_call_format(char *message, size_t size, const char *format, va_list arguments);

#endif
