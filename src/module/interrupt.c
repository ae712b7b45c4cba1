#include "module/interrupt.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>

/* The runtime to interrupt; lock-free, as a handler needs it. */
static _Atomic(struct orr_runtime *) owner;
static atomic_bool come;  /* it has come and was not taken yet */
static atomic_bool again; /* it has come before */
static struct sigaction before;

static void on_interrupt(int number)
{
    int saved = errno;
    if (atomic_exchange(&again, true)) {
        signal(number, SIG_DFL);
        raise(number); /* blocked until we return */
    }
    atomic_store(&come, true);
    orr_runtime_interrupt(atomic_load(&owner));
    errno = saved;
}

bool interrupt_catch(struct orr_runtime *rt)
{
    struct orr_runtime *nobody = NULL;
    if (!atomic_compare_exchange_strong(&owner, &nobody, rt))
        return false;
    atomic_store(&come, false);
    atomic_store(&again, false);
    struct sigaction action = { .sa_handler = on_interrupt };
    if (!sigaction(SIGINT, NULL, &before) && before.sa_handler != SIG_IGN && !sigaction(SIGINT, &action, NULL))
        return true;
    atomic_store(&owner, NULL);
    return false;
}

void interrupt_release(void)
{
    sigaction(SIGINT, &before, NULL);
    atomic_store(&owner, NULL);
}

bool interrupt_take(void)
{
    return atomic_exchange(&come, false);
}
