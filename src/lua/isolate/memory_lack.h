/*
 * Why a script got `not enough memory`: which limit, how much there was, and where it asked for
 * more.  The error value is Lua's own string, which says none of that, and for which Lua calls no
 * message handler: so the reason is noted when the request is refused, for the report.
 *
 * The isolate's worker's thread.  Nothing here allocates.
 */
#ifndef ORR_LUA_ISOLATE_MEMORY_LACK_H
#define ORR_LUA_ISOLATE_MEMORY_LACK_H

#include "lua/isolate/compat.h"

#include <stddef.h>
#include <stdint.h>

struct orr_isolate;

enum lack {
    LACK_NONE,
    LACK_BY_LIMIT,  /* the isolate's limit */
    LACK_BY_STRING, /* a string far beyond the longest allowed */
    LACK_BY_SYSTEM, /* the system, or the host's allocator */
};

/* Part of the isolate: the last lack of memory. */
struct memory_lack {
    uint8_t why;    /* enum lack */
    size_t asked;   /* bytes of the request; 0 if they were granted, and are in use */
    size_t used;    /* bytes in use */
    char place[80]; /* "file:line" in the script; "" if it is not known */
};

/* The script that runs on L is about to get `not enough memory`. */
void memory_lack_note(struct orr_isolate *iso, lua_State *L, enum lack why, size_t asked);

/* Writes the reason, and forgets it.  The text begins with `not enough memory`. */
void memory_lack_describe(struct orr_isolate *iso, char *text, size_t size);

#endif
