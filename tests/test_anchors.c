/*
 * Anchors: values that an isolate keeps alive by number.  They are in many tables, none of which is
 * large, so that the collector visits each in little time.  Memory runs out at every point where a
 * table, or the list of the tables, grows.
 */
#include "failing.h"
#include "lua_host.h"

#include "lua/isolate.h"
#include "lua/isolate/visit.h"

/* Allocations that are still served; the others fail. */
static int served = INT32_MAX;

static bool may_allocate(void)
{
    return served-- > 0;
}

/* Anchors its argument, and returns the anchor. */
static int anchor_value(lua_State *L)
{
    lua_settop(L, 1);
    lua_pushinteger(L, isolate_anchor(isolate_find(L), L));
    return 1;
}

/* Anchors an integer; 0 if there was no memory. */
static int anchor(lua_State *L, int value)
{
    lua_pushcfunction(L, anchor_value);
    lua_pushinteger(L, value);
    int status = lua_pcall(L, 1, 1, 0);
    int result = status == LUA_OK ? (int)lua_tointeger(L, -1) : 0;
    assert_true(status == LUA_OK || status == LUA_ERRMEM);
    lua_pop(L, 1);
    return result;
}

static int anchored(lua_State *L, int number)
{
    isolate_push_anchored(isolate_find(L), L, number);
    int value = (int)lua_tointeger(L, -1);
    lua_pop(L, 1);
    return value;
}

static struct orr_runtime *rt;

static lua_State *open_state(void)
{
    served = INT32_MAX;
    rt = harness_runtime_with((struct orr_options){ .alloc = failing_alloc });
    assert_non_null(rt);
    return open_trusted(rt, (struct orr_lua_options){ 0 });
}

enum { MANY = 20 * ANCHORS_EACH };

static void many_anchors_keep_their_values(void **state)
{
    (void)state;
    static int anchors[MANY];
    lua_State *L = open_state();
    for (int i = 0; i < MANY; i++)
        anchors[i] = anchor(L, i);
    for (int i = 0; i < MANY; i += 3)
        isolate_unanchor(isolate_find(L), L, anchors[i]);
    int last = isolate_find(L)->registry.last_anchor;
    for (int i = 0; i < MANY; i += 3)
        anchors[i] = anchor(L, -i);
    assert_int_equal(isolate_find(L)->registry.last_anchor, last); /* free anchors are used again */
    lua_gc(L, LUA_GCCOLLECT);
    for (int i = 0; i < MANY; i++)
        assert_int_equal(anchored(L, anchors[i]), i % 3 ? i : -i);
    isolate_push_anchored(isolate_find(L), L, 0);
    assert_true(lua_isnil(L, -1)); /* anchor 0 is none */
    lua_pop(L, 1);
    for (int i = 0; i < MANY; i++)
        isolate_unanchor(isolate_find(L), L, anchors[i]);
    finish_counting(rt, L);
}

static void no_table_of_anchors_is_large(void **state)
{
    (void)state;
    lua_State *L = open_state();
    for (int i = 0; i < MANY; i++)
        anchor(L, i);
    int last = isolate_find(L)->registry.last_anchor;
    for (int i = 1; i <= last; i += ANCHORS_EACH) {
        registry_push_table_of(&isolate_find(L)->registry, L, i);
        assert_true(lua_rawlen(L, -1) < ANCHORS_EACH);
        lua_pop(L, 1);
    }
    finish_counting(rt, L);
}

/* Lets each allocation of one anchor fail in turn; returns how many failed. */
static unsigned anchor_without_memory(lua_State *L, int value)
{
    int last = isolate_find(L)->registry.last_anchor;
    for (unsigned failures = 0;; failures++) {
        served = (int)failures;
        int got = anchor(L, value);
        served = INT32_MAX;
        if (got) {
            assert_int_equal(anchored(L, got), value);
            return failures;
        }
        assert_int_equal(isolate_find(L)->registry.last_anchor, last);
    }
}

static void anchor_that_lacks_memory_changes_nothing(void **state)
{
    (void)state;
    lua_State *L = open_state();
    int first = isolate_find(L)->registry.last_anchor + 1;
    unsigned failures = 0;
    for (int i = 0; i < MANY; i++)
        failures += anchor_without_memory(L, i);
    assert_true(failures > MANY / ANCHORS_EACH);
    for (int i = 0, number = first; i < MANY; i++, number++) {
        number += number % ANCHORS_EACH == 0;
        assert_int_equal(anchored(L, number), i);
    }
    finish_counting(rt, L);
}

static const struct CMUnitTest anchors[] = {
    cmocka_unit_test(many_anchors_keep_their_values),
    cmocka_unit_test(no_table_of_anchors_is_large),
    cmocka_unit_test(anchor_that_lacks_memory_changes_nothing),
};

HARNESS_MAIN(anchors)
