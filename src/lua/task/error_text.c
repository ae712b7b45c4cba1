#include "lua/task/error_text.h"

#include "base/clock.h"
#include "base/text.h"
#include "lua/limits/level.h"
#include "lua/limits/preempt.h"
#include "lua/task/script.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum {
    DEPTH = 3,           /* tables inside one another */
    FIELDS = 16,         /* fields shown of a table */
    KEYS_LOOKED_AT = 64, /* in each search for the next key of a table */
    STRING_MAX = 160,    /* bytes shown of a string */
    TEXT_MAX = 1024,     /* bytes of the whole text */
    TIME_MAX = 1000000,  /* nanoseconds: a table can be slow to search, and large without fields */
    TOSTRING_MS = 100,   /* time limit of `__tostring`, also if Lua has none */
    TOSTRING_INSTRUCTIONS = 1000000,
};

/* --- Fields ----------------------------------------------------------------------------------- */

/* The text so far, and the tables that are being written. */
struct writer {
    lua_State *L;
    uint64_t until; /* by the thread's clock: tables that come later are not looked into */
    const void *open[DEPTH];
    int depth;
    size_t length;
    char text[TEXT_MAX + 1];
};

static bool is_full(const struct writer *to)
{
    return to->length == TEXT_MAX;
}

static void put(struct writer *to, const char *text, size_t length)
{
    size_t room = TEXT_MAX - to->length;
    size_t fits = length > room ? room : length;
    memcpy(to->text + to->length, text, fits);
    to->length += fits;
}

static void put_text(struct writer *to, const char *text)
{
    put(to, text, strlen(text));
}

/* Writes a string in quotes, as Lua would read it; of a long one, the beginning. */
static void put_quoted(struct writer *to, const char *text, size_t length)
{
    size_t shown = text_cut(text, length, STRING_MAX);
    put_text(to, "\"");
    for (size_t i = 0; i < shown; i++) {
        unsigned char byte = (unsigned char)text[i];
        char escape[8] = { (char)byte };
        if (byte == '"' || byte == '\\')
            snprintf(escape, sizeof escape, "\\%c", byte);
        else if (byte == '\n')
            snprintf(escape, sizeof escape, "\\n");
        else if (iscntrl(byte))
            snprintf(escape, sizeof escape, "\\x%02X", byte);
        put_text(to, escape);
    }
    put_text(to, shown < length ? "\"..." : "\"");
}

static bool is_name(const char *text, size_t length)
{
    bool name = length && length <= TEXT_NAME && !isdigit((unsigned char)*text);
    for (size_t i = 0; name && i < length; i++)
        name = isalnum((unsigned char)text[i]) || text[i] == '_';
    return name;
}

/* Writes a value that is no table, at the top. */
static void put_atom(struct writer *to)
{
    lua_State *L = to->L;
    char number[64];
    size_t length;
    const char *text;
    switch (lua_type(L, -1)) {
    case LUA_TNIL:
        put_text(to, "nil");
        break;
    case LUA_TBOOLEAN:
        put_text(to, lua_toboolean(L, -1) ? "true" : "false");
        break;
    case LUA_TNUMBER: /* not lua_tolstring(): that would change a key */
        if (lua_isinteger(L, -1))
            snprintf(number, sizeof number, LUA_INTEGER_FMT, (LUAI_UACINT)lua_tointeger(L, -1));
        else
            snprintf(number, sizeof number, LUA_NUMBER_FMT, (LUAI_UACNUMBER)lua_tonumber(L, -1));
        put_text(to, number);
        break;
    case LUA_TSTRING:
        text = lua_tolstring(L, -1, &length);
        put_quoted(to, text, length);
        break;
    default:
        put_text(to, "<");
        put_text(to, luaL_typename(L, -1));
        put_text(to, ">");
    }
}

/* Writes the key at the top, with the equals sign behind it. */
static void put_key(struct writer *to)
{
    size_t length = 0;
    const char *text = lua_type(to->L, -1) == LUA_TSTRING ? lua_tolstring(to->L, -1, &length) : NULL;
    if (text && is_name(text, length)) {
        put(to, text, length);
    } else {
        put_text(to, "[");
        put_atom(to);
        put_text(to, "]");
    }
    put_text(to, " = ");
}

/* Numbers come before strings, and those before all other keys, which have no order. */
static int rank(lua_State *L, int index)
{
    int type = lua_type(L, index);
    return type == LUA_TNUMBER ? 1 : type == LUA_TSTRING ? 2 : 3;
}

/* Whether one key comes before another.  Calls no metamethod: both are numbers, or strings. */
static bool comes_before(lua_State *L, int one, int other)
{
    int rank_one = rank(L, one), rank_other = rank(L, other);
    if (rank_one != rank_other)
        return rank_one < rank_other;
    return rank_one < 3 && lua_compare(L, one, other, LUA_OPLT);
}

/*
 * Replaces the key at the top, nil at first, with the next one in order that is not among the first
 * `listed` elements.  False if there is none.  Looks at some keys only, and at keys without an
 * order not at all.
 */
static bool next_key(lua_State *L, int table, lua_Integer listed)
{
    int last = lua_gettop(L), best = last + 1, looked_at = 0;
    lua_pushnil(L); /* [last] [best] [key] [value] */
    for (lua_pushnil(L); lua_next(L, table);) {
        lua_pop(L, 1);
        int key = lua_gettop(L);
        bool in_list = lua_isinteger(L, key) && lua_tointeger(L, key) >= 1 && lua_tointeger(L, key) <= listed;
        if (rank(L, key) < 3 && !in_list && (lua_isnil(L, last) || comes_before(L, last, key)) &&
            (lua_isnil(L, best) || comes_before(L, key, best))) {
            lua_pushvalue(L, key);
            lua_replace(L, best);
        }
        if (++looked_at == KEYS_LOOKED_AT) {
            lua_pop(L, 1);
            break;
        }
    }
    lua_replace(L, last);
    return !lua_isnil(L, last);
}

static void put_value(struct writer *to);

/* Writes the elements of the list in the table at an index.  Answers how many there are. */
static lua_Integer put_list(struct writer *to, int table)
{
    lua_Integer listed = 0;
    while (listed < FIELDS && !is_full(to) && lua_rawgeti(to->L, table, listed + 1) != LUA_TNIL) {
        put_text(to, listed ? ", " : " ");
        put_value(to);
        lua_pop(to->L, 1);
        listed++;
    }
    if (listed < FIELDS && !is_full(to))
        lua_pop(to->L, 1);
    return listed;
}

static void put_fields(struct writer *to, int table)
{
    lua_State *L = to->L;
    lua_Integer listed = put_list(to, table), shown = listed;
    lua_pushnil(L);
    for (; shown < FIELDS && !is_full(to) && clock_thread() < to->until && next_key(L, table, listed); shown++) {
        put_text(to, shown ? ", " : " ");
        put_key(to);
        lua_pushvalue(L, -1);
        lua_rawget(L, table);
        put_value(to);
        lua_pop(L, 1);
    }
    if (shown == FIELDS || (shown && clock_thread() > to->until))
        put_text(to, ", ...");
    lua_pop(L, 1);
    put_text(to, shown ? " }" : "}");
}

/* Writes the table at the top. */
static void put_table(struct writer *to)
{
    const void *self = lua_topointer(to->L, -1);
    for (int i = 0; i < to->depth; i++) {
        if (to->open[i] == self) {
            put_text(to, "<cycle>");
            return;
        }
    }
    if (to->depth == DEPTH || clock_thread() > to->until || !lua_checkstack(to->L, 8)) {
        put_text(to, "{ ... }");
        return;
    }
    to->open[to->depth++] = self;
    put_text(to, "{");
    put_fields(to, lua_gettop(to->L));
    to->depth--;
}

/* Writes the value at the top. */
static void put_value(struct writer *to)
{
    if (lua_istable(to->L, -1))
        put_table(to);
    else
        put_atom(to);
}

/* Pushes the fields of the table at the top. */
static void push_fields(lua_State *L)
{
    struct writer to = { .L = L, .until = clock_thread() + TIME_MAX };
    bool named = luaL_getmetafield(L, -1, "__name") != LUA_TNIL;
    if (named && lua_type(L, -1) == LUA_TSTRING) {
        size_t length;
        const char *name = lua_tolstring(L, -1, &length);
        put(&to, name, text_cut(name, length, TEXT_NAME));
        put_text(&to, " ");
    }
    lua_pop(L, named);
    put_value(&to);
    bool cut = is_full(&to);
    lua_pushlstring(L, to.text, text_cut(to.text, to.length, TEXT_MAX - cut));
    if (cut) {
        lua_pushliteral(L, "...");
        lua_concat(L, 2);
    }
}

/* --- __tostring ------------------------------------------------------------------------------- */

/* [value] -> [text] */
static int describe(lua_State *L)
{
    luaL_tolstring(L, 1, NULL);
    return 1;
}

/*
 * [function] [value] -> [result]: calls inside a level of limits of its own.  False, with nothing
 * left on the stack, if that fails or takes too long.
 */
static bool call_limited(struct orr_isolate *iso, lua_State *L)
{
    int base = lua_gettop(L) - 2;
    struct level level = {
        .co = L,
        .host_waits = true,
        .entry = ORR_LUA_CALL,
        .script = script_running(iso),
        .limit = iso->limits.mode == ORR_LUA_COUNT ? TOSTRING_INSTRUCTIONS : TOSTRING_MS * UINT64_C(1000000),
    };
    level_enter(iso, &level, NULL);
    execution_begin_nested(&iso->execution);
    bool called = lua_pcall(L, 1, 1, 0) == LUA_OK;
    execution_end_nested(&iso->execution);
    called &= level.end == LEVEL_GOES_ON;
    level_leave(iso, &level);
    if (level.end == LEVEL_ENDS_WITH_OUTER)
        preempt_check(iso, L); /* raises: the level around this one must end, too */
    if (!called)
        lua_settop(L, base);
    return called;
}

/* Pushes what `__tostring` says of the value at the top; false if it fails. */
static bool push_own_words(struct orr_isolate *iso, lua_State *L)
{
    lua_pushcfunction(L, describe);
    lua_pushvalue(L, -2);
    if (execution_level(&iso->execution))
        return call_limited(iso, L);
    if (lua_pcall(L, 1, 1, 0) == LUA_OK)
        return true;
    lua_pop(L, 1);
    return false;
}

void error_text_push(struct orr_isolate *iso, lua_State *L, int index)
{
    luaL_checkstack(L, 8, NULL);
    lua_pushvalue(L, index);
    int type = lua_type(L, -1);
    bool is_object = type == LUA_TTABLE || type == LUA_TUSERDATA;
    bool has_words = is_object && luaL_getmetafield(L, -1, "__tostring") != LUA_TNIL;
    if (type == LUA_TSTRING)
        return;
    if (has_words)
        lua_pop(L, 1);
    if (has_words && push_own_words(iso, L)) {
        lua_replace(L, -2);
        return;
    }
    if (type == LUA_TTABLE)
        push_fields(L);
    else if (has_words)
        lua_pushfstring(L, "(error object is a %s value)", luaL_typename(L, -1));
    else
        luaL_tolstring(L, -1, NULL);
    if (has_words) {
        lua_pushliteral(L, " (its __tostring failed)");
        lua_concat(L, 2);
    }
    lua_replace(L, -2);
}
