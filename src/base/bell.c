#include "base/bell.h"

#include "base/clock.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stddef.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

int bell_open(struct bell *bell)
{
    bell->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return bell->fd < 0 ? -errno : 0;
}

void bell_write(struct bell *bell)
{
    int saved = errno;
    uint64_t one = 1;
    /* Nobody reads the counter, and it holds 2^64 - 2 writes: this can neither block nor fail. */
    ssize_t written = write(bell->fd, &one, sizeof one);
    (void)written;
    atomic_fetch_add_explicit(&bell->eventfd_writes, 1, memory_order_relaxed);
    errno = saved;
}

void bell_wake(struct bell *bell, uint32_t mode)
{
    if (mode == BELL_EVENTFD) {
        bell_write(bell);
        return;
    }
    int saved = errno;
    syscall(SYS_futex, &bell->mode, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
    atomic_fetch_add_explicit(&bell->futex_wakes, 1, memory_order_relaxed);
    errno = saved;
}

void bell_wait(struct bell *bell, uint64_t timeout_ns)
{
    struct timespec timeout = clock_timespec(timeout_ns);
    /*
     * If the bell has rung since we looked, its mode is not BELL_FUTEX any more, and the call
     * returns at once.
     */
    syscall(SYS_futex, &bell->mode, FUTEX_WAIT_PRIVATE, BELL_FUTEX, timeout_ns == UINT64_MAX ? NULL : &timeout, NULL,
            0);
}
