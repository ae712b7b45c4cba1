/*
 * A bell wakes a sleeping thread.  Ringing costs a system call if a thread sleeps, and one load if
 * none does.  One thread listens; any thread, and any signal handler, rings.
 *
 * The listener says how it sleeps.  If it waits for the bell alone, it sleeps on a futex, the
 * quickest way the kernel has.  If it waits for descriptors, too, it sleeps on the bell's eventfd
 * among them.  The eventfd is never read: the listener waits for an edge, which every write makes.
 *
 * The listener calls bell_listen(), looks once more at everything that others may have left for it,
 * and only then waits.  A ringer leaves something, then calls bell_ring().  Both sides use
 * sequentially consistent operations, so it cannot be that the ringer saw nobody listening and the
 * listener saw nothing left: see exec/waker_table.h.
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

/* Negative errno if no descriptor can be had. */
int bell_open(struct bell *bell);

/* Makes an edge on the descriptor, whether anybody listens or not.  Keeps errno. */
void bell_write(struct bell *bell);

/* Wakes the listener that sleeps in this mode.  Keeps errno. */
void bell_wake(struct bell *bell, uint32_t mode);

/*
 * Sleeps on the futex until the bell rings or `timeout_ns` have passed (UINT64_MAX: for ever).  May
 * return early.
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

/* Rings.  Of several ringers, one makes the system call; the others see that it does. */
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
