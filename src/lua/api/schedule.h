/* Callbacks for the next turns. */
#ifndef ORR_LUA_API_SCHEDULE_H
#define ORR_LUA_API_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

struct scheduled;

struct schedule {
    struct scheduled *first, *last;
    unsigned count;   /* callbacks not cancelled */
    uint64_t made;    /* callbacks ever scheduled */
    uint64_t settled; /* callbacks, from the first on, that have begun or never will */
    uint64_t run;     /* callbacks that have begun */
    uint64_t errors;  /* callbacks that have failed */
    bool dispatching;
};

#endif
