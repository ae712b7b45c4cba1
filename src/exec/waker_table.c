#include "exec/waker_table.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

static _Atomic(struct waker_table *) tables[WAKER_TABLES];

/* Tables are handed out rarely, so the pool has a lock; no waker takes it. */
static pthread_mutex_t pool_lock = PTHREAD_MUTEX_INITIALIZER;
static struct waker_table *pool_free;
/* Tables ever made; numbers start at 1, so that no waker is all zeroes. */
static unsigned pool_made;

static int pool_make(struct waker_table **out)
{
    if (pool_made == ORR_WORKERS_MAX)
        return -ENOSPC;
    struct waker_table *table = aligned_alloc(_Alignof(struct waker_table), sizeof *table);
    if (!table)
        return -ENOMEM;
    *table = (struct waker_table){ .number = pool_made + 1 };
    int error = bell_open(&table->bell);
    if (error) {
        free(table);
        return error;
    }
    pool_made++;
    /* Release pairs with the load in waker_table_of(). */
    atomic_store_explicit(&tables[table->number], table, memory_order_release);
    *out = table;
    return 0;
}

static_assert(ORR_WORKERS_MAX < WAKER_TABLES, "table numbers start at 1");

int waker_table_acquire(struct waker_table **out)
{
    int error = 0;
    pthread_mutex_lock(&pool_lock);
    if (pool_free) {
        *out = pool_free;
        pool_free = pool_free->next_free;
    } else {
        error = pool_make(out);
    }
    pthread_mutex_unlock(&pool_lock);
    if (!error)
        mailbox_open(&(*out)->mailbox);
    return error;
}

void waker_table_release(struct waker_table *table)
{
    bell_ignore(&table->bell);
    pthread_mutex_lock(&pool_lock);
    table->next_free = pool_free;
    pool_free = table;
    pthread_mutex_unlock(&pool_lock);
}

int waker_table_reserve(struct waker_table *table, uint32_t index)
{
    unsigned chunk = chunk_position(index).chunk;
    if (atomic_load_explicit(&table->slots[chunk], memory_order_relaxed))
        return 0;
    struct slot *slots = calloc(chunk_length(chunk), sizeof *slots);
    if (!slots)
        return -ENOMEM;
    /* Release pairs with the load in waker_table_slot(). */
    atomic_store_explicit(&table->slots[chunk], slots, memory_order_release);
    return 0;
}

static uint64_t notified_once_more(uint64_t state)
{
    if (!(state & SLOT_NOTIFIED))
        return state | SLOT_NOTIFIED;
    /* Written all the same: the proof in waker_table.h needs the write, not the count. */
    if ((state & SLOT_COALESCED_MASK) == SLOT_COALESCED_MASK)
        return state;
    return state + SLOT_COALESCED;
}

static void inbox_push(struct waker_table *table, struct slot *slot, uint32_t index)
{
    uint32_t top = atomic_load_explicit(&table->inbox, memory_order_relaxed);
    do {
        slot->next = top;
    } while (!atomic_compare_exchange_weak_explicit(&table->inbox, &top, index + 1, memory_order_seq_cst,
                                                    memory_order_relaxed));
}

static struct waker_table *waker_table_of(struct orr_waker waker)
{
    return atomic_load_explicit(&tables[waker_table_number(waker)], memory_order_acquire);
}

bool waker_table_names_task(struct orr_waker waker)
{
    struct waker_table *table = waker_table_of(waker);
    struct slot *slot = table ? waker_table_slot(table, waker_slot(waker)) : NULL;
    return slot && slot_generation(atomic_load_explicit(&slot->state, memory_order_relaxed)) == waker_generation(waker);
}

void waker_table_wake(struct orr_waker waker)
{
    struct waker_table *table = waker_table_of(waker);
    uint32_t index = waker_slot(waker);
    struct slot *slot = table ? waker_table_slot(table, index) : NULL;
    if (!slot)
        return;
    uint64_t state = atomic_load_explicit(&slot->state, memory_order_relaxed);
    do {
        if (slot_generation(state) != waker_generation(waker))
            return;
    } while (!atomic_compare_exchange_weak_explicit(&slot->state, &state, notified_once_more(state),
                                                    memory_order_acq_rel, memory_order_relaxed));
    if (state & SLOT_NOTIFIED)
        return;
    inbox_push(table, slot, index);
    bell_ring(&table->bell);
}

uint32_t waker_table_take(struct waker_table *table)
{
    if (!atomic_load_explicit(&table->inbox, memory_order_relaxed))
        return 0;
    uint32_t top = atomic_exchange_explicit(&table->inbox, 0, memory_order_acquire);
    uint32_t reversed = 0;
    while (top) {
        struct slot *slot = waker_table_slot(table, top - 1);
        uint32_t next = slot->next;
        slot->next = reversed;
        reversed = top;
        top = next;
    }
    return reversed;
}

bool slot_opened(struct slot *slot)
{
    uint64_t state = atomic_load_explicit(&slot->state, memory_order_relaxed);
    if (!(state & SLOT_ZOMBIE))
        return true;
    /* No waker has a zombie's generation, so nobody else writes the state. */
    atomic_store_explicit(&slot->state, (uint64_t)slot_generation(state) << 32, memory_order_relaxed);
    return false;
}

void slot_disown(struct slot *slot)
{
    uint64_t state = atomic_load_explicit(&slot->state, memory_order_relaxed);
    slot_acknowledge(slot, slot_generation(state)); /* the owner alone changes generations */
}

bool slot_vacate(struct slot *slot, uint32_t generation, bool opened)
{
    uint64_t next = (uint64_t)(generation + 1) << 32;
    uint64_t old = atomic_load_explicit(&slot->state, memory_order_relaxed);
    bool in_inbox;
    do {
        in_inbox = old & SLOT_NOTIFIED && !opened;
    } while (!atomic_compare_exchange_weak_explicit(&slot->state, &old,
                                                    in_inbox ? next | SLOT_NOTIFIED | SLOT_ZOMBIE : next,
                                                    memory_order_acq_rel, memory_order_relaxed));
    return !in_inbox && generation + 1 != SLOT_LAST_GENERATION;
}
