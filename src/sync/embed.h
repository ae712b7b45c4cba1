/*
 * Primitives in memory of their user, such as the userdata of a script.  init makes `size` bytes,
 * zeroed or not, a primitive of the calling thread's worker.  end gives the memory back to the
 * user, and answers -EBUSY while a task waits for the primitive.  Ending memory that is zeroed, or
 * was ended, does nothing.  Everything else is as for primitives that orr_..._new() made.
 */
#ifndef ORR_SYNC_EMBED_H
#define ORR_SYNC_EMBED_H

#include "base/alloc.h"

extern const size_t event_size, semaphore_size, mutex_size, condition_size, queue_size;

int event_init(struct orr_event *event);
int semaphore_init(struct orr_semaphore *semaphore, uint32_t permits);
int mutex_init(struct orr_mutex *mutex);
int condition_init(struct orr_condition *condition);

/* `alloc` gets the memory for items. */
int queue_init(struct orr_queue *queue, size_t capacity, void (*drop)(void *item), const struct alloc *alloc);

int event_end(struct orr_event *event);
int semaphore_end(struct orr_semaphore *semaphore);
int mutex_end(struct orr_mutex *mutex);
int condition_end(struct orr_condition *condition);
int queue_end(struct orr_queue *queue);

#endif
