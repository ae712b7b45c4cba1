#include "base/thread.h"

#include <signal.h>

int thread_start(pthread_t *thread, void *(*main)(void *data), void *data)
{
    static const int own_faults[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT };
    sigset_t blocked, before;
    sigfillset(&blocked);
    for (unsigned i = 0; i < sizeof own_faults / sizeof *own_faults; i++)
        sigdelset(&blocked, own_faults[i]);
    pthread_sigmask(SIG_SETMASK, &blocked, &before);
    int error = pthread_create(thread, NULL, main, data);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return -error;
}
