#include "exec/worker.h"

#include "base/clock.h"

_Thread_local struct worker *worker_current __attribute__((tls_model("initial-exec")));

void worker_close_share(struct worker *worker, struct share *share)
{
    if (!share->open)
        return;
    for (uint32_t index = 0; index < worker->tasks.used; index++) {
        struct orr_task *task = tasks_at(&worker->tasks, index);
        if (task->share == share)
            task->share = &worker->shares.own;
    }
    share_close(&worker->shares, share);
}

void worker_ready_late(struct worker *worker, struct orr_task *task)
{
    if (task->queued)
        return;
    task->queued = true;
    bool cut_short = worker->late_polls > 1 && clock_now() >= worker->watch->turn_end;
    share_push_late(&worker->shares, task->share, task, cut_short);
}
