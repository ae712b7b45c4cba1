#include "lua/isolate/memory.h"

#include "lua/isolate.h"
#include "lua/isolate/account.h"
#include "lua/isolate/ban.h"
#include "lua/isolate/charge.h"
#include "lua/isolate/collector.h"
#include "lua/isolate/execution.h"
#include "lua/isolate/interrupt.h"
#include "lua/isolate/late_free.h"
#include "lua/isolate/memory_alarm.h"
#include "lua/isolate/memory_lack.h"
#include "lua/isolate/oversized.h"
#include "lua/isolate/slab.h"

#include <string.h>

enum {
    STRING_GRANT = 4, /* a string this many times the longest allowed is refused at once */
    /* An untrusted script is banned at this refusal: each one makes Lua run a full collection */
    REFUSALS_MAX = 3,
};

/*
 * Requests the hook for each megabyte allocated in large blocks, where the hook counts
 * instructions.  There the hook reads the clock only once per interval, and a few instructions that
 * copy long strings can last longer than a turn.
 */
static void count_large(struct orr_isolate *iso, size_t more)
{
    enum { LARGE_LOOK = 1 << 20 };
    struct memory *self = &iso->memory;
    if (iso->limits.mode != ORR_LUA_COUNT && !interrupt_is_counted(&iso->interrupt))
        return;
    self->large += more;
    if (self->large >= LARGE_LOOK) {
        self->large = 0;
        interrupt_request(iso);
    }
}

/* --- Refusing --------------------------------------------------------------------------------- */

/* Nearly empty pages count too.  Otherwise a script could hold many times its limit in them. */
static bool is_within(const struct orr_isolate *iso, size_t more)
{
    return slab_held(&iso->slab) + more <= 2 * account_look_at(&iso->account);
}

/* Whether a new string is so long that it is refused at once. */
static bool is_far_too_long(const struct orr_isolate *iso, size_t more, size_t kind)
{
    size_t longest = iso->limits.longest_string;
    return kind == LUA_TSTRING && longest && more / STRING_GRANT > longest + OVERSIZED_STRING_HEADER;
}

/* Requests of finalizers are not refused, because finalizers are part of collecting. */
static bool may_have(struct orr_isolate *iso, size_t more, size_t kind)
{
    size_t limit = iso->limits.memory;
    if (collector_is_at_work(&iso->collector) || charge_writes_report(&iso->charge)) {
        charge_cover(iso, more);
        return true;
    }
    if (is_far_too_long(iso, more, kind))
        return false;
    if (!limit)
        return true;
    if (!is_within(iso, more) && !charge_host_may_overdraw(iso, more) && !memory_alarm_raise(iso))
        return false;
    return charge_may_have(iso, more);
}

/*
 * After a refusal Lua runs a full collection and repeats the request.  If the allocator granted the
 * repeated request, a store that the collection corrupted would go on.  So while a hook can force a
 * collection, the repeated request is refused too.  The credit is 0 until another request is
 * granted, so that every request is checked.
 */
static void *refuse(struct orr_isolate *iso, const void *block, size_t old_size, size_t size, enum lack why)
{
    struct memory *self = &iso->memory;
    if (execution_running(&iso->execution))
        memory_lack_note(iso, execution_running(&iso->execution), why, size);
    if (execution_level(&iso->execution) && iso->limits.mode != ORR_LUA_OFF) {
        self->refused.block = block;
        self->refused.old_size = old_size;
        self->refused.size = size;
        account_limit_credit(&iso->account, 0);
        if (++self->refusals == REFUSALS_MAX && iso->limits.profile == ORR_LUA_UNTRUSTED)
            ban_impose(iso, "it asked again and again for more memory than it may have");
    }
    return NULL;
}

/*
 * Whether this request repeats the refused one.  True only once: a third request is a new try of
 * the script.
 */
static bool refused_before(struct memory *self, const void *block, size_t old_size, size_t size)
{
    bool before = self->refused.size == size && self->refused.block == block && self->refused.old_size == old_size &&
                  size;
    if (before)
        self->refused.size = 0;
    return before;
}

/* --- Blocks ----------------------------------------------------------------------------------- */

static __attribute__((noinline)) void *take_large(struct orr_isolate *iso, size_t size)
{
    late_free_make_room(&iso->late_free, &iso->alloc, size);
    void *block = alloc_resize(&iso->alloc, NULL, 0, size);
    oversized_made(&iso->oversized, block, size);
    return block;
}

static inline void *take_block(struct orr_isolate *iso, size_t size)
{
    if (size <= iso->memory.take_most)
        return slab_take(&iso->slab, size);
    return take_large(iso, size);
}

/* Sets what `struct memory` says of `take_most` and `give_most`. */
static void choose_most(struct memory *self)
{
    self->take_most = self->pooled ? SLAB_LARGEST : 0;
    self->give_most = self->outside_count || self->outside_more || self->discarding ? 0 : self->take_most;
}

/* The index in `outside` of a small block; -1 if it is not there. */
static int find_outside(const struct memory *self, const void *block)
{
    for (unsigned i = 0; i < self->outside_count; i++)
        if (self->outside[i].block == block)
            return (int)i;
    return -1;
}

static bool is_outside(const struct orr_isolate *iso, const void *block)
{
    const struct memory *self = &iso->memory;
    return find_outside(self, block) >= 0 || (self->outside_more && !slab_has(&iso->slab, block));
}

/*
 * Frees a small block if it is outside the slab; false if it is in the slab.  Blocks outside come
 * from malloc, which needs no size.
 */
static bool give_outside(struct orr_isolate *iso, void *block, size_t size)
{
    struct memory *self = &iso->memory;
    int index = find_outside(self, block);
    if (index < 0 && !is_outside(iso, block))
        return false;
    if (index < 0) {
        self->outside_more--;
    } else {
        size = self->outside[index].size;
        self->outside[index] = self->outside[--self->outside_count];
    }
    alloc_resize(&iso->alloc, block, size, 0);
    choose_most(self);
    return true;
}

static void give_large(struct orr_isolate *iso, void *block, size_t size)
{
    oversized_freed(&iso->oversized, block);
    if (late_free_wants(&iso->late_free, size))
        late_free_add(&iso->late_free, block, size);
    else
        alloc_resize(&iso->alloc, block, size, 0);
}

static void give_block(struct orr_isolate *iso, void *block, size_t size)
{
    struct memory *self = &iso->memory;
    if (size > SLAB_LARGEST || !self->pooled)
        give_large(iso, block, size);
    else if (!(self->outside_count + self->outside_more) || !give_outside(iso, block, size))
        if (!self->discarding)
            slab_give(&iso->slab, block);
}

/* Remembers a large block that stays where it is, although it is small now. */
static void add_outside(struct memory *self, void *block, size_t old_size)
{
    if (self->outside_count == OUTSIDE_MAX) {
        self->outside_more++;
    } else {
        self->outside[self->outside_count].block = block;
        self->outside[self->outside_count++].size = old_size;
    }
    choose_most(self);
}

/* Shrinking must not fail, since Lua does not expect it.  So the block stays where it is. */
static void *keep_in_place(struct memory *self, void *block, size_t old_size, size_t size)
{
    if (size > old_size)
        return NULL;
    if (old_size > SLAB_LARGEST) /* else the block's page records its class */
        add_outside(self, block, old_size);
    return block;
}

static bool fits_in_place(const struct orr_isolate *iso, const void *block, size_t old_size, size_t size)
{
    return old_size <= SLAB_LARGEST && size <= SLAB_LARGEST && !is_outside(iso, block) && slab_size(block) >= size &&
           slab_size(block) - size < SLAB_GRAIN;
}

static void *resize_large(struct orr_isolate *iso, void *block, size_t old_size, size_t size)
{
    if (size > old_size)
        late_free_make_room(&iso->late_free, &iso->alloc, size - old_size);
    bool suspect = oversized_is_suspect(&iso->oversized, block);
    bool string_table = oversized_is_string_table(&iso->oversized, block);
    void *moved = alloc_resize(&iso->alloc, block, old_size, size);
    if (moved)
        oversized_moved(&iso->oversized, suspect, string_table, moved);
    return moved;
}

static void *resize_block(struct orr_isolate *iso, void *block, size_t old_size, size_t size)
{
    struct memory *self = &iso->memory;
    if (!block)
        return take_block(iso, size);
    if (!self->pooled || (old_size > SLAB_LARGEST && size > SLAB_LARGEST))
        return resize_large(iso, block, old_size, size);
    if (fits_in_place(iso, block, old_size, size))
        return block;
    void *moved = take_block(iso, size);
    if (!moved)
        return keep_in_place(self, block, old_size, size);
    memcpy(moved, block, old_size < size ? old_size : size);
    give_block(iso, block, old_size);
    return moved;
}

/* --- The allocator ---------------------------------------------------------------------------- */

/*
 * Grants new credit after `more` bytes that exceeded the old credit.  Tells the collector what was
 * allocated.  The next check comes after a quantum, or at the limit.
 */
static void renew_credit(struct orr_isolate *iso, size_t more)
{
    struct account *account = &iso->account;
    account_note_peak(account);
    collector_note_allocated(iso, account_spent(account) + more);
    size_t quantum = MEMORY_QUANTUM, used = account_used(account), look_at = account_look_at(account);
    if (iso->limits.memory && used < look_at && look_at - used < quantum)
        quantum = look_at - used;
    size_t room = charge_room(iso);
    account_grant(account, room < quantum ? room : quantum);
}

/*
 * Allocates with a check of the limit.  If there is no block yet, `old_size` is the kind of object
 * that Lua makes.  A signal may arrive while the block is made.
 */
static __attribute__((noinline)) void *take_with_a_look(struct orr_isolate *iso, void *block, size_t old_size,
                                                        size_t size)
{
    struct memory *self = &iso->memory;
    size_t kind = block ? 0 : old_size;
    size_t before = block ? old_size : 0;
    bool grows = size > before;
    if (grows && refused_before(self, block, before, size))
        return NULL;
    if (grows && !may_have(iso, size - before, kind))
        return refuse(iso, block, before, size,
                      is_far_too_long(iso, size - before, kind) ? LACK_BY_STRING : LACK_BY_LIMIT);
    if (!block && !kind && oversized_is_last_stack(size))
        interrupt_stack_fills(iso);
    else
        interrupt_stack_has_grown(&iso->interrupt);
    void *result = resize_block(iso, block, before, size);
    if (!result)
        return refuse(iso, block, before, size, LACK_BY_SYSTEM);
    account_add(&iso->account, size - before);
    self->refused.size = 0;
    if (grows && size > MEMORY_QUANTUM) {
        oversized_look(iso, result, before, size, kind);
        count_large(iso, size - before);
    }
    if (grows)
        renew_credit(iso, size - before);
    return result;
}

static void *resize(struct orr_isolate *iso, void *block, size_t old_size, size_t size)
{
    size_t more = size > old_size ? size - old_size : 0;
    if (!account_has_credit(&iso->account, more))
        return take_with_a_look(iso, block, old_size, size);
    void *result = resize_block(iso, block, old_size, size);
    if (!result)
        return refuse(iso, block, old_size, size, LACK_BY_SYSTEM);
    account_spend(&iso->account, more);
    account_remove(&iso->account, old_size - size + more); /* the bytes that the block shrank by */
    return result;
}

/* Frees a block that the fast path does not free. */
static __attribute__((noinline)) void *give_slowly(struct orr_isolate *iso, void *block, size_t size)
{
    account_remove(&iso->account, size);
    give_block(iso, block, size);
    interrupt_stack_has_grown(&iso->interrupt);
    return NULL;
}

/* Makes a block that the fast path does not make, or gives one another size. */
static __attribute__((noinline)) void *take_slowly(struct orr_isolate *iso, void *block, size_t old_size, size_t size)
{
    if (block)
        return resize(iso, block, old_size, size);
    if (!account_has_credit(&iso->account, size))
        return take_with_a_look(iso, NULL, old_size, size);
    void *result = take_block(iso, size);
    if (!result)
        return refuse(iso, NULL, 0, size, LACK_BY_SYSTEM);
    account_spend(&iso->account, size);
    return result;
}

/*
 * Lua makes and frees every block through this function.  Nearly all are small blocks of the slab:
 * one is taken if there is credit for it and its class has a free block at hand, and given back if
 * no small block can be elsewhere.  All else is for the slow functions, which decide again.  So
 * this function calls nothing before it returns, and needs no stack.
 */
void *memory_alloc(void *data, void *block, size_t old_size, size_t size)
{
    struct orr_isolate *iso = data;
    if (!size) {
        if (!block)
            return NULL;
        if (old_size > iso->memory.give_most)
            return give_slowly(iso, block, old_size);
        account_remove(&iso->account, old_size);
        interrupt_stack_has_grown(&iso->interrupt);
        slab_give(&iso->slab, block);
        return NULL;
    }
    if (!block && size <= iso->memory.take_most && account_has_credit(&iso->account, size)) {
        void *result = slab_take_at_hand(&iso->slab, size);
        if (__builtin_expect(result != NULL, 1)) {
            account_spend(&iso->account, size);
            return result;
        }
    }
    return take_slowly(iso, block, old_size, size);
}

bool memory_is_still_over(struct orr_isolate *iso)
{
    bool over = charge_settle(iso);
    return over || slab_held(&iso->slab) > 2 * iso->limits.memory;
}

/* --- Opening and closing ---------------------------------------------------------------------- */

/* AddressSanitizer can check a block only if it comes from malloc. */
#if defined(__SANITIZE_ADDRESS__)
enum { POOLS = 0 };
#else
enum { POOLS = 1 };
#endif

void memory_open(struct orr_isolate *iso)
{
    slab_open(&iso->slab);
    iso->memory.pooled = POOLS && iso->alloc.fn == alloc_libc;
    choose_most(&iso->memory);
    account_set_look_at(&iso->account, iso->limits.memory);
    renew_credit(iso, 0);
}

void memory_discard(struct orr_isolate *iso)
{
    iso->memory.discarding = true;
    choose_most(&iso->memory);
}

void memory_close(struct orr_isolate *iso)
{
    while (late_free_one(&iso->late_free, &iso->alloc))
        ;
    slab_close(&iso->slab);
}
