#include "lua/limits/grace_period.h"

#include "base/clock.h"
#include "lua/isolate.h"

void grace_period_begin(struct orr_isolate *iso, struct grace_period *self, uint32_t script, uint64_t ns)
{
    *self = (struct grace_period){
        .next = iso->grace_periods.first,
        .script = script,
        .end = clock_after(clock_now(), ns),
    };
    iso->grace_periods.first = self;
}

void grace_period_end(struct orr_isolate *iso, struct grace_period *self)
{
    struct grace_period **at = &iso->grace_periods.first;
    while (*at != self)
        at = &(*at)->next;
    *at = self->next;
}

static bool concerns(const struct grace_period *self, uint32_t script)
{
    return self->script == EVERY_SCRIPT || self->script == script;
}

bool grace_period_refuses(const struct orr_isolate *iso, uint32_t script)
{
    if (iso->closing)
        return true;
    for (const struct grace_period *at = iso->grace_periods.first; at; at = at->next)
        if (concerns(at, script))
            return true;
    return false;
}

uint64_t grace_period_left(const struct orr_isolate *iso, uint32_t script)
{
    uint64_t end = worker_grace_end(iso->worker) ? worker_grace_end(iso->worker) : ORR_NEVER;
    for (const struct grace_period *at = iso->grace_periods.first; at; at = at->next)
        if (concerns(at, script) && at->end < end)
            end = at->end;
    if (end == ORR_NEVER)
        return ORR_NEVER;
    uint64_t now = clock_now();
    return end > now ? end - now : 0;
}

bool grace_period_is_over(const struct orr_isolate *iso, uint32_t script)
{
    return (iso->grace_periods.first || worker_grace_end(iso->worker)) && !grace_period_left(iso, script);
}
