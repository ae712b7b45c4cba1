/* What the tests of timers share: a timer that records what happens to it. */
#ifndef ORR_TESTS_ALARM_H
#define ORR_TESTS_ALARM_H

#include "harness.h"

#define US UINT64_C(1000)
#define MS UINT64_C(1000000)
#define SECOND (1000 * MS)
#define MINUTE (60 * SECOND)
#define HOUR (60 * MINUTE)
#define DAY (24 * HOUR)
#define YEAR (365 * DAY)

struct alarm {
    struct orr_timer *timer;
    struct orr_runtime *rt;
    _Atomic unsigned fired, cancelled;
    uint64_t at; /* when it fired last */
    unsigned order;
    void (*each)(struct alarm *alarm); /* in the callback; may be NULL */
    int answer;                        /* what `each` got */
};

/* All alarms together. */
extern _Atomic unsigned alarms_fired;

/* The callback of alarms. */
void alarm_ring(struct orr_timer *timer, void *data, int status);

void alarm_new(struct alarm *alarm, struct orr_runtime *rt);

struct orr_runtime *runtime_on(enum orr_clock clock, unsigned workers);

/* Moves the clock by hand, and turns until all is quiet. */
void advance(struct orr_runtime *rt, uint64_t ns);

/* A task that starts alarms, a millisecond apart. */
struct starter {
    struct alarm *alarms;
    unsigned count;
    uint64_t deadline;
};

enum orr_poll start_all(struct orr_task *task, void *data);

#endif
