/*
 * The account counts how much memory an isolate has in use.
 *
 * It counts what Lua has allocated (memory.h) and what C holds for the script (charge.h).  The
 * *credit* is the number of bytes that Lua may take before more must be done than counting: then
 * the allocator checks the limit, and tells the collector.
 *
 * Only the isolate's worker thread may call these functions.  Nothing here allocates.
 */
#ifndef ORR_LUA_ISOLATE_ACCOUNT_H
#define ORR_LUA_ISOLATE_ACCOUNT_H

#include <stdbool.h>
#include <stddef.h>

struct account {
    size_t used, peak; /* bytes */
    size_t credit;     /* bytes that may still be taken before the next check */
    size_t granted;    /* the credit that the last check granted */
    /* Bytes in use at which the hook acts: the limit, or a little above what cannot be collected */
    size_t look_at;
};

static inline size_t account_used(const struct account *self)
{
    return self->used;
}

static inline size_t account_peak(const struct account *self)
{
    return self->peak;
}

static inline size_t account_look_at(const struct account *self)
{
    return self->look_at;
}

static inline void account_set_look_at(struct account *self, size_t bytes)
{
    self->look_at = bytes;
}

/* --- Counting --------------------------------------------------------------------------------- */

static inline void account_note_peak(struct account *self)
{
    if (self->used > self->peak)
        self->peak = self->used;
}

/* Counts bytes without using credit. */
static inline void account_add(struct account *self, size_t bytes)
{
    self->used += bytes;
}

static inline void account_remove(struct account *self, size_t bytes)
{
    self->used -= bytes;
}

/* --- Credit ----------------------------------------------------------------------------------- */

static inline bool account_has_credit(const struct account *self, size_t bytes)
{
    return bytes <= self->credit;
}

/* Takes bytes for which there is credit. */
static inline void account_spend(struct account *self, size_t bytes)
{
    self->credit -= bytes;
    self->used += bytes;
}

/* Bytes taken on credit since the last check. */
static inline size_t account_spent(const struct account *self)
{
    return self->granted - self->credit;
}

static inline void account_grant(struct account *self, size_t bytes)
{
    self->credit = self->granted = bytes;
}

/* Lowers the credit to at most `most`.  account_spent() does not change. */
static inline void account_limit_credit(struct account *self, size_t most)
{
    if (self->credit <= most)
        return;
    self->granted -= self->credit - most;
    self->credit = most;
}

#endif
