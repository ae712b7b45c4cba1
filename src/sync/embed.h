/*
 * Primitives in memory of their user's, who knows how long they live: the userdata of a script, for
 * instance.  `size` bytes, zeroed or not, become a primitive of the calling thread's worker by
 * init, and are nobody's any more after end, which answers -EBUSY while somebody waits for it.
 * Ending what is zeroed, or was ended, does nothing.  Everything else as for those that
 * orr_..._new() made.
 */
#ifndef ORR_SYNC_EMBED_H
#define ORR_SYNC_EMBED_H

#include "base/alloc.h"

extern const size_t event_size, semaphore_size, mutex_size, condition_size, queue_size;

int event_init(struct orr_event *event);
int semaphore_init(struct orr_semaphore *semaphore, uint32_t permits);
int mutex_init(struct orr_mutex *mutex);
int condition_init(struct orr_condition *condition);

/* `alloc` is where the items are. */
int queue_init(struct orr_queue *queue, size_t capacity, void (*drop)(void *item), const struct alloc *alloc);

int event_end(struct orr_event *event);
int semaphore_end(struct orr_semaphore *semaphore);
int mutex_end(struct orr_mutex *mutex);
int condition_end(struct orr_condition *condition);
int queue_end(struct orr_queue *queue);

#endif
