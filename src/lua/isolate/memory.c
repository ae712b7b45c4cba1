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
#include "lua/isolate/oversized.h"
#include "lua/isolate/slab.h"

#include <string.h>

enum {
    STRING_GRANT = 4, /* times the longest string, before one is refused */
    /* Then an untrusted script is banned: each refusal makes Lua collect in one piece */
    REFUSALS_MAX = 3,
};

/*
 * Where instructions are counted, the hook looks at the clock once in so many of them, and a few
 * that copy long strings can last longer than a turn.  So each megabyte in large blocks requests
 * the hook.
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

/* Pages that are nearly empty count too, or a script could hold many times its limit in them. */
static bool is_within(const struct orr_isolate *iso, size_t more)
{
    return slab_held(&iso->slab) + more <= 2 * account_look_at(&iso->account);
}

/* Finalizers are part of collecting: what they need is not refused. */
static bool may_have(struct orr_isolate *iso, size_t more, size_t kind)
{
    size_t limit = iso->limits.memory, longest = iso->limits.longest_string;
    if (collector_is_at_work(&iso->collector) || charge_writes_report(&iso->charge)) {
        charge_cover(iso, more);
        return true;
    }
    if (kind == LUA_TSTRING && longest && more / STRING_GRANT > longest + OVERSIZED_STRING_HEADER)
        return false;
    if (!limit)
        return true;
    if (!is_within(iso, more) && !charge_host_may_overdraw(iso, more) && !memory_alarm_raise(iso))
        return false;
    return charge_may_have(iso, more);
}

/*
 * Refused, Lua collects its garbage and asks for the same again.  If that were granted then, a
 * store that was corrupted by the collection would go on.  So while a hook is there to collect, it
 * is refused again.  Until something else has been granted, there is no credit, so that every
 * request is looked at.
 */
static void *refuse(struct orr_isolate *iso, const void *block, size_t old_size, size_t size)
{
    struct memory *self = &iso->memory;
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

/* True once: a third time, the script tries again. */
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
    if (size <= SLAB_LARGEST && iso->memory.pooled)
        return slab_take(&iso->slab, size);
    return take_large(iso, size);
}

/* The index of a small block among those that are not in the slab, or -1. */
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

/* Frees a small block if it is not in the slab.  All of these are malloc's, which needs no size. */
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

/* Shrinking cannot fail: Lua does not expect it. */
static void *keep_in_place(struct memory *self, void *block, size_t old_size, size_t size)
{
    if (size > old_size)
        return NULL;
    if (old_size <= SLAB_LARGEST)
        return block; /* its page knows its class */
    if (self->outside_count == OUTSIDE_MAX) {
        self->outside_more++;
        return block;
    }
    self->outside[self->outside_count].block = block;
    self->outside[self->outside_count++].size = old_size;
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
    void *moved = alloc_resize(&iso->alloc, block, old_size, size);
    if (moved)
        oversized_moved(&iso->oversized, block, moved);
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
 * The credit does not suffice for `more`, which is granted all the same: the collector is told what
 * was allocated, and the next look comes a quantum later, or at the limit.
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
 * `old_size` is what Lua makes, if there is no block yet.  A signal may come while the block is
 * made.
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
        return refuse(iso, block, before, size);
    if (!block && !kind && oversized_is_last_stack(size))
        interrupt_stack_fills(iso);
    else
        interrupt_stack_has_grown(&iso->interrupt);
    void *result = resize_block(iso, block, before, size);
    if (!result)
        return refuse(iso, block, before, size);
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
        return refuse(iso, block, old_size, size);
    account_spend(&iso->account, more);
    account_remove(&iso->account, old_size - size + more); /* what it has shrunk by */
    return result;
}

/*
 * Everything that Lua makes and frees comes through here: the way for that is short, and apart from
 * the others.
 */
void *memory_alloc(void *data, void *block, size_t old_size, size_t size)
{
    struct orr_isolate *iso = data;
    if (!size) {
        if (block) {
            account_remove(&iso->account, old_size);
            give_block(iso, block, old_size);
            interrupt_stack_has_grown(&iso->interrupt);
        }
        return NULL;
    }
    if (block)
        return resize(iso, block, old_size, size);
    if (!account_has_credit(&iso->account, size))
        return take_with_a_look(iso, NULL, old_size, size);
    void *result = take_block(iso, size);
    if (!result)
        return refuse(iso, NULL, 0, size);
    account_spend(&iso->account, size);
    return result;
}

bool memory_is_still_over(struct orr_isolate *iso)
{
    bool over = charge_settle(iso);
    return over || slab_held(&iso->slab) > 2 * iso->limits.memory;
}

/* --- Opening and closing ---------------------------------------------------------------------- */

/* AddressSanitizer sees what is wrong with a block only if it is malloc's. */
#if defined(__SANITIZE_ADDRESS__)
enum { POOLS = 0 };
#else
enum { POOLS = 1 };
#endif

void memory_open(struct orr_isolate *iso)
{
    slab_open(&iso->slab);
    iso->memory.pooled = POOLS && iso->alloc.fn == alloc_libc;
    account_set_look_at(&iso->account, iso->limits.memory);
    renew_credit(iso, 0);
}

void memory_discard(struct orr_isolate *iso)
{
    iso->memory.discarding = true;
}

void memory_close(struct orr_isolate *iso)
{
    while (late_free_one(&iso->late_free, &iso->alloc))
        ;
    slab_close(&iso->slab);
}
