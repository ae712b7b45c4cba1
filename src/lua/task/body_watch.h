/*
 * Watching the body of a script, to end the script when its body fails.
 *
 * The watcher is told twice: when the body has raised an error that it does not catch, before it
 * closes what it has to close, which may take long; and when the body is over, in the middle of its
 * last slice, while tasks that it has started go on.
 *
 * The watcher owns the watch, and keeps it until the body is over or unwatched.  The isolate's
 * worker's thread.
 */
#ifndef ORR_LUA_TASK_BODY_WATCH_H
#define ORR_LUA_TASK_BODY_WATCH_H

#include <stdbool.h>

struct ltask;
struct orr_isolate;

struct body_watch {
    struct body_watch *next; /* of the same isolate */
    struct ltask *body;      /* NULL when it is over, or was never watched */
    void (*failing)(void *data);
    void (*failed)(void *data);
    void *data;
    bool failing_told; /* `failing` was called */
};

/* Part of the isolate. */
struct body_watches {
    struct body_watch *first;
};

/* Begins to watch a task, which has not ended. */
void body_watch(struct body_watch *watch, struct ltask *body);

/* Ends that.  Not needed when the body is over, but safe then. */
void body_unwatch(struct orr_isolate *iso, struct body_watch *watch);

/* A watched body has raised an error that it does not catch. */
void body_is_failing(struct ltask *body);

/* A watched body has its result. */
void body_is_over(struct ltask *body);

#endif
