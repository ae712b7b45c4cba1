/*
 * Tells which of some tables have changed, without a look at their entries.
 *
 * Lua keeps the entries of a table that has no integer keys in one block, which it gets from the
 * allocator of the state.  Here the block of each tracked table lies in an arena, and the arena has
 * a copy.  While a block has the bytes that it had when it was copied, the table has the entries
 * that it had then:
 *
 *   - Every entry is in the block.  When Lua lays out such a table again, no array part is left.
 *     dirty_track() has each table laid out again, to get its block into the arena.
 *   - Lua never makes a block larger or smaller in place.  It gets another block and frees the old
 *     one.  The allocator sees that, and the table counts as changed.
 *   - Equal bytes are equal entries.  The bytes hold keys and values by address.  The user keeps
 *     alive all keys and values that a table has when it is copied, so that no other object can get
 *     such an address.
 *
 * No function that changes a table can go around that, however it does so: `rawset`, a function
 * written in C, the virtual machine.  A metatable is not among the entries.  Nor are the contents
 * of values: a table that is a value is tracked on its own.
 *
 * A table may count as changed though its entries are the same: the collector marks the keys of
 * entries that were removed.  That costs time only.
 *
 * The three assumptions are tried on a table when tracking opens.  If one does not hold for the
 * Lua at hand, nothing is tracked, and every table counts as changed.
 *
 * Only the thread of the state may call these functions.
 */
#ifndef ORR_LUA_WORKER_DIRTY_H
#define ORR_LUA_WORKER_DIRTY_H

#include "base/alloc.h"
#include "lua/isolate/compat.h"

#include <stdbool.h>
#include <stddef.h>

struct orr_isolate;

/* The block of a tracked table, in the arena. */
struct dirty_block {
    size_t offset, size;
    size_t room; /* bytes of the arena that are for this table */
    bool left;   /* Lua has freed the block: the table has another, outside */
};

/* All zero is closed: nothing is tracked. */
struct dirty {
    struct orr_isolate *iso;
    struct alloc alloc;
    char *arena; /* then its copy, then `blocks`: one allocation */
    char *copy;
    size_t size, used; /* bytes of the arena */
    struct dirty_block *blocks;
    unsigned count, most;
    bool unusable;             /* the assumptions do not hold for this Lua */
    unsigned left;             /* blocks that have left the arena */
    struct dirty_block *wants; /* the block that Lua's next request is for; NULL for none */
};

/* Bytes of the arena that a table with this many keys needs. */
size_t dirty_room(size_t keys);

/*
 * Opens tracking for at most `tables` tables, which need `bytes` bytes together.  If there is no
 * memory for that, nothing is tracked.  May raise; then it is closed after the state, too.
 */
void dirty_open(struct dirty *self, struct orr_isolate *iso, lua_State *L, unsigned tables, size_t bytes);

/* After the state is closed. */
void dirty_close(struct dirty *self);

/*
 * Begins to track the table at an index, which has no integer keys.  Answers its number; or -1 if
 * it cannot be tracked.  May raise.
 */
int dirty_track(struct dirty *self, lua_State *L, int table);

/*
 * Notes the table with this number, at an index, as unchanged.  Answers its number; or -1 if it can
 * be tracked no more.  May raise.
 */
int dirty_clean(struct dirty *self, lua_State *L, int table, int number);

/* Whether any tracked table may have changed. */
bool dirty_any(const struct dirty *self);

/* Whether the table with a number may have changed. */
bool dirty_is(const struct dirty *self, int number);

#endif
