#include "lua/task/unhandled.h"

#include "exec/sink.h"
#include "lua/isolate.h"
#include "lua/limits/notices.h"
#include "lua/task/body.h"
#include "lua/task/hold.h"
#include "lua/task/task.h"

enum { AT_A_TIME = 4 };

static void look_for_news(void *data, struct orr_task *origin, const struct orr_result *result)
{
    bool *news = data;
    (void)origin;
    *news |= !body_timeout_was_told(result);
}

/* Whether the failure is more than time-outs that the host had notices of.  Observes it if not. */
static bool is_news(struct orr_task *task)
{
    bool news = false;
    orr_task_errors(task, look_for_news, &news);
    if (!news)
        orr_task_result(task);
    return news;
}

/*
 * Takes the oldest failure off the list, and tells the sink if nobody has looked at it and nobody
 * will.
 */
static void report_first(struct orr_isolate *iso)
{
    struct unhandled *list = &iso->unhandled;
    struct ltask *self = list->first;
    list->first = self->apart.next_unhandled;
    if (!list->first)
        list->last = NULL;
    self->unhandled = false;
    bool unseen = self->task && (self->solitary || !task_is_seen(self->task)) && is_news(self->task);
    if (unseen && list->sink.call)
        list->sink.call(list->sink.data, self->task);
    else if (unseen)
        sink_report(self->task);
    notices_count_report(&iso->notices);
    ltask_release(self);
    notices_deliver_soon(iso);
}

void unhandled_report_all(struct orr_isolate *iso)
{
    while (iso->L && iso->unhandled.first)
        report_first(iso);
}

/*
 * The poll function of the task that tells the sink.  An isolate that is closed has reported all by
 * then.
 */
static enum orr_poll report_some(struct orr_task *task, void *data)
{
    struct housekeeper *reporter = data;
    struct orr_isolate *iso = reporter->iso;
    if (iso->L) {
        hold_release_if_over(iso);
        if (isolate_is_held(iso)) /* the code that started the task has not come to a wait yet */
            return orr_task_yield(task);
    }
    for (int reported = 0; reported < AT_A_TIME && iso->L && iso->unhandled.first; reported++)
        report_first(iso);
    return iso->L && iso->unhandled.first ? orr_task_yield(task) : ORR_DONE;
}

static void append(struct unhandled *list, struct ltask *self)
{
    self->unhandled = true;
    self->apart.next_unhandled = NULL;
    *(list->first ? &list->last->apart.next_unhandled : &list->first) = self;
    list->last = self;
}

void unhandled_report_soon(struct ltask *self)
{
    struct orr_isolate *iso = self->iso;
    struct housekeeper *reporter = &iso->unhandled.reporter;
    append(&iso->unhandled, self);
    notices_count_failure(&iso->notices);
    if (!housekeeper_is_there(reporter) && housekeeper_start(reporter, iso, report_some, "housekeeping"))
        unhandled_report_all(iso);
}

void unhandled_close(struct unhandled *self)
{
    housekeeper_end(&self->reporter);
}
