#include "module/grave.h"

#include "lua/isolate.h"
#include "lua/isolate/life.h"

#include <pthread.h>
#include <stdlib.h>

struct grave {
    struct orr_runtime *rt;
    struct orr_isolate *iso; /* a reference; NULL for none */
    struct grave *next;
};

static pthread_key_t closed; /* this thread's, the last one first */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void free_all(void *first)
{
    for (struct grave *grave = first, *next; grave; grave = next) {
        next = grave->next;
        if (grave->iso)
            isolate_unref(grave->iso);
        orr_runtime_free(grave->rt);
        free(grave);
    }
}

static void make_key(void)
{
    pthread_key_create(&closed, free_all); /* there are none but for a few keys of the system's */
}

struct grave *grave_dig(struct orr_runtime *rt)
{
    struct grave *grave = calloc(1, sizeof *grave);
    pthread_once(&once, make_key);
    if (grave)
        grave->rt = rt;
    return grave;
}

void grave_fill(struct grave *grave)
{
    free(grave);
}

void grave_keep(struct grave *grave, struct orr_isolate *iso)
{
    grave->iso = iso;
    isolate_ref(iso);
}

void grave_close(struct grave *grave)
{
    grave->next = pthread_getspecific(closed);
    pthread_setspecific(closed, grave);
}

/* A thread that ends by ending the process runs no destructors of keys. */
__attribute__((destructor)) void grave_clear(void)
{
    pthread_once(&once, make_key);
    struct grave *first = pthread_getspecific(closed);
    pthread_setspecific(closed, NULL);
    free_all(first);
}
