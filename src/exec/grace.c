#include "exec/grace.h"

#include "base/clock.h"
#include "exec/scope.h"
#include "exec/tree.h"
#include "exec/virtual.h"
#include "exec/wait.h"

/* Whether anything that the runtime knows of will ever move a task again. */
static bool has_hopes(struct worker *worker)
{
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
    log_line(&worker->log, ORR_LOG_WARNING,
             "worker %u: tasks were still there %llu ms after they had been cancelled:", worker->number,
             (unsigned long long)(worker->grace_ns / 1000000));
    tree_log(worker);
}

void grace_give(struct worker *worker)
{
    if (!worker->top.children)
        return;
    uint64_t end = clock_after(clock_now(), worker->grace_ns);
    worker->grace = true;
    scope_cancel(&worker->top, "shutdown");
    while (worker->top.children && has_hopes(worker)) {
        uint64_t now = clock_now();
        if (now >= end) {
            complain(worker);
            break;
        }
        worker_turn(worker, end - now);
        if (!worker_busy(worker) && worker->top.children && !virtual_can_jump(worker) && has_hopes(worker))
            worker_sleep(worker, end - now);
    }
    worker->grace = false;
}
