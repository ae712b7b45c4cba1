#include "lua/isolate/interrupt.h"

#include "base/clock.h"
#include "lua/isolate.h"
#include "lua/isolate/execution.h"
#include "lua/isolate/stack_room.h"
#include "lua/isolate/visit.h"

#include <stdatomic.h>
#include <sys/resource.h>

static void on_hook(lua_State *L, lua_Debug *event);

/* --- The hook, on and off --------------------------------------------------------------------- */

/*
 * Whether the stack has room for the hook.  A stack that is growing to its limit has none, because
 * the running instruction fills it up.  Async-signal-safe.
 */
static bool has_room(const struct interrupt *self, lua_State *L)
{
    return !self->stack_grows && stack_room_is_left(L);
}

/*
 * Sets the hook on L.  Async-signal-safe: lua_sethook() is made for that.  If L is armed already,
 * the saved foreign hook stays.  If the interrupted code is just removing the hook of L, L may have
 * a mask without a hook.
 */
static void arm(struct orr_isolate *iso, lua_State *L)
{
    struct interrupt *self = &iso->interrupt;
    lua_Hook hook = lua_gethook(L);
    bool again = hook == on_hook && self->armed == L;
    if (hook && hook == self->script_hook)
        return; /* a script's hook does the work by itself, soon */
    if (!has_room(self, L) && !self->actions->is_overdue(iso))
        return; /* tried again while the slice goes on, and when another coroutine runs */
    if (!again) {
        bool foreign = hook && hook != on_hook; /* if not: no hook, or a stale one of the library */
        self->foreign.hook = foreign ? hook : NULL;
        self->foreign.mask = foreign ? lua_gethookmask(L) : 0;
        self->foreign.count = foreign ? lua_gethookcount(L) : 0;
        self->left_on = hook == on_hook;
        self->at_start = self->foreign.mask & LUA_MASKCALL;
        self->skips = 0;
    }
    self->armed = L;
    bool wants_returns = !self->counted || self->foreign.mask;
    lua_sethook(L, on_hook, LUA_MASKCOUNT | (wants_returns ? LUA_MASKRET : 0) | self->foreign.mask, 1);
}

static void disarm(struct interrupt *self)
{
    lua_State *L = self->armed;
    if (!L)
        return;
    self->armed = NULL; /* first, so that the signal handler does not arm it again meanwhile */
    if (lua_gethook(L) == on_hook && !self->left_on)
        lua_sethook(L, self->foreign.hook, self->foreign.mask, self->foreign.count);
}

void interrupt_take_off(struct orr_isolate *iso)
{
    iso->interrupt.busy = true;
    disarm(&iso->interrupt);
    iso->interrupt.busy = false;
}

/* Sets the flag first: a signal may arrive while Lua makes the block. */
void interrupt_stack_fills(struct orr_isolate *iso)
{
    struct interrupt *self = &iso->interrupt;
    self->stack_grows = true;
    if (!self->busy && self->armed && self->armed == execution_running(&iso->execution) && !self->foreign.hook &&
        !self->actions->is_overdue(iso))
        interrupt_take_off(iso); /* the next request sets it again, at the latest the timer's */
}

/* How often the thread has given up its processor by itself.  Async-signal-safe: a system call. */
static long count_sleeps(void)
{
    struct rusage usage;
    return getrusage(RUSAGE_THREAD, &usage) ? 0 : usage.ru_nvcsw;
}

/* Async-signal-safe. */
static struct moment this_moment(void)
{
    return (struct moment){ .at = clock_now(), .cpu = clock_thread(), .sleeps = count_sleeps() };
}

/*
 * The hook may get lost when it is set.  Lua reads the mask, and if there is no hook it clears the
 * flag that makes it check (`trap`).  A hook that is set between the two is forgotten.  So is a
 * count that Lua is just writing.  So each call of this function sets the hook again.  It also sets
 * the hook if the stack had no room for it before.
 */
void interrupt_slice_over(void *data)
{
    struct orr_isolate *iso = data;
    struct interrupt *self = &iso->interrupt;
    lua_State *running = execution_running(&iso->execution);
    if (self->time != TIME_LEFT) {
        if (self->time == TIME_OVER && !self->again) {
            self->later = this_moment();
            atomic_signal_fence(memory_order_release); /* the hook reads `later` after `again` */
            self->again = true;
        }
        bool has_hook = self->armed == running;
        bool had_no_room = !self->armed && !execution_yields(&iso->execution);
        if (!self->busy && self->requested && (has_hook || had_no_room))
            arm(iso, running);
        return;
    }
    self->over = this_moment();
    self->time = TIME_JUST_OVER;
    self->requested = true;
    calm_end(&iso->calm);
    if (!self->busy)
        arm(iso, running);
}

/*
 * Requests the counting hook.  That resets Lua's count, so a full interval is charged to the
 * levels.
 */
static void request_count(struct orr_isolate *iso)
{
    execution_charge(&iso->execution, iso->limits.check_interval);
    interrupt_count(iso, execution_running(&iso->execution), 1);
}

bool interrupt_request(struct orr_isolate *iso)
{
    struct interrupt *self = &iso->interrupt;
    if (!execution_level(&iso->execution) || iso->limits.mode == ORR_LUA_OFF)
        return false;
    if (self->requested && !self->counted) {
        bool had_no_room = iso->limits.mode == ORR_LUA_SIGNAL && !self->armed;
        if (had_no_room && !self->busy)
            interrupt_follow(iso);
        return true;
    }
    self->requested = true;
    calm_end(&iso->calm);
    if (iso->limits.mode == ORR_LUA_COUNT)
        request_count(iso);
    else if (!self->busy && self->counted && self->armed == execution_running(&iso->execution))
        interrupt_again_after(self->armed, 1);
    else if (!self->busy)
        interrupt_follow(iso);
    return true;
}

/*
 * Also called before the library's hook raises an error in L: if the script catches the error,
 * hooks are on again there.
 */
void interrupt_hurry(const struct orr_isolate *iso, lua_State *L)
{
    const struct interrupt *self = &iso->interrupt;
    lua_Hook hook = lua_gethook(L);
    bool ours = hook == on_hook || hook == self->actions->count || hook == self->script_hook;
    if (!self->busy && hook && ours && lua_gethookcount(L) != 1)
        lua_sethook(L, hook, lua_gethookmask(L), 1);
}

/* lua_sethook() walks over all frames, so it is called only if something changes. */
void interrupt_again_after(lua_State *L, int count)
{
    if (lua_gethook(L) == on_hook && lua_gethookcount(L) != count)
        lua_sethook(L, on_hook, lua_gethookmask(L), count);
}

void interrupt_stand_down(struct orr_isolate *iso)
{
    struct interrupt *self = &iso->interrupt;
    self->busy = true;
    disarm(self);
    self->requested = false;
    if (self->time != TIME_LEFT) /* a signal may have come meanwhile, and did not set the hook */
        self->requested = true;
    self->busy = false;
    interrupt_switched(&iso->interrupt, iso);
}

void interrupt_follow(struct orr_isolate *iso)
{
    struct interrupt *self = &iso->interrupt;
    lua_State *running = execution_running(&iso->execution);
    if (iso->limits.mode == ORR_LUA_COUNT) { /* the hook is set, and must only come sooner */
        if (execution_level(&iso->execution))
            interrupt_count(iso, running, 1);
        return;
    }
    self->busy = true;
    if (self->armed != running) {
        disarm(self);
        arm(iso, running);
    }
    self->busy = false;
}

void interrupt_lock_hook(struct orr_isolate *iso)
{
    iso->interrupt.busy = true;
    disarm(&iso->interrupt);
}

void interrupt_unlock_hook(struct orr_isolate *iso)
{
    iso->interrupt.busy = false;
    interrupt_switched(&iso->interrupt, iso);
}

/*
 * Whether the next instruction leaves room on the stack.  An instruction that pushes all variable
 * arguments of a function may not.
 */
static bool next_leaves_room(lua_State *L)
{
    enum { MANY = 200 };
    lua_Debug frame;
    bool many = lua_getstack(L, 0, &frame) && lua_getlocal(L, &frame, -MANY);
    if (many)
        lua_pop(L, 1);
    return !many && stack_room_is_left(L);
}

void interrupt_stay_on(struct orr_isolate *iso, lua_State *L)
{
    struct interrupt *self = &iso->interrupt;
    bool stays = self->script_hook && L == self->armed && lua_gethook(L) == on_hook && !self->foreign.hook;
    if (stays && next_leaves_room(L)) {
        interrupt_again_after(L, 1);
        self->armed = NULL;
    }
}

/* --- Slices ----------------------------------------------------------------------------------- */

void interrupt_slice_over_with(struct orr_isolate *iso, const struct interrupt *inner)
{
    struct interrupt *self = &iso->interrupt;
    if (self->time != TIME_LEFT)
        return;
    self->over = inner->over;
    self->time = TIME_OVER;
    self->requested = true;
    calm_end(&iso->calm);
    interrupt_follow(iso);
}

void interrupt_count_slice(struct orr_isolate *iso, uint64_t now)
{
    iso->interrupt.over.at = now;
    iso->interrupt.counted = iso->interrupt.requested = true;
    calm_end(&iso->calm);
    interrupt_follow(iso);
}

/* Async-signal-safe. */
uint64_t moment_passed(const struct moment *since)
{
    return clock_now() - since->at;
}

uint64_t moment_passed_cpu(const struct moment *since)
{
    return clock_thread() - since->cpu;
}

bool moment_slept(const struct moment *since)
{
    return count_sleeps() > since->sleeps;
}

/*
 * The state is reset even if no hook came: the first hook of the next slice must not report this
 * slice's time.
 */
void interrupt_end_slice(struct orr_isolate *iso)
{
    struct interrupt *self = &iso->interrupt;
    disarm(self);
    self->requested = false;
    self->time = TIME_LEFT;
    self->again = false;
}

/* --- Coroutines and other hooks --------------------------------------------------------------- */

void interrupt_count(struct orr_isolate *iso, lua_State *co, int instructions)
{
    lua_sethook(co, iso->interrupt.actions->count, LUA_MASKCOUNT, instructions);
}

bool interrupt_counts(const struct orr_isolate *iso, lua_State *co)
{
    return lua_gethook(co) == iso->interrupt.actions->count;
}

void interrupt_made_coroutine(struct orr_isolate *iso, lua_State *L, lua_State *co)
{
    const struct interrupt *self = &iso->interrupt;
    bool armed = L == self->armed;
    lua_Hook hook = lua_gethook(co);
    if (hook == on_hook || (hook && hook == self->script_hook))
        lua_sethook(co, armed ? self->foreign.hook : NULL, armed ? self->foreign.mask : 0,
                    armed ? self->foreign.count : 0);
}

lua_Hook interrupt_foreign_hook(const struct orr_isolate *iso, lua_State *co, int *mask, int *count)
{
    const struct interrupt *self = &iso->interrupt;
    bool ours = lua_gethook(co) == on_hook;
    bool stands_in = ours && co == self->armed;
    *mask = !ours ? lua_gethookmask(co) : stands_in ? self->foreign.mask : 0;
    *count = !ours ? lua_gethookcount(co) : stands_in ? self->foreign.count : 0;
    return !ours ? lua_gethook(co) : stands_in ? self->foreign.hook : NULL;
}

/* --- The hook itself -------------------------------------------------------------------------- */

static bool is_call(int event)
{
    return event == LUA_HOOKCALL || event == LUA_HOOKTAILCALL;
}

static bool wants(int mask, int event)
{
    return mask & (is_call(event) ? LUA_MASKCALL : 1 << event) && event != LUA_HOOKCOUNT;
}

/*
 * Whether Lua may be suspended at this event.  If a foreign hook wants lines: only at a line event,
 * not between the line and the count event.  If a foreign hook wants calls: not at the first
 * instruction of a function, since Lua would report the call again afterwards.  A script that does
 * nothing but call is suspended after SKIPS_MAX skips.
 */
static bool is_safe(struct interrupt *self, lua_State *L, lua_Debug *event)
{
    enum { SKIPS_MAX = 100 };
    if (event->event == LUA_HOOKRET) {
        self->at_start = false;
    } else if (is_call(event->event)) {
        lua_getinfo(L, "S", event);
        self->at_start = *event->what != 'C';
    }
    if (event->event != (self->foreign.mask & LUA_MASKLINE ? LUA_HOOKLINE : LUA_HOOKCOUNT))
        return false;
    bool skip = self->at_start && self->skips++ < SKIPS_MAX;
    self->at_start = false;
    return !skip;
}

static void on_hook(lua_State *L, lua_Debug *event)
{
    struct orr_isolate *iso = isolate_find(L);
    if (!iso || L != iso->interrupt.armed) {
        lua_sethook(L, NULL, 0, 0); /* stale, or inherited */
        return;
    }
    struct interrupt *self = &iso->interrupt;
    self->left_on = false;
    if (self->time == TIME_JUST_OVER) {
        self->time = TIME_OVER;
        self->actions->late(iso, L, event);
    } else if (self->again && event->event == LUA_HOOKRET) {
        self->actions->late_again(iso, L, event, &self->later);
    }
    self->again = false;
    if (wants(self->foreign.mask, event->event))
        self->foreign.hook(L, event);
    bool may_suspend = is_safe(self, L, event);
    if (may_suspend || event->event == LUA_HOOKCOUNT)
        self->actions->act(iso, L, may_suspend);
}

void interrupt_open(struct interrupt *self, const struct interrupt_actions *actions)
{
    self->actions = actions;
}
