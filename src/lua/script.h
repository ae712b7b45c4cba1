/* Whose a thing is: every script has a number in its isolate, and 0 is the host. */
#ifndef ORR_LUA_SCRIPT_H
#define ORR_LUA_SCRIPT_H

#include "lua/isolate.h"

/* The script whose task runs now. */
uint32_t script_running(const struct orr_isolate *iso);

#endif
