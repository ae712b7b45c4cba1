/* Tables that are tracked: every change is noticed, however it was made. */
#include "harness.h"
#include "lua_host.h"

#include "lua/isolate.h"
#include "lua/worker/dirty.h"

#include <stdio.h>
#include <stdlib.h>

enum { TABLE = 1, COPY };

static struct dirty dirty;
static struct orr_runtime *rt;

/* [table] [copy]: a tracked table with `keys` keys, and its copy.  Answers its number. */
static int open_table(lua_State **out, int keys)
{
    rt = host_runtime();
    lua_State *L = *out = open_trusted(rt, (struct orr_lua_options){ 0 });
    lua_settop(L, 0);
    lua_newtable(L);
    lua_newtable(L);
    for (int i = 0; i < keys; i++) {
        lua_pushfstring(L, "key%d", i);
        lua_newtable(L);
        lua_rawset(L, TABLE);
    }
    dirty_open(&dirty, isolate_find(L), L, 1, dirty_room((size_t)keys));
    return dirty_track(&dirty, L, TABLE);
}

static void close_table(lua_State *L)
{
    finish(rt, L);
    dirty_close(&dirty);
}

/* Copies the entries of the table at `from` into the one at `to`. */
static void copy_entries(lua_State *L, int from, int to)
{
    for (lua_pushnil(L); lua_next(L, from);) {
        lua_pushvalue(L, -2);
        lua_insert(L, -2);
        lua_rawset(L, to);
    }
}

/* Whether the table at `one` has all the entries of the table at `other`. */
static bool has_all(lua_State *L, int one, int other)
{
    bool same = true;
    for (lua_pushnil(L); lua_next(L, other); lua_pop(L, 1)) {
        lua_pushvalue(L, -2);
        lua_rawget(L, one);
        same &= lua_rawequal(L, -1, -2);
        lua_pop(L, 1);
    }
    return same;
}

static void copy_table(lua_State *L)
{
    lua_newtable(L);
    lua_replace(L, COPY);
    copy_entries(L, TABLE, COPY);
}

static void restore_table(lua_State *L)
{
    for (lua_pushnil(L); lua_next(L, TABLE);) {
        lua_pop(L, 1);
        lua_pushvalue(L, -1);
        lua_pushnil(L);
        lua_rawset(L, TABLE);
    }
    copy_entries(L, COPY, TABLE);
}

static void push_random_key(lua_State *L)
{
    switch (random() % 6) {
    case 0:
        lua_pushinteger(L, random() % 40);
        break;
    case 1:
        lua_pushnumber(L, (double)(random() % 8) + 0.5);
        break;
    case 2:
        lua_pushboolean(L, (int)(random() % 2));
        break;
    default:
        lua_pushfstring(L, "key%d", (int)(random() % 80));
    }
}

static void push_random_value(lua_State *L)
{
    switch (random() % 5) {
    case 0:
        lua_pushnil(L);
        break;
    case 1:
        lua_pushinteger(L, random() % 3);
        break;
    case 2:
        lua_pushboolean(L, (int)(random() % 2));
        break;
    case 3:
        lua_newtable(L);
        break;
    default: /* a value that the table has */
        push_random_key(L);
        lua_rawget(L, TABLE);
    }
}

static void change_at_random(lua_State *L)
{
    long stores = random() % 8 ? random() % 4 : random() % 100;
    for (long i = 0; i < stores; i++) {
        push_random_key(L);
        push_random_value(L);
        lua_rawset(L, TABLE);
    }
    if (random() % 16 == 0)
        lua_gc(L, LUA_GCCOLLECT);
}

static void a_table_that_does_not_count_as_changed_has_the_same_entries(void **state)
{
    (void)state;
    lua_State *L;
    srandom((unsigned)harness_seed(20261118));
    for (int keys = 0; keys < 40; keys += 1 + keys / 4) {
        int number = open_table(&L, keys), noticed = 0;
        assert_int_equal(number, 0);
        copy_table(L);
        for (int i = 0; i < WORK(3000); i++) {
            assert_false(dirty_is(&dirty, number));
            change_at_random(L);
            bool changed = !has_all(L, TABLE, COPY) || !has_all(L, COPY, TABLE);
            if (changed)
                assert_true(dirty_is(&dirty, number) && dirty_any(&dirty));
            noticed += changed;
            if (!dirty_is(&dirty, number))
                continue;
            restore_table(L);
            number = dirty_clean(&dirty, L, TABLE, number);
            if (number < 0)
                break;
        }
        assert_true(noticed > 0);
        close_table(L);
    }
}

static void a_table_is_tracked_again_after_it_has_grown(void **state)
{
    (void)state;
    lua_State *L;
    int number = open_table(&L, 7);
    copy_table(L);
    for (int i = 0; i < 100; i++) {
        for (int k = 0; k < 8 + i; k++) {
            lua_pushboolean(L, true);
            lua_rawseti(L, TABLE, k);
        }
        assert_true(dirty_is(&dirty, number));
        restore_table(L);
        number = dirty_clean(&dirty, L, TABLE, number);
        assert_int_equal(number, 0);
        assert_false(dirty_any(&dirty));
    }
    close_table(L);
}

static void a_table_without_room_in_the_arena_is_not_tracked(void **state)
{
    (void)state;
    lua_State *L;
    assert_int_equal(open_table(&L, 8), 0);
    lua_newtable(L);
    assert_int_equal(dirty_track(&dirty, L, -1), -1);
    close_table(L);
}

static void a_tracked_table_may_be_collected(void **state)
{
    (void)state;
    lua_State *L;
    int number = open_table(&L, 8);
    lua_settop(L, 0);
    lua_gc(L, LUA_GCCOLLECT);
    assert_true(dirty_is(&dirty, number));
    close_table(L);
}

static const struct CMUnitTest tracking[] = {
    cmocka_unit_test(a_table_that_does_not_count_as_changed_has_the_same_entries),
    cmocka_unit_test(a_table_is_tracked_again_after_it_has_grown),
    cmocka_unit_test(a_table_without_room_in_the_arena_is_not_tracked),
    cmocka_unit_test(a_tracked_table_may_be_collected),
};

HARNESS_MAIN(tracking)
