#include "lua/sandbox/bounded.h"

#include "lua/budget.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

extern const char orrery_lua_bounded[];
extern const size_t orrery_lua_bounded_size;

/* What one call in C may do.  Each takes about a millisecond at most. */
enum {
    ELEMENTS_MAX = 32768,     /* moved in a table */
    SORTED_MAX = 4096,        /* sorted */
    SORTED_BYTES_MAX = 65536, /* and of strings, so long together */
    JOINED_MAX = 4096,        /* concatenated */
    BYTES_MAX = 256 * 1024,   /* looked at one by one */
    PIECES_MAX = 1024,        /* arguments put together */
    FORMATTED_MAX = 128,      /* formatted */
    OPTIONS_MAX = 64 * 1024,  /* bytes of a format for string.pack */
    DATE_MAX = 1024,          /* bytes of a format for os.date */
    RESULTS_MAX = 250000,     /* returned at once */
};

/* --- Help ------------------------------------------------------------------------------------------------------- */

/* Upvalues of each: the isolate, Lua's own function, ours in Lua. */
static int call_own(lua_State *L)
{
    return lua_tocfunction(L, lua_upvalueindex(2))(L);
}

static int return_all(lua_State *L, int status, lua_KContext context)
{
    (void)status;
    (void)context;
    return lua_gettop(L);
}

static int call_in_lua(lua_State *L)
{
    lua_pushvalue(L, lua_upvalueindex(3));
    lua_insert(L, 1);
    lua_callk(L, lua_gettop(L) - 1, LUA_MULTRET, 0, return_all);
    return lua_gettop(L);
}

static size_t longest(lua_State *L)
{
    size_t limit = isolate_of(L)->limits.longest_string;
    return limit ? limit : SIZE_MAX / 2;
}

static int too_large(lua_State *L)
{
    return luaL_error(L, "resulting string too large");
}

/* A table that nothing comes in between. */
static bool is_plain(lua_State *L, int index)
{
    if (lua_type(L, index) != LUA_TTABLE)
        return false;
    if (!lua_getmetatable(L, index))
        return true;
    lua_pop(L, 1);
    return false;
}

static bool has_field(lua_State *L, int table, const char *name)
{
    lua_pushstring(L, name);
    bool has = lua_rawget(L, table) != LUA_TNIL;
    lua_pop(L, 1);
    return has;
}

/* As Lua's own has it: what is not a table must have the metamethods. */
static void check_table(lua_State *L, int index, const char *const *needed)
{
    if (lua_type(L, index) == LUA_TTABLE)
        return;
    bool has_all = lua_getmetatable(L, index);
    for (int top = lua_gettop(L); has_all && *needed; needed++)
        has_all = has_field(L, top, *needed);
    if (!has_all)
        luaL_checktype(L, index, LUA_TTABLE);
    lua_pop(L, 1);
}

static const char *const readable[] = { "__index", "__len", NULL };
static const char *const changeable[] = { "__index", "__newindex", "__len", NULL };
static const char *const source_only[] = { "__index", NULL };
static const char *const target_only[] = { "__newindex", NULL };

/* Whether a value of a script's own has a metamethod, which is pushed then. */
static bool push_metamethod(lua_State *L, int index, const char *name)
{
    int type = lua_type(L, index);
    return (type == LUA_TTABLE || type == LUA_TUSERDATA) && luaL_getmetafield(L, index, name) != LUA_TNIL;
}

/* --- table -------------------------------------------------------------------------------------------------------- */

/*
 * Puts together elements [first, last] of the plain table at 1, and pushes the string.  False if an element is neither string
 * nor number: `bad` says which.
 */
static bool join(lua_State *L, lua_Integer first, lua_Integer last, lua_Integer *bad)
{
    size_t separator_size;
    const char *separator = luaL_optlstring(L, 2, "", &separator_size);
    size_t limit = longest(L);
    luaL_Buffer text;
    luaL_buffinit(L, &text);
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
            too_large(L);
    }
    if (luaL_bufflen(&text) > limit)
        too_large(L);
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
        return call_in_lua(L);
    }
    lua_Integer bad;
    if (join(L, first, last, &bad))
        return 1;
    lua_rawgeti(L, 1, bad);
    return luaL_error(L, "invalid value (%s) at index %I in table for 'concat'", luaL_typename(L, -1),
                      (LUAI_UACINT)bad);
}

/* join(table, separator, first, last): the string; or nil, and which element is none. */
static int tool_join(lua_State *L)
{
    lua_Integer bad;
    budget_check(isolate_of(L), L);
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
        return call_in_lua(L);
    }
    if (lua_gettop(L) != 3)
        return call_own(L);
    lua_Unsigned end = lua_rawlen(L, 1) + 1;
    lua_Unsigned position = (lua_Unsigned)luaL_checkinteger(L, 2);
    bool long_way = position >= 1 && position <= end && end - position > ELEMENTS_MAX;
    return long_way ? call_in_lua(L) : call_own(L);
}

static int table_remove(lua_State *L)
{
    if (!is_plain(L, 1)) {
        check_table(L, 1, changeable);
        if (!lua_isnoneornil(L, 2))
            luaL_checkinteger(L, 2);
        lua_settop(L, 2);
        return call_in_lua(L);
    }
    if (lua_isnoneornil(L, 2))
        return call_own(L);
    lua_Unsigned size = lua_rawlen(L, 1);
    lua_Unsigned position = (lua_Unsigned)luaL_checkinteger(L, 2);
    bool long_way = position >= 1 && position < size && size - position > ELEMENTS_MAX;
    return long_way ? call_in_lua(L) : call_own(L);
}

static int table_move(lua_State *L)
{
    lua_Integer first = luaL_checkinteger(L, 2), last = luaL_checkinteger(L, 3), to = luaL_checkinteger(L, 4);
    int target = lua_isnoneornil(L, 5) ? 1 : 5;
    bool plain = is_plain(L, 1) && is_plain(L, target);
    if (last < first || (plain && (lua_Unsigned)last - (lua_Unsigned)first < ELEMENTS_MAX))
        return call_own(L);
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
    return call_in_lua(L);
}

static int table_unpack(lua_State *L)
{
    bool plain = is_plain(L, 1);
    if (!plain && (lua_istable(L, 1) || lua_isuserdata(L, 1))) {
        luaL_optinteger(L, 2, 1);
        if (!lua_isnoneornil(L, 3))
            luaL_checkinteger(L, 3);
        lua_settop(L, 3);
        return call_in_lua(L);
    }
    if (!plain && lua_type(L, 1) != LUA_TSTRING)
        return call_own(L); /* which says so */
    lua_Integer first = luaL_optinteger(L, 2, 1);
    lua_Integer last = luaL_opt(L, luaL_checkinteger, 3, (lua_Integer)lua_rawlen(L, 1));
    if (first <= last && (lua_Unsigned)last - (lua_Unsigned)first >= RESULTS_MAX)
        return luaL_error(L, "too many results to unpack");
    return call_own(L);
}

/* Whether the first so many elements of the plain table at 1 are all numbers, or all short strings. */
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
        return call_in_lua(L);
    }
    size_t count = lua_rawlen(L, 1);
    bool compares = !lua_isnoneornil(L, 2);
    if (count < 2 || count >= INT_MAX || (!compares && sorts_quickly(L, (lua_Integer)count)))
        return call_own(L);
    if (compares)
        luaL_checktype(L, 2, LUA_TFUNCTION);
    lua_settop(L, 2);
    return call_in_lua(L);
}

/* sorts_quickly(table): the table is the caller's own, and has at most SORTED_MAX elements. */
static int tool_sorts_quickly(lua_State *L)
{
    lua_pushboolean(L, sorts_quickly(L, (lua_Integer)lua_rawlen(L, 1)));
    return 1;
}

/* compares(a, b): whether `a < b` calls something; if nothing can be called, raises as Lua's own sort does. */
static int tool_compares(lua_State *L)
{
    if (push_metamethod(L, 1, "__lt") || push_metamethod(L, 2, "__lt")) {
        lua_pushboolean(L, true);
        return 1;
    }
    lua_compare(L, 1, 2, LUA_OPLT);
    return 0;
}

/* --- string ------------------------------------------------------------------------------------------------------- */

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
    if (each > longest(L) + separator_size || (lua_Unsigned)count > (longest(L) + separator_size) / each)
        return too_large(L);
    return count > ELEMENTS_MAX ? call_in_lua(L) : call_own(L);
}

/* Those that look at each byte. */
static int string_each(lua_State *L)
{
    size_t size;
    luaL_checklstring(L, 1, &size);
    if (size <= BYTES_MAX)
        return call_own(L);
    lua_settop(L, 1);
    return call_in_lua(L);
}

/* As Lua has it: from the end if it is negative; what is out of range is cut off. */
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
    return call_own(L);
}

/* Those that make a string of all their arguments. */
static int make_of_all(lua_State *L)
{
    return lua_gettop(L) <= PIECES_MAX ? call_own(L) : call_in_lua(L);
}

/* One conversion of a format for string.format, from its % on: where it ends, and what it is. */
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
    int argument;  /* the last that was used */
    int arguments; /* that there are */
    size_t least;  /* what the result has, at least */
};

/* Goes on to the next %s whose argument has a metamethod to say what it is.  False at the end. */
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
        format->at = (size_t)(at - format->text);
        if (conversion == 's' && push_metamethod(L, argument, "__tostring"))
            return true;
    }
    return false;
}

static int finish_format(lua_State *L, const struct format *format)
{
    if (format->least > longest(L))
        return too_large(L);
    if (format->size > BYTES_MAX || format->arguments > FORMATTED_MAX)
        return call_in_lua(L);
    int results = call_own(L);
    return lua_rawlen(L, -1) > longest(L) ? too_large(L) : results;
}

static void check_described(lua_State *L)
{
    if (!lua_isstring(L, -1))
        luaL_error(L, "'__tostring' must return a string");
}

static int go_on_format(lua_State *L);

/* The metamethod of an argument has answered: that is what is put in. */
static int format_described(lua_State *L, int status, lua_KContext argument)
{
    (void)status;
    check_described(L);
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

/* next_piece(format, from): the end of a piece of a few conversions that begins there, and how many arguments it uses. */
static int tool_next_piece(lua_State *L)
{
    size_t size;
    const char *text = luaL_checklstring(L, 1, &size);
    const char *end = text + size;
    const char *from = text + luaL_checkinteger(L, 2) - 1;
    const char *at = from;
    int arguments = 0;
    while (at < end && at - from < BYTES_MAX / 4 && arguments < 16) {
        char conversion = '%';
        bool whole;
        at = *at == '%' ? skip_conversion(at, end, &conversion, &whole) : at + 1;
        arguments += conversion != '%';
    }
    lua_pushinteger(L, at - text);
    lua_pushinteger(L, arguments);
    return 2;
}

/* What a format for string.pack asks for in c100 and the like, which may be more than the arguments have. */
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
    return size > longest(L) ? too_large(L) : call_own(L);
}

static int string_options(lua_State *L)
{
    check_options(L);
    return call_own(L);
}

/* --- utf8 ---------------------------------------------------------------------------------------------------------- */

static int utf8_len(lua_State *L)
{
    size_t size;
    luaL_checklstring(L, 1, &size);
    lua_Integer first = from_start(luaL_optinteger(L, 2, 1), size);
    lua_Integer last = from_start(luaL_optinteger(L, 3, -1), size);
    if (size <= BYTES_MAX || first < 1 || first > (lua_Integer)size + 1 || last > (lua_Integer)size)
        return call_own(L);
    lua_settop(L, 4);
    lua_pushinteger(L, first);
    lua_replace(L, 2);
    lua_pushinteger(L, last);
    lua_replace(L, 3);
    return call_in_lua(L);
}

/* --- The base --------------------------------------------------------------------------------------------------------- */

static int tostring_described(lua_State *L, int status, lua_KContext context)
{
    (void)status;
    (void)context;
    check_described(L);
    lua_tostring(L, -1);
    return 1;
}

static int base_tostring(lua_State *L)
{
    luaL_checkany(L, 1);
    if (!push_metamethod(L, 1, "__tostring"))
        return call_own(L);
    lua_pushvalue(L, 1);
    lua_callk(L, 1, 1, 0, tostring_described);
    return tostring_described(L, LUA_OK, 0);
}

/* [arguments...]; `index` is the one to write next. */
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
    check_described(L);
    print_text(L, index);
    return print_from(L, LUA_OK, index + 1);
}

static int print_from(lua_State *L, int status, lua_KContext index)
{
    (void)status;
    int count = lua_gettop(L);
    for (; index <= count; index++) {
        if (push_metamethod(L, (int)index, "__tostring")) {
            lua_pushvalue(L, (int)index);
            lua_callk(L, 1, 1, index, print_described);
            check_described(L);
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
    if (!push_metamethod(L, 1, "__index"))
        return call_own(L);
    lua_settop(L, 1);
    lua_pushvalue(L, lua_upvalueindex(3));
    lua_insert(L, 1);
    lua_pushinteger(L, 0);
    return 3;
}

static int base_setmetatable(lua_State *L)
{
    if (lua_type(L, 2) == LUA_TTABLE && has_field(L, 2, "__gc"))
        return luaL_error(L, "a metatable with '__gc' is refused: this script can have no finalizers");
    return call_own(L);
}

static int base_collectgarbage(lua_State *L)
{
    static const char *const known[] = { "collect",      "count",     "step",    "incremental",
                                         "generational", "stop",      "restart", "setpause",
                                         "setstepmul",   "isrunning", NULL };
    const char *what = known[luaL_checkoption(L, 1, "collect", known)];
    if (!strcmp(what, "count"))
        return call_own(L);
    if (strcmp(what, "step") != 0)
        return luaL_error(L, "collectgarbage '%s' is refused: this script can only \"count\" and \"step\"", what);
    lua_settop(L, 1); /* a step is as long as we say */
    return call_own(L);
}

/* --- os and debug ----------------------------------------------------------------------------------------------------- */

static int os_date(lua_State *L)
{
    size_t size;
    luaL_optlstring(L, 1, "", &size);
    luaL_argcheck(L, size <= DATE_MAX, 1, "format is too long");
    return call_own(L);
}

/* --- Putting them in place ----------------------------------------------------------------------------------------------- */

/* argument_error(name, argument, message), from a function that call_in_lua() has called: as luaL_argerror() has it. */
static int tool_argument_error(lua_State *L)
{
    const char *name = luaL_checkstring(L, 1);
    int argument = (int)luaL_checkinteger(L, 2);
    const char *message = luaL_checkstring(L, 3);
    lua_Debug info = { 0 };
    if (lua_getstack(L, 2, &info))
        lua_getinfo(L, "n", &info);
    luaL_where(L, 3);
    if (info.name && !strcmp(info.namewhat, "method") && --argument == 0)
        lua_pushfstring(L, "calling '%s' on bad self (%s)", info.name, message);
    else
        lua_pushfstring(L, "bad argument #%d to '%s' (%s)", argument, info.name ? info.name : name, message);
    lua_concat(L, 2);
    return lua_error(L);
}

static const struct bounded {
    const char *library, *name;
    lua_CFunction function;
} bounded[] = {
    { "_G", "collectgarbage", base_collectgarbage },
    { "_G", "ipairs", base_ipairs },
    { "_G", "print", base_print },
    { "_G", "setmetatable", base_setmetatable },
    { "_G", "tostring", base_tostring },
    { "os", "date", os_date },
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
    { "table", "concat", table_concat },
    { "table", "insert", table_insert },
    { "table", "move", table_move },
    { "table", "remove", table_remove },
    { "table", "sort", table_sort },
    { "table", "unpack", table_unpack },
    { "utf8", "char", make_of_all },
    { "utf8", "codepoint", string_byte },
    { "utf8", "len", utf8_len },
};

/* [ours in Lua], which stays: a table of tables. */
static void put_in_place(struct orr_isolate *iso, lua_State *L, const struct bounded *one)
{
    lua_pushglobaltable(L);
    lua_getfield(L, -1, one->library);
    lua_pushlightuserdata(L, iso);
    lua_getfield(L, -2, one->name);
    if (lua_getfield(L, -5, one->library) == LUA_TTABLE)
        lua_getfield(L, -1, one->name);
    else
        lua_pushnil(L);
    lua_remove(L, -2);
    lua_pushcclosure(L, one->function, 3);
    lua_setfield(L, -2, one->name);
    lua_pop(L, 2);
}

void bounded_open(struct orr_isolate *iso, lua_State *L)
{
    static const luaL_Reg tools[] = {
        { "argument_error", tool_argument_error }, { "compares", tool_compares },           { "join", tool_join },
        { "next_piece", tool_next_piece },         { "sorts_quickly", tool_sorts_quickly }, { NULL, NULL },
    };
    if (luaL_loadbufferx(L, orrery_lua_bounded, orrery_lua_bounded_size, "=orrery/bounded.lua", "t") != LUA_OK)
        lua_error(L);
    lua_newtable(L);
    isolate_register(iso, L, tools);
    lua_pushinteger(L, RESULTS_MAX);
    lua_setfield(L, -2, "results_max");
    lua_pushinteger(L, iso->limits.longest_string ? (lua_Integer)iso->limits.longest_string : LUA_MAXINTEGER);
    lua_setfield(L, -2, "longest");
    lua_call(L, 1, 1);
    for (size_t i = 0; i < sizeof bounded / sizeof *bounded; i++)
        put_in_place(iso, L, &bounded[i]);
    lua_getfield(L, -1, "read_all");
    lua_remove(L, -2);
}
