/* An event stays set until it is cleared, and while it is set nobody waits. */
#include "sync/primitive.h"

struct orr_event {
    struct worker *worker;
    struct orr_link *line;
    bool set;
};

/* A wake that was meant for one goes to the next; while it is set nobody is waiting for it. */
static void event_withdraw(struct orr_wait *wait, bool granted)
{
    struct orr_event *event = wait->source;
    if (!granted)
        ring_remove(&event->line, &wait->in_source);
    else
        wait_grant_first(&event->line);
}

static const struct orr_wait_kind event_kind = { .name = "an event", .withdraw = event_withdraw };

int orr_event_new(struct orr_event **event)
{
    int error = primitive_new(event, sizeof **event);
    if (!error)
        (*event)->worker = worker_current;
    return error;
}

int orr_event_free(struct orr_event *event)
{
    int error = event ? PRIMITIVE_CHECK(event) : 0;
    if (error || !event)
        return error;
    if (event->line)
        return -EBUSY;
    alloc_free(&event->worker->alloc, event, sizeof *event);
    return 0;
}

int orr_event_wait(struct orr_task *task, struct orr_wait *wait, struct orr_event *event)
{
    int answer = PRIMITIVE_POLL(task, wait, event, &event_kind);
    if (answer != 1)
        return answer;
    return event->set ? wait_at_once(wait) : wait_in_line(task, wait, event, &event_kind, &event->line);
}

int orr_event_wake(struct orr_event *event, unsigned n)
{
    int error = PRIMITIVE_CHECK(event);
    if (error)
        return error;
    int woken = 0;
    while (n-- && wait_grant_first(&event->line))
        woken++;
    return woken;
}

int orr_event_set(struct orr_event *event)
{
    int error = PRIMITIVE_CHECK(event);
    if (error)
        return error;
    event->set = true;
    return orr_event_wake(event, UINT32_MAX);
}

int orr_event_clear(struct orr_event *event)
{
    int error = PRIMITIVE_CHECK(event);
    if (!error)
        event->set = false;
    return error;
}

bool orr_event_is_set(const struct orr_event *event)
{
    return event && event->set;
}
