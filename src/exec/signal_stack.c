#include "exec/signal_stack.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

/* Bytes for handlers: ours needs little, but passes signals that are not ours on to the host's. */
enum { ROOM = 65536 };

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t stack_of_thread; /* its destructor frees the stack */
static bool usable;
static size_t page, size; /* of the stack, without the page below it that nobody may touch */

static _Thread_local bool looked;

static void free_stack(void *stack)
{
    stack_t now;
    if (!sigaltstack(NULL, &now) && now.ss_sp == stack)
        sigaltstack(&(stack_t){ .ss_flags = SS_DISABLE }, NULL);
    munmap((char *)stack - page, page + size);
}

static void prepare(void)
{
    long least = sysconf(_SC_MINSIGSTKSZ); /* grows with the processor's registers */
    page = (size_t)sysconf(_SC_PAGESIZE);
    size = ((least > 0 ? (size_t)least : (size_t)SIGSTKSZ) + ROOM + page - 1) / page * page;
    usable = !pthread_key_create(&stack_of_thread, free_stack);
}

static void give_stack(void)
{
    char *memory = mmap(NULL, page + size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    if (memory == MAP_FAILED)
        return;
    char *stack = memory + page;
    if (mprotect(memory, page, PROT_NONE) || pthread_setspecific(stack_of_thread, stack)) {
        munmap(memory, page + size);
        return;
    }
    if (sigaltstack(&(stack_t){ .ss_sp = stack, .ss_size = size }, NULL)) {
        pthread_setspecific(stack_of_thread, NULL);
        munmap(memory, page + size);
    }
}

void signal_stack_ensure(void)
{
    stack_t now;
    if (looked)
        return;
    looked = true;
    pthread_once(&once, prepare);
    if (usable && !sigaltstack(NULL, &now) && now.ss_flags & SS_DISABLE)
        give_stack();
}
