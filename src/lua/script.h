/* Whose a thing is: every script has a number in its isolate, and 0 is the host. */
#ifndef ORR_LUA_SCRIPT_H
#define ORR_LUA_SCRIPT_H

#include "lua/isolate.h"

/* The script whose task runs now. */
uint32_t script_running(const struct orr_isolate *iso);

struct ltask;

/*
 * Whoever is told when the body of a script fails: once when it has raised an error that it does not catch, before what it has to close
 * is closed, which may take long; and when it is over, in the middle of its last slice, while what it has begun goes on.
 */
struct body_watch {
    struct body_watch *next;
    struct ltask *body; /* NULL when it is over, or was never watched */
    void (*failing)(void *data);
    void (*failed)(void *data);
    void *data;
    bool told; /* that it is failing */
};

/* Between the two, a body is watched; it need not be unwatched when it is over.  The worker's thread. */
void body_watch(struct body_watch *watch, struct ltask *body);
void body_unwatch(struct orr_isolate *iso, struct body_watch *watch);

/* A body that is watched has raised an error that it does not catch. */
void body_is_failing(struct ltask *body);

/* A body that is watched has come to its result. */
void body_is_over(struct ltask *body);

#endif
