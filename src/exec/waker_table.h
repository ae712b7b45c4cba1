/*
 * A waker table is what wakers touch.  Each worker holds one: a slot for each of its tasks, an
 * inbox of slots that other threads have woken, and a bell.  Tables form a process-wide pool.  A
 * worker holds one while it lives; then the next worker takes it over, with slots, generations and
 * descriptor.  Nothing in the pool is ever freed, so a waker may be used at any time, by any
 * thread: at worst it finds a generation that is not its own.
 *
 * A waker's word:     table number (10 bits, never 0) | slot (22) | generation (32)
 * A slot's state:     generation (32) | coalesced wakes (30) | zombie (1) | notified (1)
 *
 * Generation and flags are one word, changed by compare-and-swap, so no wake can slip from one task
 * to the next in its slot.  Invariants:
 *
 *   - A slot is in the inbox, or about to be pushed there by the thread that set *notified*, only
 *     while *notified* is set.  So it is there at most once, however many wakers fire, and only
 *     that thread writes its link.
 *   - The generation goes up when a task ends, and never down.  A slot whose generations are used
 *     up is retired: no task has the last one, no free list holds the slot.
 *   - A task that ends while its slot is in the inbox leaves a *zombie*: the slot is not used again
 *     before the owner of the table, or the next owner, has taken it out of the inbox.
 *
 * Why no wake is lost
 *
 * A waker's caller changes something (C), then wakes.  The task, when polled, looks at C.  Two ways
 * to lose the wake must be closed.
 *
 * 1.  The wake finds *notified* set and goes away, while the owner has already read the old C.  The
 *     waker always does a read-modify-write on the state, also when *notified* is set already; the
 *     owner clears *notified* by an exchange before it polls (slot_acknowledge).  Both are acquire
 *     and release, on one word, so one comes first.  If the waker's comes first, the exchange reads
 *     what it wrote, and the poll sees C.  If the exchange comes first, the waker finds the flag
 *     clear and pushes the slot again.  A plain store in place of the exchange could sit in the
 *     owner's store buffer while it reads the old C; a plain load in place of the waker's would let
 *     its C sit in its own.
 *
 * 2.  The wake is pushed, but the owner goes to sleep.  The waker pushes (P), then reads the bell's
 *     mode (L).  The owner sets the mode (S), then looks at the inbox (I), and blocks only if it is
 *     empty.  All four are sequentially consistent, so they have one total order.  Take the last S
 *     before the owner blocks.  If L is before S, so is P, and I sees the slot.  If L is after S,
 *     it reads S, and the waker makes the system call; or it reads that another ringer has taken
 *     the mode since, and that ringer makes the call.  Either way the wait returns, having begun or
 *     not.  On x86 the locked push and the exchange that stores the mode are the two fences.
 *
 * tests/model/wake.pml states both in Promela, store buffers included, and shows that each part is
 * needed.
 */
#ifndef ORR_EXEC_WAKER_TABLE_H
#define ORR_EXEC_WAKER_TABLE_H

#include "base/bell.h"
#include "base/chunks.h"
#include "base/mailbox.h"
#include "orrery.h"

#include <assert.h>
#include <stdatomic.h>
#include <stddef.h>

enum {
    WAKER_SLOT_BITS = 22,
    WAKER_GENERATION_BITS = 32,
    WAKER_TABLES = 1024,
};

#define SLOT_NOTIFIED UINT64_C(1)
#define SLOT_ZOMBIE UINT64_C(2)
#define SLOT_COALESCED UINT64_C(4) /* one coalesced wake */
#define SLOT_COALESCED_MASK UINT64_C(0xfffffffc)
#define SLOT_LAST_GENERATION UINT32_MAX /* no task has this one */

struct slot {
    _Atomic uint64_t state;
    uint32_t next; /* link in the inbox: a slot's index + 1; 0 at the end */
};

static_assert(sizeof(struct slot) == 16, "what the process keeps for a task");

struct waker_table {
    _Alignas(64) _Atomic uint32_t inbox; /* index + 1 of the slot pushed last; 0 for none */
    struct mailbox mailbox;              /* closed while no worker holds the table */
    struct bell bell;
    _Alignas(64) unsigned number;
    struct waker_table *next_free;
    _Atomic(struct slot *) slots[CHUNK_COUNT];
};

/*
 * A worker takes a table from the pool, and gives it back with no task left in it.  Negative errno.
 */
int waker_table_acquire(struct waker_table **out);
void waker_table_release(struct waker_table *table);

/*
 * Sends a letter to the worker that holds the table; false if none does.  If the holder changes at
 * this moment, the letter may reach the next holder.  Any thread, any time.
 */
static inline bool waker_table_post(struct waker_table *table, struct letter *letter)
{
    if (!mailbox_post(&table->mailbox, letter))
        return false;
    bell_ring(&table->bell);
    return true;
}

/* Makes sure that slot `index` exists.  -ENOMEM.  The owner. */
int waker_table_reserve(struct waker_table *table, uint32_t index);

/* NULL if no such slot has ever been used.  Any thread. */
static inline struct slot *waker_table_slot(struct waker_table *table, uint32_t index)
{
    struct chunk_position at = chunk_position(index);
    struct slot *chunk = atomic_load_explicit(&table->slots[at.chunk], memory_order_acquire);
    return chunk ? &chunk[at.offset] : NULL;
}

static inline uint32_t slot_generation(uint64_t state)
{
    return (uint32_t)(state >> 32);
}

static inline struct orr_waker waker_make(unsigned table, uint32_t slot, uint32_t generation)
{
    return (struct orr_waker){ .bits = (uint64_t)table << (WAKER_SLOT_BITS + WAKER_GENERATION_BITS) |
                                       (uint64_t)slot << WAKER_GENERATION_BITS | generation };
}

static inline unsigned waker_table_number(struct orr_waker waker)
{
    return (unsigned)(waker.bits >> (WAKER_SLOT_BITS + WAKER_GENERATION_BITS));
}

static inline uint32_t waker_slot(struct orr_waker waker)
{
    return (uint32_t)(waker.bits >> WAKER_GENERATION_BITS) & ((UINT32_C(1) << WAKER_SLOT_BITS) - 1);
}

static inline uint32_t waker_generation(struct orr_waker waker)
{
    return (uint32_t)waker.bits;
}

/*
 * The foreign path: lock-free, allocation-free.  Any thread, signal handlers too, any waker, any
 * time.
 */
void waker_table_wake(struct orr_waker waker);

/* Whether a live task has this waker at the moment.  Any thread. */
bool waker_table_names_task(struct orr_waker waker);

/* Whether the inbox is empty; part 2 of the argument above.  The owner. */
static inline bool waker_table_inbox_empty(struct waker_table *table)
{
    return !atomic_load(&table->inbox);
}

/*
 * Empties the inbox.  Answers the index + 1 of the slot pushed first, linked by `next` to the later
 * ones.  Each must go through slot_opened() once.  The owner.
 */
uint32_t waker_table_take(struct waker_table *table);

/*
 * For a slot taken from the inbox: true if its task lives, and slot_acknowledge() is owed before it
 * is polled.  False for a zombie, which is an ordinary free slot now.
 */
bool slot_opened(struct slot *slot);

/* Clears *notified*.  Answers how many wakes came on top of the first.  The owner. */
static inline uint64_t slot_acknowledge(struct slot *slot, uint32_t generation)
{
    uint64_t old = atomic_exchange_explicit(&slot->state, (uint64_t)generation << 32, memory_order_acq_rel);
    return (old & SLOT_COALESCED_MASK) / SLOT_COALESCED;
}

/* Clears a slot that was notified for no task; only a made-up waker can cause that.  The owner. */
void slot_disown(struct slot *slot);

/*
 * The slot's task ends.  `opened`: its slot was taken from the inbox and not yet acknowledged.
 * True if the slot may be used again at once; otherwise it is retired, or a zombie that comes back
 * through the inbox.  The owner.
 */
bool slot_vacate(struct slot *slot, uint32_t generation, bool opened);

/* True if a new holder of the table may use this slot, which it has not used before.  The owner. */
static inline bool slot_vacant(struct slot *slot)
{
    uint64_t state = atomic_load_explicit(&slot->state, memory_order_acquire);
    return !(state & SLOT_ZOMBIE) && slot_generation(state) != SLOT_LAST_GENERATION;
}

#endif
