#include "exec/shuffle.h"

enum { CHOICES = 64 }; /* tasks among which one is chosen, at most: choosing walks over them */

/* splitmix64: every state is good, so any seed is. */
static uint64_t next_random(uint64_t *state)
{
    *state += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t value = *state;
    value = (value ^ (value >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    value = (value ^ (value >> 27)) * UINT64_C(0x94d049bb133111eb);
    return value ^ (value >> 31);
}

struct orr_task *shuffle_pop(struct worker *worker, struct queue *ready)
{
    unsigned count = 0;
    for (struct orr_task *at = ready->first; at && !at->in_order && count < CHOICES; at = at->next)
        count++;
    struct orr_task *chosen = ready->first;
    if (count < 2) {
        queue_pop(ready);
    } else {
        for (uint64_t skip = next_random(&worker->shuffle) % count; skip; skip--)
            chosen = chosen->next;
        queue_remove(ready, chosen);
    }
    if (chosen)
        chosen->in_order = false;
    return chosen;
}

void shuffle_start(struct worker *worker, uint64_t seed)
{
    worker->shuffle = seed;
    worker->shares.changed = true; /* the pass under way must notice */
}
