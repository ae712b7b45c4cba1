#include "lua/values/seen.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

enum {
    MOVES = 4,      /* places of the old table that are worked off with each new entry; one would be enough */
    PAGE_BITS = 12, /* of a place's number, that say where in its page it is */
    PAGE = 1 << PAGE_BITS,
};

void seen_init(struct seen *seen, struct message *message)
{
    memset(seen, 0, sizeof *seen);
    seen->message = message;
    seen->now = (struct sights){ .only = seen->inlined, .mask = SEEN_INLINE - 1 };
}

/* --- Memory ----------------------------------------------------------------------------------------------------- */

/* On the message's quota.  NULL for lack of memory. */
static void *take_memory(const struct seen *seen, size_t size)
{
    struct message *message = seen->message;
    if (!message_take(message, size))
        return NULL;
    void *block = alloc_zeroed(&message->alloc, size);
    if (!block)
        message_give(message, size);
    return block;
}

static void give_memory(const struct seen *seen, void *block, size_t size)
{
    if (!block)
        return;
    alloc_free(&seen->message->alloc, block, size);
    message_give(seen->message, size);
}

/* --- Places ----------------------------------------------------------------------------------------------------- */

static void sights_free(const struct seen *seen, struct sights *sights)
{
    if (sights->only && sights->only != seen->inlined)
        give_memory(seen, sights->only, (sights->mask + 1) * sizeof *sights->only);
    size_t pages = sights->pages ? (sights->mask + 1) >> PAGE_BITS : 0;
    for (size_t i = 0; i < pages; i++)
        give_memory(seen, sights->pages[i], PAGE * sizeof(struct sight));
    /* NOLINTNEXTLINE(bugprone-sizeof-expression): they are pointers */
    give_memory(seen, (void *)sights->pages, pages * sizeof *sights->pages);
    *sights = (struct sights){ 0 };
}

void seen_free(struct seen *seen)
{
    sights_free(seen, &seen->now);
    sights_free(seen, &seen->old);
}

void seen_move(struct seen *to, const struct seen *from, struct message *message)
{
    *to = *from;
    to->message = message;
    if (from->now.only == from->inlined)
        to->now.only = to->inlined;
    if (from->old.only == from->inlined)
        to->old.only = to->inlined;
}

/* Addresses differ in their middle bits; what is above the low four is mixed into the whole. */
static size_t first_place(const void *what, size_t mask)
{
    uint64_t bits = (uint64_t)(uintptr_t)what >> 4;
    return (size_t)((bits * UINT64_C(0x9e3779b97f4a7c15)) >> 32) & mask;
}

/* NULL if it is free, and has no page. */
static struct sight *sight_at(const struct sights *sights, size_t i)
{
    if (sights->only)
        return &sights->only[i];
    struct sight *page = sights->pages[i >> PAGE_BITS];
    return page ? &page[i & (PAGE - 1)] : NULL;
}

/* The number of the place where something is, or of the free one where it belongs. */
static size_t find(const struct sights *sights, const void *what, struct sight **sight)
{
    size_t i = first_place(what, sights->mask);
    while ((*sight = sight_at(sights, i)) && (*sight)->what && (*sight)->what != what)
        i = (i + 1) & sights->mask;
    return i;
}

/* Fills a free place.  0 or -ENOMEM. */
static int fill(struct seen *seen, size_t i, struct sight entry)
{
    struct sight *sight = sight_at(&seen->now, i);
    if (!sight) {
        struct sight *page = take_memory(seen, PAGE * sizeof *page);
        if (!page)
            return -ENOMEM;
        seen->now.pages[i >> PAGE_BITS] = page;
        sight = &page[i & (PAGE - 1)];
    }
    *sight = entry;
    return 0;
}

/* --- Growing ------------------------------------------------------------------------------------------------------ */

static bool is_moving(const struct seen *seen)
{
    return seen->old.only || seen->old.pages;
}

/* Copies a few more entries of the old table; when it is through, frees that. */
static int move_some(struct seen *seen)
{
    for (int i = 0; i < MOVES && seen->moved <= seen->old.mask; i++, seen->moved++) {
        const struct sight *sight = sight_at(&seen->old, seen->moved);
        struct sight *taken;
        if (!sight || !sight->what)
            continue;
        int error = fill(seen, find(&seen->now, sight->what, &taken), *sight);
        if (error)
            return error;
    }
    if (seen->moved > seen->old.mask)
        sights_free(seen, &seen->old);
    return 0;
}

/* The table is full, and the one before it has moved: begins a larger one. */
static int grow(struct seen *seen)
{
    struct sights more = { .mask = seen->now.mask < PAGE ? seen->now.mask * 4 + 3 : seen->now.mask * 2 + 1 };
    if (more.mask < PAGE)
        more.only = take_memory(seen, (more.mask + 1) * sizeof *more.only);
    else
        /* NOLINTNEXTLINE(bugprone-sizeof-expression): they are pointers */
        more.pages = take_memory(seen, ((more.mask + 1) >> PAGE_BITS) * sizeof *more.pages);
    if (!more.only && !more.pages)
        return -ENOMEM;
    seen->old = seen->now;
    seen->moved = 0;
    seen->now = more;
    return 0;
}

int seen_meet(struct seen *seen, const void *what, uint32_t *place)
{
    struct sight *sight;
    size_t i = find(&seen->now, what, &sight);
    if ((!sight || !sight->what) && is_moving(seen))
        find(&seen->old, what, &sight);
    if (sight && sight->what) {
        *place = sight->place;
        return 1;
    }
    int error = 0;
    if (seen->count >= (seen->now.mask + 1) / 4 * 3) {
        error = grow(seen);
        if (!error)
            i = find(&seen->now, what, &sight);
    }
    if (!error)
        error = fill(seen, i, (struct sight){ .what = what, .place = *place });
    if (error)
        return error;
    seen->count++;
    return is_moving(seen) ? move_some(seen) : 0;
}
