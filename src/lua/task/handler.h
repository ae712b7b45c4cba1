/*
 * Handlers: functions that are called again and again, by a timer or for an event.
 *
 * A handler whose calls time out several times in a row is disabled.  A call that ends in time resets the count.
 *
 * The isolate's worker's thread.
 */
#ifndef ORR_LUA_TASK_HANDLER_H
#define ORR_LUA_TASK_HANDLER_H

#include <stdbool.h>
#include <stdint.h>

struct orr_isolate;

/* The first member of the userdata that keeps the function. */
struct handler {
    int64_t id;       /* of a handler of an event; 0 for a timer */
    uint32_t script;  /* whose it is */
    unsigned strikes; /* calls in a row that have timed out */
    bool disabled;    /* it is not called any more */
};

enum { HANDLER_VERDICT = 160 };

/*
 * A call has ended with an error of the core, or 0.  Writes why the handler is disabled if it has just been; `name`
 * is the event's.  Never allocates.
 */
void handler_judge(const struct orr_isolate *iso, struct handler *self, int error, const char *name,
                   char verdict[HANDLER_VERDICT]);

#endif
