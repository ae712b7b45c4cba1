/*
 * Limits on the size of one thing: a string, the two parts of a table, a stack, the table of all
 * short strings.
 *
 * The allocator sees only blocks.  It grants a block that may be too large, and remembers it here
 * as a *suspect*.  At the next instruction the hook makes sure that it is what it looks like, and
 * raises an error that names the limit.  A script that catches the error, and makes the same thing
 * more than twice as large as it may be, is banned.
 *
 * The isolate's worker's thread.
 */
#ifndef ORR_LUA_ISOLATE_OVERSIZED_H
#define ORR_LUA_ISOLATE_OVERSIZED_H

#include "lua/isolate/compat.h"

#include <stdbool.h>
#include <stddef.h>

struct orr_isolate;

enum {
    OVERSIZED_STRING_HEADER = 64, /* bytes: more than Lua needs, in any release */
    /* Bytes of the table of short strings when a state begins */
    OVERSIZED_FIRST_STRING_TABLE = 1 << 10,
};

enum suspect {
    SUSPECT_NONE,
    SUSPECT_STRING,
    SUSPECT_LIST,    /* the list part of a table */
    SUSPECT_HASH,    /* the hash part of a table */
    SUSPECT_STACK,   /* of a coroutine */
    SUSPECT_STRINGS, /* the table of all short strings */
};

struct oversized {
    enum suspect what;
    const void *block; /* the suspect */
    size_t size;
    bool twice_too_large;
    /* A cycle of the collector was forced, for short strings that are garbage */
    bool collected;
    const void *string_table; /* the block of the table of short strings */
};

/*
 * In the allocator: a large block was made, or has grown.  `kind` is what Lua says that it makes,
 * or 0.
 */
void oversized_look(struct orr_isolate *iso, const void *block, size_t old_size, size_t size, size_t kind);

/*
 * Whether a block is a stack that may be filled up to its end, which is Lua's limit or little less.
 */
bool oversized_is_last_stack(size_t size);

/*
 * In the allocator: a block was made.  The first of a size, when a state begins, is the table of
 * short strings.
 */
static inline void oversized_made(struct oversized *self, const void *block, size_t size)
{
    if (size == OVERSIZED_FIRST_STRING_TABLE && !self->string_table)
        self->string_table = block;
}

/* In the allocator: a block is freed. */
static inline void oversized_freed(struct oversized *self, const void *block)
{
    if (block == self->block)
        self->what = SUSPECT_NONE;
}

/* In the allocator: a block has a new size, and maybe another address. */
static inline void oversized_moved(struct oversized *self, const void *from, const void *to)
{
    oversized_freed(self, from);
    if (from == self->string_table)
        self->string_table = to;
}

static inline bool oversized_is_suspected(const struct oversized *self)
{
    return self->what != SUSPECT_NONE;
}

/*
 * In a hook: whether the suspect is to be looked at only after a cycle of the collector, which is
 * owed then. That is so for the table of short strings: it holds strings that are garbage, too, and
 * shrinks when fewer than a quarter of its places are taken.
 */
bool oversized_collects_first(struct orr_isolate *iso);

/*
 * In a hook on L: whether the suspect is too large; then `text` says what it is.  It is a suspect
 * no more.
 */
bool oversized_confirm(struct orr_isolate *iso, lua_State *L, char *text, size_t size);

#endif
