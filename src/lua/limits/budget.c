#include "lua/limits/budget.h"

#include "base/clock.h"
#include "base/text.h"
#include "lua/limits/stack_room.h"
#include "lua/task/report.h"
#include "lua/task/suspend.h"
#include "lua/task/task.h"

#include <stdio.h>
#include <string.h>

enum { PATIENCE = 1000 }; /* instructions between looks while Lua cannot be suspended */

static void on_hook(lua_State *L, lua_Debug *event);
static void on_count(lua_State *L, lua_Debug *event);
static int next_count(const struct orr_isolate *iso);
static void look_again_after(lua_State *L, int count);
static void look_again_at_once(const struct orr_isolate *iso, lua_State *L);

/* --- The hook, on and off --------------------------------------------------------------------------------------- */

/*
 * Whether what runs is to be ended, so that it does not matter which error does it: "stack overflow" is one that makes room.
 * Async-signal-safe.
 */
static bool is_overdue(const struct orr_isolate *iso)
{
    if (!iso->preemption.slice_over)
        return false;
    uint64_t passed = clock_now() - iso->preemption.requested_at;
    for (const struct level *level = iso->execution.level; level; level = level->outer)
        if (level->limit && passed >= level->limit)
            return true;
    return iso->verdict.condemned || isolate_ends(iso);
}

/* Whether the stack has room for the hook; not, if it is growing, and the instruction that runs fills it up.  Async-signal-safe. */
static bool has_room(const struct orr_isolate *iso, lua_State *L)
{
    return !iso->memory.stack_grows && stack_room_is_left(L);
}

/*
 * Async-signal-safe: lua_sethook() is made for that.  A coroutine that is armed already keeps what is known of its own hook.  One whose
 * hook is just being taken away, by what we interrupt, may have a mask without a hook.
 */
static void arm(struct orr_isolate *iso, lua_State *L)
{
    lua_Hook hook = lua_gethook(L);
    bool again = hook == on_hook && iso->preemption.armed == L;
    if (hook && hook == iso->preemption.script_hook)
        return; /* it looks by itself, soon */
    if (!has_room(iso, L) && !is_overdue(iso))
        return; /* it is tried again while the slice goes on, and when another coroutine runs */
    if (!again) {
        bool has_own = hook && hook != on_hook; /* else it has none, or ours from another time */
        iso->preemption.own.hook = has_own ? hook : NULL;
        iso->preemption.own.mask = has_own ? lua_gethookmask(L) : 0;
        iso->preemption.own.count = has_own ? lua_gethookcount(L) : 0;
        iso->preemption.after_call = iso->preemption.own.mask & LUA_MASKCALL;
        iso->preemption.skips = 0;
    }
    iso->preemption.armed = L;
    bool returns = !iso->preemption.counted || iso->preemption.own.mask; /* are of interest */
    lua_sethook(L, on_hook, LUA_MASKCOUNT | (returns ? LUA_MASKRET : 0) | iso->preemption.own.mask, 1);
}

static void disarm(struct orr_isolate *iso)
{
    lua_State *L = iso->preemption.armed;
    if (!L)
        return;
    iso->preemption.armed = NULL; /* first: budget_over() is not to arm it again meanwhile */
    if (lua_gethook(L) == on_hook)
        lua_sethook(L, iso->preemption.own.hook, iso->preemption.own.mask, iso->preemption.own.count);
}

/* For now, Lua runs without the hook. */
static void take_off(struct orr_isolate *iso)
{
    iso->preemption.moving = true;
    disarm(iso);
    iso->preemption.moving = false;
}

/* What was asked of the hook is not forgotten: it is set again when it is asked for the next time, at the latest by the timer. */
void budget_stack_fills(struct orr_isolate *iso)
{
    if (!iso->preemption.moving && iso->preemption.armed && iso->preemption.armed == iso->execution.running &&
        !iso->preemption.own.hook && !is_overdue(iso))
        take_off(iso);
}

/*
 * The slice is over, or still is: in a signal handler, on the worker's thread, which is inside that slice.
 *
 * The hook may get lost when it is set: Lua, about to find that there is none, reads the mask, and then clears the flag that makes it
 * look (`trap`); what comes between the two is forgotten, and so is a count that it is just writing.  So the hook is set again each time; or
 * at last, if the stack had no room for it.
 */
static void budget_over(void *data)
{
    struct orr_isolate *iso = data;
    if (iso->preemption.slice_over) {
        bool has_hook = iso->preemption.armed == iso->execution.running;
        bool had_no_room = !iso->preemption.armed && !iso->execution.suspending;
        if (!iso->preemption.moving && iso->preemption.requested && (has_hook || had_no_room))
            arm(iso, iso->execution.running);
        return;
    }
    iso->preemption.requested_at = clock_now();
    iso->preemption.requested_cpu = clock_thread();
    iso->preemption.fresh = true;
    iso->preemption.slice_over = true;
    iso->preemption.requested = true;
    if (!iso->preemption.moving)
        arm(iso, iso->execution.running);
}

bool budget_ask(struct orr_isolate *iso)
{
    if (!iso->execution.level || iso->limits.mode == ORR_LUA_OFF)
        return false;
    if (iso->preemption.requested && !iso->preemption.counted) {
        if (iso->limits.mode == ORR_LUA_SIGNAL && !iso->preemption.armed &&
            !iso->preemption.moving) /* the stack had no room for it */
            budget_follow(iso);
        return true;
    }
    iso->preemption.requested = true;
    if (iso->limits.mode == ORR_LUA_COUNT) {
        budget_charge_coroutine(iso); /* what has been counted so far is forgotten */
        lua_sethook(iso->execution.running, on_count, LUA_MASKCOUNT, 1);
    } else if (!iso->preemption.moving && iso->preemption.counted && iso->preemption.armed == iso->execution.running) {
        look_again_after(iso->preemption.armed, 1);
    } else if (!iso->preemption.moving) {
        budget_follow(iso);
    }
    return true;
}

bool budget_ask_for_memory(struct orr_isolate *iso)
{
    bool asked = budget_ask(iso);
    if (asked && !iso->memory.over_limit) {
        iso->memory.over_limit = true;
        iso->memory.forced_already = false;
        if (!iso->preemption.moving)
            look_again_at_once(iso, iso->execution.running); /* for a hook of a script's, which would be late */
    }
    return asked;
}

/* Where instructions are counted, the hook comes by soon enough. */
void budget_ask_to_collect(struct orr_isolate *iso)
{
    if (iso->limits.mode == ORR_LUA_SIGNAL)
        budget_ask(iso);
}

/* Nothing is wanted of the hook any more, unless the slice is over meanwhile. */
static void stand_down(struct orr_isolate *iso)
{
    iso->preemption.moving = true;
    disarm(iso);
    iso->preemption.requested = false;
    if (iso->preemption.slice_over) /* budget_over() may have come by, and has left the hook to us */
        iso->preemption.requested = true;
    iso->preemption.moving = false;
    budget_switched(iso);
}

void budget_follow(struct orr_isolate *iso)
{
    if (iso->limits.mode == ORR_LUA_COUNT) { /* the hook is there, and is only to come sooner */
        if (iso->execution.level)
            lua_sethook(iso->execution.running, on_count, LUA_MASKCOUNT, 1);
        return;
    }
    iso->preemption.moving = true;
    if (iso->preemption.armed != iso->execution.running) {
        disarm(iso);
        arm(iso, iso->execution.running);
    }
    iso->preemption.moving = false;
}

void budget_hands_off(struct orr_isolate *iso)
{
    iso->preemption.moving = true;
    disarm(iso);
}

void budget_hands_on(struct orr_isolate *iso)
{
    iso->preemption.moving = false;
    budget_switched(iso);
}

void budget_made_coroutine(struct orr_isolate *iso, lua_State *L, lua_State *co)
{
    bool armed = L == iso->preemption.armed;
    lua_Hook hook = lua_gethook(co);
    if (hook == on_hook || (hook && hook == iso->preemption.script_hook))
        lua_sethook(co, armed ? iso->preemption.own.hook : NULL, armed ? iso->preemption.own.mask : 0,
                    armed ? iso->preemption.own.count : 0);
}

lua_Hook budget_others_hook(const struct orr_isolate *iso, lua_State *co, int *mask, int *count)
{
    bool ours = lua_gethook(co) == on_hook;
    bool aside = ours && co == iso->preemption.armed;
    *mask = !ours ? lua_gethookmask(co) : aside ? iso->preemption.own.mask : 0;
    *count = !ours ? lua_gethookcount(co) : aside ? iso->preemption.own.count : 0;
    return !ours ? lua_gethook(co) : aside ? iso->preemption.own.hook : NULL;
}

void budget_enter_coroutine(struct orr_isolate *iso, lua_State *co)
{
    if (iso->limits.mode == ORR_LUA_COUNT && iso->execution.level && lua_gethook(co) != on_count)
        lua_sethook(co, on_count, LUA_MASKCOUNT, next_count(iso));
    budget_switched(iso);
}

void budget_charge_coroutine(struct orr_isolate *iso)
{
    if (iso->limits.mode != ORR_LUA_COUNT)
        return;
    for (struct level *level = iso->execution.level; level; level = level->outer)
        level->used += iso->limits.check_interval;
}

/* --- Telling the host ----------------------------------------------------------------------------------------------------- */

struct notice {
    struct notice *next;
    enum orr_lua_notice kind;
    int64_t handler;
    bool told;      /* somebody else hears of it, and the log does not */
    uint64_t after; /* failures of tasks that came before it: the log hears of those first */
    size_t size;    /* of it all */
    char text[];
};

/* A host that closes the isolate in one does so a little later. */
static void deliver(struct orr_isolate *iso, const struct notice *notice)
{
    iso->execution.calls++;
    iso->notices.disabled = notice->handler;
    if (iso->limits.notice)
        iso->limits.notice(iso->limits.notice_data, iso->L, notice->kind, notice->text);
    else
        log_text(&iso->rt->log, ORR_LOG_WARNING, notice->text);
    iso->notices.disabled = 0;
    iso->execution.calls--;
}

/* A host is told at once; but that a handler is disabled, as all that the log is told, after the failures that came before. */
static bool is_due(const struct orr_isolate *iso, const struct notice *notice)
{
    bool at_once = iso->limits.notice && notice->kind != ORR_LUA_DISABLED;
    return at_once || notice->after <= iso->unhandled.reported;
}

void budget_deliver_notices(struct orr_isolate *iso)
{
    struct alloc alloc = charge_alloc(iso);
    for (struct notice **at = &iso->notices.first; *at;) {
        struct notice *notice = *at;
        if (!is_due(iso, notice)) {
            at = &notice->next;
            continue;
        }
        *at = notice->next;
        deliver(iso, notice);
        alloc_free(&alloc, notice, notice->size);
        at = &iso->notices.first; /* there may be others by now */
    }
}

/* What it is given is copied, with the text. */
static void add_notice(struct orr_isolate *iso, const struct notice *what, const char *text)
{
    size_t size = sizeof(struct notice) + strlen(text) + 1;
    struct alloc alloc = charge_alloc(iso);
    bool outer = iso->charge.reports;
    iso->charge.reports = true;
    struct notice *notice = iso->limits.notice || !what->told ? alloc_zeroed(&alloc, size) : NULL;
    iso->charge.reports = outer;
    if (!notice)
        return;
    *notice = *what;
    notice->after = iso->unhandled.failed;
    notice->size = size;
    memcpy(notice->text, text, size - sizeof *notice);
    struct notice **last = &iso->notices.first;
    while (*last)
        last = &(*last)->next;
    *last = notice;
    if (!iso->preemption.slicing)
        budget_deliver_notices(iso);
}

void budget_notice(struct orr_isolate *iso, enum orr_lua_notice kind, const char *text)
{
    /* Of a time-out the sink hears, or whoever awaits the task; of a count, the watch has told the log. */
    bool told = kind == ORR_LUA_TIMED_OUT || kind == ORR_LUA_COUNTED;
    add_notice(iso, &(struct notice){ .kind = kind, .told = told }, text);
}

void budget_notice_disabled(struct orr_isolate *iso, const char *text, int64_t handler)
{
    add_notice(iso, &(struct notice){ .kind = ORR_LUA_DISABLED, .handler = handler }, text);
}

void budget_notice_call(struct orr_isolate *iso, const struct level *level)
{
    add_notice(iso, &(struct notice){ .kind = ORR_LUA_TIMED_OUT, .told = level->with_outer },
               level->report ? level->report : TIMEOUT_TEXT);
}

/* The soft limit is told of once; again, when it has been undercut by some way meanwhile. */
static void watch_memory(struct orr_isolate *iso)
{
    size_t soft = iso->limits.memory_soft;
    if (!iso->memory.soft_passed && iso->memory.used > soft) {
        char text[96];
        snprintf(text, sizeof text, "a Lua state uses %zu KB of memory, and should use %zu KB", iso->memory.used >> 10,
                 soft >> 10);
        iso->memory.soft_passed = true;
        budget_notice(iso, ORR_LUA_MEMORY_SOFT, text);
    } else if (iso->memory.soft_passed && iso->memory.used < soft - soft / 8) {
        iso->memory.soft_passed = false;
    }
}

/* --- Slices and levels --------------------------------------------------------------------------------------------- */

/* No timer interrupts what follows: the hook is there from the start, and looks at the clock now and then. */
static void count_instead(struct orr_isolate *iso)
{
    iso->preemption.requested_at = clock_now();
    iso->preemption.slice_end = clock_after(iso->preemption.requested_at, iso->limits.slice_ns);
    iso->preemption.counted = iso->preemption.requested = true;
    budget_follow(iso);
    if (iso->preemption.counted_told)
        return;
    iso->preemption.counted_told = true;
    int error;
    const char *call = watch_failed_call(worker_watch(iso->worker), &error);
    char text[160];
    snprintf(text, sizeof text,
             "Lua cannot be interrupted by a timer, and its instructions are counted instead: %s: %s", call,
             strerror(error));
    budget_notice(iso, ORR_LUA_COUNTED, text);
}

static void begin_watching(struct orr_isolate *iso)
{
    watch_begin(worker_watch(iso->worker), &iso->preemption.outer, budget_over, iso, iso->limits.slice_ns);
    iso->preemption.counted = false;
    if (watch_failed(worker_watch(iso->worker)))
        count_instead(iso);
}

bool budget_begin_slice(struct orr_isolate *iso)
{
    if (iso->preemption.slicing)
        return false;
    iso->preemption.slicing = true;
    collector_take_back(iso);
    if (iso->limits.mode == ORR_LUA_SIGNAL)
        begin_watching(iso);
    else if (iso->limits.mode == ORR_LUA_COUNT)
        iso->preemption.slice_end = clock_after(clock_now(), iso->limits.slice_ns);
    return true;
}

static void end_watching(struct orr_isolate *iso)
{
    struct orr_isolate *outer = iso->preemption.outer.data;
    bool over = iso->preemption.slice_over;
    watch_end(worker_watch(iso->worker), &iso->preemption.outer);
    if (!iso->preemption.requested)
        return;
    disarm(iso);
    iso->preemption.requested = iso->preemption.slice_over = false;
    iso->preemption.fresh = false; /* if no hook came: the next one's time is none of what this slice did */
    *iso->preemption.culprit = '\0';
    if (over && outer && !outer->preemption.slice_over) { /* which this was a part of */
        outer->preemption.requested_at = iso->preemption.requested_at;
        outer->preemption.slice_over = true;
        outer->preemption.requested = true;
        budget_follow(outer);
    }
}

/*
 * What is to be done about memory goes on when the slice does; if it does not, whoever allocates next is asked.  A collection that has been
 * begun for it is done before any Lua goes on: what a `fair` task has overdrawn would never be told of otherwise.
 */
static void end_slice_of_memory(struct orr_isolate *iso)
{
    if (iso->memory.over_limit && !hold_first(&iso->hold) && !(iso->memory.forced_already && iso->collector.forced)) {
        iso->memory.over_limit = false;
        collector_relent(iso);
    }
    memory_slice_over(iso);
}

void budget_end_slice(struct orr_isolate *iso)
{
    iso->preemption.slicing = false;
    end_slice_of_memory(iso);
    if (iso->limits.mode == ORR_LUA_SIGNAL)
        end_watching(iso);
    if (iso->limits.memory_soft)
        watch_memory(iso);
    if (iso->notices.first)
        budget_deliver_notices(iso);
}

uint64_t budget_used(const struct orr_isolate *iso, const struct level *level)
{
    bool timed = iso->limits.mode == ORR_LUA_SIGNAL && level->since;
    return level->used + (timed ? clock_now() - level->since : 0);
}

static int next_count(const struct orr_isolate *iso)
{
    uint64_t count = iso->limits.check_interval;
    for (const struct level *level = iso->execution.level; level; level = level->outer) {
        uint64_t left = level->limit > level->used ? level->limit - level->used + 1 : 1;
        count = level->limit && left < count ? left : count;
    }
    return (int)count;
}

/* A limit that is short, or partly used, is measured from the start. */
static void measure(struct orr_isolate *iso, struct level *level)
{
    uint64_t left = !level->limit ? ORR_NEVER : level->limit > level->used ? level->limit - level->used : 1;
    if (!level->used && left >= 2 * iso->limits.slice_ns)
        return;
    level->since = clock_now();
    if (left >= iso->limits.slice_ns || iso->preemption.counted)
        return;
    watch_set(worker_watch(iso->worker), left);
    if (watch_failed(worker_watch(iso->worker)) && !iso->preemption.requested)
        budget_over(iso); /* early, for there is no later */
}

void level_enter(struct orr_isolate *iso, struct level *level, struct ltask *task)
{
    level->outer = iso->execution.level;
    level->self = task;
    level->task = iso->execution.current;
    level->running = iso->execution.running;
    level->chain = iso->execution.chain;
    level->since = 0;
    level->raised = level->ending = level->with_outer = level->exposed = false;
    level->report = NULL;
    iso->execution.level = level;
    iso->execution.current = task;
    iso->execution.chain = NULL;
    iso->execution.running = level->co;
    /* One that goes on after its hook has yielded is due another call, which Lua leaves out: so its count is not touched. */
    if (iso->limits.mode == ORR_LUA_COUNT && (!level->used || lua_gethook(level->co) != on_count))
        lua_sethook(level->co, on_count, LUA_MASKCOUNT, next_count(iso));
    else if (iso->limits.mode == ORR_LUA_SIGNAL)
        measure(iso, level);
    if (iso->memory.over_limit || iso->verdict.condemned || iso->memory.suspect.what)
        budget_ask(iso);
    budget_switched(iso);
}

void level_leave(struct orr_isolate *iso, struct level *level)
{
    charge_free_text(iso, &level->report);
    iso->execution.level = level->outer;
    iso->execution.current = level->task;
    iso->execution.running = level->running;
    iso->execution.chain = level->chain;
    budget_switched(iso);
}

/* --- What is to be done ------------------------------------------------------------------------------------------------ */

/* The innermost level whose time is up.  From the outermost's beginning of the slice, as far as that is known, it is counted. */
static struct level *find_expired(struct orr_isolate *iso)
{
    uint64_t now = clock_now(), timer_set_at = watch_timer_set_at(worker_watch(iso->worker));
    for (struct level *level = iso->execution.level; level; level = level->outer) {
        if (iso->limits.mode == ORR_LUA_SIGNAL && !level->since)
            level->since = !level->outer && timer_set_at ? timer_set_at : now;
        if (iso->verdict.condemned && !level->outer)
            return level;
        if (level->limit && budget_used(iso, level) >= level->limit + (iso->limits.mode == ORR_LUA_COUNT))
            return level;
    }
    return NULL;
}

/* Whether the slice can be suspended here, and the isolate be held until it goes on: see the top of the header. */
static bool can_hold(const struct orr_isolate *iso, const lua_State *L)
{
    if (!iso->execution.current || L != iso->execution.running ||
        !chain_can_yield(iso->execution.running, iso->execution.chain))
        return false;
    for (const struct level *level = iso->execution.level; level; level = level->outer) {
        if (level->plain || (level->outer && !chain_can_yield(level->running, level->chain)))
            return false;
    }
    return true;
}

/* The same, where a `fair` task needs nobody to be held. */
static bool can_preempt(const struct orr_isolate *iso, const lua_State *L)
{
    if (iso->execution.current && iso->execution.current->fair)
        return L == iso->execution.running && chain_can_yield(iso->execution.running, iso->execution.chain);
    return can_hold(iso, L);
}

/*
 * The level that is to be ended: its time is up; or what it is part of is being ended and the grace period is over.  For that it is enough
 * to suspend it, where it can be: it is not resumed.
 */
static struct level *find_ended(struct orr_isolate *iso, const lua_State *L)
{
    struct level *expired = find_expired(iso);
    if (expired || !isolate_ends(iso) || can_preempt(iso, L))
        return expired;
    for (struct level *level = iso->execution.level; level; level = level->outer)
        if (shutdown_is_over(iso, level->self ? level->self->script : 0))
            return level;
    return NULL;
}

/* The coroutines of the task that runs are about to yield, in L. */
static void prepare_to_yield(struct orr_isolate *iso, lua_State *L)
{
    take_off(iso);
    iso->execution.suspending = true;
    iso->execution.ended_in = L;
    if (iso->execution.current)
        iso->execution.current->suspended = L;
}

static void prepare_to_preempt(struct orr_isolate *iso, lua_State *L)
{
    prepare_to_yield(iso, L);
    iso->preemption.count++;
    iso->execution.current->preempted = true;
    iso->preemption.preempting = true;
}

/*
 * Our hook is about to raise an error in L.  If the script catches it, hooks are on again in L, and that is to be noticed at the next
 * instruction: see `in_hook`.
 */
static void look_again_at_once(const struct orr_isolate *iso, lua_State *L)
{
    lua_Hook hook = lua_gethook(L);
    bool ours = hook == on_hook || hook == on_count || hook == iso->preemption.script_hook;
    if (hook && ours && lua_gethookcount(L) != 1)
        lua_sethook(L, hook, lua_gethookmask(L), 1);
}

static int raise_timeout(lua_State *L)
{
    lua_pushliteral(L, TIMEOUT_TEXT);
    return lua_error(L);
}

static void begin_to_end(struct orr_isolate *iso, lua_State *L, const struct level *expired)
{
    struct level *level = iso->execution.level;
    if (level->ending)
        return;
    level->ending = true;
    level->with_outer = expired != level;
    report_timeout(iso, L, expired);
}

/* In a hook, which may yield or not. */
static void end_in_hook(struct orr_isolate *iso, lua_State *L, const struct level *expired, bool may_yield)
{
    begin_to_end(iso, L, expired);
    if (!may_yield || L != iso->execution.running || !chain_can_yield(L, iso->execution.chain)) {
        look_again_at_once(iso, L);
        raise_timeout(L);
    } else {
        prepare_to_yield(iso, L);
        lua_yield(L, 0);
    }
}

/* --- Memory ---------------------------------------------------------------------------------------------------------- */

void budget_condemn(struct orr_isolate *iso, const char *why)
{
    if (iso->verdict.condemned)
        return;
    char text[224];
    snprintf(iso->verdict.reason, sizeof iso->verdict.reason, "%s", why);
    iso->verdict.condemned = true;
    snprintf(text, sizeof text, "a script has been ended: %s", why);
    budget_notice(iso, ORR_LUA_ENDED, text);
    budget_ask(iso);
}

/*
 * In the first hook after the slice was over, which no C function has returned before: what came between was one instruction, such as a
 * store that a table grows by.  Some can be made to take seconds, and no error keeps a script from doing it again.
 */
static void judge_instruction(struct orr_isolate *iso)
{
    uint64_t longest = 2 * iso->limits.longest_step_ns; /* new pages for a large block take the kernel a while */
    uint64_t ns = longest ? clock_thread() - iso->preemption.requested_cpu : 0;
    if (ns <= longest)
        return;
    char text[160], took[TEXT_DURATION_ROOM], most[TEXT_DURATION_ROOM];
    text_duration(took, ns);
    text_duration(most, longest);
    snprintf(text, sizeof text, "an instruction of it took %s in one piece, and may take %s", took, most);
    budget_condemn(iso, text);
}

static void raise_oversized(struct orr_isolate *iso, lua_State *L)
{
    char text[96];
    if (!memory_find_oversized(iso, L, text, sizeof text))
        return;
    look_again_at_once(iso, L);
    luaL_where(L, 0);
    lua_pushstring(L, text);
    lua_concat(L, 2);
    lua_error(L);
}

/* As far as there is time in the slice.  Where instructions are counted, no signal says when that is over. */
static bool pay(struct orr_isolate *iso)
{
    bool counts = iso->limits.mode == ORR_LUA_COUNT || iso->preemption.counted;
    return collector_pay(iso, counts ? iso->preemption.slice_end : ORR_NEVER);
}

/*
 * In a hook, or a C function of ours: has the collector do what it owes, as far as there is time.  True if it has; then a script that has
 * more memory than it may, and did not get below that by whole cycles of the collector, gets an error.  The text is Lua's own,
 * which no message handler is called for.
 */
static bool see_to_memory(struct orr_isolate *iso, lua_State *L)
{
    if (iso->memory.suspect.what && !memory_collects_first(iso))
        raise_oversized(iso, L);
    if (iso->memory.over_limit && !iso->memory.forced_already) {
        iso->memory.forced_already = true;
        collector_force(iso, 2);
    }
    if (!pay(iso))
        return false;
    if (iso->memory.suspect.what)
        raise_oversized(iso, L);
    if (iso->memory.over_limit) {
        iso->memory.over_limit = false;
        if (memory_still_over(iso)) {
            look_again_at_once(iso, L);
            lua_pushliteral(L, "not enough memory");
            lua_error(L);
        }
    }
    return true;
}

static bool is_call(int event)
{
    return event == LUA_HOOKCALL || event == LUA_HOOKTAILCALL;
}

static bool wants(int mask, int event)
{
    return mask & (is_call(event) ? LUA_MASKCALL : 1 << event) && event != LUA_HOOKCOUNT;
}

/*
 * Whether to suspend now.  If there is a hook for lines, at one of those, and not between it and the count.  Not at the first
 * instruction of a function, if there is one for calls: Lua would tell of the call again afterwards; though a script that does nothing but
 * call is not waited for.
 */
static bool may_suspend(struct orr_isolate *iso, lua_State *L, lua_Debug *event)
{
    enum { SKIPS_MAX = 100 };
    if (event->event == LUA_HOOKRET) {
        iso->preemption.after_call = false;
    } else if (is_call(event->event)) {
        lua_getinfo(L, "S", event);
        iso->preemption.after_call = *event->what != 'C';
    }
    if (event->event != (iso->preemption.own.mask & LUA_MASKLINE ? LUA_HOOKLINE : LUA_HOOKCOUNT))
        return false;
    bool skip = iso->preemption.after_call && iso->preemption.skips++ < SKIPS_MAX;
    iso->preemption.after_call = false;
    return !skip;
}

/* lua_sethook() goes through all frames: it is called only if something changes.  The hook of a script comes by itself. */
static void look_again_after(lua_State *L, int count)
{
    if (lua_gethook(L) == on_hook && lua_gethookcount(L) != count)
        lua_sethook(L, on_hook, lua_gethookmask(L), count);
}

/* Whether the next instruction leaves room on the stack: one that pushes all that a function was called with may not. */
static bool next_leaves_room(lua_State *L)
{
    enum { MANY = 200 };
    lua_Debug frame;
    bool many = lua_getstack(L, 0, &frame) && lua_getlocal(L, &frame, -MANY);
    if (many)
        lua_pop(L, 1);
    return !many && stack_room_is_left(L);
}

/*
 * Lua marks the frame in which a hook has yielded, and leaves out one call of a hook there.  The mark must not stay until a script sets a
 * hook for lines, and misses the first of them: so ours stays on, for the instruction at which the coroutine goes on, and takes itself off
 * at the next.  It cannot, if it stands in for the hook of a C library, which is put back at once; and need not, if scripts have no hooks.
 */
static void preempt_in_hook(struct orr_isolate *iso, lua_State *L)
{
    bool stays = iso->preemption.script_hook && L == iso->preemption.armed && lua_gethook(L) == on_hook &&
                 !iso->preemption.own.hook;
    if (stays && next_leaves_room(L)) {
        look_again_after(L, 1);
        iso->preemption.armed = NULL;
    }
    prepare_to_preempt(iso, L);
    lua_yield(L, 0);
}

static bool slice_is_over(const struct orr_isolate *iso)
{
    if (iso->limits.mode == ORR_LUA_SIGNAL && !iso->preemption.counted)
        return iso->preemption.slice_over;
    uint64_t now = clock_now();
    return now >= iso->preemption.slice_end || now >= watch_turn_end(worker_watch(iso->worker));
}

/* Where instructions are counted, and where they are not. */
static bool has_nothing_to_do(const struct orr_isolate *iso)
{
    return !iso->preemption.slice_over && !iso->verdict.condemned && !iso->preemption.counted;
}

/*
 * Finds out what is to be done, and does it.  Where Lua may not be suspended at this very event, that is left to the next.  Raises.  False if
 * Lua cannot be suspended at all here.
 */
static bool act_in_hook(struct orr_isolate *iso, lua_State *L, bool may)
{
    bool paid = see_to_memory(iso, L);
    iso->preemption.fresh = false; /* what took long meanwhile was the collector */
    if (!paid || slice_is_over(iso))
        iso->preemption.slice_over = true;
    if (has_nothing_to_do(iso)) {
        stand_down(iso);
        return true;
    }
    const struct level *expired = find_ended(iso, L);
    if (expired) {
        look_again_after(L, 1);
        end_in_hook(iso, L, expired, may);
    } else if (iso->preemption.counted && !iso->preemption.slice_over) {
        look_again_after(L, (int)iso->limits.check_interval);
    } else if (!can_preempt(iso, L)) {
        collector_pay_anyway(iso, iso->limits.slice_ns);
        look_again_after(L, PATIENCE);
        if (!stack_room_is_left(L))
            take_off(iso); /* until there is, or it is time to raise an error */
        return false;
    } else if (!may) {
        look_again_after(L, 1);
    } else {
        preempt_in_hook(iso, L);
    }
    return true;
}

/* The same, knowing what it means for the coroutine if this raises. */
static bool look_in_hook(struct orr_isolate *iso, lua_State *L, bool may)
{
    struct chain *chain = iso->execution.chain && iso->execution.chain->co == L && iso->execution.running == L
                              ? iso->execution.chain
                              : NULL;
    if (chain)
        chain->in_hook = true;
    bool answer = act_in_hook(iso, L, may);
    if (chain)
        chain->in_hook = false;
    return answer;
}

bool budget_look_in_hook(struct orr_isolate *iso, lua_State *L)
{
    iso->preemption.fresh = false;
    return look_in_hook(iso, L, true);
}

static void on_hook(lua_State *L, lua_Debug *event)
{
    struct orr_isolate *iso = isolate_find(L);
    if (!iso || L != iso->preemption.armed) {
        lua_sethook(L, NULL, 0, 0); /* stale, or inherited */
        return;
    }
    if (iso->preemption.fresh) {
        iso->preemption.fresh = false;
        if (event->event == LUA_HOOKRET)
            report_note_culprit(iso, L, event);
        else
            judge_instruction(iso);
    }
    if (wants(iso->preemption.own.mask, event->event))
        iso->preemption.own.hook(L, event);
    bool may = may_suspend(iso, L, event);
    if (may || event->event == LUA_HOOKCOUNT)
        look_in_hook(iso, L, may);
}

static void act_on_count(struct orr_isolate *iso, lua_State *L)
{
    bool paid = see_to_memory(iso, L);
    const struct level *expired = find_ended(iso, L);
    if (expired) {
        lua_sethook(L, on_count, LUA_MASKCOUNT, 1);
        end_in_hook(iso, L, expired, true);
    } else if ((!paid || slice_is_over(iso)) && can_preempt(iso, L)) {
        prepare_to_preempt(iso, L);
        lua_yield(L, 0);
    } else if (!paid) {
        collector_pay_anyway(iso, iso->limits.slice_ns);
    }
}

static void on_count(lua_State *L, lua_Debug *event)
{
    struct orr_isolate *iso = isolate_find(L);
    (void)event;
    if (!iso || !iso->execution.level)
        return;
    for (struct level *level = iso->execution.level; level; level = level->outer)
        level->used += (uint64_t)lua_gethookcount(L);
    iso->preemption.requested = false;
    lua_sethook(L, on_count, LUA_MASKCOUNT, next_count(iso)); /* also if what follows raises */
    struct chain *chain = iso->execution.chain && iso->execution.chain->co == L && iso->execution.running == L
                              ? iso->execution.chain
                              : NULL;
    if (chain)
        chain->in_hook = true;
    act_on_count(iso, L);
    if (chain)
        chain->in_hook = false;
}

/* A look stands for some work in C, which counts as instructions where those are counted. */
static void charge_look(struct orr_isolate *iso)
{
    enum { INSTRUCTIONS = 1000 };
    for (struct level *level = iso->execution.level; level; level = level->outer)
        level->used += INSTRUCTIONS;
}

static bool look(struct orr_isolate *iso, lua_State *L)
{
    if (!iso->execution.level || (!iso->preemption.requested && iso->limits.mode != ORR_LUA_COUNT))
        return false;
    if (iso->limits.mode == ORR_LUA_COUNT)
        charge_look(iso);
    bool paid = see_to_memory(iso, L);
    const struct level *expired = find_ended(iso, L);
    if (expired) {
        begin_to_end(iso, L, expired);
        if (iso->limits.mode == ORR_LUA_COUNT)
            lua_sethook(L, on_count, LUA_MASKCOUNT, 1); /* whoever catches it gets no instruction */
        raise_timeout(L);
    }
    if (!paid && !can_preempt(iso, L))
        collector_pay_anyway(iso, iso->limits.slice_ns);
    return !paid || slice_is_over(iso);
}

bool budget_pay(lua_State *L)
{
    struct orr_isolate *iso = isolate_of(L);
    while (collector_owes(iso) && !pay(iso)) {
        if (!iso->execution.level) {
            collector_pay_anyway(iso, ORR_NEVER);
            return false;
        }
        const struct level *expired = find_ended(iso, L);
        if (expired) {
            begin_to_end(iso, L, expired);
            raise_timeout(L);
        }
        if (can_preempt(iso, L))
            return true;
        collector_pay_anyway(iso, iso->limits.slice_ns);
    }
    return false;
}

bool budget_wants_pause(lua_State *L)
{
    struct orr_isolate *iso = isolate_of(L);
    return look(iso, L) && can_preempt(iso, L);
}

bool budget_wants_hold(lua_State *L)
{
    struct orr_isolate *iso = isolate_of(L);
    return look(iso, L) && can_hold(iso, L);
}

int budget_hold(lua_State *L, lua_KFunction k, lua_KContext context)
{
    isolate_of(L)->execution.current->holds = true;
    return budget_pause(L, k, context);
}

void budget_check(struct orr_isolate *iso, lua_State *L)
{
    (void)look(iso, L);
}

int budget_pause(lua_State *L, lua_KFunction k, lua_KContext context)
{
    prepare_to_preempt(isolate_of(L), L);
    return lua_yieldk(L, 0, context, k);
}
