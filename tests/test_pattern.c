/*
 * Our patterns compared with Lua's own, in one state: random and written cases; undisturbed, paused
 * at every point and at random points; with callbacks that yield; without memory.  The cases are in
 * lua/patterns.lua.
 */
#include "harness.h"

#include "lua/limits/preempt.h"
#include "lua/pattern/match.h"
#include "lua/pattern/pattern.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern const char patterns_lua[];
extern const size_t patterns_lua_size;

/* --- A budget that the test controls ---------------------------------------------------------- */

/* One in this many questions, at random, is answered with yes; 0: none. */
static uint32_t pause_one_in;
static unsigned pauses, questions;
static bool ending;

static uint64_t draw(void)
{
    static uint64_t random_state = 88172645463325252u;
    return random_bits(&random_state);
}

bool __wrap_preempt_is_due(lua_State *L);
bool __wrap_preempt_is_due(lua_State *L)
{
    questions++;
    if (ending)
        luaL_error(L, "ended");
    return pause_one_in && lua_isyieldable(L) && draw() % pause_one_in == 0;
}

int __wrap_preempt_yield(lua_State *L, lua_KFunction k, lua_KContext context);
int __wrap_preempt_yield(lua_State *L, lua_KFunction k, lua_KContext context)
{
    pauses++;
    return lua_yieldk(L, 0, context, k);
}

/* set_pauses(one_in, steps): `steps` is the number of steps between two questions. */
static int set_pauses(lua_State *L)
{
    pause_one_in = (uint32_t)luaL_checkinteger(L, 1);
    match_steps = (int)luaL_optinteger(L, 2, MATCH_STEPS);
    return 0;
}

static int get_pauses(lua_State *L)
{
    lua_pushinteger(L, pauses);
    lua_pushinteger(L, questions);
    return 2;
}

static int set_ending(lua_State *L)
{
    ending = lua_toboolean(L, 1);
    return 0;
}

/* --- A state ---------------------------------------------------------------------------------- */

struct supply {
    long long held;
    long long served; /* how many more requests are served; negative: all */
};

static void *supply_alloc(void *data, void *block, size_t old_size, size_t size)
{
    struct supply *supply = data;
    if (!block)
        old_size = 0;
    if (size > old_size && supply->served >= 0 && supply->served-- == 0) {
        supply->served = 0; /* nothing is served from now on */
        return NULL;
    }
    supply->held += (long long)size - (long long)old_size;
    if (size)
        return realloc(block, size);
    free(block);
    return NULL;
}

static struct orr_isolate isolate;
static struct supply supply;

static lua_State *open_state(void)
{
    supply = (struct supply){ .served = -1 };
    pause_one_in = 0;
    match_steps = MATCH_STEPS;
    ending = false;
    lua_State *L = lua_newstate(supply_alloc, &supply);
    assert_non_null(L);
    luaL_openlibs(L);
    assert_int_equal(luaL_loadbuffer(L, patterns_lua, patterns_lua_size, "=patterns.lua"), LUA_OK);
    lua_newtable(L);
    pattern_open(&isolate, L);
    lua_pushcfunction(L, set_pauses);
    lua_pushcfunction(L, get_pauses);
    lua_pushcfunction(L, set_ending);
    assert_int_equal(lua_pcall(L, 4, 1, 0), LUA_OK);
    lua_setglobal(L, "cases");
    return L;
}

static void close_state(lua_State *L)
{
    lua_close(L);
    assert_int_equal(supply.held, 0);
}

static int traceback(lua_State *L)
{
    luaL_traceback(L, L, lua_tostring(L, 1), 1);
    return 1;
}

/* ORR_TEST_SCALE makes a test longer. */
static lua_Integer scale(void)
{
    const char *value = getenv("ORR_TEST_SCALE");
    return value ? strtoll(value, NULL, 10) : 1;
}

/* Calls cases[name](count, seed). */
static void run_cases(const char *name, lua_Integer count)
{
    lua_Integer seed = (lua_Integer)harness_seed(20261116);
    count = WORK(count) * scale();
    printf("%s: %lld cases\n", name, (long long)count);
    lua_State *L = open_state();
    lua_pushcfunction(L, traceback);
    lua_getglobal(L, "cases");
    lua_getfield(L, -1, name);
    lua_remove(L, -2);
    lua_pushinteger(L, count);
    lua_pushinteger(L, seed);
    if (lua_pcall(L, 2, 0, 1) != LUA_OK)
        fail_msg("%s", lua_tostring(L, -1));
    close_state(L);
}

/* --- Tests ------------------------------------------------------------------------------------ */

static void random_cases_give_what_lua_gives(void **state)
{
    (void)state;
    run_cases("random", 200000);
}

static void random_cases_paused_at_every_moment_give_the_same(void **state)
{
    (void)state;
    run_cases("random_always_paused", 30000);
}

static void random_cases_paused_now_and_then_give_the_same(void **state)
{
    (void)state;
    run_cases("random_paused", 30000);
}

static void long_subjects_give_the_same_when_paused(void **state)
{
    (void)state;
    run_cases("long", 60);
}

static void written_cases_give_what_lua_gives(void **state)
{
    (void)state;
    run_cases("by_hand", 1);
}

static void arguments_are_checked_as_in_lua(void **state)
{
    (void)state;
    run_cases("arguments", 1);
}

static void callbacks_may_yield(void **state)
{
    (void)state;
    run_cases("callbacks", 1);
}

static void depth_of_a_pattern_does_not_depend_on_the_c_stack(void **state)
{
    (void)state;
    run_cases("depth", 1);
}

static void a_match_can_be_ended_from_outside(void **state)
{
    (void)state;
    run_cases("ended", 1);
}

static void iterator_may_be_called_while_a_call_of_it_is_paused(void **state)
{
    (void)state;
    run_cases("shared_iterator", 1);
}

static void changes_by_the_debug_library_are_noticed(void **state)
{
    (void)state;
    run_cases("tampering", 1);
}

/*
 * Each case of cases.memory() runs while every allocation fails in turn, paused everywhere or
 * never.
 */
static void no_memory_is_an_error_that_leaves_nothing_behind(void **state)
{
    (void)state;
    lua_State *L = open_state();
    lua_getglobal(L, "cases");
    lua_getfield(L, -1, "memory");
    lua_Integer cases = luaL_len(L, -1);
    for (lua_Integer i = 1; i <= cases * 2; i++) {
        for (long long served = 0;; served++) {
            lua_settop(L, 2);
            lua_State *co = lua_newthread(L);
            lua_geti(L, 2, (i + 1) / 2);
            lua_xmove(L, co, 1);
            lua_gc(L, LUA_GCCOLLECT);
            long long before = supply.held;
            supply.served = served;
            pause_one_in = i & 1;
            match_steps = i & 1 ? 1 : MATCH_STEPS;
            int results, status;
            do
                status = lua_resume(co, L, 0, &results);
            while (status == LUA_YIELD);
            supply.served = -1;
            if (status != LUA_OK) {
                assert_int_equal(status, LUA_ERRMEM);
                assert_int_equal(lua_resetthread(co), LUA_ERRMEM);
            }
            lua_settop(co, 0);
            lua_settop(L, 2);
            lua_gc(L, LUA_GCCOLLECT);
            assert_true(supply.held <= before);
            if (status == LUA_OK)
                break;
        }
    }
    close_state(L);
}

static const struct CMUnitTest pattern[] = {
    cmocka_unit_test(written_cases_give_what_lua_gives),
    cmocka_unit_test(arguments_are_checked_as_in_lua),
    cmocka_unit_test(callbacks_may_yield),
    cmocka_unit_test(depth_of_a_pattern_does_not_depend_on_the_c_stack),
    cmocka_unit_test(a_match_can_be_ended_from_outside),
    cmocka_unit_test(iterator_may_be_called_while_a_call_of_it_is_paused),
    cmocka_unit_test(changes_by_the_debug_library_are_noticed),
    cmocka_unit_test(no_memory_is_an_error_that_leaves_nothing_behind),
    cmocka_unit_test(random_cases_give_what_lua_gives),
    cmocka_unit_test(random_cases_paused_at_every_moment_give_the_same),
    cmocka_unit_test(random_cases_paused_now_and_then_give_the_same),
    cmocka_unit_test(long_subjects_give_the_same_when_paused),
};

HARNESS_MAIN(pattern)
