/*
 * A wheel holds entries by deadline in eleven rings of 64 buckets.  A bucket of ring 0 is one
 * nanosecond wide, and each ring is 64 times coarser than the one inside it, so that any time of
 * the clock has its place.
 *
 * `elapsed` is the time up to which the wheel has been emptied.  An entry is in the ring of the
 * highest digit, of six bits, in which its deadline differs from `elapsed`.  From that follows all
 * else:
 *
 *   - Every entry of ring r is due before every entry of ring r + 1, and within a ring the buckets
 *     are in order.  So the first set bit of the lowest occupied ring is what is due next, however
 *     long nobody has looked.
 *   - Entries with equal deadlines are always in the same bucket, at all times, so appending keeps
 *     their order.
 *   - Moving `elapsed` forward to anywhere before the next bucket's beginning disturbs nothing.
 *
 * When time reaches a bucket whose entries all have the same deadline, as those of ring 0 have,
 * they become `due`, and `elapsed` is that deadline.  Entries that are inserted for `elapsed` join
 * them at the end.  So all entries of `due` have the deadline `elapsed`, and they are in the order
 * of insertion.  Entries that are inserted for a time before `elapsed` are `overdue`.  They come
 * out first, in the order of insertion.
 *
 * When time reaches any other bucket, it is spilled into finer ones, some entries at a time, since
 * it may hold a million.  This is what sorts entries by deadline, step by step.  Until the spill is
 * done, what is inserted for its span joins its end, and nothing in its span is taken out.
 *
 * A user who wants an entry later than where it is may leave it there: see wheel_may_wait().  When
 * it comes out too early, or is met in a spill, it is put back for its true time, in the order in
 * which the user started it.  Others with that deadline may have been inserted meanwhile.  So the
 * bucket is `mixed`: when time reaches it, its entries are sorted by their starts, also step by
 * step.
 *
 * An entry is never given out before its deadline, to the nanosecond.  Entries come out in the
 * order of their deadlines, and of insertion where those are equal.  An entry that is overdue when
 * it is inserted counts as due just before `elapsed`.
 *
 * Insertion and removal are O(1).  Owned by one worker: no call here is thread-safe, none blocks or
 * allocates.
 */
#ifndef ORR_TIME_WHEEL_H
#define ORR_TIME_WHEEL_H

#include "base/list.h"
#include "orrery.h"
#include "time/sort.h"

enum {
    WHEEL_DIGIT_BITS = 6,
    WHEEL_BUCKETS = 1 << WHEEL_DIGIT_BITS,
    WHEEL_RINGS = 11,
};

struct wheel_entry {
    struct orr_link link;
    uint64_t deadline;
};

/* No entry is due before `soonest` or after `latest`; both exact unless entries were removed. */
struct wheel_bucket {
    struct orr_link entries;
    uint64_t soonest, latest;
};

struct wheel {
    uint64_t elapsed; /* in nanoseconds */
    uint64_t count;   /* entries in all lists */
    uint32_t rings;   /* bit r: ring r holds something */
    bool spilling, spill_mixed;
    bool sorting, due_mixed;
    uint64_t spill_end; /* the end of the bucket being spilled, which began at `elapsed` */
    struct orr_link overdue;
    struct orr_link due;
    struct orr_link spill;
    uint64_t occupied[WHEEL_RINGS]; /* bit b of ring r: bucket b holds something */
    uint64_t mixed[WHEEL_RINGS];    /* of equal deadlines in it, some may be in the wrong order */
    struct sort sort;               /* while `sorting`: what comes before `due` */
    sort_before_fn *before;         /* which of two entries was started before the other */

    /*
     * Where the round of wheel_scrub() is: the next entry of a list, or NULL to begin with the next
     * list.
     */
    struct orr_link *cursor;
    unsigned cursor_list;

    struct wheel_bucket buckets[WHEEL_RINGS][WHEEL_BUCKETS];
};

/*
 * What becomes of an entry met on the way: true to keep it, false if it was released and must not
 * be touched.
 */
typedef bool wheel_keep_fn(void *data, struct wheel_entry *entry);

/* All times here are in nanoseconds. */
void wheel_init(struct wheel *wheel, uint64_t now, sort_before_fn *before);

/* A deadline that has passed counts as due now.  The entry must be in no wheel. */
void wheel_insert(struct wheel *wheel, struct wheel_entry *entry, uint64_t deadline);

/*
 * Whether an entry of this wheel may stay where it is though it is wanted at `deadline` now.  Then
 * wheel_pop() gives it out too early, and the user puts it back by wheel_restore().  One that is
 * due may not: its order among the others must not change while they are sorted.
 */
static inline bool wheel_may_wait(const struct wheel *wheel, const struct wheel_entry *entry, uint64_t deadline)
{
    return deadline > entry->deadline && entry->deadline > wheel->elapsed;
}

/*
 * Inserts an entry that was started some time ago.  Of equal deadlines, those that were started
 * before it come out before it.
 */
void wheel_restore(struct wheel *wheel, struct wheel_entry *entry, uint64_t deadline);

/* The entry must be in this wheel. */
void wheel_remove(struct wheel *wheel, struct wheel_entry *entry);

/*
 * Takes out an entry that is due at `now`; NULL if there is none, or if `*steps` are used up, which
 * it counts down for each entry moved or taken.  Entries that are spilled on the way are shown to
 * `keep`, which may set `deadline` to the entry's true time, if that is later.
 */
struct wheel_entry *wheel_pop(struct wheel *wheel, uint64_t now, unsigned *steps, wheel_keep_fn *keep, void *data);

/* Undoes the last wheel_pop(): the entry is as it was, and first in line. */
void wheel_put_back(struct wheel *wheel, struct wheel_entry *entry);

/* When wheel_pop() may next have something to do; ORR_NEVER if the wheel is empty. */
static inline uint64_t wheel_next(const struct wheel *wheel)
{
    if (!wheel->count)
        return ORR_NEVER;
    if (!list_empty(&wheel->overdue))
        return wheel->elapsed - 1;
    if (wheel->spilling || wheel->sorting || !list_empty(&wheel->due))
        return wheel->elapsed;
    unsigned ring = (unsigned)__builtin_ctz(wheel->rings);
    return wheel->buckets[ring][__builtin_ctzll(wheel->occupied[ring])].soonest;
}

/* Shows up to `steps` entries to `keep`, going on where the last call stopped, round and round. */
void wheel_scrub(struct wheel *wheel, unsigned steps, wheel_keep_fn *keep, void *data);

/* Shows every entry to `keep`, once. */
void wheel_visit(struct wheel *wheel, wheel_keep_fn *keep, void *data);

/* Takes out any entry; NULL if the wheel is empty. */
struct wheel_entry *wheel_drain(struct wheel *wheel);

#endif
