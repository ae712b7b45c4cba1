/*
 * The allocator of an isolate's Lua state.
 *
 * Small blocks come from the isolate's own slab, large blocks from the runtime's allocator.  If the
 * host gave the runtime its own allocator, every block comes from there, and there is no slab.
 * Every block is counted on the account.  When the account's credit is used up, the allocator tells
 * the collector how much was allocated, and checks the memory limit.
 *
 * At the limit the allocator does not refuse a request.  A refusal makes Lua run a full collection
 * at once, and in Lua up to 5.4.7 that collection corrupts some stores into tables.  Instead the
 * allocator raises the memory alarm (memory_alarm.h).  At the next instruction the hook forces
 * whole cycles of the collector, in steps, across turns.  If too much is still in use after that,
 * the hook raises an error.  One instruction, or one C function of the library, can little more
 * than double the memory in use.  The allocator refuses a request beyond that.  It also refuses a
 * request from plain code of the host, where no hook runs, beyond a small overdraft (charge.h).
 *
 * Only the isolate's worker thread may call these functions.
 */
#ifndef ORR_LUA_ISOLATE_MEMORY_H
#define ORR_LUA_ISOLATE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

struct orr_isolate;

enum {
    MEMORY_QUANTUM = 16 << 10, /* bytes allocated between two checks of the limit */
    OUTSIDE_MAX = 16,
};

struct memory {
    /*
     * Blocks up to this many bytes are taken from the slab, and given back to it, without another
     * question.  `give_most` is 0 while a small block may be outside the slab, and while the state
     * is being closed.  Both are 0 if there is no slab.
     */
    size_t take_most, give_most;
    bool pooled;     /* small blocks come from the slab */
    bool discarding; /* the state is being closed: the slab frees all small blocks at once */
    unsigned outside_count;
    /* Blocks that `outside` has no room for: recognised because no chunk of the slab holds them */
    unsigned outside_more;
    struct {
        void *block;
        size_t size;
    } outside[OUTSIDE_MAX]; /* small blocks outside the slab: they shrank when it had no page */
    /* Bytes of large blocks made since they last requested the hook */
    size_t large;
    struct {
        const void *block;
        size_t old_size, size;
    } refused;         /* the last request, if it was refused: Lua repeats it */
    unsigned refusals; /* refusals, each of which made Lua run a full collection */
};

/* memory_open() comes before the state is made, memory_close() after it is closed. */
void memory_open(struct orr_isolate *iso);
void memory_close(struct orr_isolate *iso);

/*
 * Must be called just before the state is closed.  From then on slab blocks are not freed one by
 * one.
 */
void memory_discard(struct orr_isolate *iso);

/* The lua_Alloc of the state.  `data` is the isolate. */
void *memory_alloc(void *data, void *block, size_t old_size, size_t size);

/*
 * In a hook, after the forced collection: whether too much memory is still in use.  Moves the next
 * check some way above the memory in use.
 */
bool memory_is_still_over(struct orr_isolate *iso);

#endif
