/*
 * The memory alarm says that memory in use has passed the limit, and that the hook must act.
 *
 * The account raises the alarm when it grants Lua a request beyond the limit.  The hook then forces
 * whole cycles of the collector, once for each alarm, and turns the alarm off when they are done
 * (limits/memory_limit.h).
 *
 * Only the isolate's worker thread may call these functions.
 */
#ifndef ORR_LUA_ISOLATE_MEMORY_ALARM_H
#define ORR_LUA_ISOLATE_MEMORY_ALARM_H

#include <stdbool.h>

struct orr_isolate;

enum memory_alarm_state {
    ALARM_OFF,
    ALARM_RAISED,
    ALARM_COLLECTING, /* the hook has forced whole cycles of the collector */
};

struct memory_alarm {
    enum memory_alarm_state state;
};

/*
 * Makes the hook act at the next instruction; false if no Lua runs that the hook can interrupt.
 * Safe inside the allocator.
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

/* True once for each alarm: then the caller forces whole cycles. */
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
