#include "lua/limits/level.h"

#include "base/clock.h"
#include "lua/limits/grace_period.h"

uint64_t level_used(const struct orr_isolate *iso, const struct level *level)
{
    bool timed = iso->limits.mode == ORR_LUA_SIGNAL && level->since;
    return level->used + (timed ? clock_now() - level->since : 0);
}

int level_next_count(const struct orr_isolate *iso)
{
    uint64_t count = iso->limits.check_interval;
    for (const struct level *level = execution_level(&iso->execution); level; level = level->outer) {
        uint64_t left = level->limit > level->used ? level->limit - level->used + 1 : 1;
        count = level->limit && left < count ? left : count;
    }
    return (int)count;
}

/* Records the start of a level, and sets the timer for it if its limit is short. */
static void measure(struct orr_isolate *iso, struct level *level)
{
    uint64_t left = !level->limit ? ORR_NEVER : level->limit > level->used ? level->limit - level->used : 1;
    level->since = clock_now();
    if (left >= iso->limits.slice_ns || interrupt_is_counted(&iso->interrupt))
        return;
    watch_set(worker_watch(iso->worker), left);
    if (watch_failed(worker_watch(iso->worker)) && !interrupt_is_requested(&iso->interrupt))
        interrupt_slice_over(iso); /* at once, because no timer can do it later */
}

/*
 * Lua skips one call of the counting hook when a coroutine is resumed after that hook has yielded.
 * So the count of such a coroutine is left as it is.
 */
static void begin_to_count(struct orr_isolate *iso, const struct level *level)
{
    if (!level->used || !interrupt_counts(iso, level->co))
        interrupt_count(iso, level->co, level_next_count(iso));
}

void level_limit(struct orr_isolate *iso, struct level *level)
{
    if (iso->limits.mode == ORR_LUA_COUNT)
        begin_to_count(iso, level);
    else
        measure(iso, level);
}

/*
 * The signal handler may read the limit between any two stores.  That does no harm: it compares the
 * limit with the time since the slice was over.
 */
void level_renew(struct orr_isolate *iso, struct level *level, uint32_t script, uint64_t limit)
{
    level->renewed = true;
    level->script = script;
    level->limit = limit;
    level->used = 0;
    level->since = 0;
    if (level_is_short(&iso->limits, level))
        level_limit(iso, level);
}

/*
 * The outermost level is measured from the start of the slice, if the timer recorded that, and the
 * level is as old as the slice.
 */
struct level *level_find_expired(struct orr_isolate *iso)
{
    uint64_t now = clock_now(), timer_set_at = watch_timer_set_at(worker_watch(iso->worker));
    for (struct level *level = execution_level(&iso->execution); level; level = level->outer) {
        if (iso->limits.mode == ORR_LUA_SIGNAL && !level->since)
            level->since = !level->outer && !level->renewed && timer_set_at ? timer_set_at : now;
        if (ban_is_imposed(&iso->ban) && !level->outer)
            return level;
        if (level->limit && level_used(iso, level) >= level->limit + (iso->limits.mode == ORR_LUA_COUNT))
            return level;
    }
    return NULL;
}

struct level *level_find_past_grace(struct orr_isolate *iso)
{
    for (struct level *level = execution_level(&iso->execution); level; level = level->outer)
        if (grace_period_is_over(iso, level->script))
            return level;
    return NULL;
}

bool level_is_overdue(const struct orr_isolate *iso)
{
    if (!interrupt_time_is_over(&iso->interrupt))
        return false;
    uint64_t passed = moment_passed(interrupt_over(&iso->interrupt));
    for (const struct level *level = execution_level(&iso->execution); level; level = level->outer)
        if (level->limit && passed >= level->limit)
            return true;
    return ban_is_imposed(&iso->ban) || isolate_ends(iso);
}

void level_enter_coroutine(struct orr_isolate *iso, lua_State *co)
{
    if (iso->limits.mode == ORR_LUA_COUNT && execution_level(&iso->execution) && !interrupt_counts(iso, co))
        interrupt_count(iso, co, level_next_count(iso));
    interrupt_switched(&iso->interrupt, iso);
}

void level_charge_coroutine(struct orr_isolate *iso)
{
    if (iso->limits.mode == ORR_LUA_COUNT)
        execution_charge(&iso->execution, iso->limits.check_interval);
}
