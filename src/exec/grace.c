#include "exec/grace.h"

#include "base/clock.h"
#include "base/text.h"
#include "exec/scope.h"
#include "exec/tree.h"
#include "exec/turn.h"
#include "exec/virtual.h"

/* Whether anything that the runtime knows of will ever move a task again. */
static bool can_go_on(void *data)
{
    struct worker *worker = data;
    if (!worker->top.children)
        return false;
    if (worker_busy(worker) || reactor_in_flight(worker->reactor))
        return true;
    for (struct orr_task *task = scope_walk_first(&worker->top, false); task;
         task = scope_walk_next(&worker->top, task, true, false))
        if (task->life == TASK_LIVE && task->waits)
            return true;
    return false;
}

static void complain(struct worker *worker)
{
    char grace[TEXT_DURATION_ROOM];
    text_duration(grace, worker->grace.ns);
    log_line(&worker->log, ORR_LOG_WARNING,
             "worker %u: tasks were still there %s after they had been cancelled:", worker->number, grace);
    tree_log(worker);
}

bool grace_wait(struct worker *worker, uint64_t end, bool (*goes_on)(void *data), void *data)
{
    while (goes_on(data)) {
        uint64_t now = clock_now();
        if (now >= end)
            return false;
        worker_turn(worker, end - now);
        if (!worker_busy(worker) && !virtual_can_jump(worker) && goes_on(data))
            worker_sleep(worker, end - now);
    }
    return true;
}

void grace_give(struct worker *worker)
{
    worker->grace.end = clock_after(clock_now(), worker->grace.ns);
    if (!worker->top.children)
        return;
    worker->phase = WORKER_GRACE;
    scope_cancel(&worker->top, "shutdown");
    if (!grace_wait(worker, worker->grace.end, can_go_on, worker))
        complain(worker);
}
