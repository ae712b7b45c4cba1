#include "module/deferred_free.h"

#include "lua/isolate.h"
#include "lua/isolate/life.h"

#include <pthread.h>
#include <stdlib.h>

struct deferred_free {
    struct orr_runtime *rt;
    struct orr_isolate *iso; /* a reference; NULL for none */
    struct deferred_free *next;
};

static pthread_key_t closed; /* those of this thread, the last one first */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void free_all(void *first)
{
    for (struct deferred_free *deferred = first, *next; deferred; deferred = next) {
        next = deferred->next;
        if (deferred->iso)
            isolate_unref(deferred->iso);
        orr_runtime_free(deferred->rt);
        free(deferred);
    }
}

static void make_key(void)
{
    pthread_key_create(&closed, free_all); /* fails only if the process has used up all keys */
}

struct deferred_free *deferred_free_new(struct orr_runtime *rt)
{
    struct deferred_free *deferred = calloc(1, sizeof *deferred);
    pthread_once(&once, make_key);
    if (deferred)
        deferred->rt = rt;
    return deferred;
}

void deferred_free_discard(struct deferred_free *deferred)
{
    free(deferred);
}

void deferred_free_hold(struct deferred_free *deferred, struct orr_isolate *iso)
{
    deferred->iso = iso;
    isolate_ref(iso);
}

void deferred_free_queue(struct deferred_free *deferred)
{
    deferred->next = pthread_getspecific(closed);
    pthread_setspecific(closed, deferred);
}

/* A thread that ends the process runs no destructors of keys. */
__attribute__((destructor)) void deferred_free_run(void)
{
    pthread_once(&once, make_key);
    struct deferred_free *first = pthread_getspecific(closed);
    pthread_setspecific(closed, NULL);
    free_all(first);
}
