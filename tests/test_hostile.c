/*
 * The scripts of tests/hostile, each with one trick.  Each runs in an untrusted isolate of its own,
 * and must end as its first lines say.  The host keeps getting its turns.  A neighbour on the same
 * worker goes on and computes the right results.  Closing the isolate returns all of its memory.
 */
#include "harness.h"

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { FILES_MAX = 600, TURNS_LEAST = 5, PATIENCE_S = 60 };

static void ignore_failure(void *data, struct orr_task *task)
{
    (void)data;
    (void)task;
}

/* --- A script --------------------------------------------------------------------------------- */

struct script {
    char path[512];
    char text[16384];
    size_t size;
    char expected[256]; /* timeout, ended, memory, ok, any end, or error and a pattern */
    bool uninterrupted;
};

static void read_line(const struct script *script, const char *key, char *value, size_t size)
{
    const char *at = strstr(script->text, key);
    value[0] = '\0';
    if (at)
        snprintf(value, size, "%.*s", (int)strcspn(at + strlen(key), "\n"), at + strlen(key));
}

static void read_script(struct script *script)
{
    FILE *file = fopen(script->path, "r");
    assert_non_null(file);
    script->size = fread(script->text, 1, sizeof script->text - 1, file);
    script->text[script->size] = '\0';
    fclose(file);
    char why[256];
    read_line(script, "-- expect: ", script->expected, sizeof script->expected);
    read_line(script, "-- uninterrupted: ", why, sizeof why);
    script->uninterrupted = *why;
    if (!*script->expected)
        fail_msg("%s does not say what is expected", script->path);
}

/* --- Running a script ------------------------------------------------------------------------- */

/*
 * Some outcomes depend on time, and the machine may be slow: a failure is tried again with more
 * time.
 */
enum { TIMES_MORE = 200 };

static const struct orr_lua_options untrusted = {
    .mount = "orrery",
    .memory_limit = 32 << 20,
    .deadline_ns = {
        [ORR_LUA_TASK] = 100 * MS,
        [ORR_LUA_SCRIPT] = 100 * MS,
        [ORR_LUA_CALL] = 100 * MS,
        [ORR_LUA_HANDLER] = 100 * MS,
        [ORR_LUA_TIMER] = 100 * MS,
        [ORR_LUA_SCHEDULED] = 100 * MS,
    },
};

struct outcome {
    int error;
    char message[8192];
    unsigned turns;
};

static void take_turn(struct orr_runtime *rt)
{
    assert_true(orr_runtime_turn(rt, 4 * MS) >= 0);
}

/* Turns until the task is done; -EINPROGRESS if it does not end. */
static struct outcome run_to_the_end(struct orr_runtime *rt, struct orr_task *task)
{
    struct outcome outcome = { .error = -EINPROGRESS };
    time_t begun = time(NULL);
    for (bool done = false; !done && time(NULL) - begun < PATIENCE_S; outcome.turns++) {
        take_turn(rt);
        assert_int_equal(orr_runtime_enter(rt), 0);
        done = orr_task_done(task);
        if (done) {
            const struct orr_result *result = orr_task_result(task);
            outcome.error = result->error;
            snprintf(outcome.message, sizeof outcome.message, "%s", result->message ? result->message : "");
        }
        assert_int_equal(orr_runtime_leave(rt), 0);
    }
    assert_int_equal(orr_runtime_enter(rt), 0);
    orr_task_unref(task);
    assert_int_equal(orr_runtime_leave(rt), 0);
    return outcome;
}

static struct outcome run_text(struct orr_runtime *rt, lua_State *L, const char *text, size_t size)
{
    struct orr_task *task;
    if (luaL_loadbufferx(L, text, size, "=hostile", "t") != LUA_OK)
        fail_msg("%s", lua_tostring(L, -1));
    assert_int_equal(orr_lua_start(L, 0, "hostile", &task), 0);
    return run_to_the_end(rt, task);
}

/* Whether an error matches a Lua pattern. */
static bool matches(const char *text, const char *pattern)
{
    lua_State *L = luaL_newstate();
    luaL_requiref(L, "string", luaopen_string, 1);
    lua_getfield(L, -1, "find");
    lua_pushstring(L, text);
    lua_pushstring(L, pattern);
    bool found = lua_pcall(L, 2, 1, 0) == LUA_OK && !lua_isnil(L, -1);
    lua_close(L);
    return found;
}

/* NULL if the outcome is as expected, else what is wrong. */
static const char *judge(const struct script *script, const struct outcome *outcome)
{
    if (outcome->error == -EINPROGRESS)
        return "it does not end";
    if (!strcmp(script->expected, "any end"))
        return NULL;
    if (!strcmp(script->expected, "ended") && SANITIZED)
        return NULL; /* with a limit that long, no step is too slow */
    if (!strcmp(script->expected, "ended"))
        return outcome->error == -ETIME && !strncmp(outcome->message, "Script ended", 12) ? NULL : "it is not ended";
    if (!strcmp(script->expected, "ok"))
        return outcome->error ? "it fails" : NULL;
    if (!strncmp(outcome->message, "Script ended", 12) && strstr(outcome->message, "in one piece"))
        return NULL; /* on a busy machine, a short script may time out now and then */
    if (!strcmp(script->expected, "memory"))
        return strstr(outcome->message, "not enough memory") ? NULL : "it does not run out of memory";
    if (!strncmp(script->expected, "error ", 6))
        return outcome->error && matches(outcome->message, script->expected + 6) ? NULL
                                                                                 : "the error is another, or none";
    if (strcmp(script->expected, "timeout") != 0)
        return "what it expects is not known";
    if (!strstr(outcome->message, "Script execution timeout"))
        return "it does not time out";
    if (!script->uninterrupted && outcome->turns < TURNS_LEAST)
        return "the host had too few turns meanwhile";
    return NULL;
}

/* --- The neighbour ---------------------------------------------------------------------------- */

static const char neighbours_code[] =
    "local log = {}\n"
    "for i = 1, 3 do orrery.async.sleep(0) log[#log + 1] = i end\n"
    "local s = ('a1b22c333'):gsub('%d+', function(d) return '<' .. #d .. '>' end)\n"
    "log[#log + 1] = s .. string.format('%5.2f', 2 / 3) .. table.concat({ 3, 1, 2 }, '')\n"
    "local t = { 5, 3, 9 } table.sort(t) log[#log + 1] = table.concat(t)\n"
    "log[#log + 1] = tostring(select(2, pcall(error, 'x', 0))) .. coroutine.wrap(function() coroutine.yield('y') "
    "end)()\n"
    "assert(table.concat(log, ' ') == '1 2 3 a<1>b<2>c<3> 0.67312 359 xy', table.concat(log, ' '))\n";

static const char *only; /* runs only scripts whose name contains this */

/*
 * Runs a script in its own state and then the neighbour beside what the script left behind. Returns
 * NULL, or prints and returns what is wrong.
 */
static const char *try_script(struct orr_runtime *rt, lua_State *neighbour, const struct script *script, unsigned times)
{
    struct orr_lua_options options = untrusted;
    for (int entry = 0; entry < ORR_LUA_ENTRIES; entry++)
        options.deadline_ns[entry] *= times;
    if (!SANITIZED && (times == 1 || !strcmp(script->expected, "ended")))
        options.longest_step_ns = 8 * MS;
    lua_State *L;
    assert_int_equal(orr_lua_new(rt, &options, &L), 0);
    struct outcome outcome = run_text(rt, L, script->text, script->size);
    for (int turns = 0; turns < 5; turns++) /* for what the script has left behind */
        take_turn(rt);
    const char *wrong = judge(script, &outcome);
    struct outcome others = run_text(rt, neighbour, neighbours_code, strlen(neighbours_code));
    if (others.error) {
        wrong = "its neighbour fails";
        outcome = others;
    }
    if (wrong && times > 1)
        fprintf(stderr, "%s: %s: expected %s, got %d after %u turns: %.600s\n", script->path, wrong, script->expected,
                outcome.error, outcome.turns, outcome.message);
    assert_int_equal(orr_lua_close(L), 0);
    harness_settle(rt);
    return wrong;
}

static unsigned run_all(struct script *scripts, unsigned count)
{
    struct orr_runtime *rt = harness_runtime_with(
        (struct orr_options){ .alloc = counting_alloc, .sink = ignore_failure, .grace_ms = 50 });
    lua_State *neighbour;
    struct orr_lua_options options = untrusted;
    for (int entry = 0; entry < ORR_LUA_ENTRIES; entry++)
        options.deadline_ns[entry] = 10000 * MS;
    assert_int_equal(orr_lua_new(rt, &options, &neighbour), 0);
    unsigned bad = 0;
    for (unsigned i = 0; i < count; i++) {
        struct script *script = &scripts[i];
        if (only && !strstr(script->path, only))
            continue;
        read_script(script);
        if (getenv("ORR_TEST_VERBOSE"))
            fprintf(stderr, "%s\n", script->path);
        bad += try_script(rt, neighbour, script, 1) && try_script(rt, neighbour, script, TIMES_MORE);
    }
    assert_int_equal(orr_lua_close(neighbour), 0);
    assert_int_equal(orr_runtime_free(rt), 0);
    assert_int_equal(allocated_bytes, 0);
    return bad;
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const struct script *)a)->path, ((const struct script *)b)->path);
}

static unsigned find_scripts(const char *folder, struct script *scripts, unsigned count)
{
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    for (struct dirent *entry; (entry = readdir(dir));) {
        const char *dot = strrchr(entry->d_name, '.');
        if (!dot || strcmp(dot, ".lua") != 0)
            continue;
        assert_true(count < FILES_MAX);
        snprintf(scripts[count++].path, sizeof scripts->path, "%s/%s", folder, entry->d_name);
    }
    closedir(dir);
    return count;
}

static void hostile_scripts_harm_nobody(void **state)
{
    (void)state;
    const char *folder = getenv("ORR_HOSTILE");
    assert_non_null(folder);
    only = getenv("ORR_TEST_ONLY");
    struct script *scripts = calloc(FILES_MAX, sizeof *scripts);
    char bugs[512];
    snprintf(bugs, sizeof bugs, "%s/bugs", folder);
    unsigned count = find_scripts(folder, scripts, 0);
    count = find_scripts(bugs, scripts, count);
    qsort(scripts, count, sizeof *scripts, by_path);
    assert_true(count >= 50);
    unsigned bad = run_all(scripts, count);
    free(scripts);
    assert_int_equal(bad, 0);
}

static const struct CMUnitTest hostile[] = {
    cmocka_unit_test(hostile_scripts_harm_nobody),
};

HARNESS_MAIN(hostile)
