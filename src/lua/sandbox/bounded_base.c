#include "lua/sandbox/bounded_base.h"

#include "lua/isolate/collector.h"

#include <stdio.h>
#include <string.h>

enum { DATE_MAX = 1024 }; /* bytes of the format for os.date */

/* --- Basic functions -------------------------------------------------------------------------- */

static int tostring_described(lua_State *L, int status, lua_KContext context)
{
    (void)status;
    (void)context;
    bounded_check_described(L);
    lua_tostring(L, -1);
    return 1;
}

static int base_tostring(lua_State *L)
{
    luaL_checkany(L, 1);
    if (!bounded_push_metamethod(L, 1, "__tostring"))
        return bounded_call_own(L);
    lua_pushvalue(L, 1);
    lua_callk(L, 1, 1, 0, tostring_described);
    return tostring_described(L, LUA_OK, 0);
}

/* [arguments...]: prints from argument `index` on. */
static int print_from(lua_State *L, int status, lua_KContext index);

static void print_text(lua_State *L, lua_KContext index)
{
    size_t size;
    const char *text = lua_tolstring(L, -1, &size);
    if (index > 1)
        fputc('\t', stdout);
    fwrite(text, 1, size, stdout);
    lua_pop(L, 1);
}

static int print_described(lua_State *L, int status, lua_KContext index)
{
    (void)status;
    bounded_check_described(L);
    print_text(L, index);
    return print_from(L, LUA_OK, index + 1);
}

static int print_from(lua_State *L, int status, lua_KContext index)
{
    (void)status;
    int count = lua_gettop(L);
    for (; index <= count; index++) {
        if (bounded_push_metamethod(L, (int)index, "__tostring")) {
            lua_pushvalue(L, (int)index);
            lua_callk(L, 1, 1, index, print_described);
            bounded_check_described(L);
        } else {
            luaL_tolstring(L, (int)index, NULL);
        }
        print_text(L, index);
    }
    fputc('\n', stdout);
    fflush(stdout);
    return 0;
}

static int base_print(lua_State *L)
{
    return print_from(L, LUA_OK, 1);
}

static int base_ipairs(lua_State *L)
{
    if (!bounded_push_metamethod(L, 1, "__index"))
        return bounded_call_own(L);
    lua_settop(L, 1);
    bounded_push_in_lua(L, LUA_GNAME, "ipairs");
    lua_insert(L, 1);
    lua_pushinteger(L, 0);
    return 3;
}

static int base_setmetatable(lua_State *L)
{
    if (lua_type(L, 2) == LUA_TTABLE && bounded_has_field(L, 2, "__gc"))
        return luaL_error(L,
                          "setmetatable: untrusted scripts can have no finalizers; remove '__gc' from the metatable");
    if (lua_type(L, 2) == LUA_TTABLE)
        collector_keep(isolate_of(L), L, 2);
    return bounded_call_own(L);
}

/* --- os --------------------------------------------------------------------------------------- */

static int os_date(lua_State *L)
{
    size_t size;
    luaL_optlstring(L, 1, "", &size);
    luaL_argcheck(L, size <= DATE_MAX, 1, "format is too long");
    return bounded_call_own(L);
}

const struct bounded bounded_base[] = {
    { "_G", "ipairs", base_ipairs },     { "_G", "print", base_print }, { "_G", "setmetatable", base_setmetatable },
    { "_G", "tostring", base_tostring }, { "os", "date", os_date },     { NULL, NULL, NULL },
};
