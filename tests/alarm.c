#include "alarm.h"

#include <errno.h>
#include <stdlib.h>

_Atomic unsigned alarms_fired;

struct orr_runtime *runtime_on(enum orr_clock clock, unsigned workers)
{
    struct orr_runtime *rt = harness_runtime_with((struct orr_options){ .workers = workers, .clock = clock });
    assert_non_null(rt);
    return rt;
}

void alarm_ring(struct orr_timer *timer, void *data, int status)
{
    struct alarm *alarm = data;
    assert_ptr_equal(timer, alarm->timer);
    if (status == -ECANCELED) {
        atomic_fetch_add(&alarm->cancelled, 1);
        return;
    }
    assert_int_equal(status, 0);
    alarm->at = orr_runtime_now(alarm->rt);
    alarm->order = atomic_fetch_add(&alarms_fired, 1) + 1;
    atomic_fetch_add(&alarm->fired, 1);
    if (alarm->each)
        alarm->each(alarm);
}

void alarm_new(struct alarm *alarm, struct orr_runtime *rt)
{
    alarm->rt = rt;
    assert_int_equal(orr_timer_new(rt, &(struct orr_timer_options){ .fire = alarm_ring, .data = alarm }, &alarm->timer),
                     0);
}

struct alarm *alarms_start(struct orr_runtime *rt, unsigned count, uint64_t delay_ns)
{
    struct alarm *alarms = calloc(count, sizeof *alarms);
    assert_non_null(alarms);
    for (unsigned i = 0; i < count; i++) {
        alarm_new(&alarms[i], rt);
        assert_int_equal(orr_timer_start(alarms[i].timer, delay_ns, 0), 0);
    }
    harness_settle(rt);
    return alarms;
}

void advance(struct orr_runtime *rt, uint64_t ns)
{
    assert_int_equal(orr_runtime_advance(rt, ns), 0);
    harness_settle(rt);
}

enum orr_poll start_all(struct orr_task *task, void *data)
{
    (void)task;
    struct starter *starter = data;
    for (unsigned i = 0; i < starter->count; i++)
        assert_int_equal(orr_timer_start_at(starter->alarms[i].timer, starter->deadline + i * MS, 0), 0);
    atomic_store(&starter->done, 1);
    return ORR_DONE;
}
