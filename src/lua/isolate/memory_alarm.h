/*
 * The memory alarm: the memory limit is passed, and the hook has to act on it.
 *
 * The account raises it, where Lua is granted what it asks for beyond the limit.  The hook then
 * forces whole cycles of the collector, once for each alarm, and turns it off when that is done
 * (limits/memory_limit.h).
 *
 * The isolate's worker's thread.
 */
#ifndef ORR_LUA_ISOLATE_MEMORY_ALARM_H
#define ORR_LUA_ISOLATE_MEMORY_ALARM_H

#include <stdbool.h>

struct orr_isolate;

enum memory_alarm_state {
    ALARM_OFF,
    ALARM_RAISED,
    ALARM_COLLECTING, /* whole cycles of the collector were begun because of it */
};

struct memory_alarm {
    enum memory_alarm_state state;
};

/*
 * Has the hook act at the next instruction; false if no Lua runs that it can interrupt.  Safe
 * inside the allocator.
 */
bool memory_alarm_raise(struct orr_isolate *iso);

static inline bool memory_alarm_is_on(const struct memory_alarm *self)
{
    return self->state != ALARM_OFF;
}

static inline bool memory_alarm_collects(const struct memory_alarm *self)
{
    return self->state == ALARM_COLLECTING;
}

/* True once for each alarm: then whole cycles are to be forced. */
static inline bool memory_alarm_begin_to_collect(struct memory_alarm *self)
{
    bool first = self->state == ALARM_RAISED;
    if (first)
        self->state = ALARM_COLLECTING;
    return first;
}

static inline void memory_alarm_turn_off(struct memory_alarm *self)
{
    self->state = ALARM_OFF;
}

#endif
