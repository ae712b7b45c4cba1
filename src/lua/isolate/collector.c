#include "lua/isolate/collector.h"

#include "base/clock.h"
#include "base/text.h"
#include "lua/isolate.h"
#include "lua/isolate/account.h"
#include "lua/isolate/ban.h"
#include "lua/isolate/execution.h"
#include "lua/isolate/interrupt.h"
#include "lua/isolate/late_free.h"
#include "lua/isolate/slab.h"

#include <stdio.h>
#include <string.h>

enum {
    STEP_UNITS = 1088, /* units of work in one step */
    UNITS_PER_BYTE = 2,
    PAUSE = 200, /* percent */
    LEAST_PAUSE = 105,
    /* Bytes between two cycles at least: a small heap is not marked again and again for little */
    LEAST_GROWTH = 64 << 10,
    USUAL_GROWTH = 1 << 20, /* if the limit is at least 16 times that */
    /* At most one part in this of the time goes into requests, which are slow in deep calls */
    REQUEST_SHARE = 50,
    SHORT_TURN = 500000, /* nanoseconds */
    LONG_STEP = 1000000, /* nanoseconds: after a step this long, the next cycle marks in one go */
};

#define OWED_ALL (UINT64_MAX / 2)

/* --- Pace ------------------------------------------------------------------------------------- */

/* Keeps Lua's own collector from beginning. */
static void hold_off(struct collector *self)
{
    compat_hold_collector(self->stack);
    self->left_to_lua = false;
}

/* The percentage of the memory in use at which the next cycle begins. */
static unsigned allowed_growth(const struct orr_isolate *iso)
{
    const struct collector *self = &iso->collector;
    uint64_t longest = iso->limits.longest_step_ns;
    if (!longest || self->longest_before < longest / 64)
        return self->pause;
    /* A step whose time grows with a power of the memory must not pass the limit unnoticed. */
    unsigned growth = self->pause < LEAST_PAUSE ? LEAST_PAUSE : self->pause;
    while (growth > LEAST_PAUSE &&
           self->longest_before / 10000 * growth * growth / 10000 * growth * growth > longest / 2)
        growth -= 5;
    return growth;
}

static size_t least_growth(const struct orr_isolate *iso)
{
    size_t limit = iso->limits.memory;
    if (iso->collector.longest_before >= LONG_STEP)
        return LEAST_GROWTH / 8;
    if (!limit || limit / 16 >= USUAL_GROWTH)
        return USUAL_GROWTH;
    return limit / 16 > LEAST_GROWTH ? limit / 16 : LEAST_GROWTH;
}

static void set_threshold(struct orr_isolate *iso)
{
    struct collector *self = &iso->collector;
    size_t used = account_used(&iso->account), limit = iso->limits.memory;
    size_t threshold = used / 100 * allowed_growth(iso);
    if (limit && threshold > limit) /* somewhat below the limit, but not cycle after cycle */
        threshold = limit - used > used / 4 ? used + (limit - used) / 2 : used + used / 8;
    size_t least = used + least_growth(iso);
    self->threshold = threshold < least ? least : threshold;
}

static void begin_cycle(struct collector *self)
{
    self->in_cycle = true;
    self->longest = 0;
    self->in_one_go = self->longest_before >= LONG_STEP;
}

static void ban(struct orr_isolate *iso, uint64_t ns)
{
    char text[160], took[TEXT_DURATION_ROOM], longest[TEXT_DURATION_ROOM];
    text_duration(took, ns);
    text_duration(longest, iso->limits.longest_step_ns);
    snprintf(text, sizeof text, "its garbage took %s to collect in one piece; the limit is %s", took, longest);
    ban_impose(iso, text);
}

/* Whether the longest step has grown by more than the square of the memory's growth. */
static bool is_out_of_proportion(const struct collector *self, size_t left)
{
    double time = (double)self->longest / (double)(self->longest_before + 1);
    double memory = (double)left / (double)(self->left_before + 1);
    return time > 1.15 && time > memory * memory;
}

/*
 * Bans a script whose longest step keeps growing out of proportion to the memory.  Something in its
 * heap takes time that grows with a power of its size.  The next cycle would prove it, but would
 * take too long.
 */
static void judge_cycle(struct orr_isolate *iso)
{
    enum { RISES_MAX = 3 };
    struct collector *self = &iso->collector;
    uint64_t longest = iso->limits.longest_step_ns;
    self->rises = is_out_of_proportion(self, account_used(&iso->account)) ? self->rises + 1 : 0;
    if (longest && self->rises >= RISES_MAX && self->longest > longest / 2)
        ban(iso, self->longest);
}

static void end_cycle(struct orr_isolate *iso)
{
    struct collector *self = &iso->collector;
    judge_cycle(iso);
    self->in_cycle = self->in_one_go = false;
    self->owed = 0;
    self->longest_before = self->longest;
    self->left_before = account_used(&iso->account);
    self->cycles++;
    slab_trim(&iso->slab, self->forced);
    set_threshold(iso);
    if (!self->forced)
        return;
    bool low = iso->limits.memory && account_used(&iso->account) < iso->limits.memory / 8 * 7;
    self->forced = low ? 0 : self->forced - 1;
    if (self->forced) {
        begin_cycle(self);
        self->owed = OWED_ALL;
    }
}

/*
 * Lets Lua's own collector work until the library steps it again.  For Lua that plain code of the
 * host runs, where there is no hook.  Called inside the allocator: this only sets the debt to 0.
 */
static void let_lua_collect(struct collector *self)
{
    if (!self->left_to_lua)
        lua_gc(self->stack, LUA_GCRESTART);
    self->left_to_lua = true;
}

void collector_take_back(struct orr_isolate *iso)
{
    if (iso->collector.left_to_lua)
        hold_off(&iso->collector);
}

/*
 * Requests the hook, and measures how long that takes by the thread's processor time, which leaves
 * out the time of other threads.  On a busy machine a measurement is sometimes a thousand times too
 * long.  The script would run uncollected for as long and make a great deal of garbage.  So
 * `request_ns` at most doubles from one measurement to the next.  Where instructions are counted,
 * the hook comes soon enough without a request.
 */
static void request_hook(struct orr_isolate *iso)
{
    enum { REQUEST_LEAST = 1000 }; /* nanoseconds */
    struct collector *self = &iso->collector;
    uint64_t cpu = clock_thread();
    if (iso->limits.mode == ORR_LUA_SIGNAL)
        interrupt_request(iso);
    uint64_t ns = clock_thread() - cpu, most = 2 * self->request_ns + REQUEST_LEAST;
    self->request_ns = ns < most ? ns : most;
}

void collector_note_allocated(struct orr_isolate *iso, size_t bytes)
{
    struct collector *self = &iso->collector;
    if (!self->managed || self->stopped || self->at_work)
        return;
    if (!self->in_cycle && account_used(&iso->account) < self->threshold)
        return;
    if (!execution_level(&iso->execution)) {
        let_lua_collect(self);
        calm_end(&iso->calm);
        return;
    }
    if (!self->in_cycle)
        begin_cycle(self);
    if (self->owed < OWED_ALL)
        self->owed += (uint64_t)bytes * UNITS_PER_BYTE * self->rate / 100;
    uint64_t now = clock_now();
    if (now < self->quiet_until)
        return;
    request_hook(iso);
    self->quiet_until = now + REQUEST_SHARE * self->request_ns;
}

bool collector_owes(const struct orr_isolate *iso)
{
    return iso->collector.owed || iso->collector.in_one_go || late_free_any(&iso->late_free);
}

void collector_force(struct orr_isolate *iso, unsigned cycles)
{
    struct collector *self = &iso->collector;
    self->forced = cycles + self->in_cycle;
    if (!self->in_cycle)
        begin_cycle(self);
    self->owed = OWED_ALL;
}

void collector_owe(struct orr_isolate *iso, long long kilobytes)
{
    enum { MOST = 1 << 30 };
    struct collector *self = &iso->collector;
    uint64_t units = kilobytes <= 0 ? 1 : (uint64_t)(kilobytes < MOST ? kilobytes : MOST) * 1024 * UNITS_PER_BYTE;
    if (!self->in_cycle)
        begin_cycle(self);
    if (self->owed < OWED_ALL)
        self->owed += units;
}

void collector_keep(struct orr_isolate *iso, lua_State *L, int index)
{
    struct collector *self = &iso->collector;
    const void *metatable = lua_topointer(L, index);
    const void **last = &self->kept_last[(uintptr_t)metatable / 64 % KEPT_CACHE];
    if (!self->managed || (!self->in_cycle && !self->left_to_lua))
        return;
    bool first = self->kept_in != self->cycles + 1;
    if (!first && *last == metatable)
        return;
    if (first) {
        lua_newtable(L);
        lua_rawseti(L, LUA_REGISTRYINDEX, self->kept);
        memset(self->kept_last, 0, sizeof self->kept_last);
        self->kept_in = self->cycles + 1;
    }
    lua_rawgeti(L, LUA_REGISTRYINDEX, self->kept);
    lua_pushvalue(L, index);
    lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1);
    lua_pop(L, 1);
    *last = metatable;
}

void collector_stop_forcing(struct orr_isolate *iso)
{
    struct collector *self = &iso->collector;
    self->forced = 0;
    if (self->owed >= OWED_ALL)
        self->owed = 0;
}

/* --- Steps ------------------------------------------------------------------------------------ */

struct payment {
    uint64_t now; /* by the monotonic clock */
    /* By the thread's processor time, which leaves out the time of other threads */
    uint64_t cpu;
    uint64_t until;
    unsigned steps; /* so far */
    bool anyway;    /* takes steps until `until`, even after the turn or the slice is over */
};

/*
 * Whether there is time for one more step, which may take as long as the longest step of the last
 * cycle.  A step is taken all the same if the turn has just begun.  In a turn that is hardly longer
 * than a step, one step is taken, or the collector would never make progress.
 */
static bool has_time(const struct orr_isolate *iso, const struct payment *payment)
{
    const struct collector *self = &iso->collector;
    const struct watch *watch = worker_watch(iso->worker);
    bool in_slice = execution_in_slice(&iso->execution);
    if (payment->anyway)
        return payment->now < payment->until;
    uint64_t turn_began = watch_turn_began(watch), turn_end = watch_turn_end(watch);
    uint64_t turn = turn_end - turn_began;
    if (!payment->steps && !in_slice && turn < SHORT_TURN)
        return true;
    if (payment->now >= payment->until || payment->now >= turn_end ||
        (in_slice && interrupt_time_is_over(&iso->interrupt)))
        return false;
    uint64_t expected = self->longest < self->longest_before / 2 ? self->longest_before : 0;
    return payment->now + expected <= turn_end || payment->now - turn_began < turn / 4;
}

static void judge_step(struct orr_isolate *iso, uint64_t ns)
{
    uint64_t longest = iso->limits.longest_step_ns;
    if (longest && ns > longest)
        ban(iso, ns);
}

static int make_object(lua_State *L)
{
    lua_newuserdatauv(L, 0, 0);
    return 1;
}

/*
 * Keeps the newest object of the state alive.  When marking ends, Lua frees all garbage among the
 * newest objects, up to the first live object, in one piece of work.  A script can have made a
 * hundred thousand objects since marking began.  So a new object is made before each step, and the
 * collector's stack holds it until the next step.  That stack is marked again when marking ends.
 * False if there is no memory for the object.  Then Lua has collected all garbage at once in search
 * of some, and has begun a new cycle: a step now would be its first, again and again.
 *
 * The collector also runs finalizers on that stack.  A call on the stack that a hook was called on
 * would make Lua forget the current line of the script.
 */
static bool set_milestone(lua_State *stack)
{
    lua_pushcfunction(stack, make_object);
    bool done = lua_pcall(stack, 0, 1, 0) == LUA_OK;
    lua_replace(stack, 1);
    return done;
}

/* False if Lua's collector cannot be stepped now, because a finalizer is running. */
static bool take_step(struct orr_isolate *iso, struct payment *payment)
{
    struct collector *self = &iso->collector;
    int over = 1;
    if (set_milestone(self->stack)) {
        late_free_switch(&iso->late_free, true);
        over = compat_collect_step(self->stack);
        late_free_switch(&iso->late_free, false);
    }
    if (over < 0)
        return false;
    uint64_t cpu = clock_thread(), ns = cpu - payment->cpu;
    payment->cpu = cpu;
    payment->now = clock_now();
    payment->steps++;
    if (ns > self->longest)
        self->longest = ns;
    if (ns > self->worst)
        self->worst = ns;
    judge_step(iso, ns);
    if (over)
        end_cycle(iso);
    else if (self->longest >= self->longest_before / 2)
        self->in_one_go = false;
    if (self->owed < OWED_ALL)
        self->owed -= self->owed < STEP_UNITS ? self->owed : STEP_UNITS;
    return true;
}

/* Frees one block that a step has put off.  It counts as a step. */
static bool free_one(struct orr_isolate *iso, struct payment *payment)
{
    if (!late_free_one(&iso->late_free, &iso->alloc))
        return false;
    payment->now = clock_now();
    payment->cpu = clock_thread();
    payment->steps++;
    return true;
}

static bool pay(struct orr_isolate *iso, uint64_t until, bool anyway)
{
    struct collector *self = &iso->collector;
    struct payment payment = { .now = clock_now(), .cpu = clock_thread(), .until = until, .anyway = anyway };
    bool can = true;
    self->at_work = true;
    while (can && collector_owes(iso) && has_time(iso, &payment))
        can = free_one(iso, &payment) || take_step(iso, &payment);
    self->at_work = false;
    hold_off(self);
    return !can || !collector_owes(iso);
}

bool collector_pay(struct orr_isolate *iso, uint64_t until)
{
    return !collector_owes(iso) || pay(iso, until, false);
}

void collector_pay_anyway(struct orr_isolate *iso, uint64_t ns)
{
    if (collector_owes(iso))
        pay(iso, clock_after(clock_now(), ns), true);
}

void collector_reset(struct orr_isolate *iso, lua_State *L)
{
    struct collector *self = &iso->collector;
    self->stopped = self->generational = false;
    self->pause = PAUSE;
    self->rate = 100;
    if (!lua_gc(L, LUA_GCISRUNNING))
        lua_gc(L, LUA_GCRESTART); /* also makes a step due, so only if needed */
    compat_collect_in_steps(L, PAUSE);
    if (self->managed)
        hold_off(self);
}

void collector_open(struct orr_isolate *iso, lua_State *L)
{
    struct collector *self = &iso->collector;
    self->stack = lua_newthread(L);
    lua_pushnil(self->stack);
    luaL_ref(L, LUA_REGISTRYINDEX);
    lua_newtable(L);
    self->kept = luaL_ref(L, LUA_REGISTRYINDEX);
    self->managed = iso->limits.mode != ORR_LUA_OFF;
    self->threshold = SIZE_MAX;
    collector_reset(iso, L);
}

/*
 * Takes steps while the host is idle.  True if the cycle needs more steps.  A cycle begins here
 * when the memory in use is a quarter above what the last cycle left.
 */
static bool work_idly(struct idle_work *work, uint64_t until)
{
    struct orr_isolate *iso = container_of(work, struct orr_isolate, collector.idle);
    struct collector *self = &iso->collector;
    if (!self->managed || self->stopped || iso->closing)
        return false;
    if (!self->in_cycle && account_used(&iso->account) < self->left_before + self->left_before / 4)
        return false;
    if (!self->in_cycle)
        begin_cycle(self);
    uint64_t owed = self->owed;
    self->owed = OWED_ALL;
    collector_pay(iso, until);
    if (self->in_cycle)
        self->owed = self->forced ? OWED_ALL : owed;
    return self->in_cycle;
}

void collector_begin(struct orr_isolate *iso)
{
    struct collector *self = &iso->collector;
    self->left_before = account_used(&iso->account);
    set_threshold(iso);
    self->idle.work = work_idly;
    worker_add_idle_work(iso->worker, &self->idle);
}

void collector_end(struct orr_isolate *iso)
{
    worker_remove_idle_work(iso->worker, &iso->collector.idle);
}
