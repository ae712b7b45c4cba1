/*
 * Lists with metamethods, and long parts of lists, are walked in Lua.  Sorting is done in Lua, too,
 * unless the list has few elements, which are numbers or short strings.
 */
#include "lua/sandbox/bounded_table.h"

#include "lua/limits/preempt.h"

#include <limits.h>

enum {
    SORTED_MAX = 4096,        /* elements sorted in one call */
    SORTED_BYTES_MAX = 65536, /* bytes of all strings that are sorted in one call */
    JOINED_MAX = 4096,        /* elements concatenated in one call */
};

/* --- Tables and what acts as one -------------------------------------------------------------- */

/* Whether it is a table without a metatable. */
static bool is_plain(lua_State *L, int index)
{
    if (lua_type(L, index) != LUA_TTABLE)
        return false;
    if (!lua_getmetatable(L, index))
        return true;
    lua_pop(L, 1);
    return false;
}

/* Raises as Lua's own function does, unless it is a table, or has all the metamethods needed. */
static void check_table(lua_State *L, int index, const char *const *needed)
{
    if (lua_type(L, index) == LUA_TTABLE)
        return;
    bool has_all = lua_getmetatable(L, index);
    for (int top = lua_gettop(L); has_all && *needed; needed++)
        has_all = bounded_has_field(L, top, *needed);
    if (!has_all)
        luaL_checktype(L, index, LUA_TTABLE);
    lua_pop(L, 1);
}

static const char *const readable[] = { "__index", "__len", NULL };
static const char *const changeable[] = { "__index", "__newindex", "__len", NULL };
static const char *const source_only[] = { "__index", NULL };
static const char *const target_only[] = { "__newindex", NULL };

/* --- The functions ---------------------------------------------------------------------------- */

/* Bytes of elements [first, last] joined; numbers are not counted. */
static size_t size_of_strings(lua_State *L, lua_Integer first, lua_Integer last, size_t separator_size)
{
    size_t size = 0;
    for (lua_Integer i = first;; i++) {
        if (lua_rawgeti(L, 1, i) == LUA_TSTRING)
            size += lua_rawlen(L, -1);
        lua_pop(L, 1);
        size += separator_size;
        if (i == last)
            return size;
    }
}

/*
 * Joins elements [first, last] of the table at 1, which has no metatable, and pushes the string. 
 * False if an element is neither string nor number: `bad` says which.
 */
static bool join(lua_State *L, lua_Integer first, lua_Integer last, lua_Integer *bad)
{
    size_t separator_size;
    const char *separator = luaL_optlstring(L, 2, "", &separator_size);
    size_t limit = bounded_longest(L);
    luaL_Buffer text;
    size_t size = size_of_strings(L, first, last, separator_size);
    luaL_buffinitsize(L, &text, size <= limit ? size : 0); /* a buffer that grows is copied often */
    for (lua_Integer i = first;; i++) {
        lua_rawgeti(L, 1, i);
        if (!lua_isstring(L, -1)) {
            *bad = i;
            return false;
        }
        luaL_addvalue(&text);
        if (i == last)
            break;
        luaL_addlstring(&text, separator, separator_size);
        if (luaL_bufflen(&text) > limit)
            bounded_too_large(L);
    }
    if (luaL_bufflen(&text) > limit)
        bounded_too_large(L);
    luaL_pushresult(&text);
    return true;
}

static int table_concat(lua_State *L)
{
    bool plain = is_plain(L, 1);
    if (!plain)
        check_table(L, 1, readable);
    luaL_optstring(L, 2, "");
    lua_Integer first = luaL_optinteger(L, 3, 1);
    lua_Integer last = !lua_isnoneornil(L, 4) ? luaL_checkinteger(L, 4) : plain ? (lua_Integer)lua_rawlen(L, 1) : 0;
    if (plain && first > last) {
        lua_pushliteral(L, "");
        return 1;
    }
    if (!plain || (lua_Unsigned)last - (lua_Unsigned)first >= JOINED_MAX) {
        lua_settop(L, 4);
        lua_pushboolean(L, plain);
        return bounded_call_in_lua(L);
    }
    lua_Integer bad;
    if (join(L, first, last, &bad))
        return 1;
    lua_rawgeti(L, 1, bad);
    return luaL_error(L, "invalid value (%s) at index %I in table for 'concat'", luaL_typename(L, -1),
                      (LUAI_UACINT)bad);
}

/*
 * join(table, separator, first, last): the string; or nil, and the index of an element that is
 * none.
 */
static int tool_join(lua_State *L)
{
    lua_Integer bad;
    preempt_check(isolate_of(L), L);
    if (join(L, luaL_checkinteger(L, 3), luaL_checkinteger(L, 4), &bad))
        return 1;
    lua_pushnil(L);
    lua_pushinteger(L, bad);
    return 2;
}

static int table_insert(lua_State *L)
{
    if (!is_plain(L, 1)) {
        check_table(L, 1, changeable);
        if (lua_gettop(L) == 3)
            luaL_checkinteger(L, 2);
        return bounded_call_in_lua(L);
    }
    if (lua_gettop(L) != 3)
        return bounded_call_own(L);
    lua_Unsigned end = lua_rawlen(L, 1) + 1;
    lua_Unsigned position = (lua_Unsigned)luaL_checkinteger(L, 2);
    bool moves_many = position >= 1 && position <= end && end - position > ELEMENTS_MAX;
    return moves_many ? bounded_call_in_lua(L) : bounded_call_own(L);
}

static int table_remove(lua_State *L)
{
    if (!is_plain(L, 1)) {
        check_table(L, 1, changeable);
        if (!lua_isnoneornil(L, 2))
            luaL_checkinteger(L, 2);
        lua_settop(L, 2);
        return bounded_call_in_lua(L);
    }
    if (lua_isnoneornil(L, 2))
        return bounded_call_own(L);
    lua_Unsigned size = lua_rawlen(L, 1);
    lua_Unsigned position = (lua_Unsigned)luaL_checkinteger(L, 2);
    bool moves_many = position >= 1 && position < size && size - position > ELEMENTS_MAX;
    return moves_many ? bounded_call_in_lua(L) : bounded_call_own(L);
}

static int table_move(lua_State *L)
{
    lua_Integer first = luaL_checkinteger(L, 2), last = luaL_checkinteger(L, 3), to = luaL_checkinteger(L, 4);
    int target = lua_isnoneornil(L, 5) ? 1 : 5;
    bool plain = is_plain(L, 1) && is_plain(L, target);
    if (last < first || (plain && (lua_Unsigned)last - (lua_Unsigned)first < ELEMENTS_MAX))
        return bounded_call_own(L);
    check_table(L, 1, source_only);
    check_table(L, target, target_only);
    luaL_argcheck(L, first > 0 || last < LUA_MAXINTEGER + first, 3, "too many elements to move");
    luaL_argcheck(L, to <= LUA_MAXINTEGER - (last - first + 1) + 1, 4, "destination wrap around");
    lua_settop(L, 5);
    if (target == 1) {
        lua_pushvalue(L, 1);
        lua_replace(L, 5);
    }
    lua_pushboolean(L, plain);
    return bounded_call_in_lua(L);
}

static int table_unpack(lua_State *L)
{
    bool plain = is_plain(L, 1);
    if (!plain && (lua_istable(L, 1) || lua_isuserdata(L, 1))) {
        luaL_optinteger(L, 2, 1);
        if (!lua_isnoneornil(L, 3))
            luaL_checkinteger(L, 3);
        lua_settop(L, 3);
        return bounded_call_in_lua(L);
    }
    if (!plain && lua_type(L, 1) != LUA_TSTRING)
        return bounded_call_own(L); /* raises */
    lua_Integer first = luaL_optinteger(L, 2, 1);
    lua_Integer last = luaL_opt(L, luaL_checkinteger, 3, (lua_Integer)lua_rawlen(L, 1));
    if (first <= last && (lua_Unsigned)last - (lua_Unsigned)first >= RESULTS_MAX)
        return luaL_error(L, "too many results to unpack");
    return bounded_call_own(L);
}

/* Whether elements [1, count] of the table at 1 are all numbers, or all short strings. */
static bool sorts_quickly(lua_State *L, lua_Integer count)
{
    int kind = lua_rawgeti(L, 1, 1);
    lua_pop(L, 1);
    if (count > SORTED_MAX || (kind != LUA_TNUMBER && kind != LUA_TSTRING))
        return false;
    size_t bytes = 0;
    for (lua_Integer i = 1; i <= count; i++) {
        bool same = lua_rawgeti(L, 1, i) == kind;
        if (kind == LUA_TSTRING)
            bytes += lua_rawlen(L, -1);
        lua_pop(L, 1);
        if (!same || bytes > SORTED_BYTES_MAX)
            return false;
    }
    return true;
}

static int table_sort(lua_State *L)
{
    if (!is_plain(L, 1)) {
        check_table(L, 1, changeable);
        lua_settop(L, 2);
        return bounded_call_in_lua(L);
    }
    size_t count = lua_rawlen(L, 1);
    bool compares = !lua_isnoneornil(L, 2);
    if (count < 2 || count >= INT_MAX || (!compares && sorts_quickly(L, (lua_Integer)count)))
        return bounded_call_own(L);
    if (compares)
        luaL_checktype(L, 2, LUA_TFUNCTION);
    lua_settop(L, 2);
    return bounded_call_in_lua(L);
}

/* sorts_quickly(table): the table is the caller's own, without a metatable. */
static int tool_sorts_quickly(lua_State *L)
{
    lua_pushboolean(L, sorts_quickly(L, (lua_Integer)lua_rawlen(L, 1)));
    return 1;
}

/* compares(a, b): true if `a < b` calls a metamethod; else raises if they cannot be compared. */
static int tool_compares(lua_State *L)
{
    if (bounded_push_metamethod(L, 1, "__lt") || bounded_push_metamethod(L, 2, "__lt")) {
        lua_pushboolean(L, true);
        return 1;
    }
    lua_compare(L, 1, 2, LUA_OPLT);
    return 0;
}

const struct bounded bounded_table[] = {
    { "table", "concat", table_concat },
    { "table", "insert", table_insert },
    { "table", "move", table_move },
    { "table", "remove", table_remove },
    { "table", "sort", table_sort },
    { "table", "unpack", table_unpack },
    { NULL, NULL, NULL },
};

const luaL_Reg bounded_table_tools[] = {
    { "compares", tool_compares },
    { "join", tool_join },
    { "sorts_quickly", tool_sorts_quickly },
    { NULL, NULL },
};
