#include "lua/task/body_watch.h"

#include "lua/limits/level.h"
#include "lua/task/task.h"

void body_watch(struct body_watch *watch, struct ltask *body)
{
    struct body_watches *all = &body->iso->bodies;
    watch->body = body;
    watch->next = all->first;
    all->first = watch;
    body->watched = true;
}

/* Takes the watch of a body off the list; NULL if there is none. */
static struct body_watch *take(struct body_watches *all, const struct ltask *body)
{
    for (struct body_watch **at = &all->first; *at; at = &(*at)->next) {
        struct body_watch *watch = *at;
        if (watch->body != body)
            continue;
        *at = watch->next;
        watch->body = NULL;
        return watch;
    }
    return NULL;
}

void body_unwatch(struct orr_isolate *iso, struct body_watch *watch)
{
    if (watch->body) {
        watch->body->watched = false;
        take(&iso->bodies, watch->body);
    }
}

/* From now on the body may compute no longer than the grace period. */
static void limit_cleanup(struct orr_isolate *iso, struct ltask *body)
{
    ltask_lower_limit(body, level_used(iso, execution_level(&iso->execution)) + worker_grace_ns(iso->worker));
    execution_level(&iso->execution)->limit = body->limit;
}

void body_is_failing(struct ltask *body)
{
    struct orr_isolate *iso = body->iso;
    struct body_watch *watch = iso->bodies.first;
    while (watch && watch->body != body)
        watch = watch->next;
    if (!watch || watch->failing_told)
        return;
    watch->failing_told = true;
    if (iso->limits.mode == ORR_LUA_SIGNAL)
        limit_cleanup(iso, body);
    watch->failing(watch->data);
}

void body_is_over(struct ltask *body)
{
    int error = task_error(body->task);
    struct body_watch *watch = take(&body->iso->bodies, body);
    body->watched = false;
    if (watch && error && error != -ECANCELED)
        watch->failed(watch->data);
}
