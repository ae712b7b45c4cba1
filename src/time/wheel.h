/*
 * A wheel holds entries by deadline in nine rings of 64 buckets.  A bucket of ring 0 is one tick
 * wide (8.2 us), and each ring is 64 times coarser than the one inside it, so that any time of the
 * clock has its place.
 *
 * `elapsed` is the tick up to which the wheel has been emptied.  An entry is in the ring of the
 * highest digit, of six bits, in which its tick differs from `elapsed`.  From that follows all
 * else:
 *
 *   - Every entry of ring r is due before every entry of ring r + 1, and within a ring the buckets
 *     are in order.  So the first set bit of the lowest occupied ring is what is due next, however
 *     long nobody has looked.
 *   - Entries with equal deadlines are always in the same bucket, at all times, so appending keeps
 *     their order.
 *   - Moving `elapsed` forward to anywhere before the next bucket's beginning disturbs nothing.
 *
 * When time reaches a bucket of ring 0, its entries move to `due`, sorted by their exact deadlines.
 * What is inserted for a tick that time has reached already goes to `fresh`, and joins `due` when
 * somebody next asks.  When time reaches a coarser bucket, it is spilled into finer ones, some
 * entries at a time, since it may hold a million; until that is done, what is inserted for its span
 * joins the end of the spill, and nothing in its span is taken out.
 *
 * An entry is never given out before its deadline, to the nanosecond.  Entries come out in the
 * order of their deadlines, and of insertion where those are equal.
 *
 * Insertion and removal are O(1).  Owned by one worker: no call here is thread-safe, none blocks or
 * allocates.
 */
#ifndef ORR_TIME_WHEEL_H
#define ORR_TIME_WHEEL_H

#include "base/list.h"
#include "orrery.h"

enum {
    WHEEL_TICK_BITS = 13,
    WHEEL_DIGIT_BITS = 6,
    WHEEL_BUCKETS = 1 << WHEEL_DIGIT_BITS,
    WHEEL_RINGS = 9,
};

struct wheel_entry {
    struct orr_link link;
    uint64_t deadline;
};

struct wheel_bucket {
    struct orr_link entries;
    uint64_t soonest; /* no entry is due before this; exact unless entries were removed */
};

struct wheel {
    uint64_t elapsed; /* in ticks */
    uint64_t count;   /* entries in all lists */
    uint32_t rings;   /* bit r: ring r holds something */
    bool spilling;
    uint64_t spill_end; /* the last tick of the bucket being spilled, which began at `elapsed` */
    struct orr_link due;
    struct orr_link fresh;
    uint64_t fresh_soonest; /* no entry of `fresh` is due before this */
    struct orr_link spill;
    uint64_t occupied[WHEEL_RINGS]; /* bit b of ring r: bucket b holds something */
    struct wheel_bucket buckets[WHEEL_RINGS][WHEEL_BUCKETS];

    /*
     * Where the round of wheel_scrub() is: the next entry of a list, or NULL to begin with the next
     * list.
     */
    struct orr_link *cursor;
    unsigned cursor_list;
};

/*
 * What becomes of an entry met on the way: true to keep it, false if it was released and must not
 * be touched.
 */
typedef bool wheel_keep_fn(void *data, struct wheel_entry *entry);

/* All times here are in nanoseconds. */
void wheel_init(struct wheel *wheel, uint64_t now);

/* A deadline that has passed counts as due now.  The entry must be in no wheel. */
void wheel_insert(struct wheel *wheel, struct wheel_entry *entry, uint64_t deadline);

/* The entry must be in this wheel. */
void wheel_remove(struct wheel *wheel, struct wheel_entry *entry);

/*
 * Takes out an entry that is due at `now`; NULL if there is none, or if `*steps` are used up, which
 * it counts down for each entry moved or taken.  Entries that are spilled on the way are shown to
 * `keep`.
 */
struct wheel_entry *wheel_pop(struct wheel *wheel, uint64_t now, unsigned *steps, wheel_keep_fn *keep, void *data);

/* Undoes the last wheel_pop(): the entry is as it was, and first in line. */
void wheel_put_back(struct wheel *wheel, struct wheel_entry *entry);

/* When wheel_pop() may next have something to do; ORR_NEVER if the wheel is empty. */
uint64_t wheel_next(const struct wheel *wheel);

/* Shows up to `steps` entries to `keep`, going on where the last call stopped, round and round. */
void wheel_scrub(struct wheel *wheel, unsigned steps, wheel_keep_fn *keep, void *data);

/* Shows every entry to `keep`, once. */
void wheel_visit(struct wheel *wheel, wheel_keep_fn *keep, void *data);

/* Takes out any entry; NULL if the wheel is empty. */
struct wheel_entry *wheel_drain(struct wheel *wheel);

#endif
