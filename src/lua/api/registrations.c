#include "lua/api/registrations.h"

#include "lua/api/events.h"
#include "lua/api/schedule.h"
#include "lua/api/script_timers.h"

void registrations_remove(struct orr_isolate *iso, uint32_t script)
{
    script_timers_close(iso, script);
    schedule_cancel(iso, script);
    events_remove(iso, script);
}

void registrations_list(struct orr_isolate *iso, lua_State *L, uint32_t script)
{
    script_timers_list(iso, L, script);
    schedule_list(iso, L, script);
    events_list(L, script);
}
