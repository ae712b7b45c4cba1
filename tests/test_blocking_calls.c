/*
 * C functions that sleep in system calls inside Lua: if the host asks for it, the signal that ends
 * slices does not interrupt them, and slices still end.
 */
#include "lua_host.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

int luaopen_sleeper(lua_State *L);
int __real_timerfd_create(int clock, int flags);
int __wrap_timerfd_create(int clock, int flags);

static bool no_timers;

int __wrap_timerfd_create(int clock, int flags)
{
    if (!no_timers)
        return __real_timerfd_create(clock, flags);
    errno = EMFILE;
    return -1;
}

static lua_State *open_sleeper(struct orr_runtime *rt, struct orr_lua_options options)
{
    lua_State *L = open_trusted(rt, options);
    luaopen_sleeper(L);
    lua_setglobal(L, "doze");
    return L;
}

static void run(struct orr_runtime *rt, lua_State *L, const char *code, int error)
{
    struct orr_task *task = start(L, code);
    turn_until_done(rt, task, 4 * MS);
    assert_int_equal(error_of(rt, task), error);
}

static void is_not_interrupted(struct orr_runtime *rt, lua_State *L)
{
    *noted = '\0';
    run(rt, L, "note(doze()) note(doze())", 0);
    assert_string_equal(noted, "0;0;");
}

/* The script would never end if it were not suspended. */
static void slices_end(struct orr_runtime *rt, lua_State *L)
{
    run(rt, L,
        "local stats = game.runtime.stats\n"
        "local before = stats().preemptions\n"
        "repeat for i = 1, 10000 do end until stats().preemptions > before",
        0);
    load(L, "while true do end");
    assert_int_equal(orr_lua_call(L, 0, 0, 20 * MS), -ETIME);
    lua_settop(L, 0);
}

#define OPTIONS .deadline_ns = { [ORR_LUA_SCRIPT] = ORR_NEVER }

/* What happens without the option. */
static void blocking_call_is_interrupted_by_default(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime();
    lua_State *L = open_sleeper(rt, (struct orr_lua_options){ OPTIONS });
    run(rt, L, "note(doze() > 0)", 0);
    assert_string_equal(noted, "true;");
    finish(rt, L);
}

static void blocking_call_is_not_interrupted_if_the_host_asked_for_that(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime();
    lua_State *L = open_sleeper(rt, (struct orr_lua_options){ OPTIONS, .may_sleep = true });
    is_not_interrupted(rt, L);
    finish(rt, L);
}

static void library_that_a_script_loads_is_not_interrupted(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime();
    lua_State *L = open_trusted(rt, (struct orr_lua_options){ OPTIONS });
    lua_pushliteral(L, SLEEPER);
    lua_setglobal(L, "path");
    run(rt, L, "package.cpath = path:gsub('[^/]+$', '?.so') doze = require 'sleeper'", 0);
    is_not_interrupted(rt, L);
    finish(rt, L);
    rt = host_runtime();
    L = open_trusted(rt, (struct orr_lua_options){ OPTIONS });
    lua_pushliteral(L, SLEEPER);
    lua_setglobal(L, "path");
    run(rt, L, "doze = assert(package.loadlib(path, 'luaopen_sleeper'))()", 0);
    is_not_interrupted(rt, L);
    finish(rt, L);
}

static void slices_end_where_calls_may_sleep(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct orr_runtime *rt = host_runtime();
        lua_State *L = open_sleeper(
            rt, (struct orr_lua_options){ OPTIONS, .slice_ns = i ? MS / 10 : 0, .may_sleep = true });
        slices_end(rt, L);
        slices_end(rt, L);
        finish(rt, L);
    }
}

/* An isolate with the option and one without, on the same worker. */
static void other_isolates_of_the_worker_are_ended_too(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime();
    lua_State *plain = open_sleeper(rt, (struct orr_lua_options){ OPTIONS });
    slices_end(rt, plain);
    lua_State *L = open_sleeper(rt, (struct orr_lua_options){ OPTIONS, .may_sleep = true });
    slices_end(rt, plain);
    slices_end(rt, L);
    assert_int_equal(orr_lua_close(L), 0);
    slices_end(rt, plain);
    finish(rt, plain);
}

struct travel {
    struct orr_runtime *rt;
    lua_State *L;
};

static void *turn_elsewhere(void *data)
{
    struct travel *travel = data;
    slices_end(travel->rt, travel->L);
    return NULL;
}

static void signal_follows_the_worker_to_another_thread(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime();
    struct travel travel = { rt, open_sleeper(rt, (struct orr_lua_options){ OPTIONS, .may_sleep = true }) };
    slices_end(rt, travel.L);
    for (int i = 0; i < 2; i++) {
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, turn_elsewhere, &travel), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
    }
    slices_end(rt, travel.L);
    finish(rt, travel.L);
}

static void child_process_has_a_sentinel_of_its_own(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime();
    finish(rt, open_sleeper(rt, (struct orr_lua_options){ OPTIONS, .may_sleep = true }));
    pid_t child = fork();
    if (!child) {
        rt = host_runtime();
        lua_State *L = open_sleeper(rt, (struct orr_lua_options){ OPTIONS, .may_sleep = true });
        slices_end(rt, L);
        finish(rt, L);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void slices_end_by_signal_where_the_sentinel_has_no_timer(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime();
    no_timers = true;
    lua_State *L = open_sleeper(rt, (struct orr_lua_options){ OPTIONS, .may_sleep = true });
    assert_non_null(strstr(harness_log(), "cannot be kept from threads that sleep"));
    slices_end(rt, L);
    no_timers = false;
    finish(rt, L);
}

static const struct CMUnitTest blocking_calls[] = {
    cmocka_unit_test(blocking_call_is_interrupted_by_default),
    cmocka_unit_test(blocking_call_is_not_interrupted_if_the_host_asked_for_that),
    cmocka_unit_test(library_that_a_script_loads_is_not_interrupted),
    cmocka_unit_test(slices_end_where_calls_may_sleep),
    cmocka_unit_test(other_isolates_of_the_worker_are_ended_too),
    cmocka_unit_test(signal_follows_the_worker_to_another_thread),
    cmocka_unit_test(child_process_has_a_sentinel_of_its_own),
    cmocka_unit_test(slices_end_by_signal_where_the_sentinel_has_no_timer),
};

HARNESS_MAIN(blocking_calls)
