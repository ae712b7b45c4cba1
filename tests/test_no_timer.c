/*
 * Systems that refuse what interrupts Lua: the kernel's timer, the signal's handler, its mask.
 * Each test runs in a child process in which seccomp denies system calls or a resource limit is 0.
 * Scripts that never wait are still suspended and ended in time, and the log and the host are told
 * why.
 */
#include "lua_host.h"

#include "base/clock.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* For child processes: cmocka's own assertions would continue with the next test there. */
#define CHECK(condition) \
    do { \
        if (!(condition)) { \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
            fprintf(stderr, "log: %s\nnotice: %s\nsunk: %s\n", harness_log(), notice_text, sink_text); \
            _exit(1); \
        } \
    } while (0)

enum { CANNOT_DENY = 77 };

/*
 * From now on the system call fails with EPERM in the calling thread and in threads that it
 * creates.
 */
static void deny(int call)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)call, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = { .len = LENGTH(code), .filter = code };
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter))
        _exit(CANNOT_DENY);
}

/* Runs the function in a child process, which is killed when it hangs. */
static void in_a_process(void (*fn)(int call), int call)
{
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        alarm(250); /* shortly before the test is ended */
        fn(call);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == CANNOT_DENY)
        skip();
    if (WIFSIGNALED(status))
        fail_msg("the process was ended by signal %d", WTERMSIG(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static const char *name_of(int call)
{
    switch (call) {
    case SYS_timer_create:
        return "timer_create";
    case SYS_timer_settime:
        return "timer_settime";
    case SYS_timer_delete:
        return "timer_delete";
    case SYS_rt_sigaction:
        return "sigaction";
    default:
        return "pthread_sigmask";
    }
}

/* An isolate with short limits. */
static lua_State *open_limited(struct orr_runtime *rt, enum orr_lua_profile profile)
{
    return open_isolate(
        rt, (struct orr_lua_options){
                .profile = profile,
                .slice_ns = MS,
                .safe_patterns = true,
                .deadline_ns = { [ORR_LUA_SCRIPT] = 50 * MS, [ORR_LUA_TASK] = 50 * MS, [ORR_LUA_CALL] = 20 * MS } });
}

/*
 * Runs the script, which must be ended at its deadline.  Returns how often it left the host its
 * turn until then.
 */
static int preemptions_until_the_end(struct orr_runtime *rt, lua_State *L, const char *code)
{
    int before = runtime_stat(L, "preemptions");
    struct orr_task *task = start(L, code);
    turn_until_done(rt, task, 4 * MS);
    int error = error_of(rt, task);
    if (error != -ETIME) {
        fprintf(stderr, "%s\n  ended with %d\n", code, error);
        _exit(1);
    }
    return runtime_stat(L, "preemptions") - before;
}

/*
 * The script must be ended at its deadline, and must leave the host its turns until then.  The
 * deadline is 50 slices away, but a machine that is busy with something else can let it pass within
 * one of them: then the script runs again.
 */
static void ends_in_time(struct orr_runtime *rt, lua_State *L, const char *code)
{
    enum { TRIES = 10 };
    int preemptions = 0;
    for (int i = 0; i < TRIES && preemptions < 2; i++)
        preemptions = preemptions_until_the_end(rt, L, code);
    if (preemptions < 2) {
        fprintf(stderr, "%s\n  was suspended %d times in each of %d runs\n", code, preemptions, TRIES);
        _exit(1);
    }
}

static const char *const endless[] = {
    "while true do end",
    "local function f() return f() end f()",
    "while true do pcall(function() while true do end end) end",
    "while true do coroutine.wrap(function() for i = 1, 2000 do end end)() end",
    "local function deep(n)\n"
    "  while true do\n"
    "    if n > 0 then coroutine.wrap(deep)(n - 1) return end\n"
    "    for i = 1, 500 do end\n"
    "    return\n"
    "  end\n"
    "end\n"
    "while true do deep(5) end",
    "while true do string.find(('a'):rep(1000), '.-.-.-b') end",
    "while true do game.async.run(function() for i = 1, 1000 do end end) end",
    "return setmetatable({}, { __index = function() while true do end end }).x",
    "local x = coroutine.create(function() while true do coroutine.yield() end end)\n"
    "while true do coroutine.resume(x) end",
};

static void all_end_in_time(struct orr_runtime *rt, lua_State *L)
{
    for (size_t i = 0; i < LENGTH(endless); i++)
        ends_in_time(rt, L, endless[i]);
    load(L, "while true do end");
    CHECK(orr_lua_call(L, 0, 0, 0) == -ETIME);
    lua_settop(L, 0);
    load(L, "return 6 * 7");
    CHECK(orr_lua_call(L, 0, 1, 0) == 0 && lua_tointeger(L, -1) == 42);
    lua_settop(L, 0);
}

static void is_told_why(const char *call)
{
    CHECK(strstr(harness_log(), call) && strstr(harness_log(), "counted"));
    CHECK(harness_log_lines() == 1);
    CHECK(notices[ORR_LUA_COUNTED] == 1);
}

/* Keeps the text of this notice; a later notice is of another kind. */
static void keep_counted(void *data, lua_State *L, enum orr_lua_notice notice, const char *text)
{
    (void)L;
    if (notice == ORR_LUA_COUNTED)
        snprintf(data, sizeof noted, "%s", text);
    notices[notice]++;
}

static void denied_from_the_start(int call)
{
    struct orr_runtime *rt = host_runtime();
    lua_State *L = open_limited(rt, ORR_LUA_UNTRUSTED);
    deny(call);
    all_end_in_time(rt, L);
    is_told_why(name_of(call));
    finish(rt, L);
}

static void untrusted_scripts_are_ended_without_a_timer(void **state)
{
    (void)state;
    static const int calls[] = { SYS_timer_create, SYS_timer_settime, SYS_rt_sigaction, SYS_rt_sigprocmask };
    for (size_t i = 0; i < LENGTH(calls); i++)
        in_a_process(denied_from_the_start, calls[i]);
}

static void denied_to_a_trusted_one(int call)
{
    struct orr_runtime *rt = host_runtime();
    lua_State *L = open_limited(rt, ORR_LUA_TRUSTED);
    deny(call);
    all_end_in_time(rt, L);
    is_told_why(name_of(call));
    CHECK(orr_lua_close(L) == 0);
    L = open_isolate(rt, (struct orr_lua_options){ .profile = ORR_LUA_TRUSTED, .slice_ns = MS });
    struct orr_task *task = start(L, "local hits = 0\n"
                                     "debug.sethook(function() hits = hits + 1 end, 'l')\n"
                                     "for i = 1, 20000 do\n"
                                     "  local x = i\n"
                                     "end\n"
                                     "note(hits > 20000) note(debug.gethook() ~= nil)");
    turn_until_done(rt, task, 4 * MS);
    CHECK(error_of(rt, task) == 0);
    CHECK(!strcmp(noted, "true;true;"));
    finish(rt, L);
}

static void trusted_scripts_are_ended_and_keep_their_hooks(void **state)
{
    (void)state;
    in_a_process(denied_to_a_trusted_one, SYS_timer_create);
    in_a_process(denied_to_a_trusted_one, SYS_timer_settime);
}

static void no_pending_signals(int unused)
{
    (void)unused;
    struct orr_runtime *rt = host_runtime();
    lua_State *L = open_isolate(rt, (struct orr_lua_options){ .profile = ORR_LUA_UNTRUSTED,
                                                              .slice_ns = MS,
                                                              .deadline_ns[ORR_LUA_SCRIPT] = 50 * MS,
                                                              .deadline_ns[ORR_LUA_CALL] = 20 * MS,
                                                              .notice = keep_counted,
                                                              .notice_data = noted });
    CHECK(!setrlimit(RLIMIT_SIGPENDING, &(struct rlimit){ 0, 0 }));
    ends_in_time(rt, L, endless[0]);
    is_told_why("timer_create");
    CHECK(strstr(noted, "timer_create: Resource temporarily unavailable"));
    all_end_in_time(rt, L);
    is_told_why("timer_create");
    finish(rt, L);
}

static void the_limit_of_pending_signals_does_not_matter(void **state)
{
    (void)state;
    in_a_process(no_pending_signals, 0);
}

/* --- Denied later ----------------------------------------------------------------------------- */

static int to_deny;

static int deny_it(lua_State *L)
{
    (void)L;
    deny(to_deny);
    return 0;
}

/*
 * An earlier slice has set the timer.  The failure is found by the running slice or by the next
 * one.
 */
static void denied_in_mid_slice(int call)
{
    struct orr_runtime *rt = host_runtime();
    lua_State *L = open_limited(rt, ORR_LUA_UNTRUSTED);
    lua_register(L, "deny", deny_it);
    to_deny = call;
    ends_in_time(rt, L, endless[0]);
    CHECK(harness_log_lines() == 0);
    struct orr_task *task = start(L, "game.async.sleep(0)");
    turn_until_done(rt, task, 4 * MS);
    CHECK(error_of(rt, task) == 0);
    ends_in_time(rt, L, "deny() while true do end");
    all_end_in_time(rt, L);
    if (call != SYS_timer_create) { /* no new timer is needed any more */
        is_told_why(name_of(call));
    }
    finish(rt, L);
}

static void system_calls_denied_later_are_noticed(void **state)
{
    (void)state;
    static const int calls[] = { SYS_timer_create, SYS_timer_settime, SYS_rt_sigaction, SYS_rt_sigprocmask };
    for (size_t i = 0; i < LENGTH(calls); i++)
        in_a_process(denied_in_mid_slice, calls[i]);
}

/* A nested call with a deadline so short that the timer is set for it. */
static int call_shortly(lua_State *L)
{
    deny(to_deny);
    lua_pushvalue(L, 1);
    lua_pushinteger(L, orr_lua_call(L, 0, 0, MS / 2));
    return 1;
}

static void denied_in_mid_call(int call)
{
    struct orr_runtime *rt = host_runtime();
    lua_State *L = open_limited(rt, ORR_LUA_UNTRUSTED);
    lua_register(L, "call_shortly", call_shortly);
    to_deny = call;
    ends_in_time(rt, L, "call_shortly(function() while true do end end) while true do end");
    is_told_why(name_of(call));
    finish(rt, L);
}

static void a_timer_that_cannot_be_set_inside_a_slice_ends_it(void **state)
{
    (void)state;
    in_a_process(denied_in_mid_call, SYS_timer_settime);
    in_a_process(denied_in_mid_call, SYS_rt_sigaction);
}

struct elsewhere {
    struct orr_runtime *rt;
    lua_State *L;
};

static void run_elsewhere(void *data)
{
    struct elsewhere *elsewhere = data;
    deny(to_deny); /* for this thread only */
    all_end_in_time(elsewhere->rt, elsewhere->L);
    is_told_why(name_of(to_deny));
}

static void denied_to_another_thread(int call)
{
    struct orr_runtime *rt = host_runtime();
    lua_State *L = open_limited(rt, ORR_LUA_UNTRUSTED);
    to_deny = call;
    all_end_in_time(rt, L);
    CHECK(harness_log_lines() == 0);
    harness_on_thread(run_elsewhere, &(struct elsewhere){ rt, L });
    all_end_in_time(rt, L); /* on a thread that has a timer again */
    CHECK(notices[ORR_LUA_COUNTED] == 1);
    finish(rt, L);
}

static void turns_may_move_to_a_thread_without_a_timer_and_back(void **state)
{
    (void)state;
    in_a_process(denied_to_another_thread, SYS_timer_create);
    in_a_process(denied_to_another_thread, SYS_timer_settime);
    in_a_process(denied_to_another_thread, SYS_timer_delete);
}

/* --- Hosts that take the signal away ---------------------------------------------------------- */

static int preempting_signal;

static void block_signal(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, preempting_signal);
    CHECK(!pthread_sigmask(SIG_BLOCK, &set, NULL));
}

static void replace_handler(void)
{
    CHECK(signal(preempting_signal, SIG_IGN) != SIG_ERR);
}

static void disturbed(int by_mask)
{
    preempting_signal = SIGRTMIN + 4;
    struct orr_runtime *rt = host_runtime();
    lua_State *L = open_limited(rt, ORR_LUA_UNTRUSTED);
    for (int i = 0; i < 3; i++) {
        struct orr_task *task = start(L, "local x = 1"); /* sets the timer and leaves it set */
        turn_until_done(rt, task, 4 * MS);
        CHECK(error_of(rt, task) == 0);
        if (by_mask)
            block_signal();
        else
            replace_handler();
        ends_in_time(rt, L, endless[0]);
    }
    CHECK(notices[ORR_LUA_COUNTED] == 0);
    finish(rt, L);
}

static void a_host_that_takes_the_signal_away_between_turns_is_noticed(void **state)
{
    (void)state;
    in_a_process(disturbed, false);
    in_a_process(disturbed, true);
}

/* Removes the handler while the timer is set, and returns after the signal has been lost. */
static enum orr_poll take_handler(struct orr_task *task, void *data)
{
    (void)task;
    (void)data;
    replace_handler();
    uint64_t end = clock_now() + 5 * MS;
    while (clock_now() < end)
        continue;
    return ORR_DONE;
}

static void disturbed_in_a_run(int unused)
{
    (void)unused;
    preempting_signal = SIGRTMIN + 4;
    struct orr_runtime *rt = host_runtime();
    lua_State *L = open_limited(rt, ORR_LUA_UNTRUSTED);
    struct orr_task *task = start(L, "for i = 1, 100 do game.async.checkpoint() end while true do end");
    CHECK(orr_spawn(rt, &(struct orr_spawn){ .poll = take_handler }) == 0);
    CHECK(orr_runtime_run(rt) == 0);
    CHECK(error_of(rt, task) == -ETIME);
    finish(rt, L);
}

static void a_task_that_takes_the_signal_away_in_a_run_is_noticed(void **state)
{
    (void)state;
    in_a_process(disturbed_in_a_run, 0);
}

/* --- Workers ---------------------------------------------------------------------------------- */

static void denied_to_jobs(int call)
{
    deny(call); /* for threads that are created from now on, too */
    struct orr_runtime *rt = host_runtime_with((struct orr_options){ .workers = 1 });
    lua_State *L = open_limited(rt, ORR_LUA_UNTRUSTED);
    struct orr_task *task = start(L, "local w = game.worker.new('while true do end', { timeout = 50 })\n"
                                     "note(pcall(w.call, w))");
    turn_until_done(rt, task, 4 * MS);
    error_of(rt, task);
    CHECK(!strcmp(noted, "false;"));
    finish(rt, L);
}

static void jobs_are_ended_without_a_timer(void **state)
{
    (void)state;
    in_a_process(denied_to_jobs, SYS_timer_create);
    in_a_process(denied_to_jobs, SYS_timer_settime);
}

static const struct CMUnitTest no_timer[] = {
    cmocka_unit_test(untrusted_scripts_are_ended_without_a_timer),
    cmocka_unit_test(trusted_scripts_are_ended_and_keep_their_hooks),
    cmocka_unit_test(the_limit_of_pending_signals_does_not_matter),
    cmocka_unit_test(system_calls_denied_later_are_noticed),
    cmocka_unit_test(a_timer_that_cannot_be_set_inside_a_slice_ends_it),
    cmocka_unit_test(turns_may_move_to_a_thread_without_a_timer_and_back),
    cmocka_unit_test(a_host_that_takes_the_signal_away_between_turns_is_noticed),
    cmocka_unit_test(a_task_that_takes_the_signal_away_in_a_run_is_noticed),
    cmocka_unit_test(jobs_are_ended_without_a_timer),
};

HARNESS_MAIN(no_timer)
