/*
 * The memory account of an isolate: the allocator of its Lua state.
 *
 * Small blocks come from the isolate's own slab, large ones from the runtime's allocator.  (A host that has given the runtime an
 * allocator of its own sees every block there, and there is no slab.)  Every block is counted.  A *credit* says how many bytes may be
 * taken before there is more to do than to count: then the collector hears how much was allocated, and the limit is looked at.
 *
 * At the limit Lua is not refused what it asks for: it would collect its garbage then and there, in one piece, and up to 5.4.7 there
 * are stores into tables that this pulls the ground from under.  Instead the hook is asked for (budget.h).  At the next
 * instruction it has the collector run whole cycles, in steps, across turns, and raises the error if that has not helped.  One
 * instruction, or one C function of ours, can make what is in use not much more than double.  What goes beyond three times the
 * limit is refused after all, and so is what comes from plain code of the host's, where no hook would look, but for a little (charge.h).
 *
 * The same way limits on the size of one thing are kept: a string, the two parts of a table, the table of all short strings.  The
 * allocator sees a block that is too large, grants it, and remembers it as a suspect.  The hook makes sure that it is what it looks
 * like, and raises an error that names the limit.
 *
 * The isolate's worker's thread.
 */
#ifndef ORR_LUA_ISOLATE_MEMORY_H
#define ORR_LUA_ISOLATE_MEMORY_H

#include "base/alloc.h"
#include "lua/isolate/slab.h"

struct orr_isolate;
struct late_block;

enum {
    MEMORY_QUANTUM = 16 << 10, /* bytes between two looks */
    MISPLACED_MAX = 16,
    REFUSALS_MAX = 3,      /* after so many, an untrusted script is ended: each makes Lua collect in one piece */
    LATE_LEAST = 64 << 10, /* bytes of a block that is freed late */
};

enum memory_suspect {
    SUSPECT_NONE,
    SUSPECT_STRING,
    SUSPECT_LIST,    /* the list part of a table */
    SUSPECT_HASH,    /* the hash part of a table */
    SUSPECT_STACK,   /* of a coroutine */
    SUSPECT_STRINGS, /* the table of all short strings */
};

struct memory_account {
    size_t used, peak;   /* bytes */
    bool over_limit;     /* the limit is passed, and the hook has to act on it */
    bool forced_already; /* whole cycles were begun because the limit was passed */
    bool soft_passed;    /* the soft limit is passed, and the host was told */
    struct slab slab;
    bool pooled;     /* small blocks are the slab's */
    bool discarding; /* the state is being closed: small blocks go all at once */
    size_t credit;   /* bytes that may still be taken before the next look */
    size_t given;    /* what the credit was at the last look */
    size_t large;    /* bytes of large blocks made since the hook was asked for because of them */
    size_t next;     /* where the hook is to look: the limit, or a little above what could not be collected */
    struct {
        const void *block;
        size_t old_size, size;
    } refused;         /* the last request, if that was: Lua will make it again */
    unsigned refusals; /* that made Lua collect */
    struct {
        enum memory_suspect what;
        const void *block;
        size_t size;
        bool insists;   /* it is more than twice too large */
        bool collected; /* for the sake of the short strings that are garbage */
    } suspect;
    const void *strings; /* the block of the table of short strings */
    struct {
        void *block;
        size_t size;
    } misplaced[MISPLACED_MAX]; /* small blocks that are not in the slab: a large one shrank when there was no page */
    unsigned misplaced_count;
    unsigned strays;           /* misplaced blocks beyond these: they are known by being in no chunk of the slab */
    volatile bool stack_grows; /* Lua is copying one into a block that ends at its limit; until it frees the old one */
    bool defers;               /* large blocks are freed late: see memory_defer() */
    struct late_block *late;   /* those that wait for that */
};

/* To be called before the state is made, and after it is closed. */
void memory_open(struct orr_isolate *iso);
void memory_close(struct orr_isolate *iso);

/* The state is about to be closed. */
void memory_discard(struct orr_isolate *iso);

/*
 * A step of the collector can free a hundred large blocks, and giving so much to the system takes many milliseconds.  So what it frees
 * while this is on only goes into a list, and is off the account.  memory_free_late() frees one of those; false if there is none.  Before
 * a large block is made, as many bytes of them are freed: so there is never more in use than there was.
 */
void memory_defer(struct orr_isolate *iso, bool on);
bool memory_free_late(struct orr_isolate *iso);

/* The lua_Alloc of the state; `data` is the isolate. */
void *memory_alloc(void *data, void *block, size_t old_size, size_t size);

/*
 * In a hook: whether what seems too large is to be looked at only after a cycle of the collector, which is owed then.  The table of short
 * strings is: it has strings that are garbage, too, and shrinks when fewer than a quarter of its places are taken.
 */
bool memory_collects_first(struct orr_isolate *iso);

/* In a hook on L: whether a block was made that is too large, and what to say of it, in `text`. */
bool memory_find_oversized(struct orr_isolate *iso, struct lua_State *L, char *text, size_t size);

/* In a hook, when the collector has done what it can: whether the account is still overdrawn.  The next look is some way off. */
bool memory_still_over(struct orr_isolate *iso);

/* A slice is over: the next look is at the limit again, if what is in use has gone down. */
void memory_slice_over(struct orr_isolate *iso);

#endif
