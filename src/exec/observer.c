#include "exec/observer.h"

static void observer_withdraw(struct orr_wait *wait, bool granted)
{
    (void)granted;
    ring_remove(&((struct orr_task *)wait->source)->watchers, &wait->in_source);
}

const struct orr_wait_kind observer_kind = { .name = "observer", .withdraw = observer_withdraw };

void observe(struct orr_task *task, struct orr_observer *observer, const struct orr_wait_kind *kind)
{
    observer->wait.owner = NULL;
    observer->wait.kind = kind;
    observer->wait.source = task;
    observer->wait.state = WAIT_WAITING;
    ring_append(&task->watchers, &observer->wait.in_source);
}

void unobserve(struct orr_observer *observer)
{
    observer->wait.state = WAIT_IDLE;
    observer_withdraw(&observer->wait, false);
}
