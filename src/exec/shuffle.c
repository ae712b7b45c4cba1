#include "exec/shuffle.h"

#include "base/random.h"

enum { CHOICES = 64 }; /* tasks among which one is chosen, at most: choosing walks over them */

struct orr_task *shuffle_pop(struct worker *worker, struct queue *ready)
{
    unsigned count = 0;
    for (struct orr_task *at = ready->first; at && !at->in_order && count < CHOICES; at = at->next)
        count++;
    struct orr_task *chosen = ready->first;
    if (count < 2) {
        queue_pop(ready);
    } else {
        for (uint64_t skip = random_next(&worker->shuffle) % count; skip; skip--)
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
