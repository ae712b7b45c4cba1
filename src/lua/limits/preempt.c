#include "lua/limits/preempt.h"

#include "base/text.h"
#include "lua/isolate/ban.h"
#include "lua/isolate/collector.h"
#include "lua/isolate/execution.h"
#include "lua/isolate/interrupt.h"
#include "lua/isolate/stack_room.h"
#include "lua/isolate/visit.h"
#include "lua/limits/grace_period.h"
#include "lua/limits/level.h"
#include "lua/limits/memory_limit.h"
#include "lua/limits/notices.h"
#include "lua/limits/slice.h"
#include "lua/limits/slow_call.h"
#include "lua/limits/statistics.h"
#include "lua/limits/terminate.h"
#include "lua/limits/timeout_report.h"

#include <stdio.h>

enum { STUCK_LOOK = 1000 }; /* instructions between checks while Lua cannot be suspended */

/* --- Whether to suspend ----------------------------------------------------------------------- */

/* Whether the slice can be suspended in L, with the isolate held until it continues. */
static bool can_hold(const struct orr_isolate *iso, const lua_State *L)
{
    if (!execution_task(&iso->execution) || !execution_can_yield(&iso->execution, L))
        return false;
    for (const struct level *level = execution_level(&iso->execution); level; level = level->outer) {
        if (level->host_waits || (level->outer && !chain_can_yield(level->outer_running, level->outer_chain)))
            return false;
    }
    return true;
}

/* Whether the slice can be suspended in L.  A fair task does not need the isolate to be held. */
static bool can_preempt(const struct orr_isolate *iso, const lua_State *L)
{
    const struct level *level = execution_level(&iso->execution);
    return level && level->fair ? execution_can_yield(&iso->execution, L) : can_hold(iso, L);
}

/*
 * Finds the level that must end: it is past its limit, or past the grace period of its script or
 * isolate.  A level past the grace period is only suspended if that is possible, because it will
 * not be resumed.  NULL for none.
 */
static const struct level *find_ended(struct orr_isolate *iso, const lua_State *L)
{
    const struct level *expired = level_find_expired(iso);
    if (expired || can_preempt(iso, L))
        return expired;
    grace_period_look(&iso->grace_periods);
    return isolate_ends(iso) ? level_find_past_grace(iso) : NULL;
}

static void prepare_to_yield(struct orr_isolate *iso, lua_State *L, enum yield_reason reason)
{
    interrupt_take_off(iso);
    execution_begin_yield(&iso->execution, reason, L);
    execution_set_slice(&iso->execution, SLICE_UNWINDS);
    statistics_count_preemption(&iso->statistics);
}

/*
 * Runs the owed work of the garbage collector until the slice is over.  True if all of it is done.
 * Raises if memory is still over a limit after that.
 */
static bool see_to_memory(struct orr_isolate *iso, lua_State *L)
{
    return memory_limit_act(iso, L, slice_end_time(iso));
}

/* --- In the hook ------------------------------------------------------------------------------ */

/*
 * Bans the script if a single instruction took too long.  Called in the first hook after the slice
 * was over, if no C function has returned in between: then one instruction took all the time since,
 * such as a store that makes a table grow.  A script can make some instructions take seconds, and
 * an error would not keep it from doing so again.
 */
static void judge_instruction(struct orr_isolate *iso)
{
    /* Twice the limit, because the kernel needs time to map the pages of a large block */
    uint64_t longest = 2 * iso->limits.longest_step_ns;
    uint64_t ns = longest ? moment_passed_cpu(interrupt_over(&iso->interrupt)) : 0;
    if (ns <= longest)
        return;
    char text[160], took[TEXT_DURATION_ROOM], most[TEXT_DURATION_ROOM];
    text_duration(took, ns);
    text_duration(most, longest);
    snprintf(text, sizeof text, "one instruction took %s in one piece; the limit is %s", took, most);
    ban_impose(iso, text);
}

/* The first function since the slice was over returns. */
static void note_return(struct orr_isolate *iso, lua_State *L, lua_Debug *event)
{
    timeout_report_note_slow(iso, L, event);
    slow_call_note(iso, L, event, interrupt_over(&iso->interrupt));
}

static void look_at_late(struct orr_isolate *iso, lua_State *L, lua_Debug *event)
{
    if (event->event == LUA_HOOKRET)
        note_return(iso, L, event);
    else
        judge_instruction(iso);
}

/*
 * Collects garbage, then ends or suspends the slice if it is over.  If `may_suspend` is false, the
 * next event suspends it.  False if Lua cannot be suspended here at all.  May raise or yield.
 */
static bool act(struct orr_isolate *iso, lua_State *L, bool may_suspend)
{
    struct interrupt *interrupt = &iso->interrupt;
    bool paid = see_to_memory(iso, L);
    interrupt_looked(interrupt); /* time since the hook began was the collector's */
    if (!paid || slice_is_over(iso))
        interrupt_end_time(interrupt);
    bool over = interrupt_time_is_over(interrupt), counted = interrupt_is_counted(interrupt);
    if (!over && !counted && !ban_is_imposed(&iso->ban)) {
        interrupt_stand_down(iso);
        return true;
    }
    const struct level *ended = find_ended(iso, L);
    if (ended) {
        interrupt_again_after(L, 1);
        terminate_in_hook(iso, L, ended, may_suspend);
    } else if (counted && !over) {
        interrupt_again_after(L, (int)iso->limits.check_interval);
    } else if (!can_preempt(iso, L)) {
        collector_pay_anyway(iso, iso->limits.slice_ns);
        interrupt_again_after(L, STUCK_LOOK);
        if (!stack_room_is_left(L))
            interrupt_take_off(iso); /* until there is stack room, or the level must end */
        return false;
    } else if (!may_suspend) {
        interrupt_again_after(L, 1);
    } else {
        interrupt_stay_on(iso, L);
        prepare_to_yield(iso, L, YIELD_PREEMPTED);
        lua_yield(L, 0);
    }
    return true;
}

/*
 * The chain link of L, if a script has created that coroutine, else NULL.  Its `in_hook` stays set
 * if the hook raises an error.
 */
static struct chain *chain_of_hook(const struct orr_isolate *iso, const lua_State *L)
{
    struct chain *chain = execution_chain(&iso->execution);
    return chain && chain->co == L && execution_running(&iso->execution) == L ? chain : NULL;
}

static bool act_in_hook(struct orr_isolate *iso, lua_State *L, bool may_suspend)
{
    struct chain *chain = chain_of_hook(iso, L);
    if (chain)
        chain->in_hook = true;
    bool answer = act(iso, L, may_suspend);
    if (chain)
        chain->in_hook = false;
    return answer;
}

static void on_interrupt(struct orr_isolate *iso, lua_State *L, bool may_suspend)
{
    act_in_hook(iso, L, may_suspend);
}

bool preempt_in_script_hook(struct orr_isolate *iso, lua_State *L)
{
    interrupt_looked(&iso->interrupt);
    return act_in_hook(iso, L, true);
}

/* --- The hook in the mode ORR_LUA_COUNT ------------------------------------------------------- */

static void act_on_count(struct orr_isolate *iso, lua_State *L)
{
    bool paid = see_to_memory(iso, L);
    const struct level *ended = find_ended(iso, L);
    if (ended) {
        interrupt_count(iso, L, 1);
        terminate_in_hook(iso, L, ended, true);
    } else if ((!paid || slice_is_over(iso)) && can_preempt(iso, L)) {
        prepare_to_yield(iso, L, YIELD_PREEMPTED);
        lua_yield(L, 0);
    } else if (!paid) {
        collector_pay_anyway(iso, iso->limits.slice_ns);
    }
}

static void on_count(lua_State *L, lua_Debug *event)
{
    struct orr_isolate *iso = isolate_find(L);
    (void)event;
    if (!iso || !execution_level(&iso->execution))
        return;
    execution_charge(&iso->execution, (uint64_t)lua_gethookcount(L));
    interrupt_counted(&iso->interrupt);
    interrupt_count(iso, L, level_next_count(iso)); /* first, because act_on_count() may raise */
    struct chain *chain = chain_of_hook(iso, L);
    if (chain)
        chain->in_hook = true;
    act_on_count(iso, L);
    if (chain)
        chain->in_hook = false;
}

/* --- In C functions --------------------------------------------------------------------------- */

/* In a C function: raises if a level must end. */
static void raise_if_ended(struct orr_isolate *iso, lua_State *L)
{
    const struct level *ended = find_ended(iso, L);
    if (ended)
        terminate_in_function(iso, L, ended);
}

/*
 * In a C function: collects garbage, raises if a level must end, and returns whether the slice is
 * over.  In the mode ORR_LUA_COUNT each call charges INSTRUCTIONS for the work in C.
 */
static bool look(struct orr_isolate *iso, lua_State *L)
{
    enum { INSTRUCTIONS = 1000 };
    bool counts = iso->limits.mode == ORR_LUA_COUNT;
    if (!execution_level(&iso->execution) || (!interrupt_is_requested(&iso->interrupt) && !counts))
        return false;
    if (counts)
        execution_charge(&iso->execution, INSTRUCTIONS);
    bool paid = see_to_memory(iso, L);
    raise_if_ended(iso, L);
    if (!paid && !can_preempt(iso, L))
        collector_pay_anyway(iso, iso->limits.slice_ns);
    return !paid || slice_is_over(iso);
}

bool preempt_to_collect(lua_State *L)
{
    struct orr_isolate *iso = isolate_of(L);
    while (!collector_pay(iso, slice_end_time(iso))) {
        if (!execution_level(&iso->execution)) {
            collector_pay_anyway(iso, ORR_NEVER);
            return false;
        }
        raise_if_ended(iso, L);
        if (can_preempt(iso, L))
            return true;
        collector_pay_anyway(iso, iso->limits.slice_ns);
    }
    return false;
}

bool preempt_is_due(lua_State *L)
{
    struct orr_isolate *iso = isolate_of(L);
    return look(iso, L) && can_preempt(iso, L);
}

bool preempt_hold_is_due(lua_State *L)
{
    struct orr_isolate *iso = isolate_of(L);
    return look(iso, L) && can_hold(iso, L);
}

void preempt_check(struct orr_isolate *iso, lua_State *L)
{
    (void)look(iso, L);
}

int preempt_yield(lua_State *L, lua_KFunction k, lua_KContext context)
{
    prepare_to_yield(isolate_of(L), L, YIELD_PREEMPTED);
    return lua_yieldk(L, 0, context, k);
}

int preempt_hold(lua_State *L, lua_KFunction k, lua_KContext context)
{
    prepare_to_yield(isolate_of(L), L, YIELD_HOLDING);
    return lua_yieldk(L, 0, context, k);
}

/* --- Opening ---------------------------------------------------------------------------------- */

static void tell_of_ban(struct orr_isolate *iso, const char *reason)
{
    char text[224];
    snprintf(text, sizeof text, "a script has been ended: %s", reason);
    notices_add(iso, ORR_LUA_ENDED, text);
}

void preempt_open(struct orr_isolate *iso)
{
    static const struct interrupt_actions actions = {
        .act = on_interrupt,
        .late = look_at_late,
        .late_again = slow_call_note,
        .is_overdue = level_is_overdue,
        .count = on_count,
    };
    interrupt_open(&iso->interrupt, &actions);
    ban_open(&iso->ban, tell_of_ban);
}
