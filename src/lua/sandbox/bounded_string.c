/*
 * Functions that look at each byte of a long string, or that join many arguments, work in Lua,
 * piece by piece.  A result that would be longer than the longest string is refused before it is
 * made, where the length can be known.
 */
#include "lua/sandbox/bounded_string.h"

#include <limits.h>
#include <string.h>

enum {
    BYTES_MAX = 256 * 1024,  /* of a string that one call looks at */
    PIECES_MAX = 1024,       /* arguments joined */
    FORMATTED_MAX = 128,     /* arguments formatted */
    QUOTED_MAX = 8192,       /* bytes of a string for %q: each may be formatted by itself */
    OPTIONS_MAX = 64 * 1024, /* bytes of the format for string.pack */
};

/* --- string ----------------------------------------------------------------------------------- */

static int string_rep(lua_State *L)
{
    size_t size, separator_size;
    luaL_checklstring(L, 1, &size);
    lua_Integer count = luaL_checkinteger(L, 2);
    luaL_optlstring(L, 3, "", &separator_size);
    size_t each = size + separator_size;
    if (count <= 0 || !each) {
        lua_pushliteral(L, "");
        return 1;
    }
    if (each > bounded_longest(L) + separator_size ||
        (lua_Unsigned)count > (bounded_longest(L) + separator_size) / each)
        return bounded_too_large(L);
    return count > ELEMENTS_MAX ? bounded_call_in_lua(L) : bounded_call_own(L);
}

/* string.lower, string.reverse and string.upper, which look at each byte. */
static int string_each(lua_State *L)
{
    size_t size;
    luaL_checklstring(L, 1, &size);
    if (size <= BYTES_MAX)
        return bounded_call_own(L);
    lua_settop(L, 1);
    return bounded_call_in_lua(L);
}

/* The position that Lua means: a negative one counts from the end, 0 if it is before the start. */
static lua_Integer from_start(lua_Integer position, size_t size)
{
    if (position >= 0)
        return position;
    return (lua_Unsigned)0 - (lua_Unsigned)position > size ? 0 : (lua_Integer)size + position + 1;
}

static int string_byte(lua_State *L)
{
    size_t size;
    luaL_checklstring(L, 1, &size);
    lua_Integer first = luaL_optinteger(L, 2, 1);
    lua_Integer last = from_start(luaL_optinteger(L, 3, first), size);
    first = from_start(first, size);
    first = first < 1 ? 1 : first;
    last = last > (lua_Integer)size ? (lua_Integer)size : last;
    if (first <= last && last - first >= RESULTS_MAX)
        return luaL_error(L, "string slice too long");
    return bounded_call_own(L);
}

/* string.char and utf8.char, which make a string of all their arguments. */
static int make_of_all(lua_State *L)
{
    return lua_gettop(L) <= PIECES_MAX ? bounded_call_own(L) : bounded_call_in_lua(L);
}

/*
 * Skips a conversion in a format for string.format; `at` is its %.  Answers where it ends. 
 * `whole`: it has no precision, so that a string is not cut.
 */
static const char *skip_conversion(const char *at, const char *end, char *conversion, bool *whole)
{
    *whole = true;
    for (at++; at < end && strchr("-+ #0123456789.", *at) && *at; at++)
        *whole = *whole && *at != '.';
    *conversion = '\0';
    if (at < end)
        *conversion = *at++;
    return at;
}

struct format {
    const char *text;
    size_t size, at;
    int argument;  /* the last argument used */
    int arguments; /* how many there are */
    size_t least;  /* bytes that the result has at least */
    bool quotes;   /* a %q has a long string */
};

/* Goes on to the next %s whose argument has a `__tostring`, which is pushed.  False at the end. */
static bool next_described(lua_State *L, struct format *format)
{
    const char *end = format->text + format->size;
    const char *at = format->text + format->at;
    while ((at = memchr(at, '%', (size_t)(end - at)))) {
        char conversion;
        bool whole;
        at = skip_conversion(at, end, &conversion, &whole);
        if (conversion == '%')
            continue;
        int argument = ++format->argument;
        if (argument > format->arguments)
            return false;
        if ((conversion == 's' && whole) || conversion == 'q')
            format->least += lua_type(L, argument) == LUA_TSTRING ? lua_rawlen(L, argument) : 0;
        format->quotes |= conversion == 'q' && lua_type(L, argument) == LUA_TSTRING &&
                          lua_rawlen(L, argument) > QUOTED_MAX;
        format->at = (size_t)(at - format->text);
        if (conversion == 's' && bounded_push_metamethod(L, argument, "__tostring"))
            return true;
    }
    return false;
}

static int finish_format(lua_State *L, const struct format *format)
{
    if (format->least > bounded_longest(L))
        return bounded_too_large(L);
    if (format->size > BYTES_MAX || format->arguments > FORMATTED_MAX || format->quotes)
        return bounded_call_in_lua(L);
    int results = bounded_call_own(L);
    return lua_rawlen(L, -1) > bounded_longest(L) ? bounded_too_large(L) : results;
}

static int go_on_format(lua_State *L);

/* Puts the result of a `__tostring`, at the top, in the place of its argument. */
static int format_described(lua_State *L, int status, lua_KContext argument)
{
    (void)status;
    bounded_check_described(L);
    lua_tostring(L, -1);
    lua_replace(L, (int)argument);
    return status == LUA_YIELD ? go_on_format(L) : 0;
}

static int go_on_format(lua_State *L)
{
    struct format format = { .argument = 1, .arguments = lua_gettop(L) };
    format.text = luaL_checklstring(L, 1, &format.size);
    while (next_described(L, &format)) {
        lua_pushvalue(L, format.argument);
        lua_callk(L, 1, 1, format.argument, format_described);
        format_described(L, LUA_OK, format.argument);
        format.least += lua_rawlen(L, format.argument);
    }
    return finish_format(L, &format);
}

static int string_format(lua_State *L)
{
    return go_on_format(L);
}

/*
 * next_piece(format, from): answers where a piece of a few conversions ends that begins at `from`,
 * how many arguments it uses, and whether it is one %q and nothing else.
 */
static int tool_next_piece(lua_State *L)
{
    size_t size;
    const char *text = luaL_checklstring(L, 1, &size);
    const char *end = text + size;
    const char *from = text + luaL_checkinteger(L, 2) - 1;
    const char *at = from;
    int arguments = 0;
    bool quotes = false;
    while (at < end && at - from < BYTES_MAX / 4 && arguments < 16 && !quotes) {
        char conversion = '%';
        bool whole;
        const char *next = *at == '%' ? skip_conversion(at, end, &conversion, &whole) : at + 1;
        quotes = conversion == 'q' && next - at == 2;
        if (quotes && at > from) { /* a %q is a piece of its own */
            quotes = false;
            break;
        }
        at = next;
        arguments += conversion != '%';
    }
    lua_pushinteger(L, at - text);
    lua_pushinteger(L, arguments);
    lua_pushboolean(L, quotes);
    return 3;
}

/*
 * Bytes of the fixed-size strings (c100) in a format for string.pack: they may exceed the
 * arguments.
 */
static size_t fixed_size(const char *format)
{
    size_t sum = 0;
    for (; (format = strchr(format, 'c'));) {
        size_t size = 0;
        for (format++; *format >= '0' && *format <= '9'; format++)
            size = size < INT_MAX ? size * 10 + (size_t)(*format - '0') : size;
        sum += size;
    }
    return sum;
}

static const char *check_options(lua_State *L)
{
    size_t size;
    const char *format = luaL_checklstring(L, 1, &size);
    luaL_argcheck(L, size <= OPTIONS_MAX, 1, "format is too long");
    return format;
}

static int string_pack(lua_State *L)
{
    size_t size = fixed_size(check_options(L));
    for (int i = lua_gettop(L); i > 1; i--)
        size += lua_type(L, i) == LUA_TSTRING ? lua_rawlen(L, i) : 0;
    return size > bounded_longest(L) ? bounded_too_large(L) : bounded_call_own(L);
}

static int string_options(lua_State *L)
{
    check_options(L);
    return bounded_call_own(L);
}

/* --- utf8 ------------------------------------------------------------------------------------- */

static int utf8_len(lua_State *L)
{
    size_t size;
    luaL_checklstring(L, 1, &size);
    lua_Integer first = from_start(luaL_optinteger(L, 2, 1), size);
    lua_Integer last = from_start(luaL_optinteger(L, 3, -1), size);
    if (size <= BYTES_MAX || first < 1 || first > (lua_Integer)size + 1 || last > (lua_Integer)size)
        return bounded_call_own(L);
    lua_settop(L, 4);
    lua_pushinteger(L, first);
    lua_replace(L, 2);
    lua_pushinteger(L, last);
    lua_replace(L, 3);
    return bounded_call_in_lua(L);
}

const struct bounded bounded_string[] = {
    { "string", "byte", string_byte },
    { "string", "char", make_of_all },
    { "string", "format", string_format },
    { "string", "lower", string_each },
    { "string", "pack", string_pack },
    { "string", "packsize", string_options },
    { "string", "rep", string_rep },
    { "string", "reverse", string_each },
    { "string", "unpack", string_options },
    { "string", "upper", string_each },
    { "utf8", "char", make_of_all },
    { "utf8", "codepoint", string_byte },
    { "utf8", "len", utf8_len },
    { NULL, NULL, NULL },
};

const luaL_Reg bounded_string_tools[] = {
    { "next_piece", tool_next_piece },
    { NULL, NULL },
};
