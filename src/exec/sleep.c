#include "exec/sleep.h"

#include "base/clock.h"
#include "exec/alarm.h"
#include "exec/await.h"
#include "exec/block.h"

static void sleep_withdraw(struct orr_wait *wait, bool granted)
{
    if (!granted)
        shard_wake_early(((struct orr_task *)wait->owner)->worker->shard, wait_sleeper(wait));
}

static const struct orr_wait_kind sleep_kind = { .name = "sleep", .withdraw = sleep_withdraw, .ends_by_itself = true };

void sleep_over(struct sleeper *sleeper, unsigned part_of)
{
    if (part_of == SLEEPER_OF_SCOPE)
        scope_expire(sleeper);
    else if (part_of == SLEEPER_OF_WAIT)
        wait_grant((struct orr_wait *)((char *)sleeper - offsetof(struct orr_wait, word)));
    else if (part_of == SLEEPER_OF_ALARM)
        alarm_over(sleeper);
}

static int sleep_begin(struct orr_task *task, struct orr_wait *wait, uint64_t deadline)
{
    struct worker *worker = task->worker;
    wait_begin(task, wait, NULL, &sleep_kind);
    shard_sleep(worker->shard, wait_sleeper(wait), SLEEPER_OF_WAIT, deadline);
    return -EAGAIN;
}

/*
 * A sleep that is over has nothing to lose: if something interrupts the task as well, the task
 * hears of that.
 */
static int sleep_poll(struct orr_task *task, struct orr_wait *wait)
{
    int error = wait_check(task, wait, &sleep_kind);
    int answer = error ? error : wait_go_on(task, wait);
    return answer ? answer : wait_interruption(task);
}

int orr_sleep_until(struct orr_task *task, struct orr_wait *wait, uint64_t deadline)
{
    int answer = sleep_poll(task, wait);
    return answer == 1 ? sleep_begin(task, wait, deadline) : answer;
}

int orr_sleep(struct orr_task *task, struct orr_wait *wait, uint64_t ns)
{
    int answer = sleep_poll(task, wait);
    return answer == 1 ? sleep_begin(task, wait, clock_after(timers_now(task->worker->timers), ns)) : answer;
}
