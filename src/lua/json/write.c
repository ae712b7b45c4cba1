/*
 * Values as JSON text, in one pass, straight into the buffer.  As in values/encode.c, nothing here allocates in Lua and nothing raises,
 * and the stack holds one key and one value for each table that the walk is in.
 *
 * A table that is met twice is written twice, so what is written can be exponentially larger than what there is: hence the longest text.
 */
#include "lua/json/json.h"
#include "lua/json/utf8.h"
#include "lua/values/path.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { WALK_SLOTS = 3, NUMBER_MAX = 48 };

struct writer {
    lua_State *L;
    struct message *out;
    size_t longest;
    int indent, depth;
    const char *reason;
    char refused[96];
    const void *open[JSON_DEPTH_MAX];
};

static int refuse(struct writer *w, const char *reason)
{
    w->reason = reason;
    return -EINVAL;
}

static int put(struct writer *w, const char *bytes, size_t size)
{
    struct message *out = w->out;
    if (out->size + size > w->longest) {
        w->reason = "the text is longer than strings may be";
        return -E2BIG;
    }
    int error = out->capacity - out->size >= size ? 0 : message_grow(out, size);
    if (error)
        return error;
    memcpy(out->bytes + out->size, bytes, size);
    out->size += size;
    return 0;
}

static int put_text(struct writer *w, const char *text)
{
    return put(w, text, strlen(text));
}

/* The beginning of a line, at the depth that there is now. */
static int put_line(struct writer *w)
{
    static const char spaces[JSON_INDENT_MAX + 1] = "                ";
    if (!w->indent)
        return 0;
    int error = put(w, "\n", 1);
    for (int i = 0; !error && i < w->depth; i++)
        error = put(w, spaces, (size_t)w->indent);
    return error;
}

/* --- Numbers and strings -------------------------------------------------------------------------------------------- */

/* The fewest digits that are the same number again; and with a point or an exponent, so that it is read as a float. */
static int put_float(struct writer *w, lua_Number value)
{
    char text[NUMBER_MAX];
    if (!isfinite(value))
        return refuse(w, isnan(value) ? "NaN cannot be written as JSON" : "an infinity cannot be written as JSON");
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    char *point = strchr(text, localeconv()->decimal_point[0]);
    if (point)
        *point = '.';
    int error = put_text(w, text);
    return error || point || strchr(text, 'e') ? error : put_text(w, ".0");
}

static int put_integer(struct writer *w, lua_Integer value)
{
    char text[NUMBER_MAX];
    int size = snprintf(text, sizeof text, LUA_INTEGER_FMT, value);
    return put(w, text, (size_t)size);
}

static int put_escape(struct writer *w, unsigned char c)
{
    static const char letters[] = "\"\"\\\\\bb\ff\nn\rr\tt";
    char text[8];
    for (const char *letter = letters; *letter; letter += 2) {
        if (c != (unsigned char)*letter)
            continue;
        return put(w, (char[]){ '\\', letter[1] }, 2);
    }
    snprintf(text, sizeof text, "\\u%04x", c);
    return put(w, text, 6);
}

static int put_string(struct writer *w, int index)
{
    size_t size;
    const char *bytes = lua_tolstring(w->L, index, &size);
    size_t valid = utf8_valid(bytes, size);
    if (valid < size) {
        snprintf(w->refused, sizeof w->refused, "a string that is not UTF-8 (byte %zu) cannot be written as JSON",
                 valid + 1);
        return refuse(w, w->refused);
    }
    int error = put(w, "\"", 1);
    size_t from = 0;
    for (size_t i = 0; !error && i < size; i++) {
        unsigned char c = (unsigned char)bytes[i];
        if (c >= ' ' && c != '"' && c != '\\')
            continue;
        error = put(w, bytes + from, i - from);
        if (!error)
            error = put_escape(w, c);
        from = i + 1;
    }
    if (!error)
        error = put(w, bytes + from, size - from);
    return error ? error : put(w, "\"", 1);
}

/* --- Tables --------------------------------------------------------------------------------------------------------- */

static int put_value(struct writer *w, int index);

/* Elements in order, nulls for holes; on the stack as lua_next() would leave them. */
static int put_elements(struct writer *w, int table)
{
    lua_State *L = w->L;
    lua_Integer length = (lua_Integer)lua_rawlen(L, table);
    int error = 0;
    int key = lua_gettop(L) + 1;
    for (lua_Integer i = 1; !error && i <= length; i++) {
        lua_pushinteger(L, i);
        lua_rawgeti(L, table, i);
        error = i > 1 ? put(w, ",", 1) : 0;
        if (!error)
            error = put_line(w);
        if (!error)
            error = put_value(w, key + 1);
        if (!error)
            lua_settop(L, key - 1);
    }
    return error;
}

static int put_fields(struct writer *w, int table)
{
    lua_State *L = w->L;
    bool first = true;
    int error = 0;
    int key = lua_gettop(L) + 1;
    lua_pushnil(L);
    while (!error && lua_next(L, table)) {
        if (lua_type(L, key) != LUA_TSTRING) {
            snprintf(w->refused, sizeof w->refused, "a %s that is a key cannot be written as JSON",
                     lua_typename(L, lua_type(L, key)));
            return refuse(w, w->refused);
        }
        error = first ? 0 : put(w, ",", 1);
        first = false;
        if (!error)
            error = put_line(w);
        if (!error)
            error = put_string(w, key);
        if (!error)
            error = put_text(w, w->indent ? ": " : ":");
        if (!error)
            error = put_value(w, key + 1);
        if (!error)
            lua_settop(L, key);
    }
    return error;
}

/* 1 if every key is one of 1 to n, and there are some; 0 if no key is; or refused. */
static int is_sequence(struct writer *w, int table, bool marked)
{
    lua_State *L = w->L;
    lua_Integer length = (lua_Integer)lua_rawlen(L, table);
    lua_Integer elements = 0;
    bool others = false;
    lua_pushnil(L);
    while (lua_next(L, table)) {
        lua_Integer key = lua_isinteger(L, -2) ? lua_tointeger(L, -2) : 0;
        bool element = key >= 1 && key <= length;
        elements += element;
        others |= !element;
        lua_pop(L, 1);
    }
    if (marked)
        return others ? refuse(w, "an array with keys that are not 1 to n cannot be written as JSON") : 1;
    if (elements && others)
        return refuse(w, "a table with elements and other keys cannot be written as JSON");
    if (elements < length)
        return refuse(w, "an array with holes cannot be written as JSON; json.array() or json.null fill them");
    return elements > 0;
}

/* As is_sequence(). */
static int is_array(struct writer *w, int index)
{
    bool marked = false;
    if (lua_getmetatable(w->L, index)) {
        values_push_array_mark(w->L);
        marked = lua_rawequal(w->L, -1, -2);
        lua_pop(w->L, 2);
        if (!marked)
            return refuse(w, "a table with a metatable cannot be written as JSON");
    }
    return is_sequence(w, index, marked);
}

static int put_table(struct writer *w, int index)
{
    const void *table = lua_topointer(w->L, index);
    for (int i = 0; i < w->depth; i++)
        if (w->open[i] == table)
            return refuse(w, "a table that contains itself cannot be written as JSON");
    if (w->depth == JSON_DEPTH_MAX) {
        w->reason = "tables are nested too deep to be written as JSON";
        return -E2BIG;
    }
    if (!lua_checkstack(w->L, WALK_SLOTS + VALUES_ERROR_SLOTS))
        return -ENOMEM;
    int array = is_array(w, index);
    if (array < 0)
        return array;
    int error = put(w, array ? "[" : "{", 1);
    if (error)
        return error;
    size_t begin = w->out->size;
    w->open[w->depth++] = table;
    error = array ? put_elements(w, index) : put_fields(w, index);
    if (error)
        return error;
    w->depth--;
    if (w->out->size > begin)
        error = put_line(w);
    return error ? error : put(w, array ? "]" : "}", 1);
}

static int put_value(struct writer *w, int index)
{
    lua_State *L = w->L;
    const char *name = lua_typename(L, lua_type(L, index));
    switch (lua_type(L, index)) {
    case LUA_TNIL:
        return put_text(w, "null");
    case LUA_TBOOLEAN:
        return put_text(w, lua_toboolean(L, index) ? "true" : "false");
    case LUA_TNUMBER:
        return lua_isinteger(L, index) ? put_integer(w, lua_tointeger(L, index)) : put_float(w, lua_tonumber(L, index));
    case LUA_TSTRING:
        return put_string(w, index);
    case LUA_TTABLE:
        return put_table(w, index);
    case LUA_TLIGHTUSERDATA:
        if (!lua_touserdata(L, index))
            return put_text(w, "null");
        break;
    case LUA_TTHREAD:
        name = "coroutine";
        break;
    default:
        break;
    }
    snprintf(w->refused, sizeof w->refused, "a %s cannot be written as JSON", name);
    return refuse(w, w->refused);
}

int json_write(struct message *out, lua_State *L, int index, int indent, size_t longest)
{
    int top = lua_gettop(L);
    struct writer w = { .L = L, .out = out, .indent = indent, .longest = longest ? longest : SIZE_MAX };
    int error = put_value(&w, lua_absindex(L, index));
    if (!error)
        return 0;
    message_free(out);
    struct path path = { .root = "value", .first_key = top + 1, .depth = w.depth };
    path_push_error(L, &path, error == -E2BIG && !w.reason ? "too large to be written as JSON" : w.reason);
    lua_rotate(L, top + 1, 1);
    lua_settop(L, top + 1);
    return error;
}
