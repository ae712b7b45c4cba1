#include "lua/isolate/memory.h"

#include "lua/isolate/charge.h"
#include "lua/isolate/collector.h"
#include "lua/limits/budget.h"

#include <stdio.h>
#include <string.h>

/* --- What was asked for ------------------------------------------------------------------------------------------------ */

enum {
    STRING_HEADER = 64,      /* more than Lua needs, in any release */
    STRING_OVERHEAD = 25,    /* what it needs in those that we know */
    STRING_GRANT = 4,        /* times the longest string, before one is refused */
    STACK_EXTRA = 5,         /* that every stack has besides */
    SLOT = 16,               /* bytes of a list's slot */
    NODE = 24,               /* bytes of a hash part's node */
    STRINGS_FIRST = 1 << 10, /* bytes of the table of short strings when a state begins */
};

static bool is_power_of_two(size_t n)
{
    return n && !(n & (n - 1));
}

/*
 * Remembers a block that may be larger than it may be.  The caller has granted it.  What has caught the error and makes the same
 * thing larger still, by more than double, is ended.
 */
static void suspect(struct orr_isolate *iso, enum memory_suspect what, const void *block, size_t size, bool insists)
{
    struct memory_account *account = &iso->memory;
    if (!iso->execution.level || !budget_ask(iso))
        return;
    account->suspect.what = what;
    account->suspect.block = block;
    account->suspect.size = size;
    account->suspect.insists = insists;
    account->suspect.collected = false;
}

/*
 * How many slots of a block are below the innermost call's function; 0 if that is elsewhere, for then the block is not the stack of
 * this coroutine.  In Lua 5.4, a call's first field says where its function is.  The size of a block does not tell what it is: Lua
 * doubles stacks, gives them just what a call needs, shrinks them to twice what is in use, and in some releases makes a new block
 * each time.
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

/* Whether a block is a stack that may be filled up to its end, which is Lua's limit or little less.  No table has such a size. */
static bool is_last_stack(size_t size)
{
    enum { LITTLE = 512 };
    size_t slots = size / SLOT - STACK_EXTRA;
    return size % SLOT == 0 && slots + LITTLE >= LUAI_MAXSTACK && slots <= LUAI_MAXSTACK;
}

/* Looks at a large block that was made or has grown.  `kind` is what Lua says that it makes, or 0. */
static void look_at_size(struct orr_isolate *iso, const void *block, size_t old_size, size_t size, size_t kind)
{
    const struct limits *limits = &iso->limits;
    if (block == iso->memory.strings) {
        if (limits->most_strings && size / sizeof(void *) > limits->most_strings)
            suspect(iso, SUSPECT_STRINGS, block, size, size / sizeof(void *) / 2 > limits->most_strings);
    } else if (kind == LUA_TSTRING) {
        if (limits->longest_string && size > limits->longest_string + STRING_HEADER)
            suspect(iso, SUSPECT_STRING, block, size, false);
    } else if (kind) {
        return;
    } else if (limits->longest_list && old_size && is_power_of_two(size / SLOT) && size % SLOT == 0 &&
               size / SLOT > limits->longest_list) {
        suspect(iso, SUSPECT_LIST, block, size, size / SLOT / 2 > limits->longest_list);
    } else if (limits->most_keys && !old_size && size % NODE == 0 && is_power_of_two(size / NODE) &&
               size / NODE > limits->most_keys) {
        suspect(iso, SUSPECT_HASH, block, size, size / NODE / 2 > limits->most_keys);
    } else if (limits->deepest_stack && size % SLOT == 0 && size / SLOT > limits->deepest_stack + STACK_EXTRA &&
               !iso->memory.suspect.what) {
        suspect(iso, SUSPECT_STACK, block, size, size / SLOT / 2 > limits->deepest_stack + STACK_EXTRA);
    }
}

/*
 * Where instructions are counted, the hook looks at the clock once in so many of them, and a few that copy long strings can last longer
 * than a turn.  So each megabyte in large blocks has it look at once.
 */
static void count_large(struct orr_isolate *iso, size_t more)
{
    enum { LARGE_LOOK = 1 << 20 };
    struct memory_account *account = &iso->memory;
    if (iso->limits.mode != ORR_LUA_COUNT && !iso->preemption.counted)
        return;
    account->large += more;
    if (account->large >= LARGE_LOOK) {
        account->large = 0;
        budget_ask(iso);
    }
}

/* --- Refusing ---------------------------------------------------------------------------------------------------------- */

/* Pages that are nearly empty count too, or a script could hold many times its limit in them. */
static bool is_within(const struct orr_isolate *iso, size_t more)
{
    const struct memory_account *account = &iso->memory;
    return account->slab.held + more <= 2 * account->next;
}

static bool may_have(struct orr_isolate *iso, size_t more, size_t kind)
{
    size_t limit = iso->limits.memory, longest = iso->limits.longest_string;
    if (iso->collector.paying || iso->charge.reports) { /* finalizers are part of collecting */
        charge_cover(iso, more);
        return true;
    }
    if (kind == LUA_TSTRING && longest && more / STRING_GRANT > longest + STRING_HEADER)
        return false;
    if (!limit)
        return true;
    if (!is_within(iso, more) && !charge_overdraws_plainly(iso, more) && !budget_ask_for_memory(iso))
        return false;
    return charge_may_have(iso, more);
}

/*
 * Refused, Lua collects its garbage and asks for the same again.  If that were given then, a store that had the ground pulled from
 * under it would go on; so while a hook is there to collect, it is not.  Until something else has been given out, all requests
 * come past the look.
 */
static void *refuse(struct orr_isolate *iso, const void *block, size_t old_size, size_t size)
{
    struct memory_account *account = &iso->memory;
    if (iso->execution.level && iso->limits.mode != ORR_LUA_OFF) {
        account->refused.block = block;
        account->refused.old_size = old_size;
        account->refused.size = size;
        account->given -= account->credit;
        account->credit = 0;
        if (++account->refusals == REFUSALS_MAX && iso->limits.profile == ORR_LUA_UNTRUSTED)
            budget_condemn(iso, "it asked again and again for more memory than it may have");
    }
    return NULL;
}

/* True once: a third time, it is somebody who tries again. */
static bool refused_before(struct memory_account *account, const void *block, size_t old_size, size_t size)
{
    bool before = account->refused.size == size && account->refused.block == block &&
                  account->refused.old_size == old_size && size;
    if (before)
        account->refused.size = 0;
    return before;
}

/* --- Late ---------------------------------------------------------------------------------------------------------------- */

/* At the beginning of the block itself. */
struct late_block {
    struct late_block *next;
    size_t size;
};

void memory_defer(struct orr_isolate *iso, bool on)
{
    iso->memory.defers = on;
}

bool memory_free_late(struct orr_isolate *iso)
{
    struct late_block *block = iso->memory.late;
    if (!block)
        return false;
    iso->memory.late = block->next;
    alloc_resize(&iso->alloc, block, block->size, 0);
    return true;
}

static void free_later(struct memory_account *account, void *data, size_t size)
{
    struct late_block *block = data;
    block->next = account->late;
    block->size = size;
    account->late = block;
}

static void make_room(struct orr_isolate *iso, size_t size)
{
    for (size_t freed = 0; freed < size && iso->memory.late;) {
        freed += iso->memory.late->size;
        memory_free_late(iso);
    }
}

/* --- Blocks -------------------------------------------------------------------------------------------------------------- */

/* The first block of this size, when a state begins, is the table of short strings. */
static __attribute__((noinline)) void *take_large(struct orr_isolate *iso, size_t size)
{
    if (iso->memory.late)
        make_room(iso, size);
    void *block = alloc_resize(&iso->alloc, NULL, 0, size);
    if (size == STRINGS_FIRST && !iso->memory.strings)
        iso->memory.strings = block;
    return block;
}

static inline void *take_block(struct orr_isolate *iso, size_t size)
{
    struct memory_account *account = &iso->memory;
    if (size <= SLAB_LARGEST && account->pooled)
        return slab_take(&account->slab, size);
    return take_large(iso, size);
}

/* The place of a small block among those that are not in the slab, or -1. */
static int find_misplaced(const struct memory_account *account, const void *block)
{
    for (unsigned i = 0; i < account->misplaced_count; i++)
        if (account->misplaced[i].block == block)
            return (int)i;
    return -1;
}

static bool is_misplaced(const struct memory_account *account, const void *block)
{
    return find_misplaced(account, block) >= 0 || (account->strays && !slab_has(&account->slab, block));
}

/* Frees a small block if it is not in the slab.  All of these are malloc's, which needs no size. */
static bool give_misplaced(struct orr_isolate *iso, void *block, size_t size)
{
    struct memory_account *account = &iso->memory;
    int place = find_misplaced(account, block);
    if (place < 0 && !is_misplaced(account, block))
        return false;
    if (place < 0) {
        account->strays--;
    } else {
        size = account->misplaced[place].size;
        account->misplaced[place] = account->misplaced[--account->misplaced_count];
    }
    alloc_resize(&iso->alloc, block, size, 0);
    return true;
}

static void give_large(struct orr_isolate *iso, void *block, size_t size)
{
    if (block == iso->memory.suspect.block)
        iso->memory.suspect.what = SUSPECT_NONE;
    if (iso->memory.defers && size >= LATE_LEAST)
        free_later(&iso->memory, block, size);
    else
        alloc_resize(&iso->alloc, block, size, 0);
}

static void give_block(struct orr_isolate *iso, void *block, size_t size)
{
    struct memory_account *account = &iso->memory;
    if (size > SLAB_LARGEST || !account->pooled)
        give_large(iso, block, size);
    else if (!(account->misplaced_count + account->strays) || !give_misplaced(iso, block, size))
        if (!account->discarding)
            slab_give(&account->slab, block);
}

/* Shrinking cannot fail: Lua does not expect it. */
static void *keep_in_place(struct memory_account *account, void *block, size_t old_size, size_t size)
{
    if (size > old_size)
        return NULL;
    if (old_size <= SLAB_LARGEST)
        return block; /* its page knows its class */
    if (account->misplaced_count == MISPLACED_MAX) {
        account->strays++;
        return block;
    }
    account->misplaced[account->misplaced_count].block = block;
    account->misplaced[account->misplaced_count++].size = old_size;
    return block;
}

static bool fits_in_place(const struct memory_account *account, const void *block, size_t old_size, size_t size)
{
    return old_size <= SLAB_LARGEST && size <= SLAB_LARGEST && !is_misplaced(account, block) &&
           slab_size(block) >= size && slab_size(block) - size < SLAB_GRAIN;
}

static void *resize_block(struct orr_isolate *iso, void *block, size_t old_size, size_t size)
{
    struct memory_account *account = &iso->memory;
    if (!block)
        return take_block(iso, size);
    if (!account->pooled || (old_size > SLAB_LARGEST && size > SLAB_LARGEST)) {
        if (account->late && size > old_size)
            make_room(iso, size - old_size);
        void *moved = alloc_resize(&iso->alloc, block, old_size, size);
        if (moved && block == account->suspect.block)
            account->suspect.what = SUSPECT_NONE;
        if (moved && block == account->strings)
            account->strings = moved;
        return moved;
    }
    if (fits_in_place(account, block, old_size, size))
        return block;
    void *moved = take_block(iso, size);
    if (!moved)
        return keep_in_place(account, block, old_size, size);
    memcpy(moved, block, old_size < size ? old_size : size);
    give_block(iso, block, old_size);
    return moved;
}

/* --- The account --------------------------------------------------------------------------------------------------------- */

/*
 * The credit does not suffice for `more`, which is given all the same: the collector hears what was allocated, and the next look comes a
 * quantum later, or at the limit.
 */
static void settle(struct orr_isolate *iso, size_t more)
{
    struct memory_account *account = &iso->memory;
    if (iso->memory.used > iso->memory.peak)
        iso->memory.peak = iso->memory.used;
    collector_hear(iso, account->given - account->credit + more);
    size_t quantum = MEMORY_QUANTUM;
    if (iso->limits.memory && iso->memory.used < account->next && account->next - iso->memory.used < quantum)
        quantum = account->next - iso->memory.used;
    size_t room = charge_room(iso);
    quantum = room < quantum ? room : quantum;
    account->credit = account->given = quantum;
}

/* [old_size] is what Lua makes when there is no block yet. */
static __attribute__((noinline)) void *take_with_a_look(struct orr_isolate *iso, void *block, size_t old_size,
                                                        size_t size)
{
    struct memory_account *account = &iso->memory;
    size_t kind = block ? 0 : old_size;
    size_t before = block ? old_size : 0;
    bool grows = size > before;
    if (grows && refused_before(account, block, before, size))
        return NULL;
    if (grows && !may_have(iso, size - before, kind))
        return refuse(iso, block, before, size);
    account->stack_grows = !block && !kind &&
                           is_last_stack(size); /* first: a signal may come while the block is made */
    if (account->stack_grows)
        budget_stack_fills(iso);
    void *result = resize_block(iso, block, before, size);
    if (!result)
        return refuse(iso, block, before, size);
    iso->memory.used += size - before;
    account->refused.size = 0;
    if (grows && size > MEMORY_QUANTUM) {
        look_at_size(iso, result, before, size, kind);
        count_large(iso, size - before);
    }
    if (grows)
        settle(iso, size - before);
    return result;
}

static void *resize(struct orr_isolate *iso, void *block, size_t old_size, size_t size)
{
    struct memory_account *account = &iso->memory;
    size_t more = size > old_size ? size - old_size : 0;
    if (more > account->credit)
        return take_with_a_look(iso, block, old_size, size);
    void *result = resize_block(iso, block, old_size, size);
    if (!result)
        return refuse(iso, block, old_size, size);
    account->credit -= more;
    iso->memory.used += size - old_size;
    return result;
}

/* Everything that Lua makes and frees comes through here: the way for that is short, and apart from the others. */
void *memory_alloc(void *data, void *block, size_t old_size, size_t size)
{
    struct orr_isolate *iso = data;
    struct memory_account *account = &iso->memory;
    if (!size) {
        if (block) {
            iso->memory.used -= old_size;
            give_block(iso, block, old_size);
            account->stack_grows = false;
        }
        return NULL;
    }
    if (block)
        return resize(iso, block, old_size, size);
    if (size > account->credit)
        return take_with_a_look(iso, NULL, old_size, size);
    void *result = take_block(iso, size);
    if (!result)
        return refuse(iso, NULL, 0, size);
    account->credit -= size;
    iso->memory.used += size;
    return result;
}

/* --- In the hook ----------------------------------------------------------------------------------------------------------- */

/* Whether a byte can be the tag of a value in Lua 5.4: what the list part of a table is full of. */
static bool is_tag(unsigned char byte)
{
    unsigned type = byte & 0x0f, variant = byte >> 4 & 3;
    return !(byte & 0x80) && type <= LUA_TTHREAD && variant <= 2;
}

/* A block that is no table's, such as the buffer of a string in the making, hardly looks like one in all these places. */
static bool looks_like_a_table(const unsigned char *block, size_t size, size_t step)
{
    enum { SAMPLES = 64 };
    size_t count = size / step;
    for (size_t i = 0; i < SAMPLES; i++) {
        const unsigned char *at = block + count / SAMPLES * i * step;
        if (!is_tag(at[8]) || (step == NODE && !is_tag(at[9])))
            return false;
    }
    return true;
}

bool memory_collects_first(struct orr_isolate *iso)
{
    struct memory_account *account = &iso->memory;
    if (account->suspect.what != SUSPECT_STRINGS || account->suspect.insists)
        return false;
    if (!account->suspect.collected)
        collector_force(iso, 1);
    account->suspect.collected = true;
    return true;
}

bool memory_find_oversized(struct orr_isolate *iso, lua_State *L, char *text, size_t size)
{
    struct memory_account *account = &iso->memory;
    enum memory_suspect what = account->suspect.what;
    const void *block = account->suspect.block;
    size_t bytes = account->suspect.size;
    account->suspect.what = SUSPECT_NONE;
    if ((what == SUSPECT_LIST || what == SUSPECT_HASH) && slots_in_use(L, block, bytes))
        what = SUSPECT_STACK; /* of such a size by chance */
    switch (what) {
    case SUSPECT_NONE:
        return false;
    case SUSPECT_STRING:
        snprintf(text, size, "string too long: %zu bytes, and may have %zu", bytes - STRING_OVERHEAD,
                 iso->limits.longest_string);
        return true;
    case SUSPECT_LIST:
        snprintf(text, size, "table too large: a list grew beyond %u elements", iso->limits.longest_list);
        if (!looks_like_a_table(block, bytes, SLOT))
            return false;
        break;
    case SUSPECT_HASH:
        snprintf(text, size, "table too large: it has more than %u keys", iso->limits.most_keys);
        if (!looks_like_a_table(block, bytes, NODE))
            return false;
        break;
    case SUSPECT_STACK:
        snprintf(text, size, "stack overflow: more than %u values on one stack", iso->limits.deepest_stack);
        /* One that has grown by recursion is half full.  A C function may have needed much for a moment. */
        if (slots_in_use(L, block, bytes) < iso->limits.deepest_stack / 2)
            return false;
        collector_force(
            iso,
            1); /* which shrinks it: or a script that catches the error, and recurses again, would seem to insist */
        break;
    case SUSPECT_STRINGS:
        snprintf(text, size, "too many different short strings: more than %u", iso->limits.most_strings);
        break;
    }
    if (account->suspect.insists)
        budget_condemn(iso, text);
    return true;
}

bool memory_still_over(struct orr_isolate *iso)
{
    struct memory_account *account = &iso->memory;
    size_t limit = iso->limits.memory;
    bool over = charge_settle(iso);
    return over || account->slab.held > 2 * limit;
}

void memory_slice_over(struct orr_isolate *iso)
{
    charge_end_slice(iso);
}

/* --- Life --------------------------------------------------------------------------------------------------------------------- */

/* AddressSanitizer sees what is wrong with a block only if it is malloc's. */
#if defined(__SANITIZE_ADDRESS__)
enum { POOLS = 0 };
#else
enum { POOLS = 1 };
#endif

void memory_open(struct orr_isolate *iso)
{
    struct memory_account *account = &iso->memory;
    slab_open(&account->slab);
    account->pooled = POOLS && iso->alloc.fn == alloc_libc;
    account->next = iso->limits.memory;
    settle(iso, 0);
}

void memory_discard(struct orr_isolate *iso)
{
    iso->memory.discarding = true;
}

void memory_close(struct orr_isolate *iso)
{
    while (memory_free_late(iso))
        ;
    slab_close(&iso->memory.slab);
}
