/* The scripts of an isolate: numbers, bodies that are watched, and whom calls of the host act for. */
#ifndef ORR_LUA_TASK_SCRIPTS_H
#define ORR_LUA_TASK_SCRIPTS_H

#include <stdint.h>

struct body_watch;

/* Whom calls of the host act for. */
struct callers {
    uint32_t sole; /* the script that has the isolate to itself; 0 for none */
    uint32_t now;
};

struct scripts {
    uint32_t loaded; /* so far */
    struct callers callers;
    struct body_watch *bodies; /* watched bodies */
    uint32_t loading;          /* bodies that have not begun: events wait for them */
};

#endif
