#include "lua/values/seen.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

enum {
    MOVES = 4,      /* entries of the old table that each new entry moves; one would be enough */
    PAGE_BITS = 12, /* of an entry's number: its place in the page */
    PAGE = 1 << PAGE_BITS,
};

void seen_init(struct seen *seen, struct message *message)
{
    memset(seen, 0, sizeof *seen);
    seen->message = message;
    seen->now = (struct seen_table){ .only = seen->inlined, .mask = SEEN_INLINE - 1 };
}

/* --- Memory ----------------------------------------------------------------------------------- */

/* Zeroed, and charged to the message's quota.  NULL for lack of memory. */
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

/* --- Entries ---------------------------------------------------------------------------------- */

static void table_free(const struct seen *seen, struct seen_table *table)
{
    if (table->only && table->only != seen->inlined)
        give_memory(seen, table->only, (table->mask + 1) * sizeof *table->only);
    size_t pages = table->pages ? (table->mask + 1) >> PAGE_BITS : 0;
    for (size_t i = 0; i < pages; i++)
        give_memory(seen, table->pages[i], PAGE * sizeof(struct seen_entry));
    /* NOLINTNEXTLINE(bugprone-sizeof-expression): they are pointers */
    give_memory(seen, (void *)table->pages, pages * sizeof *table->pages);
    *table = (struct seen_table){ 0 };
}

void seen_free(struct seen *seen)
{
    table_free(seen, &seen->now);
    table_free(seen, &seen->old);
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

/* Addresses differ in their middle bits: all bits above the lowest four are mixed. */
static size_t first_entry(const void *object, size_t mask)
{
    uint64_t bits = (uint64_t)(uintptr_t)object >> 4;
    return (size_t)((bits * UINT64_C(0x9e3779b97f4a7c15)) >> 32) & mask;
}

/* NULL if the entry is free and has no page. */
static struct seen_entry *entry_at(const struct seen_table *table, size_t i)
{
    if (table->only)
        return &table->only[i];
    struct seen_entry *page = table->pages[i >> PAGE_BITS];
    return page ? &page[i & (PAGE - 1)] : NULL;
}

/* Answers the number of the entry of an object, or of the free entry where it belongs. */
static size_t find(const struct seen_table *table, const void *object, struct seen_entry **entry)
{
    size_t i = first_entry(object, table->mask);
    while ((*entry = entry_at(table, i)) && (*entry)->object && (*entry)->object != object)
        i = (i + 1) & table->mask;
    return i;
}

/* Fills a free entry.  0 or -ENOMEM. */
static int fill(struct seen *seen, size_t i, struct seen_entry value)
{
    struct seen_entry *entry = entry_at(&seen->now, i);
    if (!entry) {
        struct seen_entry *page = take_memory(seen, PAGE * sizeof *page);
        if (!page)
            return -ENOMEM;
        seen->now.pages[i >> PAGE_BITS] = page;
        entry = &page[i & (PAGE - 1)];
    }
    *entry = value;
    return 0;
}

/* --- Growing ---------------------------------------------------------------------------------- */

static bool is_moving(const struct seen *seen)
{
    return seen->old.only || seen->old.pages;
}

/* Copies a few more entries of the old table.  Frees it when all have moved. */
static int move_some(struct seen *seen)
{
    for (int i = 0; i < MOVES && seen->moved <= seen->old.mask; i++, seen->moved++) {
        const struct seen_entry *entry = entry_at(&seen->old, seen->moved);
        struct seen_entry *taken;
        if (!entry || !entry->object)
            continue;
        int error = fill(seen, find(&seen->now, entry->object, &taken), *entry);
        if (error)
            return error;
    }
    if (seen->moved > seen->old.mask)
        table_free(seen, &seen->old);
    return 0;
}

/* The table is full, and all old entries have moved: begins a larger table. */
static int grow(struct seen *seen)
{
    struct seen_table more = { .mask = seen->now.mask < PAGE ? seen->now.mask * 4 + 3 : seen->now.mask * 2 + 1 };
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

int seen_find_or_add(struct seen *seen, const void *object, uint32_t *offset)
{
    struct seen_entry *entry;
    size_t i = find(&seen->now, object, &entry);
    if ((!entry || !entry->object) && is_moving(seen))
        find(&seen->old, object, &entry);
    if (entry && entry->object) {
        *offset = entry->offset;
        return 1;
    }
    int error = 0;
    if (seen->count >= (seen->now.mask + 1) / 4 * 3) {
        error = grow(seen);
        if (!error)
            i = find(&seen->now, object, &entry);
    }
    if (!error)
        error = fill(seen, i, (struct seen_entry){ .object = object, .offset = *offset });
    if (error)
        return error;
    seen->count++;
    return is_moving(seen) ? move_some(seen) : 0;
}
