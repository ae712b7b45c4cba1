/*
 * A bell wakes a sleeper from any thread at the price of a system call, and tells everybody else
 * that there is nobody to wake, at the price of a load.  One thread listens; any thread, and any
 * signal handler, rings.
 *
 * A listener says how it sleeps.  One that waits for the bell alone sleeps on a futex, the quickest
 * way the kernel has.  One that waits for descriptors too sleeps on the bell's eventfd among them.
 * That is never read: who waits on it waits for an edge, which every write makes.
 *
 * The listener calls bell_listen(), looks once more at all that others may have left for it, and
 * only then waits.  A ringer leaves something, then calls bell_ring().  Both sides use sequentially
 * consistent operations, so it cannot be that the ringer saw nobody listening and the listener saw
 * nothing left: see exec/waker_table.h.
 */
#ifndef ORR_BASE_BELL_H
#define ORR_BASE_BELL_H

#include <stdatomic.h>
#include <stdint.h>

enum bell_mode {
    BELL_AWAKE,
    BELL_FUTEX,
    BELL_EVENTFD,
};

struct bell {
    _Atomic uint32_t mode;
    int fd;
    _Atomic uint64_t eventfd_writes;
    _Atomic uint64_t futex_wakes;
};

/* Negative errno if there is no descriptor to be had. */
int bell_open(struct bell *bell);

/* Makes an edge on the descriptor, whether anybody listens or not.  Keeps errno. */
void bell_write(struct bell *bell);

/* Wakes whoever sleeps in this mode.  Keeps errno. */
void bell_wake(struct bell *bell, uint32_t mode);

/*
 * Sleeps on the futex until it rings, `timeout_ns` have passed (UINT64_MAX: for ever), or for no
 * reason.
 */
void bell_wait(struct bell *bell, uint64_t timeout_ns);

static inline void bell_listen(struct bell *bell, enum bell_mode mode)
{
    /* Store, then fence; pairs with the load in bell_ring(). */
    atomic_store(&bell->mode, (uint32_t)mode);
}

static inline void bell_ignore(struct bell *bell)
{
    atomic_store_explicit(&bell->mode, BELL_AWAKE, memory_order_relaxed);
}

/* One ringer of many makes the system call; the others find that it does. */
static inline void bell_ring(struct bell *bell)
{
    /*
     * After the caller's own sequentially consistent write; pairs with the store in bell_listen().
     */
    if (!atomic_load(&bell->mode))
        return;
    uint32_t mode = atomic_exchange(&bell->mode, BELL_AWAKE);
    if (mode)
        bell_wake(bell, mode);
}

#endif
