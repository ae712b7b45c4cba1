/*
 * The C API for Lua without its stack: values in both directions, calls with values, host
 * functions, the modules that scripts have, statistics.
 */
#include "lua_host.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- Fixtures --------------------------------------------------------------------------------- */

#if defined(__SANITIZE_THREAD__)
enum { SIGNALS_ARE_LATE = 1 };
#else
enum { SIGNALS_ARE_LATE = 0 };
#endif

static int served = -1; /* how many more requests for memory are served; -1 for all */

static void *refusing_alloc(void *data, void *block, size_t old_size, size_t size)
{
    if (size && (size > old_size || !block) && served >= 0 && served-- == 0) {
        served = 0;
        return NULL;
    }
    return counting_alloc(data, block, old_size, size);
}

static struct orr_runtime *refusing_runtime(void)
{
    allocated_bytes = 0;
    served = -1;
    struct orr_runtime *rt = host_runtime_with((struct orr_options){ .alloc = refusing_alloc });
    assert_non_null(rt);
    return rt;
}

/* Closes everything: the stack must be empty and all memory free. */
static void finish_clean(struct orr_runtime *rt, lua_State *L)
{
    assert_int_equal(lua_gettop(L), 0);
    finish_counting(rt, L);
}

static void run_text(lua_State *L, const char *code)
{
    load(L, code);
    if (orr_lua_call(L, 0, 0, 0))
        fail_msg("%s", lua_tostring(L, -1));
}

static struct orr_value table_of(const struct orr_value *items, size_t length, const struct orr_pair *pairs,
                                 size_t count)
{
    return (struct orr_value){ .type = ORR_TABLE, .table = { items, length, pairs, count } };
}

/* Passes a value through a function of the script; the caller owns the result. */
static struct orr_value pass(lua_State *L, const char *function, struct orr_value value)
{
    struct orr_value result;
    size_t room = 1;
    assert_int_equal(orr_lua_call_values(L, function, &value, 1, &result, &room, 0), 0);
    assert_int_equal(room, 1);
    return result;
}

static void assert_text(const struct orr_value *value, const char *text)
{
    assert_int_equal(value->type, ORR_STRING);
    assert_string_equal(value->string.bytes, text);
    assert_int_equal(value->string.length, strlen(text));
}

static const char echo[] = "function echo(...) return ... end";

/* --- Round trips ------------------------------------------------------------------------------ */

static void every_scalar_survives_the_round_trip(void **state)
{
    (void)state;
    struct orr_runtime *rt = refusing_runtime();
    lua_State *L = open_trusted(rt, (struct orr_lua_options){ 0 });
    run_text(L, echo);
    struct orr_value in[] = { { .type = ORR_NIL },      orr_value_boolean(true),
                              orr_value_boolean(false), orr_value_integer(INT64_MIN),
                              orr_value_number(0.5),    orr_value_number(3),
                              orr_value_string("text"), { .type = ORR_STRING, .string = { "a\0b", 3 } },
                              { .type = ORR_STRING } };
    struct orr_value out[LENGTH(in) + 1];
    size_t room = LENGTH(out);
    assert_int_equal(orr_lua_call_values(L, "echo", in, LENGTH(in), out, &room, 0), 0);
    assert_int_equal(room, LENGTH(in));
    for (size_t i = 0; i < room; i++)
        assert_int_equal(out[i].type, in[i].type);
    assert_true(out[1].boolean);
    assert_false(out[2].boolean);
    assert_true(out[3].integer == INT64_MIN);
    assert_true(out[4].number == 0.5);
    assert_true(out[5].number == 3);
    assert_text(&out[6], "text");
    assert_int_equal(out[7].string.length, 3);
    assert_memory_equal(out[7].string.bytes, "a\0b", 4); /* including the NUL behind it */
    assert_text(&out[8], "");
    orr_values_free(out, room);
    assert_int_equal(out[6].type, ORR_NIL);
    orr_values_free(out, room);
    finish_clean(rt, L);
}

static void tables_have_items_and_pairs_and_nest(void **state)
{
    (void)state;
    struct orr_runtime *rt = refusing_runtime();
    lua_State *L = open_trusted(rt, (struct orr_lua_options){ 0 });
    run_text(L, "function check(t)\n"
                "  assert(#t == 3 and t[1] == 'one' and t[2] == 2 and #t[3] == 0 and next(t[3]) == nil)\n"
                "  assert(t.name == 'x' and t[true] == 1.5 and t.inner[1] == 'deep' and t[10] == 'ten')\n"
                "  return t\n"
                "end");
    struct orr_value deep[] = { orr_value_string("deep") };
    struct orr_value items[] = { orr_value_string("one"), orr_value_integer(2), table_of(NULL, 0, NULL, 0) };
    struct orr_pair pairs[] = { { orr_value_string("name"), orr_value_string("x") },
                                { orr_value_boolean(true), orr_value_number(1.5) },
                                { orr_value_string("inner"), table_of(deep, 1, NULL, 0) },
                                { orr_value_integer(10), orr_value_string("ten") } };
    struct orr_value out = pass(L, "check", table_of(items, 3, pairs, 4));
    assert_int_equal(out.type, ORR_TABLE);
    assert_int_equal(out.table.length, 3);
    assert_text(&out.table.items[0], "one");
    assert_int_equal(out.table.items[2].type, ORR_TABLE);
    assert_int_equal(out.table.items[2].table.length + out.table.items[2].table.count, 0);
    assert_int_equal(out.table.count, 4);
    unsigned found = 0;
    for (size_t i = 0; i < out.table.count; i++) {
        const struct orr_pair *pair = &out.table.pairs[i];
        if (pair->key.type == ORR_STRING && !strcmp(pair->key.string.bytes, "inner")) {
            assert_text(&pair->value.table.items[0], "deep");
            found++;
        } else if (pair->key.type == ORR_INTEGER) {
            assert_int_equal(pair->key.integer, 10);
            assert_text(&pair->value, "ten");
            found++;
        }
    }
    assert_int_equal(found, 2);
    orr_values_free(&out, 1);
    finish_clean(rt, L);
}

static void table_with_holes_is_no_longer_than_what_is_in_it(void **state)
{
    (void)state;
    struct orr_runtime *rt = refusing_runtime();
    lua_State *L = open_trusted(rt, (struct orr_lua_options){ 0 });
    run_text(L, "function holes() local t = { 1, 2 } for i = 2, 50 do t[1 << i] = i end return t end\n"
                "function shy() return setmetatable({}, { __index = error, __len = error, __pairs = error }) end\n"
                "function other() return coroutine.create(print), io.stdout, { io.stdout } end");
    struct orr_value out[3];
    size_t room = 1;
    assert_int_equal(orr_lua_call_values(L, "holes", NULL, 0, out, &room, 0), 0);
    assert_true(out[0].table.length <= 51); /* how many of them are the list, Lua decides */
    assert_int_equal(out[0].table.length + out[0].table.count, 51);
    orr_values_free(out, room);
    room = 3;
    assert_int_equal(orr_lua_call_values(L, "shy", NULL, 0, out, &room, 0), 0);
    assert_int_equal(room, 1);
    assert_int_equal(out[0].table.length + out[0].table.count, 0);
    orr_values_free(out, room);
    room = 3;
    assert_int_equal(orr_lua_call_values(L, "other", NULL, 0, out, &room, 0), 0);
    assert_int_equal(out[0].type, ORR_OTHER);
    assert_int_equal(out[1].type, ORR_OTHER);
    assert_int_equal(out[2].table.items[0].type, ORR_OTHER);
    assert_int_equal(orr_lua_push_value(L, &out[0]), -EINVAL);
    orr_values_free(out, room);
    finish_clean(rt, L);
}

/* Pushes `depth` nested tables. */
static void push_nested(lua_State *L, struct orr_value *levels, unsigned depth, int expected)
{
    levels[0] = table_of(NULL, 0, NULL, 0);
    for (unsigned i = 1; i < depth; i++)
        levels[i] = table_of(&levels[i - 1], 1, NULL, 0);
    assert_int_equal(orr_lua_push_value(L, &levels[depth - 1]), expected);
}

static void depth_has_a_limit_both_ways(void **state)
{
    (void)state;
    struct orr_runtime *rt = refusing_runtime();
    lua_State *L = open_trusted(rt, (struct orr_lua_options){ 0 });
    struct orr_value levels[ORR_VALUE_DEPTH + 1], out;
    push_nested(L, levels, ORR_VALUE_DEPTH + 1, -ELOOP);
    assert_int_equal(lua_gettop(L), 0);
    push_nested(L, levels, ORR_VALUE_DEPTH, 0);
    assert_int_equal(orr_lua_copy_value(L, -1, &out), 0);
    orr_values_free(&out, 1);
    lua_createtable(L, 1, 0);
    lua_insert(L, -2);
    lua_rawseti(L, -2, 1);
    assert_int_equal(orr_lua_copy_value(L, -1, &out), -ELOOP);
    assert_int_equal(out.type, ORR_NIL);
    lua_pop(L, 1);
    run_text(L, "function round() local t = { 'x' } t.t = t return t end");
    size_t room = 1;
    assert_int_equal(orr_lua_call_values(L, "round", NULL, 0, &out, &room, 0), -ELOOP);
    assert_int_equal(room, 0);
    finish_clean(rt, L);
}

static void copies_of_what_an_untrusted_script_made_are_no_larger_than_its_longest_string(void **state)
{
    (void)state;
    struct orr_runtime *rt = refusing_runtime();
    lua_State *L = open_isolate(rt, (struct orr_lua_options){ .longest_string = 1 << 20 });
    run_text(L, "function twice(n) local t = {} for i = 1, n do t = { t, t } end return t end\n"
                "function strings() local s, t = ('x'):rep(1 << 16), {} for i = 1, 1000 do t[i] = s end return t end");
    struct orr_value out, n = orr_value_integer(60);
    size_t room = 1;
    assert_int_equal(orr_lua_call_values(L, "twice", &n, 1, &out, &room, 0), -EFBIG);
    assert_int_equal(room, 0);
    room = 1;
    assert_int_equal(orr_lua_call_values(L, "strings", NULL, 0, &out, &room, 0), -EFBIG);
    n.integer = 8;
    out = pass(L, "twice", n);
    orr_values_free(&out, 1);
    finish_clean(rt, L);
}

static void invalid_value_is_refused_and_nothing_is_pushed(void **state)
{
    (void)state;
    struct orr_runtime *rt = refusing_runtime();
    lua_State *L = open_trusted(rt, (struct orr_lua_options){ 0 }), *bare = luaL_newstate();
    struct orr_pair nil_key = { { .type = ORR_NIL }, orr_value_integer(1) };
    struct orr_pair nan_key = { orr_value_number(NAN), orr_value_integer(1) };
    struct orr_value unknown = { .type = (enum orr_value_type)99 };
    struct orr_value nested[] = { orr_value_integer(1), unknown };
    struct orr_value bad[] = { unknown,
                               { .type = ORR_OTHER },
                               { .type = ORR_FUNCTION },
                               { .type = ORR_STRING, .string = { NULL, 1 } },
                               table_of(NULL, 1, NULL, 0),
                               table_of(NULL, 0, NULL, 1),
                               table_of(nested, 2, NULL, 0),
                               table_of(NULL, 0, &nil_key, 1),
                               table_of(NULL, 0, &nan_key, 1) };
    for (size_t i = 0; i < LENGTH(bad); i++) {
        assert_int_equal(orr_lua_push_value(L, &bad[i]), -EINVAL);
        assert_int_equal(orr_lua_call_values(L, "print", &bad[i], 1, NULL, NULL, 0), -EINVAL);
        assert_int_equal(orr_events_emit_value(L, "event", &bad[i]), -EINVAL);
        assert_int_equal(lua_gettop(L), 0);
    }
    struct orr_value out, one = orr_value_integer(1);
    assert_int_equal(orr_lua_push_value(NULL, &one), -EINVAL);
    assert_int_equal(orr_lua_push_value(bare, &one), -EINVAL);
    assert_int_equal(orr_lua_push_value(L, NULL), -EINVAL);
    assert_int_equal(orr_lua_read_value(L, 1, &out), -EINVAL);
    assert_int_equal(orr_lua_copy_value(L, 1, &out), -EINVAL);
    assert_int_equal(orr_lua_copy_value(bare, 1, &out), -EINVAL);
    assert_int_equal(orr_events_emit_value(bare, "event", &one), -EINVAL);
    assert_int_equal(orr_events_emit_value(L, "ev*", &one), -EINVAL);
    assert_int_equal(orr_events_emit_value(L, NULL, &one), -EINVAL);
    assert_int_equal(orr_function_call(NULL, NULL, 0, NULL, NULL, 0), -EINVAL);
    orr_function_unref(orr_function_ref(NULL));
    orr_values_free(NULL, 0);
    lua_close(bare);
    finish_clean(rt, L);
}

static void reading_looks_at_the_stack_and_copies_nothing(void **state)
{
    (void)state;
    struct orr_runtime *rt = refusing_runtime();
    lua_State *L = open_trusted(rt, (struct orr_lua_options){ 0 });
    struct orr_value value;
    const char *text = lua_pushliteral(L, "borrowed");
    lua_pushinteger(L, 7);
    lua_newtable(L);
    assert_int_equal(orr_lua_read_value(L, 1, &value), 0);
    assert_ptr_equal(value.string.bytes, text);
    assert_int_equal(orr_lua_read_value(L, -2, &value), 0);
    assert_int_equal(value.type, ORR_INTEGER); /* a number is not converted to a string */
    assert_int_equal(orr_lua_read_value(L, 3, &value), -ENOTSUP);
    lua_settop(L, 0);
    finish_clean(rt, L);
}

/* --- Calls ------------------------------------------------------------------------------------ */

static void path_leads_to_a_function_and_asks_no_metamethod(void **state)
{
    (void)state;
    struct orr_runtime *rt = refusing_runtime();
    lua_State *L = open_trusted(rt, (struct orr_lua_options){ 0 });
    run_text(L, "hooks = { draw = { now = function(x) return x end }, no = 5 }\n"
                "setmetatable(hooks, { __index = function() while true do end end })\n"
                "setmetatable(_G, { __index = function() while true do end end })");
    struct orr_value out = pass(L, "hooks.draw.now", orr_value_integer(3));
    assert_int_equal(out.integer, 3);
    static const char *const missing[] = { "nothing",          "hooks",        "hooks.no", "hooks.no.more",
                                           "hooks.draw.later", "hooks.missing" };
    static const char *const wrong[] = { NULL, "", ".", "hooks.", ".hooks", "hooks..draw" };
    for (size_t i = 0; i < LENGTH(missing); i++)
        assert_int_equal(orr_lua_call_values(L, missing[i], NULL, 0, NULL, NULL, 0), -ENOENT);
    for (size_t i = 0; i < LENGTH(wrong); i++)
        assert_int_equal(orr_lua_call_values(L, wrong[i], NULL, 0, NULL, NULL, 0), -EINVAL);
    size_t room = 1;
    assert_int_equal(orr_lua_call_values(L, "hooks.draw.now", NULL, 1, &out, &room, 0), -EINVAL);
    assert_int_equal(room, 0);
    finish_clean(rt, L);
}

static void results_that_do_not_fit_are_discarded(void **state)
{
    (void)state;
    struct orr_runtime *rt = refusing_runtime();
    lua_State *L = open_trusted(rt, (struct orr_lua_options){ 0 });
    run_text(L, "function many() return 'a', { 'b' }, 'c' end function none() end");
    struct orr_value out[2];
    size_t room = 2;
    assert_int_equal(orr_lua_call_values(L, "many", NULL, 0, out, &room, 0), 0);
    assert_int_equal(room, 2);
    assert_text(&out[1].table.items[0], "b");
    orr_values_free(out, room);
    assert_int_equal(orr_lua_call_values(L, "many", NULL, 0, NULL, NULL, 0), 0);
    assert_int_equal(orr_lua_call_values(L, "none", NULL, 0, out, &room, 0), 0);
    assert_int_equal(room, 0);
    finish_clean(rt, L);
}

static void error_of_a_script_is_the_result(void **state)
{
    (void)state;
    struct orr_runtime *rt = refusing_runtime();
    lua_State *L = open_trusted(rt, (struct orr_lua_options){ 0 });
    run_text(L, "function fails(x) error(x, 0) end");
    struct orr_value out, why = orr_value_string("because");
    size_t room = 1;
    assert_int_equal(orr_lua_call_values(L, "fails", &why, 1, &out, &room, 0), -EREMOTEIO);
    assert_int_equal(room, 1);
    assert_text(&out, "because");
    orr_values_free(&out, 1);
    why = table_of(&(struct orr_value){ .type = ORR_INTEGER, .integer = 5 }, 1, NULL, 0);
    assert_int_equal(orr_lua_call_values(L, "fails", &why, 1, &out, &room, 0), -EREMOTEIO);
    assert_int_equal(out.table.items[0].integer, 5);
    orr_values_free(&out, 1);
    assert_int_equal(orr_lua_call_values(L, "fails", &why, 1, NULL, NULL, 0), -EREMOTEIO);
    finish_clean(rt, L);
}

static void call_ends_at_its_deadline(void **state)
{
    (void)state;
    if (SIGNALS_ARE_LATE)
        skip();
    struct orr_runtime *rt = refusing_runtime();
    lua_State *L = open_trusted(rt, (struct orr_lua_options){ 0 });
    run_text(L, "function forever() while true do pcall(error) end end");
    struct orr_value out;
    size_t room = 1;
    assert_int_equal(orr_lua_call_values(L, "forever", NULL, 0, &out, &room, 5 * MS), -ETIME);
    assert_int_equal(room, 1);
    assert_text(&out, "Script execution timeout");
    orr_values_free(&out, room);
    struct orr_lua_stats stats;
    assert_int_equal(orr_lua_stats(L, &stats), 0);
    assert_int_equal(stats.timeouts, 1);
    finish_clean(rt, L);
}

static void call_ends_at_its_count_of_instructions(void **state)
{
    (void)state;
    struct orr_runtime *rt = refusing_runtime();
    lua_State *L = open_trusted(rt, (struct orr_lua_options){ .mode = ORR_LUA_COUNT, .max_instructions = 100000 });
    run_text(L, "function forever() while true do end end");
    size_t room = 0;
    assert_int_equal(orr_lua_call_values(L, "forever", NULL, 0, NULL, &room, 0), -ETIME);
    finish_clean(rt, L);
}

static void isolate_in_mid_slice_is_busy_and_events_wait(void **state)
{
    (void)state;
    if (SIGNALS_ARE_LATE)
        skip();
    struct orr_runtime *rt = refusing_runtime();
    lua_State *L = open_trusted(rt, (struct orr_lua_options){ .slice_ns = MS / 10, .events_limit = 1 });
    run_text(L, "function quick() end game.events:on('key', function(data) note(data.code) end)");
    struct orr_task *task = start(L, "local x = 0 for i = 1, 3e6 do x = x + i end note 'done'");
    assert_int_equal(orr_runtime_turn(rt, MS / 10), 1);
    assert_int_equal(orr_lua_call_values(L, "quick", NULL, 0, NULL, NULL, 0), -EBUSY);
    struct orr_pair code = { orr_value_string("code"), orr_value_integer(30) };
    struct orr_value data = table_of(NULL, 0, &code, 1);
    assert_int_equal(orr_events_emit_value(L, "key", &data), 0);
    assert_int_equal(orr_events_emit_value(L, "key", &data), -ENOBUFS);
    assert_int_equal(lua_gettop(L), 0);
    struct orr_lua_stats stats;
    assert_int_equal(orr_lua_stats(L, &stats), 0);
    assert_int_equal(stats.events_emitted, 2);
    assert_int_equal(stats.events_refused, 1);
    assert_true(stats.preemptions > 0);
    assert_true(stats.tasks > 0);
    turn_until_done(rt, task, ORR_NEVER);
    harness_settle(rt);
    assert_string_equal(noted, "done;30;");
    assert_int_equal(error_of(rt, task), 0);
    assert_int_equal(orr_lua_call_values(L, "quick", NULL, 0, NULL, NULL, 0), 0);
    finish_clean(rt, L);
}

struct elsewhere {
    lua_State *L;
    int pushed, called, emitted, copied, set, counted;
    size_t room;
};

static int nothing(void *data, struct orr_call *call)
{
    (void)data;
    (void)call;
    return 0;
}

static void use_elsewhere(void *data)
{
    struct elsewhere *self = data;
    struct orr_value value = orr_value_integer(1);
    struct orr_lua_stats stats;
    self->pushed = orr_lua_push_value(self->L, &value);
    self->emitted = orr_events_emit_value(self->L, "key", &value);
    self->called = orr_lua_call_values(self->L, "quick", NULL, 0, &value, &self->room, 0);
    self->copied = orr_lua_copy_value(self->L, 1, &value);
    self->set = orr_lua_set_function(self->L, "f", nothing, NULL);
    self->counted = orr_lua_stats(self->L, &stats);
}

static int run_elsewhere(void *data, struct orr_call *call)
{
    (void)call;
    harness_on_thread(use_elsewhere, data);
    return 0;
}

static void isolate_that_another_thread_drives_is_busy(void **state)
{
    (void)state;
    struct orr_runtime *rt = refusing_runtime();
    lua_State *L = open_trusted(rt, (struct orr_lua_options){ 0 });
    struct elsewhere self = { .L = L, .room = 1 };
    assert_int_equal(orr_lua_set_function(L, "elsewhere", run_elsewhere, &self), 0);
    assert_int_equal(orr_lua_call_values(L, "elsewhere", NULL, 0, NULL, NULL, 0), 0);
    assert_int_equal(self.pushed, -EBUSY);
    assert_int_equal(self.emitted, -EBUSY);
    assert_int_equal(self.called, -EBUSY);
    assert_int_equal(self.room, 0);
    assert_int_equal(self.copied, -EBUSY);
    assert_int_equal(self.set, -EBUSY);
    assert_int_equal(self.counted, -EBUSY);
    finish_clean(rt, L); /* the visit that was under way has ended properly */
}

/* --- Functions of scripts --------------------------------------------------------------------- */

static void function_is_kept_called_and_passed_back(void **state)
{
    (void)state;
    struct orr_runtime *rt = refusing_runtime();
    lua_State *L = open_trusted(rt, (struct orr_lua_options){ 0 }),
              *other = open_trusted(rt, (struct orr_lua_options){ 0 });
    run_text(L, "local n = 0 function counter() return function(by) n = n + by return n end end\n"
                "function twice(f) f(10) return f(10) end");
    struct orr_value counter, by = orr_value_integer(1), sum;
    size_t room = 1;
    assert_int_equal(orr_lua_call_values(L, "counter", NULL, 0, &counter, &room, 0), 0);
    assert_int_equal(counter.type, ORR_FUNCTION);
    lua_gc(L, LUA_GCCOLLECT);
    assert_int_equal(orr_function_call(counter.function, &by, 1, &sum, &room, 0), 0);
    assert_int_equal(sum.integer, 1);
    sum = pass(L, "twice", counter);
    assert_int_equal(sum.integer, 21);
    assert_int_equal(orr_lua_push_value(other, &counter), -EXDEV);
    struct orr_function *kept = orr_function_ref(counter.function);
    orr_values_free(&counter, 1);
    assert_int_equal(orr_function_call(kept, NULL, 0, &sum, &room, 0), -EREMOTEIO);
    orr_values_free(&sum, room);
    assert_int_equal(orr_lua_close(other), 0);
    assert_int_equal(orr_lua_close(L), 0);
    assert_int_equal(orr_function_call(kept, &by, 1, &sum, &room, 0), -EINVAL);
    assert_int_equal(room, 0);
    orr_function_unref(kept);
    finish_counting(rt, NULL);
}

static void function_outlives_the_hosts_own_state(void **state)
{
    (void)state;
    struct orr_runtime *rt = refusing_runtime();
    lua_State *L = luaL_newstate();
    struct orr_value value;
    struct orr_lua_stats stats;
    luaL_openlibs(L);
    assert_int_equal(orr_lua_open(rt, L, NULL), 0);
    lua_getglobal(L, "print");
    assert_int_equal(orr_lua_copy_value(L, -1, &value), 0);
    assert_int_equal(orr_lua_stats(L, &stats), 0);
    assert_true(stats.memory_used > 10000);
    assert_int_equal(stats.memory_limit, 0);
    lua_close(L);
    assert_int_equal(orr_function_call(value.function, NULL, 0, NULL, NULL, 0), -EINVAL);
    orr_values_free(&value, 1);
    finish_counting(rt, NULL);
}

static void close_state(void *data)
{
    lua_close(data);
}

static void function_outlives_a_state_closed_while_another_thread_has_the_worker(void **state)
{
    (void)state;
    struct orr_runtime *rt = refusing_runtime();
    lua_State *L = luaL_newstate();
    struct orr_value value;
    luaL_openlibs(L);
    assert_int_equal(orr_lua_open(rt, L, NULL), 0);
    lua_pushcfunction(L, host_note);
    assert_int_equal(orr_lua_copy_value(L, -1, &value), 0);
    assert_int_equal(orr_runtime_enter(rt), 0);
    harness_on_thread(close_state, L);
    assert_int_equal(orr_function_call(value.function, NULL, 0, NULL, NULL, 0), -EINVAL);
    orr_values_free(&value, 1);
    assert_int_equal(orr_runtime_leave(rt), 0);
    finish_counting(rt, NULL);
}

/* --- Host functions --------------------------------------------------------------------------- */

static unsigned drops;

static void count_drop(void *data)
{
    drops++;
    free(data);
}

struct screen {
    int64_t width, height;
    struct orr_function *kept;
};

static int size_of_screen(void *data, struct orr_call *call)
{
    const struct screen *screen = data;
    if (call->count && call->arguments[0].type != ORR_INTEGER)
        return orr_call_fail(call, -EINVAL, "expected a number of a screen, argument %d", 1);
    if (call->count && call->arguments[0].integer != 1)
        return -ENODEV;
    call->results[0] = orr_value_integer(screen->width);
    call->results[1] = orr_value_integer(screen->height);
    call->result_count = 2;
    return 0;
}

/* Returns a string that the runtime frees. */
static int name_of_screen(void *data, struct orr_call *call)
{
    (void)data;
    char *name = strdup("screen \0 one");
    call->results[0] = orr_value_string(name);
    call->result_count = 1;
    call->drop = count_drop;
    call->drop_data = name;
    return 0;
}

static int return_arguments(void *data, struct orr_call *call)
{
    (void)data;
    for (size_t i = 0; i < call->count && i < ORR_CALL_RESULTS; i++)
        call->results[i] = call->arguments[i];
    call->result_count = call->count;
    return 0;
}

static int return_nonsense(void *data, struct orr_call *call)
{
    (void)data;
    call->results[0].type = (enum orr_value_type)77;
    call->result_count = 1;
    call->drop = count_drop;
    return 0;
}

static int keep_function(void *data, struct orr_call *call)
{
    struct screen *screen = data;
    if (!call->count || call->arguments[0].type != ORR_FUNCTION)
        return orr_call_fail(call, -EINVAL, "expected a function");
    screen->kept = orr_function_ref(call->arguments[0].function);
    return 0;
}

static void script_calls_host_functions(void **state)
{
    (void)state;
    struct orr_runtime *rt = refusing_runtime();
    struct screen screen = { .width = 1920, .height = 1080 };
    for (int trusted = 0; trusted < 2; trusted++) {
        lua_State *L = trusted ? open_trusted(rt, (struct orr_lua_options){ 0 })
                               : open_isolate(rt, (struct orr_lua_options){ 0 });
        noted[0] = '\0';
        drops = 0;
        assert_int_equal(orr_lua_set_function(L, "game.screen.size", size_of_screen, &screen), 0);
        assert_int_equal(orr_lua_set_function(L, "game.screen.name", name_of_screen, NULL), 0);
        assert_int_equal(orr_lua_set_function(L, "same", return_arguments, NULL), 0);
        run_text(L, "local w, h = game.screen.size(1) note(w) note(h) note(game.screen.name())\n"
                    "local t, s, f, n = same({ 1, { x = 'y' } }, 'a\\0b', note, nil)\n"
                    "note(t[2].x) note(#s) note(f == note) note(n) note(select('#', same(nil, nil)))");
        assert_string_equal(noted, "1920;1080;screen ;y;3;true;nil;2;");
        assert_int_equal(drops, 1);
        assert_int_equal(orr_lua_close(L), 0);
    }
    finish_counting(rt, NULL);
}

static void errors_of_host_functions_are_raised(void **state)
{
    (void)state;
    struct orr_runtime *rt = refusing_runtime();
    struct screen screen = { 0 };
    lua_State *L = open_trusted(rt, (struct orr_lua_options){ 0 });
    drops = 0;
    assert_int_equal(orr_lua_set_function(L, "game.size", size_of_screen, &screen), 0);
    assert_int_equal(orr_lua_set_function(L, "same", return_arguments, NULL), 0);
    assert_int_equal(orr_lua_set_function(L, "nonsense", return_nonsense, NULL), 0);
    run_text(L, "local function try(...) note(select(2, pcall(...))) end\n"
                "try(function() game.size('x') end) try(game.size, 2)\n"
                "try(same, 1, 2, 3, 4, 5, 6, 7, 8, {}) try(nonsense)\n"
                "local t = {} t[1] = t try(same, 1, 'x', t)");
    assert_string_equal(noted, "script:2: game.size: expected a number of a screen, argument 1;"
                               "game.size: No such device;"
                               "same: it returned more than 8 results;"
                               "nonsense: it returned a value that cannot be converted to Lua: Invalid argument;"
                               "same: an argument is nested too deep;");
    assert_int_equal(drops, 1);
    finish_clean(rt, L);
}

static void callback_of_a_script_is_kept_beyond_the_call(void **state)
{
    (void)state;
    struct orr_runtime *rt = refusing_runtime();
    struct screen screen = { 0 };
    lua_State *L = open_trusted(rt, (struct orr_lua_options){ 0 });
    assert_int_equal(orr_lua_set_function(L, "game.on_resize", keep_function, &screen), 0);
    struct orr_task *task = start(L, "game.on_resize(function(w) note(w) end) game.async.sleep(1) note 'slept'");
    turn_until_done(rt, task, ORR_NEVER);
    assert_int_equal(error_of(rt, task), 0);
    struct orr_value width = orr_value_integer(640);
    assert_int_equal(orr_function_call(screen.kept, &width, 1, NULL, NULL, 0), 0);
    assert_string_equal(noted, "slept;640;");
    orr_function_unref(screen.kept);
    finish_clean(rt, L);
}

/* Calls its argument inside a task, in a coroutine of the script. */
static int call_argument(void *data, struct orr_call *call)
{
    (void)data;
    struct orr_value result;
    size_t room = 1;
    int error = orr_function_call(call->arguments[0].function, &call->arguments[1], 1, &result, &room, 0);
    if (error)
        orr_call_fail(call, error, "%s", room ? result.string.bytes : "?");
    else
        call->results[call->result_count++] = orr_value_integer(result.integer);
    orr_values_free(&result, room);
    return error;
}

static void host_calls_back_from_inside_a_task(void **state)
{
    (void)state;
    struct orr_runtime *rt = refusing_runtime();
    lua_State *L = open_trusted(rt, (struct orr_lua_options){ 0 });
    assert_int_equal(orr_lua_set_function(L, "apply", call_argument, NULL), 0);
    struct orr_task *task = start(
        L, "local function deep(n) if n == 0 then return 1 end return n * apply(deep, n - 1) end\n"
           "note(deep(5)) note(coroutine.wrap(function() return deep(3) end)())\n"
           "note(select(2, pcall(apply, function(x) error('no ' .. x, 0) end, 4)))");
    turn_until_done(rt, task, ORR_NEVER);
    assert_int_equal(error_of(rt, task), 0);
    assert_string_equal(noted, "120;6;apply: no 4;");
    finish_clean(rt, L);
}

static void path_of_a_function_is_created_but_nothing_that_exists_is_replaced(void **state)
{
    (void)state;
    struct orr_runtime *rt = refusing_runtime();
    lua_State *L = open_trusted(rt, (struct orr_lua_options){ 0 }), *bare = luaL_newstate();
    run_text(L, "number = 5 a = { b = 'text' }");
    assert_int_equal(orr_lua_set_function(L, "x.y.z", nothing, NULL), 0);
    assert_int_equal(orr_lua_set_function(L, "x.y.w", nothing, NULL), 0);
    assert_int_equal(orr_lua_set_function(L, "a.c", nothing, NULL), 0);
    run_text(L, "x.y.z() x.y.w() a.c() note(a.b)");
    assert_string_equal(noted, "text;");
    assert_int_equal(orr_lua_set_function(L, "number.f", nothing, NULL), -ENOTDIR);
    assert_int_equal(orr_lua_set_function(L, "a.b.c", nothing, NULL), -ENOTDIR);
    assert_int_equal(orr_lua_set_function(L, "f", NULL, NULL), -EINVAL);
    assert_int_equal(orr_lua_set_function(L, "a..f", nothing, NULL), -EINVAL);
    assert_int_equal(orr_lua_set_function(L, NULL, nothing, NULL), -EINVAL);
    assert_int_equal(orr_lua_set_function(bare, "f", nothing, NULL), -EINVAL);
    lua_close(bare);
    finish_clean(rt, L);
}

/* --- Taking what other functions push --------------------------------------------------------- */

static void host_without_lua_h_takes_what_was_pushed(void **state)
{
    (void)state;
    struct orr_runtime *rt = refusing_runtime();
    lua_State *L = open_trusted(rt, (struct orr_lua_options){ 0 });
    struct orr_value why;
    assert_int_equal(orr_lua_load(L, &(struct orr_lua_source){ .name = "x.lua", .text = "x = = 1" }), -EPROTO);
    assert_int_equal(orr_lua_pop_value(L, &why), 0);
    assert_string_equal(why.string.bytes, "x.lua:1: unexpected symbol near '='");
    orr_values_free(&why, 1);
    assert_int_equal(lua_gettop(L), 0);

    struct orr_value seven = orr_value_integer(7);
    assert_int_equal(orr_lua_push_value(L, &seven), 0);
    assert_int_equal(orr_lua_pop_value(L, NULL), 0);
    assert_int_equal(lua_gettop(L), 0);
    assert_int_equal(orr_lua_pop_value(L, &why), -EINVAL);
    assert_int_equal(orr_lua_pop_value(NULL, &why), -EINVAL);
    assert_int_equal(why.type, ORR_NIL);
    finish_clean(rt, L);
}

static void report_that_does_not_fit_pushes_nothing(void **state)
{
    (void)state;
    struct orr_runtime *rt = refusing_runtime();
    lua_State *L = open_trusted(rt, (struct orr_lua_options){ 0 });
    struct orr_task *task = start(L, "error('oops')");
    turn_until_done(rt, task, ORR_NEVER);
    assert_int_equal(orr_runtime_enter(rt), 0);
    served = 0;
    assert_int_equal(orr_lua_push_report(L, task), -ENOMEM);
    served = -1;
    assert_int_equal(lua_gettop(L), 0);
    struct orr_value report;
    assert_int_equal(orr_lua_push_report(L, task), 0);
    assert_int_equal(orr_lua_pop_value(L, &report), 0);
    assert_non_null(strstr(report.string.bytes, "script:1: oops"));
    orr_values_free(&report, 1);
    orr_task_unref(task);
    assert_int_equal(orr_runtime_leave(rt), 0);
    finish_clean(rt, L);
}

static int never_start(lua_State *L, struct orr_future *future, int first)
{
    (void)L;
    (void)future;
    (void)first;
    return 0;
}

static void asynchronous_function_without_memory_is_an_error(void **state)
{
    (void)state;
    struct orr_runtime *rt = refusing_runtime();
    lua_State *L = open_trusted(rt, (struct orr_lua_options){ 0 });
    served = 0;
    assert_int_equal(orr_lua_push_async(L, never_start, NULL), -ENOMEM);
    served = -1;
    assert_int_equal(lua_gettop(L), 0);
    assert_int_equal(orr_lua_push_async(NULL, never_start, NULL), -EINVAL);
    assert_int_equal(orr_lua_push_async(L, never_start, NULL), 0);
    lua_pop(L, 1);
    finish_clean(rt, L);
}

/* --- Without memory --------------------------------------------------------------------------- */

/* True if there was enough memory. */
static bool run_with_memory_for(int points)
{
    struct orr_runtime *rt = refusing_runtime();
    lua_State *L = open_trusted(rt, (struct orr_lua_options){ 0 });
    run_text(L, "function f(t, s) return { same(t, s, print, 1, 2, 3, 4, 5) }, s .. '!', function() end end\n"
                "game.events:on('key', function(data) end)");
    struct orr_value item[] = { orr_value_string("item"), orr_value_integer(1) };
    struct orr_pair pair[] = { { orr_value_string("some key that is new"), table_of(item, 2, NULL, 0) } };
    struct orr_value arguments[] = { table_of(item, 2, pair, 1), orr_value_string("another string, and a long one") };
    struct orr_value results[3];
    size_t room = 3;
    lua_gc(L, LUA_GCCOLLECT);
    served = points;
    int error = orr_lua_set_function(L, "same", return_arguments, NULL);
    assert_true(error == 0 || error == -ENOMEM);
    if (!error) {
        error = orr_lua_call_values(L, "f", arguments, 2, results, &room, ORR_NEVER);
        assert_true(error == 0 || error == -ENOMEM || error == -EREMOTEIO);
        orr_values_free(results, room);
    }
    if (!error) {
        error = orr_events_emit_value(L, "key", &arguments[0]);
        assert_true(error == 0 || error == -ENOMEM || error == -EINVAL);
    }
    bool enough = served > 0;
    assert_true(!enough || !error);
    served = -1;
    harness_settle(rt);
    finish_clean(rt, L);
    return enough;
}

static void memory_that_runs_out_at_any_point_is_an_error_and_loses_nothing(void **state)
{
    (void)state;
    int points = 0;
    while (!run_with_memory_for(points))
        points++;
    print_message("%d points of failure\n", points);
    assert_true(points > 30);
}

static void memory_limit_of_an_isolate_holds_for_values(void **state)
{
    (void)state;
    struct orr_runtime *rt = refusing_runtime();
    lua_State *L = open_isolate(rt, (struct orr_lua_options){ .memory_limit = 4 << 20 });
    size_t size = 6 << 20;
    char *bytes = calloc(1, size);
    struct orr_value large = { .type = ORR_STRING, .string = { bytes, size } };
    assert_int_equal(orr_lua_push_value(L, &large), -ENOMEM);
    assert_int_equal(orr_events_emit_value(L, "key", &large), -ENOMEM);
    assert_int_equal(orr_lua_call_values(L, "print", &large, 1, NULL, NULL, 0), -ENOMEM);
    free(bytes);
    struct orr_lua_stats stats;
    assert_int_equal(orr_lua_stats(L, &stats), 0);
    assert_int_equal(stats.memory_limit, 4 << 20);
    assert_true(stats.memory_used > 0 && stats.memory_used <= stats.memory_peak);
    assert_true(stats.memory_peak <= stats.memory_limit);
    finish_clean(rt, L);
}

/* --- Modules of the API ----------------------------------------------------------------------- */

static const char list_modules[] =
    "local names, orrery = {}, require 'orrery'\n"
    "for name in pairs(orrery) do names[#names + 1] = name end\n"
    "table.sort(names) note(table.concat(names, ' ')) note(game == nil or orrery.async == game.async)";

static void scripts_have_the_modules_that_the_host_lists(void **state)
{
    (void)state;
    struct orr_runtime *rt = refusing_runtime();
    const char *const some[] = { "loop", "async", NULL }, *const other[] = { "schedule", "events", NULL };
    const char *const none[] = { NULL };
    static const char *const expected[] = { "async grants loop version;true;",
                                            "events grants schedule schedule_wrap version;true;",
                                            "grants version;true;" };
    const char *const *lists[] = { some, other, none };
    for (int i = 0; i < 6; i++) {
        lua_State *L;
        struct orr_lua_options options = { .mount = "game", .modules = lists[i / 2] };
        options.profile = i % 2 ? ORR_LUA_TRUSTED : ORR_LUA_UNTRUSTED;
        noted[0] = '\0';
        assert_int_equal(orr_lua_new(rt, &options, &L), 0);
        lua_register(L, "note", host_note);
        run_text(L, list_modules);
        assert_string_equal(noted, expected[i / 2]);
        assert_int_equal(orr_lua_close(L), 0);
    }
    finish_counting(rt, NULL);
}

static void scripts_with_globals_of_their_own_have_them_too(void **state)
{
    (void)state;
    struct orr_runtime *rt = refusing_runtime();
    const char *const some[] = { "async", NULL };
    lua_State *L = open_isolate(rt, (struct orr_lua_options){ .modules = some });
    assert_int_equal(orr_lua_load(L, &(struct orr_lua_source){ .text = list_modules, .own_globals = true }), 0);
    assert_int_equal(orr_lua_call(L, 0, 0, 0), 0);
    assert_string_equal(noted, "async grants version;true;");
    noted[0] = '\0';
    struct orr_task *task = start(L, "local a = game.async note(pcall(a.with_timeout, 1, a.sleep, 1000))\n"
                                     "note(pcall(require, 'orrery.loop'))");
    turn_until_done(rt, task, ORR_NEVER);
    assert_int_equal(error_of(rt, task), 0);
    assert_string_equal(noted, "false;false;"); /* async has the modules it needs itself */
    finish_clean(rt, L);
}

static void unknown_module_is_refused_by_name(void **state)
{
    (void)state;
    struct orr_runtime *rt = refusing_runtime();
    const char *const wrong[] = { "async", "network", NULL }, *const later[] = { "eventloop", NULL };
    lua_State *L;
    assert_int_equal(orr_lua_new(rt, &(struct orr_lua_options){ .modules = wrong }, &L), -EINVAL);
    assert_non_null(strstr(harness_log(), "\"network\""));
    assert_non_null(
        strstr(harness_log(), "async, eventloop, events, fs, json, loop, net, runtime, schedule, stdio, values"));
    assert_int_equal(orr_lua_new(rt, &(struct orr_lua_options){ .modules = later }, &L), 0);
    finish_clean(rt, L);
}

/* --- Statistics ------------------------------------------------------------------------------- */

static void statistics_count_schedules_and_events(void **state)
{
    (void)state;
    struct orr_runtime *rt = refusing_runtime();
    lua_State *L = open_trusted(rt, (struct orr_lua_options){ 0 }), *bare = luaL_newstate();
    struct orr_lua_stats stats;
    run_text(L, "game.schedule(error, 'x') game.schedule(print) game.events:on('key', note)");
    assert_int_equal(orr_lua_stats(L, &stats), 0);
    assert_int_equal(stats.schedule_waiting, 2);
    assert_int_equal(stats.schedule_errors, 0);
    assert_int_equal(orr_events_emit_value(L, "key", NULL), 0);
    harness_settle(rt);
    assert_string_equal(noted, "nil;");
    assert_int_equal(orr_lua_stats(L, &stats), 0);
    assert_int_equal(stats.schedule_waiting, 0);
    assert_int_equal(stats.schedule_errors, 1);
    assert_int_equal(stats.events_emitted, 1);
    assert_int_equal(stats.tasks, 0);
    assert_int_equal(orr_lua_stats(L, NULL), -EINVAL);
    assert_int_equal(orr_lua_stats(bare, &stats), -EINVAL);
    lua_close(bare);
    finish_clean(rt, L);
}

static const struct CMUnitTest values[] = {
    cmocka_unit_test(every_scalar_survives_the_round_trip),
    cmocka_unit_test(tables_have_items_and_pairs_and_nest),
    cmocka_unit_test(table_with_holes_is_no_longer_than_what_is_in_it),
    cmocka_unit_test(depth_has_a_limit_both_ways),
    cmocka_unit_test(copies_of_what_an_untrusted_script_made_are_no_larger_than_its_longest_string),
    cmocka_unit_test(invalid_value_is_refused_and_nothing_is_pushed),
    cmocka_unit_test(reading_looks_at_the_stack_and_copies_nothing),
    cmocka_unit_test(path_leads_to_a_function_and_asks_no_metamethod),
    cmocka_unit_test(results_that_do_not_fit_are_discarded),
    cmocka_unit_test(error_of_a_script_is_the_result),
    cmocka_unit_test(call_ends_at_its_deadline),
    cmocka_unit_test(call_ends_at_its_count_of_instructions),
    cmocka_unit_test(isolate_in_mid_slice_is_busy_and_events_wait),
    cmocka_unit_test(isolate_that_another_thread_drives_is_busy),
    cmocka_unit_test(function_is_kept_called_and_passed_back),
    cmocka_unit_test(function_outlives_the_hosts_own_state),
    cmocka_unit_test(function_outlives_a_state_closed_while_another_thread_has_the_worker),
    cmocka_unit_test(script_calls_host_functions),
    cmocka_unit_test(errors_of_host_functions_are_raised),
    cmocka_unit_test(callback_of_a_script_is_kept_beyond_the_call),
    cmocka_unit_test(host_calls_back_from_inside_a_task),
    cmocka_unit_test(path_of_a_function_is_created_but_nothing_that_exists_is_replaced),
    cmocka_unit_test(memory_that_runs_out_at_any_point_is_an_error_and_loses_nothing),
    cmocka_unit_test(host_without_lua_h_takes_what_was_pushed),
    cmocka_unit_test(report_that_does_not_fit_pushes_nothing),
    cmocka_unit_test(asynchronous_function_without_memory_is_an_error),
    cmocka_unit_test(memory_limit_of_an_isolate_holds_for_values),
    cmocka_unit_test(scripts_have_the_modules_that_the_host_lists),
    cmocka_unit_test(scripts_with_globals_of_their_own_have_them_too),
    cmocka_unit_test(unknown_module_is_refused_by_name),
    cmocka_unit_test(statistics_count_schedules_and_events),
};

HARNESS_MAIN(values)
