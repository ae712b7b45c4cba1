#include "exec/rest.h"

#include "base/ring.h"
#include "exec/runtime.h"
#include "exec/scope.h"

#include <errno.h>

bool task_is_untouched(const struct orr_task *task, uint32_t known)
{
    bool alone = task->references == known && !task->named && !task->children && !task->watchers && !task->claims;
    bool idle = !task->waits && !task->ios && !task->queued && !task->interrupted && !task->opened;
    bool told = task->own.flags || task->own.failures || task->cancelled || task->child_failed || task->result.error ||
                task->settled || task->failed;
    return alone && idle && !told && !task->scope;
}

void task_rest(struct orr_task *task)
{
    ring_remove(&task->parent->children, &task->sibling);
    task->parent = NULL;
    task->references--;
    task->life = TASK_RESTING;
    task->name = NULL;
    task->name_lent = false;
    counter_subtract(&task->worker->tasks.live, 1);
}

/* The task goes back to the tree, and counts again. */
static void rise(struct orr_task *task)
{
    task->life = TASK_LIVE;
    scope_adopt(&task->worker->top, task);
    counter_add(&task->worker->tasks.live, 1);
}

int task_rise(struct orr_task *task)
{
    struct worker *worker = task->worker;
    if (runtime_stopping(worker->runtime) && worker->phase != WORKER_GRACE)
        return -ESHUTDOWN;
    uint64_t expected = atomic_load_explicit(&worker->remote.expected_spawns, memory_order_relaxed);
    if (expected + counter_read(&worker->tasks.live) >= worker->tasks.limit)
        return -EAGAIN;
    rise(task);
    counter_add(&worker->tasks.spawned, 1);
    return 0;
}

void task_end_rest(struct orr_task *task)
{
    rise(task);
    scope_drop_body(task);
}
