/*
 * JSON text as values.  jansson makes a tree of the text, of memory that is libc's and on nobody's account, and reads it recursively to a
 * depth of its own.  So the text is looked through first: for its depth, and for how large that tree can get at most, which must be within
 * what the isolate may still have.  The tree is freed whether or not Lua has memory for what is in it.
 */
#include "lua/json/json.h"

#include <jansson.h>

/* --- What it would take --------------------------------------------------------------------------------------------- */

/* Bytes, generously; of jansson 2.14, what malloc adds included. */
enum { CONTAINER_COST = 352, ITEM_COST = 160 };

struct extent {
    size_t memory; /* for the tree */
    bool too_deep;
    int line, column; /* where it gets too deep */
};

/* Where the string that begins at `at` ends, or the text does. */
static const char *skip_string(const char *at, const char *end)
{
    for (at++; at < end && *at != '"'; at++)
        at += *at == '\\';
    return at < end ? at : end;
}

/* Of a text that may be anything: in one that is no JSON, jansson does not get further than this does. */
static struct extent look_through(const char *text, size_t size)
{
    struct extent extent = { .memory = size + ITEM_COST, .line = 1 };
    int depth = 0;
    const char *line = text;
    const char *end = text + size;
    for (const char *at = text; at < end; at++) {
        switch (*at) {
        case '"':
            at = skip_string(at, end);
            break;
        case '[':
        case '{':
            extent.memory += CONTAINER_COST + ITEM_COST;
            if (++depth <= JSON_DEPTH_MAX)
                break;
            extent.too_deep = true;
            extent.column = (int)(at - line) + 1;
            return extent;
        case ']':
        case '}':
            depth -= depth > 0;
            break;
        case '\n':
            extent.line++;
            line = at + 1;
            break;
        case ',':
            extent.memory += ITEM_COST;
            break;
        default:
            break;
        }
    }
    return extent;
}

static void check_extent(struct orr_isolate *iso, lua_State *L, const char *text, size_t size)
{
    struct extent extent = look_through(text, size);
    if (extent.too_deep)
        luaL_error(L, "line %d, column %d: arrays and objects are nested more than %d deep", extent.line, extent.column,
                   JSON_DEPTH_MAX);
    size_t limit = iso->limits.memory;
    if (limit && (iso->memory >= limit || extent.memory > limit - iso->memory))
        luaL_error(L, "not enough memory to read %I bytes of JSON", (lua_Integer)size);
}

/* --- The tree ------------------------------------------------------------------------------------------------------- */

static void push_value(lua_State *L, const json_t *value);

static void push_array(lua_State *L, const json_t *array)
{
    size_t count = json_array_size(array);
    lua_createtable(L, (int)count, 0);
    for (size_t i = 0; i < count; i++) {
        push_value(L, json_array_get(array, i));
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    if (count)
        return;
    values_push_array_mark(L);
    lua_setmetatable(L, -2);
}

static void push_object(lua_State *L, json_t *object)
{
    lua_createtable(L, 0, (int)json_object_size(object));
    for (void *at = json_object_iter(object); at; at = json_object_iter_next(object, at)) {
        lua_pushlstring(L, json_object_iter_key(at), json_object_iter_key_len(at));
        push_value(L, json_object_iter_value(at));
        lua_rawset(L, -3);
    }
}

static void push_value(lua_State *L, const json_t *value)
{
    luaL_checkstack(L, 4, NULL);
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        push_object(L, (json_t *)value);
        break;
    case JSON_ARRAY:
        push_array(L, value);
        break;
    case JSON_STRING:
        lua_pushlstring(L, json_string_value(value), json_string_length(value));
        break;
    case JSON_INTEGER:
        lua_pushinteger(L, json_integer_value(value));
        break;
    case JSON_REAL:
        lua_pushnumber(L, json_real_value(value));
        break;
    case JSON_TRUE:
    case JSON_FALSE:
        lua_pushboolean(L, json_is_true(value));
        break;
    case JSON_NULL:
        lua_pushlightuserdata(L, NULL);
        break;
    }
}

static int push_tree(lua_State *L)
{
    push_value(L, lua_touserdata(L, 1));
    return 1;
}

/* --- Reading -------------------------------------------------------------------------------------------------------- */

int json_read(struct orr_isolate *iso, lua_State *L, const char *text, size_t size, bool floats)
{
    check_extent(iso, L, text, size);
    luaL_checkstack(L, 4, NULL);
    json_error_t error;
    size_t flags = JSON_DECODE_ANY | JSON_ALLOW_NUL | (floats ? JSON_DECODE_INT_AS_REAL : 0);
    json_t *tree = json_loadb(text, size, flags, &error);
    if (!tree)
        return luaL_error(L, "line %d, column %d: %s", error.line, error.column, error.text);
    lua_pushcfunction(L, push_tree);
    lua_pushlightuserdata(L, tree);
    int status = lua_pcall(L, 1, 1, 0);
    json_decref(tree);
    return status ? lua_error(L) : 1;
}
