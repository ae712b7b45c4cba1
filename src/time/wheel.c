#include "time/wheel.h"

static struct wheel_entry *entry_of(struct orr_link *link)
{
    return container_of(link, struct wheel_entry, link);
}

static uint64_t tick_of(uint64_t time)
{
    return time >> WHEEL_TICK_BITS;
}

void wheel_init(struct wheel *wheel, uint64_t now)
{
    *wheel = (struct wheel){ .elapsed = tick_of(now) };
    list_init(&wheel->due);
    list_init(&wheel->fresh);
    list_init(&wheel->spill);
    for (unsigned ring = 0; ring < WHEEL_RINGS; ring++)
        for (unsigned slot = 0; slot < WHEEL_BUCKETS; slot++)
            list_init(&wheel->buckets[ring][slot].entries);
}

static void insert_fresh(struct wheel *wheel, struct wheel_entry *entry)
{
    if (list_empty(&wheel->fresh) || entry->deadline < wheel->fresh_soonest)
        wheel->fresh_soonest = entry->deadline;
    list_append(&wheel->fresh, &entry->link);
}

static void insert_bucket(struct wheel *wheel, struct wheel_entry *entry, uint64_t tick)
{
    unsigned ring = (63u - (unsigned)__builtin_clzll(tick ^ wheel->elapsed)) / WHEEL_DIGIT_BITS;
    unsigned slot = (unsigned)(tick >> (ring * WHEEL_DIGIT_BITS)) & (WHEEL_BUCKETS - 1);
    struct wheel_bucket *bucket = &wheel->buckets[ring][slot];
    if (list_empty(&bucket->entries)) {
        wheel->occupied[ring] |= UINT64_C(1) << slot;
        wheel->rings |= UINT32_C(1) << ring;
        bucket->soonest = entry->deadline;
    } else if (entry->deadline < bucket->soonest) {
        bucket->soonest = entry->deadline;
    }
    list_append(&bucket->entries, &entry->link);
}

/* Puts an entry where it belongs when no bucket is being spilled. */
static void place(struct wheel *wheel, struct wheel_entry *entry)
{
    uint64_t tick = tick_of(entry->deadline);
    if (tick <= wheel->elapsed)
        insert_fresh(wheel, entry);
    else
        insert_bucket(wheel, entry, tick);
}

void wheel_insert(struct wheel *wheel, struct wheel_entry *entry, uint64_t deadline)
{
    /* Overdue entries stand behind those that were due before this tick began. */
    uint64_t begun = wheel->elapsed << WHEEL_TICK_BITS;
    entry->deadline = deadline < begun ? begun : deadline;
    wheel->count++;
    if (wheel->spilling && tick_of(entry->deadline) <= wheel->spill_end)
        list_append(&wheel->spill, &entry->link);
    else
        place(wheel, entry);
}

/* A list that becomes empty may be a bucket, whose bit is cleared; or the spill, which is over. */
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

/* Puts all of `from` at the end of `to`. */
static void list_move(struct orr_link *to, struct orr_link *from)
{
    if (list_empty(from))
        return;
    from->next->prev = to->prev;
    from->prev->next = to;
    to->prev->next = from->next;
    to->prev = from->prev;
    list_init(from);
}

static bool is_sorted(struct orr_link *list)
{
    for (struct orr_link *link = list->next; link->next != list; link = link->next)
        if (entry_of(link)->deadline > entry_of(link->next)->deadline)
            return false;
    return true;
}

/* Merges `right` into `left`, both sorted; of equals, those of `left` come first. */
static void merge(struct orr_link *left, struct orr_link *right)
{
    struct orr_link *at = left->next;
    while (!list_empty(right)) {
        struct orr_link *link = right->next;
        while (at != left && entry_of(at)->deadline <= entry_of(link)->deadline)
            at = at->next;
        if (at == left) {
            list_move(left, right);
            return;
        }
        list_remove(link);
        list_append(at, link);
    }
}

/*
 * A merge sort from the bottom up: run i holds nothing, or 2^i entries that stood before those of
 * lower runs.
 */
static void sort(struct orr_link *list)
{
    struct orr_link runs[32], one;
    unsigned used = 0;
    while (!list_empty(list)) {
        list_init(&one);
        struct orr_link *link = list->next;
        list_remove(link);
        list_append(&one, link);
        unsigned i = 0;
        for (; i < used && !list_empty(&runs[i]); i++) {
            merge(&runs[i], &one);
            list_move(&one, &runs[i]);
        }
        if (i == used)
            list_init(&runs[used++]);
        list_move(&runs[i], &one);
    }
    for (unsigned i = 0; i < used; i++) {
        merge(&runs[i], list);
        list_move(list, &runs[i]);
    }
}

/*
 * Moves `fresh` to where it belongs in `due`: mostly to the end; otherwise in one walk, however
 * many entries it has.
 */
static void absorb_fresh(struct wheel *wheel)
{
    if (list_empty(&wheel->fresh))
        return;
    if (!is_sorted(&wheel->fresh))
        sort(&wheel->fresh);
    struct orr_link *last = wheel->due.prev;
    if (last == &wheel->due || entry_of(last)->deadline <= entry_of(wheel->fresh.next)->deadline)
        list_move(&wheel->due, &wheel->fresh);
    else
        merge(&wheel->due, &wheel->fresh);
}

/* Time has reached the first bucket of the lowest ring. */
static void open_bucket(struct wheel *wheel, unsigned ring, unsigned slot, uint64_t begin)
{
    struct orr_link *entries = &wheel->buckets[ring][slot].entries;
    wheel->elapsed = begin;
    if (wheel->cursor_list == ring * WHEEL_BUCKETS + slot)
        wheel->cursor = NULL;
    if (ring == 0) {
        if (!is_sorted(entries))
            sort(entries);
        list_move(&wheel->due, entries);
    } else {
        wheel->spilling = true;
        wheel->spill_end = begin + (UINT64_C(1) << (ring * WHEEL_DIGIT_BITS)) - 1;
        list_move(&wheel->spill, entries);
    }
    note_empty(wheel, entries);
}

static void spill_one(struct wheel *wheel, wheel_keep_fn *keep, void *data)
{
    struct orr_link *link = wheel->spill.next;
    wheel_remove(wheel, entry_of(link));
    if (!keep(data, entry_of(link)))
        return;
    wheel->count++;
    place(wheel, entry_of(link));
}

/* Opens the next bucket if time has come that far.  False if it has not. */
static bool open_next(struct wheel *wheel, uint64_t now)
{
    uint64_t tick = tick_of(now);
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
        if (begin <= tick) {
            open_bucket(wheel, ring, slot, begin);
            return true;
        }
    }
    if (tick > wheel->elapsed)
        wheel->elapsed = tick;
    return false;
}

struct wheel_entry *wheel_pop(struct wheel *wheel, uint64_t now, unsigned *steps, wheel_keep_fn *keep, void *data)
{
    while (*steps) {
        if (wheel->spilling) {
            --*steps;
            spill_one(wheel, keep, data);
            continue;
        }
        absorb_fresh(wheel);
        if (!list_empty(&wheel->due)) {
            struct wheel_entry *entry = entry_of(wheel->due.next);
            if (entry->deadline > now)
                return NULL;
            --*steps;
            wheel_remove(wheel, entry);
            return entry;
        } else if (!open_next(wheel, now)) {
            return NULL;
        }
    }
    return NULL;
}

void wheel_put_back(struct wheel *wheel, struct wheel_entry *entry)
{
    wheel->count++;
    list_append(wheel->due.next, &entry->link);
}

uint64_t wheel_next(const struct wheel *wheel)
{
    if (wheel->spilling)
        return wheel->elapsed << WHEEL_TICK_BITS;
    uint64_t fresh = list_empty(&wheel->fresh) ? ORR_NEVER : wheel->fresh_soonest;
    uint64_t due = list_empty(&wheel->due) ? ORR_NEVER : entry_of(wheel->due.next)->deadline;
    if (!list_empty(&wheel->fresh) || !list_empty(&wheel->due))
        return fresh < due ? fresh : due;
    if (!wheel->rings)
        return ORR_NEVER;
    unsigned ring = (unsigned)__builtin_ctz(wheel->rings);
    return wheel->buckets[ring][__builtin_ctzll(wheel->occupied[ring])].soonest;
}

/*
 * The lists in the order of a scrubbing round: every bucket, then `due`, then the spill.  `fresh`
 * is in `due` soon.
 */
enum { LIST_DUE = WHEEL_RINGS * WHEEL_BUCKETS, LIST_SPILL, LISTS };

static struct orr_link *list_at(struct wheel *wheel, unsigned index)
{
    if (index == LIST_DUE)
        return &wheel->due;
    if (index == LIST_SPILL)
        return &wheel->spill;
    return &wheel->buckets[index / WHEEL_BUCKETS][index % WHEEL_BUCKETS].entries;
}

/*
 * The first list from `index` on, in its ring or among the last two, that holds something; else
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
    if (!wheel->rings && list_empty(&wheel->due) && list_empty(&wheel->spill))
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
    visit_list(wheel, &wheel->fresh, keep, data);
}

struct wheel_entry *wheel_drain(struct wheel *wheel)
{
    struct orr_link *list = NULL;
    if (!list_empty(&wheel->fresh)) {
        list = &wheel->fresh;
    } else if (!list_empty(&wheel->due)) {
        list = &wheel->due;
    } else if (!list_empty(&wheel->spill)) {
        list = &wheel->spill;
    } else if (wheel->rings) {
        unsigned ring = (unsigned)__builtin_ctz(wheel->rings);
        list = &wheel->buckets[ring][__builtin_ctzll(wheel->occupied[ring])].entries;
    } else {
        return NULL;
    }
    struct wheel_entry *entry = entry_of(list->next);
    wheel_remove(wheel, entry);
    return entry;
}
