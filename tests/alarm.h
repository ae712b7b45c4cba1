/* An alarm is a timer that records what happens to it. */
#ifndef ORR_TESTS_ALARM_H
#define ORR_TESTS_ALARM_H

#include "harness.h"

struct alarm {
    struct orr_timer *timer;
    struct orr_runtime *rt;
    _Atomic unsigned fired, cancelled;
    uint64_t at;                       /* the runtime's time when it fired last */
    unsigned order;                    /* alarms_fired when it fired last */
    void (*each)(struct alarm *alarm); /* called each time it fires; may be NULL */
    int answer;                        /* for the use of `each` */
};

/* How often all alarms of the process have fired. */
extern _Atomic unsigned alarms_fired;

/* The callback of an alarm's timer. */
void alarm_ring(struct orr_timer *timer, void *data, int status);

/* Creates the alarm's timer.  The test frees it. */
void alarm_new(struct alarm *alarm, struct orr_runtime *rt);

/* Creates `count` alarms, starts all with this delay, and turns.  The caller frees the array. */
struct alarm *alarms_start(struct orr_runtime *rt, unsigned count, uint64_t delay_ns);

/* A runtime on the clock; the test fails when there is none. */
struct orr_runtime *runtime_on(enum orr_clock clock, unsigned workers);

/* Moves a manual clock forward and turns until the runtime has nothing to do. */
void advance(struct orr_runtime *rt, uint64_t ns);

/*
 * The poll function of a task that starts `count` alarms, from `deadline` on, a millisecond apart.
 */
struct starter {
    struct alarm *alarms;
    unsigned count;
    uint64_t deadline;
    _Atomic unsigned done; /* 1: all are started, and the task will not touch this again */
};

enum orr_poll start_all(struct orr_task *task, void *data);

#endif
