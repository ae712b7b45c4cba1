#include "lua/isolate/oversized.h"

#include "lua/isolate.h"
#include "lua/isolate/ban.h"
#include "lua/isolate/collector.h"
#include "lua/isolate/execution.h"
#include "lua/isolate/interrupt.h"

#include <stdio.h>
#include <string.h>

enum {
    STRING_OVERHEAD = 25, /* bytes of a string's header and final zero in known releases */
    STACK_EXTRA = 5,      /* extra slots of every stack */
    SLOT = 16,            /* bytes of a stack's slot */
};

/* --- In the allocator ------------------------------------------------------------------------- */

static bool is_power_of_two(size_t n)
{
    return n && !(n & (n - 1));
}

/* Records a block that the allocator has granted. */
static void suspect(struct orr_isolate *iso, enum suspect what, const void *block, size_t size, bool twice_too_large)
{
    struct oversized *self = &iso->oversized;
    if (!interrupt_request(iso))
        return;
    self->what = what;
    self->block = block;
    self->size = size;
    self->twice_too_large = twice_too_large;
    self->collected = false;
}

/* No part of a table has such a size. */
bool oversized_is_last_stack(size_t size)
{
    enum { LITTLE = 512 };
    size_t slots = size / SLOT - STACK_EXTRA;
    return size % SLOT == 0 && slots + LITTLE >= LUAI_MAXSTACK && slots <= LUAI_MAXSTACK;
}

void oversized_look(struct orr_isolate *iso, const void *block, size_t old_size, size_t size, size_t kind)
{
    const struct limits *limits = &iso->limits;
    size_t slots = size % SLOT ? 0 : size / SLOT, list = compat_list_slots(size), nodes = compat_hash_nodes(size);
    size_t strings = size / sizeof(void *);
    if (block == iso->oversized.string_table) {
        if (limits->most_strings && strings > limits->most_strings)
            suspect(iso, SUSPECT_STRINGS, block, size, strings / 2 > limits->most_strings);
    } else if (kind == LUA_TSTRING) {
        if (limits->longest_string && size > limits->longest_string + OVERSIZED_STRING_HEADER)
            suspect(iso, SUSPECT_STRING, block, size, false);
    } else if (kind) {
        return;
    } else if (limits->longest_list && compat_list_may_grow(old_size) && is_power_of_two(list) &&
               list > limits->longest_list) {
        suspect(iso, SUSPECT_LIST, block, size, list / 2 > limits->longest_list);
    } else if (limits->most_keys && !old_size && is_power_of_two(nodes) && nodes > limits->most_keys) {
        suspect(iso, SUSPECT_HASH, block, size, nodes / 2 > limits->most_keys);
    } else if (limits->deepest_stack && slots > limits->deepest_stack + STACK_EXTRA && !iso->oversized.what) {
        suspect(iso, SUSPECT_STACK, block, size, slots / 2 > limits->deepest_stack + STACK_EXTRA);
    }
}

/* --- In the hook ------------------------------------------------------------------------------ */

/*
 * The number of the block's slots below the function of the innermost call; 0 if the block is not
 * the stack of L.  The first field of a call points to its function.  The size of a
 * block does not show what it is: Lua doubles stacks, gives them just what a call needs, shrinks
 * them to twice what is in use, and in some releases makes a new block each time.
 */
static size_t slots_in_use(lua_State *L, const void *block, size_t size)
{
    lua_Debug call;
    if (!lua_getstack(L, 0, &call))
        return 0;
    uintptr_t function = 0, begin = (uintptr_t)block;
    memcpy(&function, call.i_ci, sizeof function);
    return function > begin && function - begin < size ? (function - begin) / SLOT : 0;
}

/* Whether a byte can be the tag of a value.  Both parts of a table are full of tags. */
static bool is_tag(unsigned char byte)
{
    unsigned type = byte & 0x0f, variant = byte >> 4 & 3;
    return !(byte & 0x80) && type <= LUA_TTHREAD && variant <= 2;
}

/*
 * These sample the block.  Another block, such as a string buffer, hardly looks like a table in all
 * samples.
 */
enum { SAMPLES = 64 };

static bool looks_like_a_list(const unsigned char *block, size_t size)
{
    size_t slots = compat_list_slots(size);
    for (size_t i = 0; i < SAMPLES; i++)
        if (!is_tag(compat_list_tag(block, slots, slots / SAMPLES * i)))
            return false;
    return true;
}

static bool looks_like_a_hash(const unsigned char *block, size_t size)
{
    size_t nodes = compat_hash_nodes(size);
    for (size_t i = 0; i < SAMPLES; i++) {
        const unsigned char *node = block + COMPAT_BEFORE_NODES + nodes / SAMPLES * i * COMPAT_NODE;
        if (!is_tag(node[8]) || !is_tag(node[9])) /* of the value and of the key */
            return false;
    }
    return true;
}

bool oversized_collects_first(struct orr_isolate *iso)
{
    struct oversized *self = &iso->oversized;
    if (self->what != SUSPECT_STRINGS || self->twice_too_large)
        return false;
    if (!self->collected)
        collector_force(iso, 1);
    self->collected = true;
    return true;
}

bool oversized_confirm(struct orr_isolate *iso, lua_State *L, char *text, size_t size)
{
    struct oversized *self = &iso->oversized;
    enum suspect what = self->what;
    const void *block = self->block;
    size_t bytes = self->size;
    self->what = SUSPECT_NONE;
    if ((what == SUSPECT_LIST || what == SUSPECT_HASH) && slots_in_use(L, block, bytes))
        what = SUSPECT_STACK; /* a stack that has the size of a table part by chance */
    switch (what) {
    case SUSPECT_NONE:
        return false;
    case SUSPECT_STRING:
        snprintf(text, size, "string too long: %zu bytes, and may have %zu", bytes - STRING_OVERHEAD,
                 iso->limits.longest_string);
        return true;
    case SUSPECT_LIST:
        snprintf(text, size, "table too large: a list grew beyond %u elements", iso->limits.longest_list);
        if (!looks_like_a_list(block, bytes))
            return false;
        break;
    case SUSPECT_HASH:
        snprintf(text, size, "table too large: it has more than %u keys", iso->limits.most_keys);
        if (!looks_like_a_hash(block, bytes))
            return false;
        break;
    case SUSPECT_STACK:
        snprintf(text, size, "stack overflow: more than %u values on one stack", iso->limits.deepest_stack);
        /*
         * A stack that grew by recursion is at least half full.  A C function may have needed many
         * slots for a moment.
         */
        if (slots_in_use(L, block, bytes) < iso->limits.deepest_stack / 2)
            return false;
        /* The cycle shrinks the stack.  Otherwise the next recursion would look twice too large */
        collector_force(iso, 1);
        break;
    case SUSPECT_STRINGS:
        snprintf(text, size, "too many different short strings: more than %u", iso->limits.most_strings);
        break;
    }
    if (self->twice_too_large)
        ban_impose(iso, text);
    return true;
}
