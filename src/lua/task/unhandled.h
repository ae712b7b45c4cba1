/*
 * Failures of tasks at the top of the tree that nobody has seen.
 *
 * The failure of a task without a parent has nobody to go to.  The code that started it has until
 * the worker comes round to await it, or to look at it.  Then the sink is told, and not only when
 * the handle is collected. A few are reported in each turn, since a host's sink may take its time.
 *
 * The isolate's worker's thread.
 */
#ifndef ORR_LUA_TASK_UNHANDLED_H
#define ORR_LUA_TASK_UNHANDLED_H

#include "lua/task/housekeeper.h"
#include "orrery.h"

#include <stdbool.h>
#include <stdint.h>

struct ltask;
struct orr_isolate;

/* Part of the isolate. */
struct unhandled {
    struct ltask *first, *last;
    struct housekeeper reporter; /* there while the list is not empty, if there was memory for it */
    struct {
        void (*call)(void *data, struct orr_task *task);
        void *data;
    } sink; /* of a layer above, told in place of the runtime's sink; NULL for none */
};

static inline bool unhandled_any(const struct unhandled *self)
{
    return self->first;
}

/* A function of a layer above is told of failures, in place of the runtime's sink. */
static inline void unhandled_set_sink(struct unhandled *self, void (*call)(void *data, struct orr_task *task),
                                      void *data)
{
    self->sink.call = call;
    self->sink.data = data;
}

/* A task has failed: the sink is told soon, unless somebody looks at the failure before. */
void unhandled_report_soon(struct ltask *self);

/* Tells the sink of all failures, here and now. */
void unhandled_report_all(struct orr_isolate *iso);

/* Ends the task that tells the sink.  All failures are reported. */
void unhandled_close(struct unhandled *self);

#endif
