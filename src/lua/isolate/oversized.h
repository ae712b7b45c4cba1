/*
 * Limits on the size of one object: a string, the two parts of a table, a stack, the table of all
 * short strings.
 *
 * The allocator sees only blocks.  It grants a block that may be too large, and records it here as
 * a *suspect*.  At the next instruction the hook checks what the block really is, and raises an
 * error that names the limit.  A script that catches the error, and makes an object more than twice
 * as large as allowed, is banned.
 *
 * Only the isolate's worker thread may call these functions.
 */
#ifndef ORR_LUA_ISOLATE_OVERSIZED_H
#define ORR_LUA_ISOLATE_OVERSIZED_H

#include "lua/isolate/compat.h"

#include <stdbool.h>
#include <stddef.h>

struct orr_isolate;

enum {
    OVERSIZED_STRING_HEADER = 64, /* bytes: at least what any release of Lua needs */
    /* Bytes of the table of short strings in a new state */
    OVERSIZED_FIRST_STRING_TABLE = 1 << 10,
};

enum suspect {
    SUSPECT_NONE,
    SUSPECT_STRING,
    SUSPECT_LIST,    /* the list part of a table */
    SUSPECT_HASH,    /* the hash part of a table */
    SUSPECT_STACK,   /* the stack of a coroutine */
    SUSPECT_STRINGS, /* the table of all short strings */
};

struct oversized {
    enum suspect what;
    const void *block; /* the suspect */
    size_t size;
    bool twice_too_large;
    /* A cycle of the collector was forced, to free short strings that are garbage */
    bool collected;
    const void *string_table; /* the block of the table of short strings */
};

/*
 * In the allocator: a large block was made, or has grown.  `kind` is the kind of object that Lua
 * makes, or 0.
 */
void oversized_look(struct orr_isolate *iso, const void *block, size_t old_size, size_t size, size_t kind);

/*
 * Whether a block of this size is a stack at Lua's limit, or slightly below it, which may be filled
 * up to its end.
 */
bool oversized_is_last_stack(size_t size);

/*
 * In the allocator: a block was made.  The first block of a certain size in a new state is the
 * table of short strings.
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

/*
 * In the allocator, before a block gets a new size and maybe another address: whether it is the
 * suspect, and whether it is the table of short strings.  Afterwards its old address means nothing.
 */
static inline bool oversized_is_suspect(const struct oversized *self, const void *block)
{
    return block == self->block;
}

static inline bool oversized_is_string_table(const struct oversized *self, const void *block)
{
    return block == self->string_table;
}

/* In the allocator: a block has moved to `to`. */
static inline void oversized_moved(struct oversized *self, bool suspect, bool string_table, const void *to)
{
    if (suspect)
        self->what = SUSPECT_NONE;
    if (string_table)
        self->string_table = to;
}

static inline bool oversized_is_suspected(const struct oversized *self)
{
    return self->what != SUSPECT_NONE;
}

/*
 * In a hook: whether the suspect must be checked only after a cycle of the collector, which is then
 * owed.  True for the table of short strings: it also holds garbage, and shrinks when fewer than a
 * quarter of its slots are taken.
 */
bool oversized_collects_first(struct orr_isolate *iso);

/*
 * In a hook on L: whether the suspect is too large; then `text` says what it is.  Clears the
 * suspect.
 */
bool oversized_confirm(struct orr_isolate *iso, lua_State *L, char *text, size_t size);

#endif
