#include "exec/place.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

static _Atomic(struct place *) places[PLACES];

/* Handing out places is rare, so the pool itself has a lock; no waker takes it. */
static pthread_mutex_t pool_lock = PTHREAD_MUTEX_INITIALIZER;
static struct place *pool_free;
static unsigned pool_made; /* places ever made; numbers start at 1 so that no waker is all zeroes */

static int pool_make(struct place **out)
{
    if (pool_made == ORR_WORKERS_MAX)
        return -ENOSPC;
    struct place *place = aligned_alloc(_Alignof(struct place), sizeof *place);
    if (!place)
        return -ENOMEM;
    *place = (struct place){ .number = pool_made + 1 };
    int error = bell_open(&place->bell);
    if (error) {
        free(place);
        return error;
    }
    pool_made++;
    /* Release pairs with the load in place_of(). */
    atomic_store_explicit(&places[place->number], place, memory_order_release);
    *out = place;
    return 0;
}

static_assert(ORR_WORKERS_MAX < PLACES, "place numbers start at 1");

int place_acquire(struct place **out)
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

void place_release(struct place *place)
{
    bell_ignore(&place->bell);
    pthread_mutex_lock(&pool_lock);
    place->next_free = pool_free;
    pool_free = place;
    pthread_mutex_unlock(&pool_lock);
}

int place_reserve(struct place *place, uint32_t index)
{
    unsigned chunk = chunk_place(index).chunk;
    if (atomic_load_explicit(&place->slots[chunk], memory_order_relaxed))
        return 0;
    struct slot *slots = calloc(chunk_length(chunk), sizeof *slots);
    if (!slots)
        return -ENOMEM;
    /* Release pairs with the load in place_slot(). */
    atomic_store_explicit(&place->slots[chunk], slots, memory_order_release);
    return 0;
}

static uint64_t notified_once_more(uint64_t state)
{
    if (!(state & SLOT_NOTIFIED))
        return state | SLOT_NOTIFIED;
    if ((state & SLOT_COALESCED_MASK) == SLOT_COALESCED_MASK)
        return state; /* written all the same: the argument needs the write, not the count */
    return state + SLOT_COALESCED;
}

static void inbox_push(struct place *place, struct slot *slot, uint32_t index)
{
    uint32_t top = atomic_load_explicit(&place->inbox, memory_order_relaxed);
    do {
        slot->next = top;
    } while (!atomic_compare_exchange_weak_explicit(&place->inbox, &top, index + 1, memory_order_seq_cst,
                                                    memory_order_relaxed));
}

static struct place *place_of(struct orr_waker waker)
{
    return atomic_load_explicit(&places[waker_place(waker)], memory_order_acquire);
}

bool place_names_task(struct orr_waker waker)
{
    struct place *place = place_of(waker);
    struct slot *slot = place ? place_slot(place, waker_slot(waker)) : NULL;
    return slot && slot_generation(atomic_load_explicit(&slot->state, memory_order_relaxed)) == waker_generation(waker);
}

void place_wake(struct orr_waker waker)
{
    struct place *place = place_of(waker);
    uint32_t index = waker_slot(waker);
    struct slot *slot = place ? place_slot(place, index) : NULL;
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
    inbox_push(place, slot, index);
    bell_ring(&place->bell);
}

uint32_t place_take(struct place *place)
{
    if (!atomic_load_explicit(&place->inbox, memory_order_relaxed))
        return 0;
    uint32_t top = atomic_exchange_explicit(&place->inbox, 0, memory_order_acquire);
    uint32_t reversed = 0;
    while (top) {
        struct slot *slot = place_slot(place, top - 1);
        uint32_t next = slot->next;
        slot->next = reversed;
        reversed = top;
        top = next;
    }
    return reversed;
}

bool place_opened(struct slot *slot)
{
    uint64_t state = atomic_load_explicit(&slot->state, memory_order_relaxed);
    if (!(state & SLOT_ZOMBIE))
        return true;
    /* No waker has a zombie's generation, so nobody else writes the state. */
    atomic_store_explicit(&slot->state, (uint64_t)slot_generation(state) << 32, memory_order_relaxed);
    return false;
}

void place_disown(struct slot *slot)
{
    uint64_t state = atomic_load_explicit(&slot->state, memory_order_relaxed);
    place_acknowledge(slot, slot_generation(state)); /* the owner alone changes generations */
}

bool place_vacate(struct slot *slot, uint32_t generation, bool opened)
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
