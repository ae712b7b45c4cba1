/* An isolate is condemned when its script breaks a limit that no error can hold: none of its Lua runs any more. */
#ifndef ORR_LUA_LIMITS_VERDICT_H
#define ORR_LUA_LIMITS_VERDICT_H

#include <stdbool.h>

struct verdict {
    bool condemned;
    char reason[160];
};

#endif
