/* What the host is still to be told. */
#ifndef ORR_LUA_LIMITS_NOTICES_H
#define ORR_LUA_LIMITS_NOTICES_H

#include <stdint.h>

struct notice;

struct notices {
    struct notice *first;
    int64_t disabled; /* while the host is told that a handler was disabled: its number */
};

#endif
