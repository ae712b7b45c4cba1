#include "lua/values/seen.h"

#include <errno.h>
#include <string.h>

void seen_init(struct seen *seen, struct message *message)
{
    memset(seen, 0, sizeof *seen);
    seen->message = message;
    seen->sights = seen->inlined;
    seen->mask = SEEN_INLINE - 1;
}

void seen_free(struct seen *seen)
{
    size_t size = (seen->mask + 1) * sizeof *seen->sights;
    if (seen->sights == seen->inlined)
        return;
    alloc_free(&seen->message->alloc, seen->sights, size);
    message_give(seen->message, size);
}

/* Addresses differ in their middle bits; what is above the low four is mixed into the whole. */
static size_t first_place(const void *what, size_t mask)
{
    uint64_t bits = (uint64_t)(uintptr_t)what >> 4;
    return (size_t)((bits * UINT64_C(0x9e3779b97f4a7c15)) >> 32) & mask;
}

/* That of `what`, or the free one where it belongs. */
static struct sight *find(struct sight *sights, size_t mask, const void *what)
{
    size_t i = first_place(what, mask);
    while (sights[i].what && sights[i].what != what)
        i = (i + 1) & mask;
    return &sights[i];
}

static int grow(struct seen *seen)
{
    size_t mask = seen->mask * 4 + 3;
    size_t size = (mask + 1) * sizeof(struct sight);
    if (!message_take(seen->message, size))
        return -ENOMEM;
    struct sight *sights = alloc_zeroed(&seen->message->alloc, size);
    if (!sights) {
        message_give(seen->message, size);
        return -ENOMEM;
    }
    for (size_t i = 0; i <= seen->mask; i++)
        if (seen->sights[i].what)
            *find(sights, mask, seen->sights[i].what) = seen->sights[i];
    seen_free(seen);
    seen->sights = sights;
    seen->mask = mask;
    return 0;
}

int seen_meet(struct seen *seen, const void *what, uint32_t *place)
{
    struct sight *sight = find(seen->sights, seen->mask, what);
    if (sight->what) {
        *place = sight->place;
        return 1;
    }
    if (seen->count >= (seen->mask + 1) / 4 * 3) {
        int error = grow(seen);
        if (error)
            return error;
        sight = find(seen->sights, seen->mask, what);
    }
    seen->count++;
    *sight = (struct sight){ .what = what, .place = *place };
    return 0;
}
