/*
 * Scripts that are loaded and unloaded: everything that a script made ends with it, whoever unloads
 * it and whenever.
 */
#include "harness.h"
#include "lua_host.h"

#include <lauxlib.h>
#include <lua.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct orr_runtime *script_runtime(void)
{
    noted[0] = '\0';
    allocated_bytes = 0;
    return harness_runtime_with(
        (struct orr_options){ .clock = ORR_CLOCK_VIRTUAL, .alloc = counting_alloc, .grace_ms = 100 });
}

static void give_note(void *data, lua_State *L)
{
    (void)data;
    lua_register(L, "note", host_note);
}

static const char everything[] =
    "local a = game.async\n"
    "game.loop.set_interval(1, function() note 'timer' end)\n"
    "game.events:on('x', function() note 'handler' a.sleep(5) note 'handled' end)\n"
    "game.schedule(function() a.sleep(2) game.schedule(note, 'late') end)\n"
    "a.run({ detached = true }, function()\n"
    "  local guard <close> = setmetatable({}, { __close = function() note 'closed' end })\n"
    "  a.sleep(1e6)\n"
    "end)\n";

static struct orr_script *load_script(struct orr_runtime *rt, lua_State *shared, const char *text)
{
    struct orr_script *script;
    assert_int_equal(orr_script_load(rt,
                                     &(struct orr_script_options){
                                         .source = { .name = "=script", .text = text },
                                         .shared = shared,
                                         .lua = { .mount = "game" },
                                         .prepare = shared ? NULL : give_note,
                                     },
                                     &script),
                     0);
    return script;
}

static struct orr_function *taken;

/* A host function: keeps the function that it is given. */
static int take_function(void *data, struct orr_call *call)
{
    (void)data;
    taken = orr_function_ref(call->arguments[0].function);
    return 0;
}

static void turn(struct orr_runtime *rt)
{
    assert_true(orr_runtime_turn(rt, ORR_NEVER) >= 0);
}

static void emit(lua_State *L)
{
    lua_pushnil(L);
    assert_int_equal(orr_events_emit(L, "x"), 0);
}

static void unloaded_script_with_its_own_isolate_leaves_nothing(void **state)
{
    (void)state;
    struct orr_runtime *rt = script_runtime();
    /* Makes what the worker keeps for the next script. */
    struct orr_script *warm = load_script(rt, NULL, everything);
    for (int i = 0; i < 5; i++)
        turn(rt);
    assert_int_equal(orr_script_unload(warm), 0);
    long long before = allocated_bytes;
    noted[0] = '\0';
    struct orr_script *script = load_script(rt, NULL, everything);
    turn(rt);
    emit(orr_script_state(script));
    turn(rt);
    assert_non_null(strstr(noted, "handler;"));
    assert_true(allocated_bytes > before);
    noted[0] = '\0';
    assert_int_equal(orr_script_unload(script), 0);
    assert_string_equal(noted, "closed;");
    assert_int_equal(allocated_bytes, before);
    for (int i = 0; i < 5; i++)
        turn(rt);
    assert_string_equal(noted, "closed;");
    assert_int_equal(orr_runtime_free(rt), 0);
    assert_int_equal(allocated_bytes, 0);
}

static void events_wait_until_the_body_of_a_new_script_has_run(void **state)
{
    (void)state;
    struct orr_runtime *rt = script_runtime();
    struct orr_script *script = load_script(rt, NULL,
                                            "game.events:on('x', function() note 'first' end)\n"
                                            "game.async.run(function() note 'body' end)");
    emit(orr_script_state(script)); /* no handler is registered yet */
    emit(orr_script_state(script));
    assert_string_equal(noted, "");
    assert_int_equal(orr_runtime_run(rt), 0);
    assert_string_equal(noted, "body;first;first;");
    emit(orr_script_state(script));
    assert_int_equal(orr_runtime_run(rt), 0);
    assert_string_equal(noted, "body;first;first;first;");
    assert_int_equal(orr_script_unload(script), 0);
    assert_int_equal(orr_runtime_free(rt), 0);
    assert_int_equal(allocated_bytes, 0);
}

/*
 * Also in a callback, and in a handler that another script's emit has started.  Handlers that the
 * host registers belong to the host.
 */
static void a_script_lists_and_removes_only_its_own_handlers(void **state)
{
    (void)state;
    struct orr_runtime *rt = script_runtime();
    lua_State *L;
    assert_int_equal(orr_lua_new(rt, &(struct orr_lua_options){ .mount = "game" }, &L), 0);
    give_note(NULL, L);
    if (luaL_dostring(L, "host = game.events:on('x', function() note('host ' .. tostring(game.events:off(host))) end)"))
        fail_msg("%s", lua_tostring(L, -1));
    struct orr_script *one = load_script(
        rt, L,
        "game.events:on('x', function() note('one ' .. #game.events:list()) end)\n"
        "game.schedule(function() game.events:on('y', print) note(#game.events:list()) end)");
    turn(rt);
    turn(rt);
    struct orr_script *two = load_script(
        rt, L,
        "local events = game.events\n"
        "local off = {}\n"
        "for id = 1, 3 do off[id] = tostring(events:off(id) or events:off('x', id)) end\n"
        "note(table.concat(off, ' '))\n"
        "note(#events:list()) events:clear() events:clear 'x'\n"
        "note(events:emit 'x' .. ' ' .. events:emit 'x')\n");
    turn(rt);
    assert_string_equal(noted, "2;false false false;0;host true;one 2;one 2;2 1;");
    assert_int_equal(orr_script_unload(one), 0);
    assert_int_equal(orr_script_unload(two), 0);
    assert_int_equal(orr_lua_close(L), 0);
    assert_int_equal(orr_runtime_free(rt), 0);
    assert_int_equal(allocated_bytes, 0);
}

/* A function that the host calls acts for the script that gave it, or that owns the isolate. */
static void function_called_by_the_host_may_remove_handlers_of_its_script(void **state)
{
    (void)state;
    static const char text[] = "local id = game.events:on('x', function() note 'handler' end)\n"
                               "function off() note(game.events:off(id)) note(#game.events:list()) end\n"
                               "give(off)";
    struct orr_runtime *rt = script_runtime();
    struct orr_script *script = load_script(rt, NULL,
                                            "local id = game.events:on('x', function() end)\n"
                                            "function off() note(game.events:off(id)) end");
    turn(rt);
    assert_int_equal(orr_lua_call_values(orr_script_state(script), "off", NULL, 0, NULL, NULL, 0), 0);
    assert_int_equal(orr_script_unload(script), 0);

    lua_State *L;
    assert_int_equal(orr_lua_new(rt, &(struct orr_lua_options){ .mount = "game" }, &L), 0);
    give_note(NULL, L);
    assert_int_equal(orr_lua_set_function(L, "give", take_function, NULL), 0);
    script = load_script(rt, L, text);
    turn(rt);
    /* This call acts for the host. */
    assert_int_equal(orr_lua_call_values(L, "off", NULL, 0, NULL, NULL, 0), 0);
    assert_int_equal(orr_function_call(taken, NULL, 0, NULL, NULL, 0), 0);
    orr_function_unref(taken);
    assert_string_equal(noted, "true;false;0;true;0;");
    assert_int_equal(orr_script_unload(script), 0);
    assert_int_equal(orr_lua_close(L), 0);
    assert_int_equal(orr_runtime_free(rt), 0);
    assert_int_equal(allocated_bytes, 0);
}

/* Unloading a script drops its timers and callbacks; the statistics belong to the isolate. */
static void statistics_count_timers_and_scheduled_callbacks(void **state)
{
    (void)state;
    allocated_bytes = 0;
    struct orr_runtime *rt = harness_runtime_with(
        (struct orr_options){ .clock = ORR_CLOCK_MANUAL, .alloc = counting_alloc, .grace_ms = 100 });
    lua_State *L;
    assert_int_equal(orr_lua_new(rt, &(struct orr_lua_options){ .mount = "game" }, &L), 0);
    struct orr_script *script = load_script(rt, L,
                                            "local loop = game.loop\n"
                                            "loop.set_timeout(0, function() end)\n"
                                            "loop.set_interval(1e6, print)\n"
                                            "loop.set_timeout(1e6, print):start(1e6, 0, print)\n"
                                            "loop.set_timeout(1e6, print):close()\n"
                                            "game.schedule(function() end)");
    for (int i = 0; i < 5; i++)
        turn(rt);
    struct orr_lua_stats stats;
    assert_int_equal(orr_lua_stats(L, &stats), 0);
    assert_int_equal(stats.schedule_run, 1);
    assert_int_equal(stats.timers_pending, 2);
    assert_int_equal(stats.timers_fired, 1);
    assert_int_equal(stats.timers_cancelled, 1);
    assert_int_equal(stats.timers_rearmed, 1);
    assert_int_equal(stats.timers_migrated, 0);
    assert_int_equal(stats.timers_dropped, 0);
    assert_int_equal(orr_script_unload(script), 0);
    assert_int_equal(orr_lua_stats(L, &stats), 0);
    assert_int_equal(stats.timers_pending, 0);
    assert_int_equal(stats.timers_cancelled, 1);
    assert_int_equal(stats.timers_dropped, 2);
    assert_int_equal(orr_lua_close(L), 0);
    assert_int_equal(orr_runtime_free(rt), 0);
    assert_int_equal(allocated_bytes, 0);
}

/*
 * In a shared isolate, a script that is unloaded before its body has begun delays no events of
 * others.
 */
static void events_do_not_wait_for_a_script_that_never_begins(void **state)
{
    (void)state;
    struct orr_runtime *rt = script_runtime();
    lua_State *L;
    assert_int_equal(orr_lua_new(rt, &(struct orr_lua_options){ .mount = "game" }, &L), 0);
    give_note(NULL, L);
    struct orr_script *one = load_script(rt, L, "game.events:on('x', function() note 'one' end)");
    turn(rt);
    struct orr_script *other = load_script(rt, L, "note 'other'");
    emit(L);
    assert_int_equal(orr_script_unload(other), 0);
    noted[0] = '\0';
    emit(L);
    assert_int_equal(orr_runtime_run(rt), 0);
    assert_non_null(strstr(noted, "one;"));
    assert_int_equal(orr_script_unload(one), 0);
    assert_int_equal(orr_lua_close(L), 0);
    assert_int_equal(orr_runtime_free(rt), 0);
}

/* A callback that is due when its script is unloaded from inside never begins. */
static int unload_it(lua_State *L)
{
    lua_pushinteger(L, orr_script_unload(lua_touserdata(L, lua_upvalueindex(1))));
    return 1;
}

static void due_callbacks_do_not_run_after_their_script_is_unloaded(void **state)
{
    (void)state;
    struct orr_runtime *rt = script_runtime();
    lua_State *L;
    assert_int_equal(orr_lua_new(rt, &(struct orr_lua_options){ .mount = "game" }, &L), 0);
    give_note(NULL, L);
    struct orr_script *doomed = load_script(rt, L,
                                            "game.schedule(function() unload() note 'unloaded' end)\n"
                                            "game.schedule(note, 'scheduled')\n"
                                            "game.loop.set_timeout(0, function() note 'timer' end)");
    lua_pushlightuserdata(L, doomed);
    lua_pushcclosure(L, unload_it, 1);
    lua_setglobal(L, "unload");
    assert_int_equal(orr_runtime_run(rt), 0);
    assert_non_null(strstr(noted, "unloaded;"));
    assert_null(strstr(noted, "scheduled;"));
    assert_int_equal(orr_lua_close(L), 0);
    assert_int_equal(orr_runtime_free(rt), 0);
    assert_int_equal(allocated_bytes, 0);
}

static void scripts_that_share_an_isolate_leave_each_other_alone(void **state)
{
    (void)state;
    struct orr_runtime *rt = script_runtime();
    lua_State *L;
    assert_int_equal(orr_lua_new(rt, &(struct orr_lua_options){ .mount = "game" }, &L), 0);
    give_note(NULL, L);
    struct orr_script *one = load_script(rt, L, everything);
    struct orr_script *other = load_script(rt, L,
                                           "game.events:on('x', function() note 'other' end)\n"
                                           "local t = game.loop.set_interval(10, function() note 'tick' end)\n"
                                           "game.async.run(function() game.async.sleep(25) t:close() end)");
    turn(rt);
    emit(L);
    for (int i = 0; i < 4; i++)
        turn(rt);
    assert_non_null(strstr(noted, "handler;other;"));
    noted[0] = '\0';
    assert_int_equal(orr_script_unload(one), 0);
    assert_string_equal(noted, "closed;");
    emit(L);
    turn(rt);
    assert_string_equal(noted, "closed;other;");
    assert_int_equal(orr_runtime_run(rt), 0);
    assert_non_null(strstr(noted, "tick;tick;"));
    assert_null(strstr(noted, "timer"));
    assert_null(strstr(noted, "late"));
    assert_int_equal(orr_script_unload(other), 0);
    noted[0] = '\0';
    emit(L);
    assert_int_equal(orr_runtime_run(rt), 0);
    assert_string_equal(noted, "");
    assert_int_equal(orr_lua_close(L), 0);
    assert_int_equal(orr_runtime_free(rt), 0);
    assert_int_equal(allocated_bytes, 0);
}

static struct orr_script *own_script;
static bool reloads;

static int end_self(lua_State *L)
{
    lua_pushinteger(L, reloads ? orr_script_reload(own_script) : orr_script_unload(own_script));
    return 1;
}

static void give_end(void *data, lua_State *L)
{
    give_note(data, L);
    lua_register(L, "end_self", end_self);
}

static const char suicidal[] = "note 'loaded'\n"
                               "game.events:on('x', function()\n"
                               "  note(end_self()) note(end_self())\n"
                               "  local ok, e = pcall(game.async.sleep, 10) note(e)\n"
                               "end)";

static void script_may_be_unloaded_by_a_handler_of_its_own(void **state)
{
    (void)state;
    for (int shared = 0; shared < 2; shared++) {
        struct orr_runtime *rt = script_runtime();
        lua_State *L = NULL;
        reloads = false;
        if (shared) {
            assert_int_equal(orr_lua_new(rt, &(struct orr_lua_options){ .mount = "game" }, &L), 0);
            give_end(NULL, L);
        }
        struct orr_script_options options = {
            .source = { .text = suicidal }, .shared = L, .lua.mount = "game", .prepare = shared ? NULL : give_end
        };
        assert_int_equal(orr_script_load(rt, &options, &own_script), 0);
        turn(rt);
        emit(orr_script_state(own_script));
        assert_int_equal(orr_runtime_run(rt), 0);
        char expected[64];
        snprintf(expected, sizeof expected, "loaded;%d;%d;closed;", -EINPROGRESS, -EALREADY);
        assert_string_equal(noted, expected);
        if (shared)
            assert_int_equal(orr_lua_close(L), 0);
        assert_int_equal(orr_runtime_free(rt), 0);
        assert_int_equal(allocated_bytes, 0);
    }
}

static void script_may_be_reloaded(void **state)
{
    (void)state;
    struct orr_runtime *rt = script_runtime();
    struct orr_script_options options = { .source = { .text = suicidal }, .lua.mount = "game", .prepare = give_end };
    assert_int_equal(orr_script_load(rt, &options, &own_script), 0);
    turn(rt);
    assert_int_equal(orr_script_reload(own_script), 0); /* from outside */
    turn(rt);
    assert_string_equal(noted, "loaded;loaded;");
    reloads = true; /* from inside */
    emit(orr_script_state(own_script));
    assert_int_equal(orr_runtime_run(rt), 0);
    assert_non_null(strstr(noted, "closed;loaded;"));
    assert_non_null(orr_script_state(own_script));
    assert_int_equal(orr_script_unload(own_script), 0);
    assert_int_equal(orr_runtime_free(rt), 0);
    assert_int_equal(allocated_bytes, 0);
}

static void scripts_may_come_and_go_many_times(void **state)
{
    (void)state;
    struct orr_runtime *rt = script_runtime();
    long long before = 0;
    for (int i = 0; i < WORK(10000) + 3; i++) {
        struct orr_script *script = load_script(rt, NULL, everything);
        turn(rt);
        turn(rt);
        assert_int_equal(orr_script_unload(script), 0);
        noted[0] = '\0';
        if (i == 2)
            before = allocated_bytes;
    }
    assert_int_equal(allocated_bytes, before);
    assert_int_equal(orr_runtime_free(rt), 0);
    assert_int_equal(allocated_bytes, 0);
}

static void misuse_is_refused(void **state)
{
    (void)state;
    struct orr_runtime *rt = script_runtime();
    struct orr_script *script;
    struct orr_script_options bad = { .source = { .text = "x =" } };
    assert_int_equal(orr_script_load(rt, &bad, &script), -EPROTO);
    assert_non_null(strstr(harness_log(), "unexpected symbol near"));
    bad.source = (struct orr_lua_source){ .path = "/nowhere/at/all.lua" };
    assert_int_equal(orr_script_load(rt, &bad, &script), -ENOENT);
    bad.source = (struct orr_lua_source){ 0 };
    assert_int_equal(orr_script_load(rt, &bad, &script), -EINVAL);
    assert_int_equal(orr_script_load(NULL, &bad, &script), -EINVAL);
    assert_int_equal(orr_script_load(rt, NULL, &script), -EINVAL);
    assert_int_equal(orr_script_unload(NULL), -EINVAL);
    assert_int_equal(orr_script_reload(NULL), -EINVAL);
    assert_null(orr_script_state(NULL));
    script = load_script(rt, NULL, everything);
    /* While the script still uses the state. */
    assert_int_equal(orr_lua_close(orr_script_state(script)), 0);
    assert_null(orr_script_state(script));
    assert_int_equal(orr_script_unload(script), 0);
    assert_int_equal(orr_runtime_free(rt), 0);
    assert_int_equal(allocated_bytes, 0);
}

/* --- Scripts that cannot be loaded ------------------------------------------------------------ */

static void message_of_a_script_that_does_not_compile_goes_to_the_caller(void **state)
{
    (void)state;
    struct orr_runtime *rt = script_runtime();
    struct orr_script *script;
    struct orr_value why;
    memset(&why, 0xff, sizeof why);
    struct orr_script_options options = { .source = { .name = "clock.lua", .text = "x = 1\ny =" }, .why = &why };
    assert_int_equal(orr_script_load(rt, &options, &script), -EPROTO);
    assert_int_equal(why.type, ORR_STRING);
    assert_string_equal(why.string.bytes, "clock.lua:2: unexpected symbol near <eof>");
    assert_int_equal(harness_log_lines(), 0); /* once */
    orr_values_free(&why, 1);

    options.source = (struct orr_lua_source){ .path = "/nowhere/at/all.lua" };
    assert_int_equal(orr_script_load(rt, &options, &script), -ENOENT);
    assert_string_equal(why.string.bytes, "/nowhere/at/all.lua: No such file or directory");
    orr_values_free(&why, 1);

    options.source = (struct orr_lua_source){ .text = "note('fine')" };
    options.prepare = give_note;
    memset(&why, 0xff, sizeof why);
    assert_int_equal(orr_script_load(rt, &options, &script), 0);
    assert_int_equal(why.type, ORR_NIL);
    assert_null(orr_script_error(script));
    assert_int_equal(orr_script_unload(script), 0);

    options.source = (struct orr_lua_source){ 0 };
    memset(&why, 0xff, sizeof why);
    assert_int_equal(orr_script_load(rt, &options, &script), -EINVAL);
    assert_int_equal(why.type, ORR_NIL);
    assert_int_equal(orr_runtime_free(rt), 0);
    assert_int_equal(allocated_bytes, 0);
}

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static void failed_reload_says_why_until_the_next_one(void **state)
{
    (void)state;
    char path[] = "/tmp/orrery-script-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    write_file(path, "x = 1");
    struct orr_runtime *rt = script_runtime();
    struct orr_script *script;
    struct orr_value why;
    struct orr_script_options options = { .source = { .name = "clock.lua", .path = path }, .why = &why };
    assert_int_equal(orr_script_load(rt, &options, &script), 0);
    write_file(path, "x = = 1");
    assert_int_equal(orr_script_reload(script), -EPROTO);
    assert_int_equal(harness_log_lines(), 0); /* this host asks why */
    assert_int_equal(orr_script_unload(script), 0);
    write_file(path, "x = 1");
    options.why = NULL;
    assert_int_equal(orr_script_load(rt, &options, &script), 0);
    write_file(path, "x = = 1");
    assert_int_equal(orr_script_reload(script), -EPROTO);
    assert_string_equal(orr_script_error(script), "clock.lua:1: unexpected symbol near '='");
    assert_string_equal(harness_log(), "clock.lua: cannot reload the script: clock.lua:1: unexpected symbol near '='");
    assert_int_equal(harness_log_lines(), 1);
    assert_null(orr_script_state(script));
    write_file(path, "x = 2");
    assert_int_equal(orr_script_reload(script), 0);
    assert_null(orr_script_error(script));
    assert_non_null(orr_script_state(script));
    assert_int_equal(orr_script_unload(script), 0);
    assert_null(orr_script_error(NULL));
    assert_int_equal(orr_runtime_free(rt), 0);
    assert_int_equal(allocated_bytes, 0);
    unlink(path);
}

static const struct CMUnitTest script[] = {
    cmocka_unit_test(unloaded_script_with_its_own_isolate_leaves_nothing),
    cmocka_unit_test(events_wait_until_the_body_of_a_new_script_has_run),
    cmocka_unit_test(a_script_lists_and_removes_only_its_own_handlers),
    cmocka_unit_test(statistics_count_timers_and_scheduled_callbacks),
    cmocka_unit_test(function_called_by_the_host_may_remove_handlers_of_its_script),
    cmocka_unit_test(events_do_not_wait_for_a_script_that_never_begins),
    cmocka_unit_test(due_callbacks_do_not_run_after_their_script_is_unloaded),
    cmocka_unit_test(scripts_that_share_an_isolate_leave_each_other_alone),
    cmocka_unit_test(script_may_be_unloaded_by_a_handler_of_its_own),
    cmocka_unit_test(script_may_be_reloaded),
    cmocka_unit_test(scripts_may_come_and_go_many_times),
    cmocka_unit_test(misuse_is_refused),
    cmocka_unit_test(message_of_a_script_that_does_not_compile_goes_to_the_caller),
    cmocka_unit_test(failed_reload_says_why_until_the_next_one),
};

HARNESS_MAIN(script)
