#include "isolate.h"

#include <lauxlib.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

/* Many tasks are left at the end on purpose, so the log is ignored. */
static void ignore_log(void *data, enum orr_log level, const char *message)
{
    (void)data;
    if (level == ORR_LOG_ERROR)
        fprintf(stderr, "%s\n", message);
}

static bool closing; /* an isolate is being closed: a busy script may fail then */

static void fail(void *data, struct orr_task *task)
{
    (void)data;
    if (closing)
        return;
    const char *message = orr_task_result(task)->message;
    fprintf(stderr, "a script failed: %s\n", message ? message : "unknown");
    exit(1);
}

struct orr_runtime *isolate_runtime(enum orr_reactor reactor)
{
    struct orr_options options = { .reactor = reactor, .grace_ms = 1, .log = ignore_log, .sink = fail };
    struct orr_runtime *rt = orr_runtime_new(&options);
    if (!rt) {
        perror("orr_runtime_new");
        exit(1);
    }
    return rt;
}

lua_State *isolate_open(struct orr_runtime *rt, uint64_t slice_ns, uint64_t deadline_ns)
{
    struct orr_lua_options options = {
        .mount = "orrery",
        .profile = ORR_LUA_TRUSTED,
        .mode = ORR_LUA_SIGNAL,
        .slice_ns = slice_ns,
        .deadline_ns = { [ORR_LUA_SCRIPT] = deadline_ns, [ORR_LUA_TASK] = deadline_ns },
        .memory_limit = SIZE_MAX,
    };
    lua_State *L;
    bench_must(orr_lua_new(rt, &options, &L), "orr_lua_new");
    return L;
}

void isolate_close(lua_State *L)
{
    closing = true;
    bench_must(orr_lua_close(L), "orr_lua_close");
    closing = false;
}

void isolate_load(lua_State *L, const char *code)
{
    if (luaL_loadbuffer(L, code, strlen(code), "=script") == LUA_OK)
        return;
    fprintf(stderr, "%s\n", lua_tostring(L, -1));
    exit(1);
}

void isolate_start_function(lua_State *L)
{
    bench_must(orr_lua_start(L, 0, "script", NULL), "orr_lua_start");
}

void isolate_start(lua_State *L, const char *code)
{
    isolate_load(L, code);
    isolate_start_function(L);
}

double isolate_number(lua_State *L, const char *name)
{
    lua_getglobal(L, name);
    double value = lua_tonumber(L, -1);
    lua_pop(L, 1);
    return value;
}

long disturbances(void)
{
    struct rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_nivcsw;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double percentile(double *values, unsigned count, double part)
{
    if (!count)
        return 0;
    qsort(values, count, sizeof *values, by_value);
    unsigned at = (unsigned)(part * count);
    return values[at < count ? at : count - 1];
}
