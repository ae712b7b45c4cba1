/* The module `json`: see json.h. */
#include "lua/charge.h"
#include "lua/json/json.h"
#include "lua/modules.h"

static int option_indent(lua_State *L, int index)
{
    if (lua_isnoneornil(L, index))
        return 0;
    luaL_checktype(L, index, LUA_TTABLE);
    lua_getfield(L, index, "indent");
    int is_integer = 1;
    lua_Integer indent = lua_isnil(L, -1) ? 0 : lua_tointegerx(L, -1, &is_integer);
    if (!is_integer || indent < 0 || indent > JSON_INDENT_MAX)
        luaL_error(L, "option indent is %s, expected a number of spaces from 0 to %d", luaL_tolstring(L, -1, NULL),
                   JSON_INDENT_MAX);
    lua_pop(L, 1);
    return (int)indent;
}

static int push_text(lua_State *L)
{
    const struct message *text = lua_touserdata(L, 1);
    lua_pushlstring(L, (const char *)text->bytes, text->size);
    return 1;
}

/* encode(value[, options]) */
static int encode(lua_State *L)
{
    struct orr_isolate *iso = isolate_of(L);
    struct message text;
    luaL_checkany(L, 1);
    int indent = option_indent(L, 2);
    luaL_checkstack(L, VALUES_ERROR_SLOTS, NULL);
    struct alloc alloc = charge_alloc(iso);
    message_init(&text, &alloc);
    text.flat = true;
    int error = json_write(&text, L, 1, indent, iso->limits.longest_string);
    bool refused = error;
    if (!error) {
        lua_pushcfunction(L, push_text); /* protected: the text is nobody's but ours */
        lua_pushlightuserdata(L, &text);
        error = lua_pcall(L, 1, 1, 0);
    }
    message_free(&text);
    if (refused)
        return luaL_error(L, "%s", lua_tostring(L, -1));
    return error ? lua_error(L) : 1;
}

/* decode(text[, options]) */
static int decode(lua_State *L)
{
    size_t size;
    const char *text = luaL_checklstring(L, 1, &size);
    bool floats = false;
    if (!lua_isnoneornil(L, 2)) {
        luaL_checktype(L, 2, LUA_TTABLE);
        lua_getfield(L, 2, "floats");
        floats = lua_toboolean(L, -1);
        lua_pop(L, 1);
    }
    return json_read(isolate_of(L), L, text, size, floats);
}

/* array([table]): the same, marked */
static int array(lua_State *L)
{
    lua_settop(L, 1);
    if (lua_isnil(L, 1)) {
        lua_newtable(L);
        lua_replace(L, 1);
    }
    luaL_checktype(L, 1, LUA_TTABLE);
    values_push_array_mark(L);
    if (lua_getmetatable(L, 1) && !lua_rawequal(L, -1, -2))
        return luaL_argerror(L, 1, "a table without a metatable of its own expected");
    lua_settop(L, 2);
    lua_setmetatable(L, 1);
    return 1;
}

/* is_array(value): whether it is marked */
static int is_array(lua_State *L)
{
    values_push_array_mark(L);
    lua_pushboolean(L, lua_type(L, 1) == LUA_TTABLE && lua_getmetatable(L, 1) && lua_rawequal(L, -1, -2));
    return 1;
}

void json_open(struct orr_isolate *iso, lua_State *L)
{
    static const luaL_Reg functions[] = {
        { "array", array }, { "decode", decode }, { "encode", encode }, { "is_array", is_array }, { NULL, NULL }
    };
    values_make_array_mark(L);
    lua_newtable(L);
    isolate_register(iso, L, functions);
    lua_pushlightuserdata(L, NULL);
    lua_setfield(L, -2, "null");
    lua_setfield(L, -2, "json");
}
