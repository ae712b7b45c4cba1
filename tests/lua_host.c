#include "lua_host.h"

#include <stdio.h>
#include <string.h>

char noted[4096];
char sink_text[8192];
unsigned notices[ORR_LUA_BLOCKED + 1];
char notice_text[8192];
int64_t disabled_handler;

int host_note(lua_State *L)
{
    size_t length = strlen(noted);
    snprintf(noted + length, sizeof noted - length, "%s;", luaL_tolstring(L, 1, NULL));
    return 0;
}

int host_call_back(lua_State *L)
{
    lua_settop(L, 1);
    int error = orr_lua_call(L, 0, 0, ORR_NEVER);
    lua_pushinteger(L, error);
    lua_insert(L, 1);
    return lua_gettop(L);
}

static void keep_sink_text(void *data, struct orr_task *task)
{
    const struct orr_result *result = orr_task_result(task);
    (void)data;
    snprintf(sink_text, sizeof sink_text, "%s", result->message ? result->message : strerror(-result->error));
}

static void keep_notice(void *data, lua_State *L, enum orr_lua_notice notice, const char *text)
{
    (void)data;
    (void)L;
    notices[notice]++;
    disabled_handler = orr_events_disabled(L);
    snprintf(notice_text, sizeof notice_text, "%s", text);
}

struct orr_runtime *host_runtime_with(struct orr_options options)
{
    sink_text[0] = noted[0] = notice_text[0] = '\0';
    memset(notices, 0, sizeof notices);
    if (!options.sink)
        options.sink = keep_sink_text;
    options.grace_ms = 200;
    return harness_runtime_with(options);
}

struct orr_runtime *host_runtime(void)
{
    struct orr_runtime *rt = host_runtime_with((struct orr_options){ 0 });
    assert_non_null(rt);
    return rt;
}

struct orr_runtime *host_counting_runtime(void)
{
    allocated_bytes = 0;
    struct orr_runtime *rt = host_runtime_with((struct orr_options){ .alloc = counting_alloc });
    assert_non_null(rt);
    return rt;
}

lua_State *open_trusted(struct orr_runtime *rt, struct orr_lua_options options)
{
    options.profile = ORR_LUA_TRUSTED;
    return open_isolate(rt, options);
}

lua_State *open_isolate(struct orr_runtime *rt, struct orr_lua_options options)
{
    lua_State *L;
    options.mount = "game";
    if (!options.notice)
        options.notice = keep_notice;
    assert_int_equal(orr_lua_new(rt, &options, &L), 0);
    lua_register(L, "note", host_note);
    return L;
}

void load(lua_State *L, const char *code)
{
    if (luaL_loadbuffer(L, code, strlen(code), "=script") != LUA_OK)
        fail_msg("%s", lua_tostring(L, -1));
}

struct orr_task *start(lua_State *L, const char *code)
{
    struct orr_task *task;
    load(L, code);
    assert_int_equal(orr_lua_start(L, 0, "script", &task), 0);
    return task;
}

void finish(struct orr_runtime *rt, lua_State *L)
{
    if (L)
        assert_int_equal(orr_lua_close(L), 0);
    assert_int_equal(orr_runtime_free(rt), 0);
}

void finish_counting(struct orr_runtime *rt, lua_State *L)
{
    finish(rt, L);
    assert_int_equal(allocated_bytes, 0);
}

unsigned turn_until_done(struct orr_runtime *rt, struct orr_task *task, uint64_t budget)
{
    unsigned turns = 0;
    for (bool done = false; !done; turns++) {
        int more = orr_runtime_turn(rt, budget);
        assert_true(more >= 0);
        assert_int_equal(orr_runtime_enter(rt), 0);
        done = orr_task_done(task);
        assert_int_equal(orr_runtime_leave(rt), 0);
        if (!done && !more && orr_runtime_next_deadline(rt) == ORR_NEVER)
            fail_msg("the task is stuck: it is not done, and there is nothing left to do");
    }
    return turns;
}

int error_of(struct orr_runtime *rt, struct orr_task *task)
{
    assert_int_equal(orr_runtime_enter(rt), 0);
    int error = orr_task_result(task)->error;
    orr_task_unref(task);
    assert_int_equal(orr_runtime_leave(rt), 0);
    return error;
}

void expect_success(struct orr_runtime *rt, struct orr_task *task)
{
    char message[2000];
    assert_int_equal(orr_runtime_enter(rt), 0);
    const struct orr_result *result = orr_task_result(task);
    snprintf(message, sizeof message, "%s", result->message ? result->message : "");
    assert_int_equal(orr_runtime_leave(rt), 0);
    int error = error_of(rt, task);
    if (error)
        fail_msg("the task has failed with %d: %s", error, message);
}

int runtime_stat(lua_State *L, const char *name)
{
    lua_getglobal(L, "game");
    lua_getfield(L, -1, "runtime");
    lua_getfield(L, -1, "stats");
    lua_call(L, 0, 1);
    lua_getfield(L, -1, name);
    int value = (int)lua_tointeger(L, -1);
    lua_pop(L, 4);
    return value;
}
