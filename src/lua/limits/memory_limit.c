#include "lua/limits/memory_limit.h"

#include "lua/isolate.h"
#include "lua/isolate/account.h"
#include "lua/isolate/charge.h"
#include "lua/isolate/collector.h"
#include "lua/isolate/interrupt.h"
#include "lua/isolate/memory.h"
#include "lua/isolate/memory_alarm.h"
#include "lua/isolate/oversized.h"
#include "lua/limits/notices.h"

#include <stdio.h>

static void raise_oversized(struct orr_isolate *iso, lua_State *L)
{
    char text[96];
    if (!oversized_confirm(iso, L, text, sizeof text))
        return;
    interrupt_hurry(iso, L);
    luaL_where(L, 0);
    lua_pushstring(L, text);
    lua_concat(L, 2);
    lua_error(L);
}

/* Raises Lua's own "not enough memory", for which Lua calls no message handler. */
bool memory_limit_act(struct orr_isolate *iso, lua_State *L, uint64_t until)
{
    if (oversized_is_suspected(&iso->oversized) && !oversized_collects_first(iso))
        raise_oversized(iso, L);
    if (memory_alarm_begin_to_collect(&iso->memory_alarm))
        collector_force(iso, 2);
    if (!collector_pay(iso, until))
        return false;
    if (oversized_is_suspected(&iso->oversized))
        raise_oversized(iso, L);
    if (memory_alarm_is_on(&iso->memory_alarm)) {
        memory_alarm_turn_off(&iso->memory_alarm);
        if (memory_is_still_over(iso)) {
            interrupt_hurry(iso, L);
            charge_raise(L);
        }
    }
    return true;
}

void memory_limit_end_slice(struct orr_isolate *iso)
{
    bool collects = memory_alarm_collects(&iso->memory_alarm) && collector_is_forced(&iso->collector);
    if (memory_alarm_is_on(&iso->memory_alarm) && !isolate_has_urgent(iso) && !collects) {
        memory_alarm_turn_off(&iso->memory_alarm);
        collector_stop_forcing(iso);
    }
    charge_end_slice(iso);
}

void memory_limit_watch_soft(struct orr_isolate *iso)
{
    size_t soft = iso->limits.memory_soft, used = account_used(&iso->account);
    if (!iso->memory_limit.soft_passed && used > soft) {
        char text[96];
        snprintf(text, sizeof text, "a Lua state uses %zu KB of memory; its soft limit is %zu KB", used >> 10,
                 soft >> 10);
        iso->memory_limit.soft_passed = true;
        notices_add(iso, ORR_LUA_MEMORY_SOFT, text);
    } else if (iso->memory_limit.soft_passed && used < soft - soft / 8) {
        iso->memory_limit.soft_passed = false;
    }
}
