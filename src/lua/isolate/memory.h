/*
 * The allocator of an isolate's Lua state.
 *
 * Small blocks come from the isolate's own slab, large ones from the runtime's allocator.  (A host
 * that has given the runtime an allocator of its own sees every block there, and there is no slab.)
 * Every block is counted on the account.  When its credit is used up, the collector is told how
 * much was allocated, and the limit is looked at.
 *
 * At the limit Lua is not refused what it asks for: it would collect its garbage then and there, in
 * one piece, and up to 5.4.7 there are stores into tables that this corrupts.  Instead the alarm is
 * raised (memory_alarm.h): at the next instruction the hook has the collector run whole cycles, in
 * steps, across turns, and raises an error if that has not helped.  One instruction, or one C
 * function of ours, can make the memory in use not much more than double.  A request beyond that is
 * refused after all, and so is a request from plain code of the host, where no hook would look,
 * except for a little (charge.h).
 *
 * The isolate's worker's thread.
 */
#ifndef ORR_LUA_ISOLATE_MEMORY_H
#define ORR_LUA_ISOLATE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

struct orr_isolate;

enum {
    MEMORY_QUANTUM = 16 << 10, /* bytes between two looks */
    OUTSIDE_MAX = 16,
};

struct memory {
    bool pooled;     /* small blocks are the slab's */
    bool discarding; /* the state is being closed: small blocks go all at once */
    unsigned outside_count;
    /* Blocks beyond these: they are recognised by being in no chunk of the slab */
    unsigned outside_more;
    struct {
        void *block;
        size_t size;
    } outside[OUTSIDE_MAX]; /* small blocks not in the slab: they shrank when it had no page */
    /* Bytes of large blocks made since the hook was requested because of them */
    size_t large;
    struct {
        const void *block;
        size_t old_size, size;
    } refused;         /* the last request, if that was refused: Lua will make it again */
    unsigned refusals; /* refusals that made Lua collect */
};

/* To be called before the state is made, and after it is closed. */
void memory_open(struct orr_isolate *iso);
void memory_close(struct orr_isolate *iso);

/* The state is about to be closed. */
void memory_discard(struct orr_isolate *iso);

/* The lua_Alloc of the state; `data` is the isolate. */
void *memory_alloc(void *data, void *block, size_t old_size, size_t size);

/*
 * In a hook, when the collector has done what it can: whether too much is still in use.  The next
 * look is some way off.
 */
bool memory_is_still_over(struct orr_isolate *iso);

#endif
