/*
 * Timers, and where they live.
 *
 * A timer is held by a shard: one for each worker, with the worker's wheel.  The shard's owner
 * alone touches the wheel. Every thread may start, cancel or free any timer, and all that they
 * settle between them is one word:
 *
 *     order (40 bits) | REPEATS | shard (10) | the other flags
 *
 *     SCHEDULED   it will fire at `deadline`
 *     LINKED      its entry is in its shard's wheel; only the shard's owner may touch the entry
 *     POSTED      its letter is in a mailbox, its shard's or the time service's, and will be read
 *     RUNNING     its callback runs now
 *     STOPPED     when the callback returns, the timer does not repeat
 *     FREED       its user has let go of it: it is released when it is not linked, posted or
 *                 running
 *     LOCKED      a thread is changing more than the word, and no other may
 *     LOCAL       only its shard's owner uses it, so nothing here needs to be atomic
 *     CALLS       it runs a callback; otherwise it wakes a waker
 *     REPEATS     it fires again, `repeat` after `deadline`
 *     SLEEPER     it is no timer at all, but a sleeper: see below
 *     MOVING      it is among its shard's `moves`: its entry is not where it should be, and the
 *                 owner puts that right soon; a MOVING timer is LINKED
 *     GUEST       the time service has sent it to its shard, and gets it back when nobody turns
 *                 the shard's owner any more
 *     OWN         its shard's owner has made it; as long as no other thread has used any such
 *                 timer of the shard, the owner changes it without the lock
 *
 * Cancelling is one compare-and-swap that takes SCHEDULED away; so is firing, by the lock.
 * Whichever comes first wins, and when cancel says *cancelled*, the timer does not fire.  The owner
 * unlinks the entry, at once or with its `moves`.  Another thread leaves it in the wheel: LINKED
 * without SCHEDULED and MOVING is garbage, counted in stripes so that cancelling threads do not
 * meet, and removed by the owner when it comes across it, or by scrubbing.
 *
 * Re-arming for later changes `deadline` under the lock, and leaves the entry where it is: it may
 * lie far from what the thread has in its cache, and so may its neighbours.  When the entry comes
 * out of the wheel before `deadline`, or the wheel meets it on the way, the owner puts it back for
 * later.  So a timer that is re-armed a thousand times before it is due moves once.  Re-arming for
 * an earlier time moves the entry, if the owner does it; from another thread, the letter tells the
 * owner.
 *
 * Unlinking an entry touches its neighbours in the list.  Among many timers they are in no cache.
 * So the owner notes the timer in its shard's `moves`, has the neighbours fetched, and goes on: it
 * moves the entries when they have come, some operations later.  It does so, too, for the timer
 * that it started last, because that one may well be started and cancelled again.  Nobody sees a
 * difference: the owner makes all moves before it looks at its wheel, see shard_make_moves().
 *
 * The owner numbers the starts in its shard.  Of timers with equal deadlines, the one with the
 * lower number fires first, wherever the entries were meanwhile: that is the word's `order`.  Only
 * the owner changes the order of a LINKED timer.  Numbers are compared modulo 2^40; two of them
 * that meet in one bucket are never half of that apart.
 *
 * A timer that is due while its callback still runs, on whichever worker, waits for that to return.
 *
 * A shard is *attended* while somebody turns its owner: always, for a worker with a thread; for the
 * one that the host drives, while the host does.  The time service sends timers only to shards that
 * are, and one that is not any more gives them back: see shard_unattend().
 *
 * Taking a lock costs more than its instructions: nothing after it begins before all before it is
 * done.  Among a million timers each operation would wait for its own cache line, and none for two
 * at once.  Most timers are used by the thread that made them, and by no other.  So a shard is
 * ALONE at first, and its owner does without the locks of its OWN timers.  The first other thread
 * that wants to use one makes the shard SHARED, for good, and the owner takes locks from then on:
 * see timer_share().  The flag OWN goes when the timer goes to another shard.
 *
 * The lock is held for some dozen instructions, never over a callback, a system call or a wait.  An
 * owner that finds it taken while firing does not wait, but comes again.
 */
#ifndef ORR_TIME_TIMER_H
#define ORR_TIME_TIMER_H

#include "base/alloc.h"
#include "base/bell.h"
#include "base/counter.h"
#include "base/mailbox.h"
#include "orrery.h"
#include "time/histogram.h"
#include "time/wheel.h"

#include <assert.h>

#define TIMER_LOCKED UINT64_C(1)
#define TIMER_SCHEDULED UINT64_C(2)
#define TIMER_LINKED UINT64_C(4)
#define TIMER_POSTED UINT64_C(8)
#define TIMER_RUNNING UINT64_C(16)
#define TIMER_STOPPED UINT64_C(32)
#define TIMER_FREED UINT64_C(64)
#define TIMER_LOCAL UINT64_C(128)
#define TIMER_CALLS UINT64_C(256)
#define TIMER_SLEEPER UINT64_C(512)
#define TIMER_GUEST UINT64_C(1024)
#define TIMER_MOVING UINT64_C(2048)
#define TIMER_REPEATS UINT64_C(4194304)
#define TIMER_OWN UINT64_C(8388608)
#define TIMER_HELD (TIMER_LINKED | TIMER_POSTED | TIMER_RUNNING)

enum {
    TIMER_SHARD_SHIFT = 12,
    TIMER_SHARD_MASK = 0x3ff,
    TIMER_ORDER_SHIFT = 24,
    TIMER_STRIPES = 32,
    TIMER_LINE = 64,
    TIMER_FEW = 4096, /* fewer than this are in the cache anyway */
    TIMER_MOVES = 16, /* about as many cache lines as a core fetches at once */
};
/* What says whose timer it is that needs no lock. */
#define TIMER_OWNER (TIMER_OWN | (uint64_t)TIMER_SHARD_MASK << TIMER_SHARD_SHIFT)
#define TIMER_BELOW_ORDER ((UINT64_C(1) << TIMER_ORDER_SHIFT) - 1)

struct timers;

/* The part of a timer that starting, cancelling and firing do not touch as a rule. */
struct timer_more {
    uint64_t repeat; /* if REPEATS; written under the lock */
    struct letter letter;
    _Atomic uint64_t missed;
    struct timer_block *block;
};

/* A cache line: see pool.h. */
struct orr_timer {
    _Atomic uint64_t word;
    struct wheel_entry entry;
    _Atomic uint64_t deadline; /* written under the lock */
    struct timer_block *block;
    union {
        struct orr_waker waker;
        orr_timer_fn *fire;
    } action;
    void *data;
};

/* What a timer takes of memory. */
enum { TIMER_BYTES = sizeof(struct orr_timer) + sizeof(struct timer_more) };

/*
 * A sleeper is a timer that the owner of a shard embeds in an object of its own, such as a task's
 * wait: it fires once, nobody else uses it, and it costs no allocation.  It begins as a timer does,
 * as far as the wheel looks, and its word says that nothing follows.  Where a timer has its shard,
 * a sleeper has what it is part of.
 */
struct sleeper {
    uint64_t word; /* 0: not set */
    struct wheel_entry entry;
};

static_assert(offsetof(struct sleeper, entry) == offsetof(struct orr_timer, entry), "the word tells them apart");
static_assert(sizeof(struct orr_timer) == TIMER_LINE, "what starting and cancelling touch is one cache line");

/* What threads other than a shard's owner did to its timers.  A cache line each. */
struct timer_stripe {
    _Atomic int64_t garbage;   /* entries left in the wheel, less those started again */
    _Atomic int64_t scheduled; /* started, less cancelled and less taken over by other shards */
    _Atomic uint64_t cancelled;
    _Atomic uint64_t rearmed;
    char apart[32];
};

/* Who uses the OWN timers of a shard. */
enum { SHARD_ALONE, SHARD_SHARING, SHARD_SHARED };

struct timer_shard {
    struct timer_stripe stripes[TIMER_STRIPES];
    struct timers *timers;
    unsigned number;

    uint64_t owner; /* TIMER_OWNER in the words of its OWN timers */

    /* The owner's thread only. */
    struct wheel wheel;
    uint64_t starts; /* timers and sleepers started here, ever */
    /* The timer that was started last: for a comparison only, since it may be freed by now. */
    const struct orr_timer *last_started;
    _Atomic bool changing; /* the owner changes an OWN timer without its lock; any thread reads */
    unsigned move_count;
    struct orr_timer *moves[TIMER_MOVES]; /* those that are MOVING */
    struct letter *letters;               /* taken from the mailbox, not yet read */
    /* As in the stripes, whose sum with this is what is still to happen; may wrap around 0. */
    struct counter scheduled;
    struct counter fired, cancelled, rearmed, migrated;
    struct counter scrubbed; /* garbage removed, of that counted in the stripes */
    unsigned unscrubbed;     /* turns since the last look for garbage */
    bool changed;            /* a timer has come or gone since the owner was last idle */
    bool has_guests;         /* there may be guests in the wheel */
    struct histogram lateness;

    /*
     * Any thread reads these: how many timers the shard has, when the next is due, the time last
     * read.
     */
    _Atomic uint64_t load;
    _Atomic uint64_t next;
    _Atomic uint64_t now;
    _Atomic bool turning;

    /* Any thread writes these. */
    char apart[64];
    struct mailbox mailbox;
    _Atomic bool living;
    _Atomic bool attended; /* somebody turns its owner */
    _Atomic bool sending;  /* the service is between its look at `attended` and its post */
    uint64_t weight;       /* the time service only: see service.c */
    _Atomic bool littered; /* there may be much garbage */
    _Atomic bool late;     /* a deadline has passed while the owner was busy */
    struct bell *bell;     /* the owner's; never freed, as all bells */

    /* Any thread reads this at each operation; it changes twice at most. */
    char apart_too[64];
    _Atomic unsigned users; /* SHARD_ALONE or so */
};

#endif
