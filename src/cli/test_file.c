/*
 * The process of one test file: a runtime on a virtual clock, one isolate, and a loop of turns that
 * checks the real time after each.  Lua decides (lua/cli/test/file.lua).  This file calls it for
 * what comes from outside: a deadlock in virtual time, a time limit, or the parent process that
 * asks this one to end.
 *
 * Lua can be told of a time limit only when no Lua is in the middle of a slice.  Lua that never
 * waits is ended by the deadline of its task, which is the time limit of a test; then it can be
 * told.
 */
#include "cli/test_file.h"

#include "cli/lua_modules.h"
#include "cli/process.h"
#include "cli/test_options.h"

#include <orrery.h>

#include <lauxlib.h>
#include <lua.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define MS UINT64_C(1000000)

enum { TURN_MS = 10, GRACE_MS = 500, DEADLOCKS_MAX = 8 };

/* Reports that Lua will ask for. */
struct texts {
    char **list;
    size_t count;
};

struct runner {
    struct test_options options;
    struct orr_runtime *rt;
    lua_State *L;
    int handlers;           /* a reference to the table that file.lua returns */
    uint64_t limit_at;      /* for what runs now */
    uint64_t file_limit_at; /* ORR_NEVER once it was reported */
    unsigned deadlocks;     /* since anything began */
    bool finished;
    uint64_t timeouts;      /* how often something was ended at its deadline, when last looked at */
    bool postponed;         /* the limit was postponed because of that; once is enough */
    struct texts unhandled; /* failures that nobody saw */
    struct texts overruns;  /* those of them that were ended at a deadline */
};

static volatile sig_atomic_t asked_to_stop;

static uint64_t real_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 * MS + (uint64_t)now.tv_nsec;
}

static uint64_t from_now(uint64_t ms)
{
    return ms ? real_now() + ms * MS : ORR_NEVER;
}

/* --- C functions for Lua ---------------------------------------------------------------------- */

static struct runner *runner_of(lua_State *L)
{
    return lua_touserdata(L, lua_upvalueindex(1));
}

static int send_records(lua_State *L)
{
    size_t length;
    const char *bytes = luaL_checklstring(L, 1, &length);
    while (length) {
        ssize_t written = write(PROCESS_RECORDS, bytes, length);
        if (written < 0 && errno != EINTR)
            return luaL_error(L, "cannot send results to the test runner: %s", strerror(errno));
        bytes += written > 0 ? written : 0;
        length -= written > 0 ? (size_t)written : 0;
    }
    return 0;
}

static int set_limit(lua_State *L)
{
    struct runner *self = runner_of(L);
    self->limit_at = from_now((uint64_t)luaL_checknumber(L, 1));
    self->postponed = false;
    self->deadlocks = 0;
    return 0;
}

static int finish(lua_State *L)
{
    runner_of(L)->finished = true;
    return 0;
}

static void keep_text(struct texts *texts, const char *text)
{
    char **list = realloc(texts->list, (texts->count + 1) * sizeof *list);
    if (!list)
        return;
    texts->list = list;
    texts->list[texts->count] = strdup(text);
    texts->count += texts->list[texts->count] != NULL;
}

/* Returns a list of the texts; nil if there are none. */
static int take_texts(lua_State *L, struct texts *texts)
{
    if (!texts->count)
        return 0;
    lua_createtable(L, (int)texts->count, 0);
    for (size_t i = 0; i < texts->count; i++) {
        lua_pushstring(L, texts->list[i]);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
        free(texts->list[i]);
    }
    texts->count = 0;
    return 1;
}

static int take_unhandled(lua_State *L)
{
    return take_texts(L, &runner_of(L)->unhandled);
}

static int take_overruns(lua_State *L)
{
    return take_texts(L, &runner_of(L)->overruns);
}

static void push_functions(lua_State *L, struct runner *self)
{
    static const luaL_Reg functions[] = {
        { "send", send_records },
        { "limit", set_limit },
        { "finish", finish },
        { "unhandled", take_unhandled },
        { "overruns", take_overruns },
        { "clock", process_clock },
        { NULL, NULL },
    };
    luaL_newlibtable(L, functions);
    lua_pushlightuserdata(L, self);
    luaL_setfuncs(L, functions, 1);
}

/* [runner] -> `run`; keeps the handlers. */
static int prepare(lua_State *L)
{
    struct runner *self = lua_touserdata(L, 1);
    lua_createtable(L, 0, 1);
    lua_pushstring(L, self->options.file);
    lua_rawseti(L, -2, 0);
    lua_setglobal(L, "arg");
    lua_getglobal(L, "require");
    lua_pushliteral(L, "orrery.test.file");
    lua_call(L, 1, 1);
    push_functions(L, self);
    test_options_push(L, &self->options, GRACE_MS);
    lua_call(L, 2, 1);
    lua_getfield(L, -1, "run");
    lua_insert(L, -2);
    self->handlers = luaL_ref(L, LUA_REGISTRYINDEX);
    return 1;
}

/* --- From outside ----------------------------------------------------------------------------- */

/* Returns -EBUSY if the handler cannot be called now. */
static int call_handler(struct runner *self, const char *name, const char *argument)
{
    lua_State *L = self->L;
    int top = lua_gettop(L);
    lua_rawgeti(L, LUA_REGISTRYINDEX, self->handlers);
    lua_getfield(L, -1, name);
    lua_remove(L, -2);
    lua_pushstring(L, argument);
    int error = orr_lua_call(L, 1, 0, ORR_NEVER);
    if (error && error != -EBUSY)
        fprintf(stderr, "orrery test: %s\n", lua_tostring(L, -1));
    lua_settop(L, top);
    return error;
}

static void on_deadlock(void *data)
{
    struct runner *self = data;
    if (self->finished)
        return;
    if (++self->deadlocks > DEADLOCKS_MAX) {
        fprintf(stderr, "orrery test: a deadlock that cannot be ended\n");
        _exit(1);
    }
    call_handler(self, "deadlock", NULL);
}

static void on_unhandled(void *data, struct orr_task *task)
{
    struct runner *self = data;
    if (!self->L || orr_lua_push_report(self->L, task))
        return;
    bool overran = orr_task_result(task) && orr_task_result(task)->error == -ETIME;
    keep_text(overran ? &self->overruns : &self->unhandled, lua_tostring(self->L, -1));
    lua_pop(self->L, 1);
}

/*
 * A task that was ended at its deadline has failed like any other (`timeouts_as_failures`): if the
 * test sees the failure, it may expect it; if nobody does, the sink gets it.
 */
static void on_notice(void *data, lua_State *L, enum orr_lua_notice notice, const char *text)
{
    (void)data;
    (void)L;
    (void)notice;
    fprintf(stderr, "orrery: %s\n", text);
}

static void on_signal(int signal)
{
    (void)signal;
    asked_to_stop = 1;
}

/*
 * A task that ran until its deadline has often brought its test to the limit, too: its failure is
 * reported first.
 */
static bool postpones_limits(struct runner *self)
{
    struct orr_lua_stats stats;
    if (orr_lua_stats(self->L, &stats))
        return false;
    bool postpones = stats.timeouts != self->timeouts && !self->postponed;
    self->timeouts = stats.timeouts;
    self->postponed |= postpones;
    return postpones;
}

static void check_limits(struct runner *self)
{
    if (postpones_limits(self))
        return;
    uint64_t now = real_now();
    if (now >= self->file_limit_at && !call_handler(self, "limit", "file"))
        self->file_limit_at = ORR_NEVER;
    if (now >= self->limit_at)
        call_handler(self, "limit", "test"); /* it sets the next limit */
}

static void print_line(void *data, const char *text)
{
    fprintf(data, "%s\n", text);
}

/* In the middle of a slice, Lua cannot report what is running: then the tree is printed. */
static void stop_now(struct runner *self)
{
    if (call_handler(self, "stop", NULL) == -EBUSY && !orr_runtime_enter(self->rt)) {
        orr_tree_print(NULL, print_line, stderr);
        orr_runtime_leave(self->rt);
    }
    fflush(stdout);
    _exit(1);
}

/* --- The loop --------------------------------------------------------------------------------- */

/*
 * Sleeps while something may come from outside: I/O, another thread, a time of the machine's clock.
 */
static void sleep_until_needed(struct runner *self)
{
    struct pollfd ready = { .fd = orr_runtime_fd(self->rt), .events = POLLIN };
    uint64_t now = real_now(), next = orr_runtime_next_deadline(self->rt);
    next = self->options.real_time ? next : ORR_NEVER;
    next = self->limit_at < next ? self->limit_at : next;
    next = self->file_limit_at < next ? self->file_limit_at : next;
    uint64_t ms = next == ORR_NEVER ? 1000 : next > now ? (next - now) / MS + 1 : 0;
    poll(&ready, 1, ms < 1000 ? (int)ms : 1000);
}

static void run_turns(struct runner *self)
{
    while (!self->finished) {
        int more = orr_runtime_turn(self->rt, TURN_MS * MS);
        if (more < 0) {
            fprintf(stderr, "orrery test: cannot run a turn: %s\n", strerror(-more));
            _exit(1);
        }
        if (asked_to_stop)
            stop_now(self);
        check_limits(self);
        if (!more && !self->finished)
            sleep_until_needed(self);
    }
}

static int start(struct runner *self)
{
    lua_State *L = self->L;
    int status = lua_modules_preload(L);
    if (status == LUA_OK) {
        lua_pushcfunction(L, prepare);
        lua_pushlightuserdata(L, self);
        status = lua_pcall(L, 1, 1, 0);
    }
    if (status == LUA_OK && !orr_lua_start(L, 0, "orrery test", NULL))
        return 0;
    fprintf(stderr, "orrery test: %s\n", lua_tostring(L, -1));
    return 1;
}

static int open_state(struct runner *self)
{
    struct orr_lua_options options = {
        .name = "", /* there is only one */
        .profile = ORR_LUA_TRUSTED,
        .mount = self->options.mount,
        .notice = on_notice,
        .notice_data = self,
        .timeouts_as_failures = true,
        .testing = true,
    };
    for (int entry = 0; entry < ORR_LUA_ENTRIES; entry++)
        options.deadline_ns[entry] = self->options.test_limit ? self->options.test_limit * MS : ORR_NEVER;
    options.deadline_ns[ORR_LUA_SCRIPT] = ORR_NEVER; /* the test runner itself */
    return orr_lua_new(self->rt, &options, &self->L);
}

/*
 * The process must not outlive its parent, nor pass the records' descriptor on to processes of the
 * test.
 */
static bool prepare_process(void)
{
    struct sigaction action = { .sa_handler = on_signal };
    sigaction(SIGTERM, &action, NULL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setvbuf(stdout, NULL, _IOLBF, 0);
    return !fcntl(PROCESS_RECORDS, F_SETFD, FD_CLOEXEC);
}

int test_file_main(int argc, char **argv)
{
    struct runner self = { .handlers = LUA_NOREF, .limit_at = ORR_NEVER };
    if (!test_options_parse(&self.options, argc, argv) || !prepare_process()) {
        fprintf(stderr, "orrery test: --child is for internal use; name the file instead: orrery test FILE\n");
        return 2;
    }
    self.file_limit_at = from_now(self.options.file_limit);
    self.rt = orr_runtime_new(&(struct orr_options){
        .reactor = self.options.reactor,
        .clock = self.options.real_time ? ORR_CLOCK_MONOTONIC : ORR_CLOCK_VIRTUAL,
        .sink = on_unhandled,
        .sink_data = &self,
        .deadlock = on_deadlock,
        .deadlock_data = &self,
    });
    if (!self.rt)
        return 1;
    int status = 1;
    if (!open_state(&self)) {
        if (!start(&self)) {
            run_turns(&self);
            status = 0;
        }
        lua_State *L = self.L;
        self.L = NULL;
        orr_lua_close(L);
    }
    orr_runtime_free(self.rt);
    free(self.unhandled.list);
    free(self.overruns.list);
    return status;
}
