#include "time/wheel.h"

#include <string.h>

static struct wheel_entry *entry_of(struct orr_link *link)
{
    return container_of(link, struct wheel_entry, link);
}

void wheel_init(struct wheel *wheel, uint64_t now, sort_before_fn *before)
{
    memset(wheel, 0, offsetof(struct wheel, buckets));
    wheel->elapsed = now;
    wheel->before = before;
    list_init(&wheel->overdue);
    list_init(&wheel->due);
    list_init(&wheel->spill);
    sort_init(&wheel->sort);
    for (unsigned ring = 0; ring < WHEEL_RINGS; ring++)
        for (unsigned slot = 0; slot < WHEEL_BUCKETS; slot++)
            list_init(&wheel->buckets[ring][slot].entries);
}

/* --- Insertion and removal -------------------------------------------------------------------- */

/* The bucket for a deadline after `elapsed`, which is noted there. */
static inline struct wheel_bucket *bucket_for(struct wheel *wheel, uint64_t deadline, unsigned *ring, unsigned *slot)
{
    *ring = (63u - (unsigned)__builtin_clzll(deadline ^ wheel->elapsed)) / WHEEL_DIGIT_BITS;
    *slot = (unsigned)(deadline >> (*ring * WHEEL_DIGIT_BITS)) & (WHEEL_BUCKETS - 1);
    struct wheel_bucket *bucket = &wheel->buckets[*ring][*slot];
    if (list_empty(&bucket->entries)) {
        wheel->occupied[*ring] |= UINT64_C(1) << *slot;
        wheel->rings |= UINT32_C(1) << *ring;
        bucket->soonest = bucket->latest = deadline;
    } else if (deadline < bucket->soonest) {
        bucket->soonest = deadline;
    } else if (deadline > bucket->latest) {
        bucket->latest = deadline;
    }
    return bucket;
}

/*
 * Whether an entry that was started some time ago is out of order at the end of a list.  Entries of
 * the list that were re-armed for later have come behind it, but they do not stay.
 */
static bool mixes(const struct wheel *wheel, const struct orr_link *list, const struct wheel_entry *entry)
{
    return !list_empty(list) && wheel->before(&entry->link, list->prev);
}

/* Puts an entry where it belongs when no bucket is being spilled.  `old`: it was started before. */
static inline void place(struct wheel *wheel, struct wheel_entry *entry, bool old)
{
    struct orr_link *list = &wheel->due;
    if (entry->deadline > wheel->elapsed) {
        unsigned ring, slot;
        list = &bucket_for(wheel, entry->deadline, &ring, &slot)->entries;
        if (old)
            wheel->mixed[ring] |= (uint64_t)mixes(wheel, list, entry) << slot;
    } else if (old) {
        wheel->due_mixed |= mixes(wheel, list, entry);
    }
    list_append(list, &entry->link);
}

static inline void insert(struct wheel *wheel, struct wheel_entry *entry, uint64_t deadline, bool old)
{
    entry->deadline = deadline;
    wheel->count++;
    if (deadline < wheel->elapsed) {
        entry->deadline = wheel->elapsed - 1;
        list_append(&wheel->overdue, &entry->link);
    } else if (__builtin_expect(wheel->spilling, 0) && deadline <= wheel->spill_end) {
        wheel->spill_mixed |= old;
        list_append(&wheel->spill, &entry->link);
    } else {
        place(wheel, entry, old);
    }
}

void wheel_insert(struct wheel *wheel, struct wheel_entry *entry, uint64_t deadline)
{
    insert(wheel, entry, deadline, false);
}

void wheel_restore(struct wheel *wheel, struct wheel_entry *entry, uint64_t deadline)
{
    insert(wheel, entry, deadline, true);
}

/* A list that becomes empty may be a bucket, whose bits are cleared; or the spill, now over. */
static void note_empty(struct wheel *wheel, struct orr_link *list)
{
    if (list == &wheel->spill)
        wheel->spilling = false;
    struct wheel_bucket *first = &wheel->buckets[0][0];
    struct wheel_bucket *bucket = container_of(list, struct wheel_bucket, entries);
    if (bucket < first || bucket >= first + (size_t)WHEEL_RINGS * WHEEL_BUCKETS)
        return;
    unsigned index = (unsigned)(bucket - first);
    unsigned ring = index / WHEEL_BUCKETS;
    wheel->mixed[ring] &= ~(UINT64_C(1) << index % WHEEL_BUCKETS);
    wheel->occupied[ring] &= ~(UINT64_C(1) << index % WHEEL_BUCKETS);
    if (!wheel->occupied[ring])
        wheel->rings &= ~(UINT32_C(1) << ring);
}

void wheel_remove(struct wheel *wheel, struct wheel_entry *entry)
{
    struct orr_link *next = entry->link.next, *prev = entry->link.prev;
    if (wheel->cursor == &entry->link)
        wheel->cursor = next;
    prev->next = next;
    next->prev = prev;
    wheel->count--;
    /* The head, alone.  Comparing first spares a look at a neighbour. */
    if (next == prev && list_empty(next))
        note_empty(wheel, next);
}

/* --- What is due ------------------------------------------------------------------------------ */

/* The lists in the order of a scrubbing round.  What is being sorted is in `due` soon. */
enum { LIST_DUE = WHEEL_RINGS * WHEEL_BUCKETS, LIST_OVERDUE, LIST_SPILL, LISTS };

static bool are_equal(const struct wheel_bucket *bucket)
{
    return bucket->soonest == bucket->latest || bucket->entries.next == bucket->entries.prev;
}

/* Time has reached a bucket whose entries all have one deadline, which may be after `now`. */
static void open_equal(struct wheel *wheel, struct wheel_bucket *bucket, bool mixed, uint64_t now)
{
    uint64_t deadline = entry_of(bucket->entries.next)->deadline;
    struct orr_link *to = &wheel->due;
    if (deadline > now) {
        unsigned ring, slot;
        wheel->elapsed = now;
        to = &bucket_for(wheel, deadline, &ring, &slot)->entries; /* in a finer ring, and empty */
        wheel->mixed[ring] |= (uint64_t)mixed << slot;
    } else {
        wheel->elapsed = deadline;
        wheel->due_mixed = mixed;
    }
    list_move(to, &bucket->entries);
}

/* Time has reached the first bucket of the lowest ring.  `due` is empty. */
static void open_bucket(struct wheel *wheel, unsigned ring, unsigned slot, uint64_t begin, uint64_t now)
{
    struct wheel_bucket *bucket = &wheel->buckets[ring][slot];
    bool mixed = wheel->mixed[ring] >> slot & 1;
    if (wheel->cursor_list == ring * WHEEL_BUCKETS + slot)
        wheel->cursor = NULL;
    if (are_equal(bucket)) {
        open_equal(wheel, bucket, mixed, now);
    } else {
        wheel->elapsed = begin;
        wheel->spilling = true;
        wheel->spill_mixed = mixed;
        wheel->spill_end = begin + (UINT64_C(1) << (ring * WHEEL_DIGIT_BITS)) - 1;
        list_move(&wheel->spill, &bucket->entries);
    }
    note_empty(wheel, &bucket->entries);
}

static void spill_one(struct wheel *wheel, wheel_keep_fn *keep, void *data)
{
    struct wheel_entry *entry = entry_of(wheel->spill.next);
    uint64_t deadline = entry->deadline;
    wheel_remove(wheel, entry);
    if (!keep(data, entry))
        return;
    wheel->count++;
    /* Entries that were started before it may follow, and have the same deadline. */
    wheel->spill_mixed |= entry->deadline != deadline;
    place(wheel, entry, wheel->spill_mixed);
}

/* Opens the next bucket if time has come that far.  False if it has not. */
static bool open_next(struct wheel *wheel, uint64_t now)
{
    if (wheel->rings) {
        unsigned ring = (unsigned)__builtin_ctz(wheel->rings);
        unsigned slot = (unsigned)__builtin_ctzll(wheel->occupied[ring]);
        unsigned shift = ring * WHEEL_DIGIT_BITS;
        /*
         * The digits above the ring's are those of `elapsed`, this one is the bucket's, those below
         * are zero.
         */
        uint64_t above = wheel->elapsed >> shift >> WHEEL_DIGIT_BITS << WHEEL_DIGIT_BITS;
        uint64_t begin = (above | slot) << shift;
        if (begin <= now) {
            open_bucket(wheel, ring, slot, begin, now);
            return true;
        }
    }
    if (now > wheel->elapsed)
        wheel->elapsed = now;
    return false;
}

static void begin_sort(struct wheel *wheel)
{
    if (wheel->cursor_list == LIST_DUE)
        wheel->cursor = NULL;
    wheel->due_mixed = false;
    wheel->sorting = true;
    sort_begin(&wheel->sort, &wheel->due);
}

/* What is sorted comes before what was inserted meanwhile. */
static void end_sort(struct wheel *wheel)
{
    wheel->sorting = false;
    list_move(&wheel->sort.carry, &wheel->due);
    list_move(&wheel->due, &wheel->sort.carry);
}

/* Makes progress towards the next due entry, while `overdue` is empty.  False if none is due. */
static bool advance(struct wheel *wheel, uint64_t now, unsigned *steps, wheel_keep_fn *keep, void *data)
{
    if (wheel->spilling) {
        --*steps;
        spill_one(wheel, keep, data);
    } else if (wheel->sorting) {
        --*steps;
        if (!sort_step(&wheel->sort, wheel->before))
            end_sort(wheel);
    } else if (wheel->due_mixed) {
        begin_sort(wheel);
    } else {
        return open_next(wheel, now);
    }
    return true;
}

static bool is_due_ready(const struct wheel *wheel)
{
    return !list_empty(&wheel->due) && !wheel->spilling && !wheel->sorting && !wheel->due_mixed;
}

struct wheel_entry *wheel_pop(struct wheel *wheel, uint64_t now, unsigned *steps, wheel_keep_fn *keep, void *data)
{
    while (*steps) {
        struct orr_link *list = &wheel->due;
        if (__builtin_expect(!list_empty(&wheel->overdue), 0))
            list = &wheel->overdue;
        else if (!is_due_ready(wheel)) {
            if (!advance(wheel, now, steps, keep, data))
                return NULL;
            continue;
        }
        struct wheel_entry *entry = entry_of(list->next);
        if (entry->deadline > now)
            return NULL;
        --*steps;
        wheel_remove(wheel, entry);
        return entry;
    }
    return NULL;
}

void wheel_put_back(struct wheel *wheel, struct wheel_entry *entry)
{
    struct orr_link *list = entry->deadline < wheel->elapsed ? &wheel->overdue : &wheel->due;
    wheel->count++;
    list_append(list->next, &entry->link);
}

/* --- All entries ------------------------------------------------------------------------------ */

static struct orr_link *list_at(struct wheel *wheel, unsigned index)
{
    if (index == LIST_DUE)
        return &wheel->due;
    if (index == LIST_OVERDUE)
        return &wheel->overdue;
    if (index == LIST_SPILL)
        return &wheel->spill;
    return &wheel->buckets[index / WHEEL_BUCKETS][index % WHEEL_BUCKETS].entries;
}

/*
 * The first list from `index` on, in its ring or among the last three, that holds something; else
 * where to go on.
 */
static unsigned skip_empty(struct wheel *wheel, unsigned index)
{
    if (index >= LIST_DUE)
        return list_empty(list_at(wheel, index)) ? index + 1 : index;
    uint64_t ahead = wheel->occupied[index / WHEEL_BUCKETS] >> index % WHEEL_BUCKETS;
    return ahead ? index + (unsigned)__builtin_ctzll(ahead) : (index / WHEEL_BUCKETS + 1) * WHEEL_BUCKETS;
}

/* Points the cursor at the beginning of the next list that holds something.  False if none does. */
static bool move_cursor(struct wheel *wheel)
{
    if (!wheel->rings && list_empty(&wheel->due) && list_empty(&wheel->overdue) && list_empty(&wheel->spill))
        return false;
    unsigned index = (wheel->cursor_list + 1) % LISTS;
    while (list_empty(list_at(wheel, index)))
        index = skip_empty(wheel, index) % LISTS;
    wheel->cursor_list = index;
    wheel->cursor = list_at(wheel, index)->next;
    return true;
}

/*
 * An entry is out of the wheel while it is shown, so that it may be released.  If it is kept, it
 * goes back to where it was.
 */
static void show(struct wheel *wheel, struct orr_link *link, wheel_keep_fn *keep, void *data)
{
    struct orr_link *next = link->next;
    list_remove(link);
    wheel->count--;
    if (keep(data, entry_of(link))) {
        list_append(next, link);
        wheel->count++;
    } else if (list_empty(next)) {
        note_empty(wheel, next);
    }
}

void wheel_scrub(struct wheel *wheel, unsigned steps, wheel_keep_fn *keep, void *data)
{
    while (steps--) {
        if (!wheel->cursor && !move_cursor(wheel))
            return;
        struct orr_link *link = wheel->cursor, *next = link->next;
        if (link == list_at(wheel, wheel->cursor_list)) {
            wheel->cursor = NULL;
            continue;
        }
        wheel->cursor = next;
        show(wheel, link, keep, data);
    }
}

static void visit_list(struct wheel *wheel, struct orr_link *list, wheel_keep_fn *keep, void *data)
{
    struct orr_link *next;
    for (struct orr_link *link = list->next; link != list; link = next) {
        next = link->next;
        if (wheel->cursor == link)
            wheel->cursor = next;
        show(wheel, link, keep, data);
    }
}

void wheel_visit(struct wheel *wheel, wheel_keep_fn *keep, void *data)
{
    for (unsigned index = 0; index < LISTS; index++)
        visit_list(wheel, list_at(wheel, index), keep, data);
    struct orr_link *list;
    for (unsigned index = 0; (list = sort_list(&wheel->sort, index)); index++)
        visit_list(wheel, list, keep, data);
}

/* A list that holds something; NULL if none does. */
static struct orr_link *any_list(struct wheel *wheel)
{
    for (unsigned index = LIST_DUE; index < LISTS; index++)
        if (!list_empty(list_at(wheel, index)))
            return list_at(wheel, index);
    struct orr_link *list;
    for (unsigned index = 0; (list = sort_list(&wheel->sort, index)); index++)
        if (!list_empty(list))
            return list;
    if (!wheel->rings)
        return NULL;
    unsigned ring = (unsigned)__builtin_ctz(wheel->rings);
    return &wheel->buckets[ring][__builtin_ctzll(wheel->occupied[ring])].entries;
}

struct wheel_entry *wheel_drain(struct wheel *wheel)
{
    struct orr_link *list = any_list(wheel);
    if (!list)
        return NULL;
    struct wheel_entry *entry = entry_of(list->next);
    wheel_remove(wheel, entry);
    return entry;
}
