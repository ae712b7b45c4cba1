/*
 * Requests for an interruption that get lost.  Before Lua finds that there is no hook, it reads the
 * hook mask and then clears `trap`, the flag in the running function's frame that makes it look. A
 * hook that is set between the two is not called.  Here this happens as often as a test wants: the
 * replaced lua_sethook() clears the flag after our handler has set the hook.
 */
#include "lua_host.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

void __real_lua_sethook(lua_State *L, lua_Hook hook, int mask, int count);
void __wrap_lua_sethook(lua_State *L, lua_Hook hook, int mask, int count);

static volatile unsigned to_lose, lost;

/*
 * The address of `trap` in Lua 5.4: behind four pointers of the frame and the saved position. Once
 * a hook is set, the flag is 1 in the frame of a Lua function; the test fails if it is not.
 */
static volatile int *trap_of(lua_State *L)
{
    lua_Debug frame;
    if (!lua_getstack(L, 0, &frame))
        return NULL;
    return (volatile int *)((char *)frame.i_ci + 5 * sizeof(void *));
}

static bool handling_signal(void)
{
    sigset_t mask;
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    return sigismember(&mask, SIGUSR2); /* our handler blocks all other signals */
}

void __wrap_lua_sethook(lua_State *L, lua_Hook hook, int mask, int count)
{
    __real_lua_sethook(L, hook, mask, count);
    if (!to_lose || !hook || !handling_signal())
        return;
    volatile int *trap = trap_of(L);
    if (!trap || *trap != 1)
        return;
    *trap = 0;
    to_lose--;
    lost++;
}

static void lose(unsigned count)
{
    to_lose = count;
    lost = 0;
}

static void a_loop_is_interrupted_though_requests_get_lost(void **state)
{
    (void)state;
    for (unsigned count = 0; count < 4; count++) {
        struct orr_runtime *rt = host_runtime();
        lua_State *L = open_isolate(rt, (struct orr_lua_options){ .profile = ORR_LUA_UNTRUSTED,
                                                                  .slice_ns = MS,
                                                                  .deadline_ns[ORR_LUA_SCRIPT] = 800 * MS });
        lose(count);
        struct orr_task *task = start(L, "while true do end");
        assert_true(turn_until_done(rt, task, 4 * MS) > 1);
        assert_int_equal(error_of(rt, task), -ETIME);
        assert_int_equal(lost, count);
        assert_true(runtime_stat(L, "preemptions") > 0);
        finish(rt, L);
    }
}

static void a_call_that_cannot_be_suspended_is_ended_though_a_request_got_lost(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime();
    lua_State *L = open_trusted(rt, (struct orr_lua_options){ .slice_ns = MS });
    lose(2);
    load(L, "while true do end");
    assert_int_equal(orr_lua_call(L, 0, 0, 20 * MS), -ETIME);
    assert_int_equal(lost, 2);
    finish(rt, L);
}

static unsigned hits;

static void count_hit(lua_State *L, lua_Debug *event)
{
    (void)L, (void)event;
    hits++;
}

/* set_hook(mask, count): sets a hook as a C library does. */
static int set_hook(lua_State *L)
{
    lua_sethook(L, count_hit, (int)luaL_checkinteger(L, 1), (int)luaL_checkinteger(L, 2));
    return 0;
}

static int push_hits(lua_State *L)
{
    lua_pushinteger(L, hits);
    return 1;
}

static int push_lost(lua_State *L)
{
    lua_pushinteger(L, lost);
    return 1;
}

/* The hook is set again on a coroutine that already has it. */
static void a_repeated_request_keeps_the_hook_of_a_library(void **state)
{
    (void)state;
    static const int masks[] = { LUA_MASKLINE, LUA_MASKCOUNT, LUA_MASKCALL };
    for (size_t i = 0; i < LENGTH(masks); i++) {
        struct orr_runtime *rt = host_runtime();
        lua_State *L = open_trusted(rt, (struct orr_lua_options){ .slice_ns = MS });
        lua_register(L, "set_hook", set_hook);
        lua_register(L, "hits", push_hits);
        lua_register(L, "lost", push_lost);
        char code[512];
        snprintf(code, sizeof code,
                 "local stats = game.runtime.stats\n"
                 "local function nothing() end\n"
                 "set_hook(%d, 100)\n"
                 "repeat for i = 1, 1000 do end until stats().preemptions >= 3 and lost() == 2\n"
                 "local before = hits()\n"
                 "for i = 1, 1000 do\n"
                 "  nothing()\n"
                 "end\n"
                 "note(hits() > before) note(debug.gethook())",
                 masks[i]);
        lose(2);
        struct orr_task *task = start(L, code);
        turn_until_done(rt, task, 4 * MS);
        assert_int_equal(error_of(rt, task), 0);
        assert_int_equal(lost, 2);
        assert_string_equal(noted, "true;external hook;");
        finish(rt, L);
    }
}

static const struct CMUnitTest interruption[] = {
    cmocka_unit_test(a_loop_is_interrupted_though_requests_get_lost),
    cmocka_unit_test(a_call_that_cannot_be_suspended_is_ended_though_a_request_got_lost),
    cmocka_unit_test(a_repeated_request_keeps_the_hook_of_a_library),
};

HARNESS_MAIN(interruption)
