#include "lua/worker/dirty.h"

#include "lua/isolate.h"
#include "lua/isolate/charge.h"
#include "lua/isolate/memory.h"

#include <stdint.h>
#include <string.h>

enum {
    /*
     * Bytes of an entry in Lua 5.4 on 64-bit machines.  If an entry takes more, the arena has room
     * for fewer tables.
     */
    ENTRY = 24,
    ALIGNMENT = 16,
    TRIES = 2048, /* keys that are put into a table until Lua lays it out again */
};

static size_t rounded(size_t size)
{
    return (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* Lua makes room for a power of two, and lays a table out when it gets a key more. */
size_t dirty_room(size_t keys)
{
    size_t entries = 1;
    while (entries < keys + 1 + !keys)
        entries *= 2;
    return rounded(entries * ENTRY);
}

/* --- The allocator ---------------------------------------------------------------------------- */

static void note_left(struct dirty *self, const char *address)
{
    for (unsigned i = 0; i < self->count; i++) {
        struct dirty_block *block = &self->blocks[i];
        if (block->left || !block->size || self->arena + block->offset != address)
            continue;
        block->left = true;
        self->left++;
    }
}

/* Lua frees a block in the arena, or asks for another size, which it never does. */
static __attribute__((noinline)) void *leave_arena(struct dirty *self, void *block, size_t old_size, size_t size)
{
    void *moved = size ? memory_alloc(self->iso, NULL, 0, size) : NULL;
    if (moved)
        memcpy(moved, block, old_size < size ? old_size : size);
    if (moved || !size)
        note_left(self, block);
    return moved;
}

/* The lua_Alloc of a state with tracked tables. */
static void *alloc_outside(void *data, void *block, size_t old_size, size_t size)
{
    struct dirty *self = data;
    if (__builtin_expect((uintptr_t)block - (uintptr_t)self->arena < self->size, 0))
        return leave_arena(self, block, old_size, size);
    return memory_alloc(self->iso, block, old_size, size);
}

/* The lua_Alloc while a table is laid out again: the first new block comes from the arena. */
static void *alloc_inside(void *data, void *block, size_t old_size, size_t size)
{
    struct dirty *self = data;
    struct dirty_block *wants = self->wants;
    if (block || !size || !wants)
        return alloc_outside(data, block, old_size, size);
    self->wants = NULL;
    if (size > wants->room)
        return alloc_outside(data, block, old_size, size);
    wants->size = size;
    /* Lua does not set every byte. */
    return memset(self->arena + wants->offset, 0, wants->room);
}

/* --- Tracking --------------------------------------------------------------------------------- */

static bool is_empty(lua_State *L, int table)
{
    lua_pushnil(L);
    if (!lua_next(L, table))
        return true;
    lua_pop(L, 2);
    return false;
}

static void set_key(lua_State *L, int table, const char *key, bool present)
{
    if (present)
        lua_pushboolean(L, true);
    else
        lua_pushnil(L);
    lua_rawsetp(L, table, key);
}

/*
 * Puts keys into the table and removes them, until Lua finds no free entry and lays it out again.
 * A removed key leaves its entry to keys that belong there, but the entry is not free for others.
 * In an empty table one key stays until the end: keys that belong into its entry need another.
 */
static void lay_out_again(struct dirty *self, lua_State *L, int table)
{
    const char *keys = self->arena; /* addresses that no script has as keys */
    set_key(L, table, keys, is_empty(L, table));
    for (int i = 1; i < TRIES && self->wants; i++) {
        set_key(L, table, keys + i, true);
        set_key(L, table, keys + i, false);
    }
    set_key(L, table, keys, false);
}

/* Gets the table's block into its room in the arena.  False if that cannot be. */
static bool catch_block(struct dirty *self, lua_State *L, int table, struct dirty_block *block)
{
    block->size = 0;
    self->wants = block;
    lua_setallocf(L, alloc_inside, self);
    lay_out_again(self, L, table);
    lua_setallocf(L, alloc_outside, self);
    self->wants = NULL;
    return block->size;
}

static void copy_block(struct dirty *self, const struct dirty_block *block)
{
    memcpy(self->copy + block->offset, self->arena + block->offset, block->room);
}

int dirty_track(struct dirty *self, lua_State *L, int table)
{
    if (self->unusable || self->count == self->most)
        return -1;
    struct dirty_block *block = &self->blocks[self->count];
    *block = (struct dirty_block){ .offset = self->used, .room = self->size - self->used };
    if (!catch_block(self, L, lua_absindex(L, table), block))
        return -1;
    size_t room = rounded(block->size);
    block->room = room < block->room ? room : block->room;
    self->used += block->room;
    copy_block(self, block);
    return (int)self->count++;
}

int dirty_clean(struct dirty *self, lua_State *L, int table, int number)
{
    struct dirty_block *block = &self->blocks[number];
    if (block->left) {
        block->left = false;
        self->left--;
        if (!catch_block(self, L, lua_absindex(L, table), block))
            return -1;
    }
    copy_block(self, block);
    return number;
}

bool dirty_any(const struct dirty *self)
{
    return self->left || (self->used && memcmp(self->arena, self->copy, self->used) != 0);
}

bool dirty_is(const struct dirty *self, int number)
{
    const struct dirty_block *block = &self->blocks[number];
    return block->left || memcmp(self->arena + block->offset, self->copy + block->offset, block->size) != 0;
}

/* --- Opening and closing ---------------------------------------------------------------------- */

static void set_elements(lua_State *L, int table, int first, int last, bool present)
{
    for (int i = first; i <= last; i++) {
        if (present)
            lua_pushboolean(L, true);
        else
            lua_pushnil(L);
        lua_rawseti(L, table, i);
    }
}

/* Whether the only tracked table counts as changed. */
static bool is_changed(const struct dirty *self)
{
    return dirty_is(self, 0) && dirty_any(self);
}

/*
 * Tries whether the assumptions hold for this Lua, with a table that has had an array part.  In the
 * end the block of the table has left the arena.
 */
static bool try_assumptions(struct dirty *self, lua_State *L)
{
    enum { FEW = 4, MANY = 64 };
    lua_createtable(L, FEW, 0);
    int table = lua_gettop(L);
    set_elements(L, table, 1, FEW, true);
    lua_pushboolean(L, true);
    lua_rawsetp(L, table, self);
    set_elements(L, table, 1, FEW, false);
    bool hold = dirty_track(self, L, table) == 0 && !is_changed(self);
    lua_pushboolean(L, false);
    lua_rawsetp(L, table, self);
    hold = hold && is_changed(self) && dirty_clean(self, L, table, 0) == 0 && !is_changed(self);
    set_elements(L, table, 1, 1, true);
    hold = hold && is_changed(self);
    set_elements(L, table, 2, MANY, true);
    hold = hold && self->left == 1;
    lua_pop(L, 1);
    return hold;
}

static size_t size_of_all(const struct dirty *self)
{
    return 2 * self->size + self->most * sizeof *self->blocks;
}

void dirty_open(struct dirty *self, struct orr_isolate *iso, lua_State *L, unsigned tables, size_t bytes)
{
    size_t size = rounded(bytes > TRIES ? bytes : TRIES);
    *self = (struct dirty){ .iso = iso, .alloc = iso->alloc, .size = size, .most = tables };
    if (charge_take(iso, size_of_all(self))) {
        *self = (struct dirty){ 0 };
        return;
    }
    self->arena = alloc_zeroed(&self->alloc, size_of_all(self));
    if (!self->arena) {
        charge_give(iso, size_of_all(self));
        *self = (struct dirty){ 0 };
        return;
    }
    self->copy = self->arena + size;
    self->blocks = (struct dirty_block *)(self->copy + size);
    if (!try_assumptions(self, L))
        self->unusable = true;
    self->count = self->left = 0;
    self->used = 0;
}

void dirty_close(struct dirty *self)
{
    if (self->arena)
        alloc_free(&self->alloc, self->arena, size_of_all(self));
    *self = (struct dirty){ 0 };
}
