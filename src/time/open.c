#include "time/open.h"

#include "time/handover.h"
#include "time/service.h"
#include "time/shard.h"
#include "time/word.h"

#include <errno.h>

enum { LINE = 64 };

static size_t timers_size(unsigned shards)
{
    unsigned with_unowned = shards + 1;
    return sizeof(struct timers) + with_unowned * sizeof(struct timer_shard) + LINE;
}

int timers_open(struct timers **out, const struct timers_config *config)
{
    size_t size = timers_size(config->shards);
    char *block = alloc_zeroed(&config->alloc, size);
    if (!block)
        return -ENOMEM;
    /* So that the stripes of the shards are cache lines. */
    size_t shards = (size_t)(uintptr_t)block + sizeof(struct timers);
    struct timers *timers = (struct timers *)(block + (LINE - shards % LINE) % LINE);
    timers->block = block;
    timers->size = size;
    timers->alloc = config->alloc;
    timers->log = config->log;
    timers->wake = config->wake;
    timers->sleep_over = config->sleep_over;
    timers->need_service = service_need;
    timers->references = 1;
    timers->clock = config->clock;
    timers->shard_count = config->shards;
    timers->virtual_now = NS_PER_SECOND; /* any time will do, but 0 is easily mistaken for none */
    pthread_mutex_init(&timers->lock, NULL);
    timer_pool_init(&timers->pool);
    for (unsigned i = 0; i < config->shards; i++)
        shard_open(timers_shard(timers, i), timers, i, timers_now(timers));
    timers_unowned(timers)->timers = timers;
    timers_unowned(timers)->number = config->shards;
    *out = timers;
    return 0;
}

bool timers_idle(struct timers *timers)
{
    /*
     * A timer that moves while we add up may be seen in neither shard; but then a move has begun,
     * and we look again.
     */
    for (;;) {
        uint64_t moves = atomic_load(&timers->moves);
        int64_t sum = 0;
        for (unsigned i = 0; i <= timers->shard_count; i++) /* and the unowned shard */
            sum += timer_scheduled(timers_shard(timers, i));
        if (sum != 0 || atomic_load(&timers->moves) == moves)
            return sum == 0;
    }
}

static void complete_all(struct timers *timers, struct letter *letter)
{
    while (letter) {
        struct letter *next = letter->next;
        timers_complete_as_cancelled(timers, timer_of_letter(letter));
        letter = next;
    }
}

void timers_close(struct timers *timers)
{
    atomic_store_explicit(&timers->closed, true, memory_order_release);
    service_stop(timers);
    complete_all(timers, timers->held);
    complete_all(timers, mailbox_close(&timers->orphans));
    timers_release(timers);
}

uint64_t timers_published(struct timers *timers, unsigned number)
{
    struct timer_shard *shard = timers_shard(timers, number);
    if (timers->clock == ORR_CLOCK_MONOTONIC && atomic_load_explicit(&shard->turning, memory_order_relaxed)) {
        service_want_times(timers);
        return atomic_load_explicit(&shard->now, memory_order_relaxed);
    }
    return timers_now(timers); /* an owner that sleeps publishes nothing, and needs nobody to */
}
