/*
 * A housekeeper is a task in C that works for an isolate: one reports failures, one begins
 * scheduled callbacks.  It is at the top of the tree and in the isolate's share.  It counts as none
 * of the isolate's tasks, so closing the isolate does not wait for it, and ends it at the end.
 *
 * It lies in the isolate, and its task holds a reference to the isolate.  The isolate's worker's
 * thread, which drives the worker.
 */
#ifndef ORR_LUA_TASK_HOUSEKEEPER_H
#define ORR_LUA_TASK_HOUSEKEEPER_H

#include "orrery.h"

#include <stdbool.h>

struct orr_isolate;

struct housekeeper {
    struct orr_isolate *iso;
    struct orr_task *task; /* NULL while there is none */
};

/* Whether its task lives. */
static inline bool housekeeper_is_there(const struct housekeeper *self)
{
    return self->task;
}

/*
 * Spawns its task, which is not there.  `poll` has the housekeeper as its data.  Negative errno, as
 * orr_spawn().
 */
int housekeeper_start(struct housekeeper *self, struct orr_isolate *iso, orr_poll_fn *poll, const char *name);

/*
 * Ends its task, if it is there.  A task that runs just now is left alone: it finds the isolate
 * closed, and ends by itself.
 */
void housekeeper_end(struct housekeeper *self);

#endif
