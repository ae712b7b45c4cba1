/* An event stays set until it is cleared, and while it is set nobody waits. */
#include "sync/primitive.h"

struct orr_event {
    struct primitive common;
    bool set;
};

/* How a wait was granted: its `value`. */
enum {
    BY_SET,
    BY_WAKE, /* by a wake of a limited number of waiters */
};

static bool wake_one(struct orr_event *event, uint64_t how)
{
    struct orr_wait *wait = primitive_grant_first(&event->common, &event->common.line);
    if (wait)
        wait->value = how;
    return wait;
}

/* A withdrawn wait hands its wake on to the next waiter. */
static void event_withdraw(struct orr_wait *wait, bool granted)
{
    struct orr_event *event = wait->source;
    if (!granted) {
        ring_remove(&event->common.line, &wait->in_source);
        return;
    }
    event->common.granted--;
    if (wait->value == BY_WAKE)
        wake_one(event, BY_WAKE);
}

static const struct orr_wait_kind event_kind = { .name = "an event", .withdraw = event_withdraw };

int orr_event_new(struct orr_event **event)
{
    return primitive_new(event, sizeof **event);
}

const size_t event_size = sizeof(struct orr_event);

int event_init(struct orr_event *event)
{
    return primitive_init(event, sizeof *event);
}

int event_end(struct orr_event *event)
{
    int error = primitive_check_end(event);
    if (!error)
        primitive_end(event);
    return error;
}

int orr_event_free(struct orr_event *event)
{
    return primitive_free(event_end(event), event, sizeof *event);
}

int orr_event_wait(struct orr_task *task, struct orr_wait *wait, struct orr_event *event)
{
    int answer = primitive_poll(task, wait, event, &event_kind);
    if (answer != 1)
        return answer;
    return event->set ? wait_at_once(wait) : wait_in_line(task, wait, event, &event_kind, &event->common.line);
}

static int wake(struct orr_event *event, unsigned n, uint64_t how)
{
    int woken = 0;
    while (n-- && wake_one(event, how))
        woken++;
    return woken;
}

int orr_event_wake(struct orr_event *event, unsigned n)
{
    int error = primitive_check(event);
    return error ? error : wake(event, n, BY_WAKE);
}

int orr_event_set(struct orr_event *event)
{
    int error = primitive_check(event);
    if (error)
        return error;
    event->set = true;
    return wake(event, UINT32_MAX, BY_SET);
}

int orr_event_clear(struct orr_event *event)
{
    int error = primitive_check(event);
    if (!error)
        event->set = false;
    return error;
}

bool orr_event_is_set(const struct orr_event *event)
{
    return event && event->set;
}
