/*
 * Reads JSON text in one pass.  The values of an array or object are first gathered on the stack. 
 * When it ends, or has many, a table of the right size is made of them: so most tables never grow.
 */
#include "lua/json/read.h"

#include "lua/json/number.h"
#include "lua/json/utf8.h"
#include "lua/values/array_mark.h"

#include <errno.h>
#include <string.h>

enum {
    GATHERED = 32,     /* values on the stack before a table is made */
    PIECE = 4096,      /* bytes of a string read at once */
    BYTES_A_STEP = 32, /* of a string or number */
    TABLE_STEPS = 3,   /* of a table, besides its content */
    NEAR = 20,         /* bytes of the text that an error shows */
};

/* What comes next. */
enum state {
    AT_VALUE,
    AT_FIRST,  /* a value, or the end of an array; a name, or the end of an object */
    AT_NAME,   /* a name */
    AT_COLON,  /* after a name */
    AT_COMMA,  /* after a value */
    AT_END,    /* of the text */
    IN_STRING, /* the rest of a string that is a value */
    IN_NAME,   /* the rest of a string that is a name */
};

static inline bool is_in_string(const struct json_reader *r)
{
    return r->state >= IN_STRING;
}

/* --- Errors ----------------------------------------------------------------------------------- */

/*
 * Counts lines, and columns in characters, up to `at`.  Each step does so: an error in a long text
 * takes no longer.
 */
static void count_to(struct json_reader *r, const char *at)
{
    for (; r->counted < at; r->counted++) {
        if (*r->counted == '\n') {
            r->lines++;
            r->columns = 0;
        } else {
            r->columns += (*r->counted & 0xc0) != 0x80;
        }
    }
}

/* Raises an error with the line and column of `at`. */
static int fail_at(struct json_reader *r, const char *at, const char *what)
{
    count_to(r, at);
    int line = r->lines + 1, column = r->columns + 1;
    char near[NEAR + 1];
    size_t size = 0;
    for (; size < NEAR && at + size < r->end && (unsigned char)at[size] >= ' '; size++)
        near[size] = at[size];
    /* A character is not cut. */
    while (size && at + size < r->end && ((unsigned char)at[size] & 0xc0) == 0x80)
        size--;
    near[size] = '\0';
    if (at >= r->end)
        return luaL_error(r->L, "line %d, column %d: %s at the end of the text", line, column, what);
    if (!size)
        return luaL_error(r->L, "line %d, column %d: %s", line, column, what);
    return luaL_error(r->L, "line %d, column %d: %s near '%s'", line, column, what, near);
}

static int fail(struct json_reader *r, const char *what)
{
    return fail_at(r, r->at, what);
}

/* --- Numbers ---------------------------------------------------------------------------------- */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Skips digits.  Raises if there is none. */
static const char *skip_digits(struct json_reader *r, const char *at, const char *stop)
{
    if (at == stop || !is_digit(*at))
        fail_at(r, at, "a digit expected");
    while (at < stop && is_digit(*at))
        at++;
    return at;
}

static void push_float(struct json_reader *r, const char *start)
{
    double value;
    if (!number_read(start, r->at, &value))
        fail_at(r, start, "real number overflow");
    lua_pushnumber(r->L, value);
}

static void push_integer(struct json_reader *r, const char *start)
{
    bool negative = *start == '-';
    const char *at = start + negative;
    uint64_t most = (uint64_t)LUA_MAXINTEGER + negative;
    uint64_t value = 0;
    if (r->at - at > 19)
        fail_at(r, start, negative ? "too big negative integer" : "too big integer");
    for (; at < r->at; at++)
        value = value * 10 + (uint64_t)(*at - '0');
    if (value > most)
        fail_at(r, start, negative ? "too big negative integer" : "too big integer");
    lua_pushinteger(r->L, (lua_Integer)(negative ? 0 - value : value));
}

static void read_number(struct json_reader *r)
{
    const char *start = r->at;
    const char *stop = r->end - start > JSON_NUMBER_MAX ? start + JSON_NUMBER_MAX : r->end;
    bool integer = true;
    const char *at = start + (*start == '-');
    const char *digits = at;
    at = skip_digits(r, at, stop);
    if (*digits == '0' && at > digits + 1)
        fail_at(r, start, "a number that begins with 0");
    if (at < stop && *at == '.') {
        integer = false;
        at = skip_digits(r, at + 1, stop);
    }
    if (at < stop && (*at == 'e' || *at == 'E')) {
        integer = false;
        at++;
        at += at < stop && (*at == '+' || *at == '-');
        at = skip_digits(r, at, stop);
    }
    if (at == stop && stop < r->end)
        fail_at(r, start, "a number of more than 65536 bytes");
    r->at = at;
    r->steps -= (int)((at - start) / BYTES_A_STEP);
    if (integer && !r->floats)
        push_integer(r, start);
    else
        push_float(r, start);
}

/* --- Strings ---------------------------------------------------------------------------------- */

static char *buffer_of(struct json_reader *r)
{
    return r->buffer ? r->buffer : r->small;
}

/* Answers where more bytes of the buffer begin.  There is room for them. */
static char *buffer_more(struct json_reader *r, size_t size)
{
    if (r->capacity - r->used < size) {
        size_t capacity = 2 * r->capacity > r->used + size ? 2 * r->capacity : r->used + size;
        char *more = lua_newuserdatauv(r->L, capacity, 0);
        memcpy(more, buffer_of(r), r->used);
        lua_replace(r->L, r->base + 1);
        r->buffer = more;
        r->capacity = capacity;
    }
    return buffer_of(r) + r->used;
}

/* Appends the part of the string that was read and is not in the buffer yet. */
static void buffer_plain(struct json_reader *r)
{
    size_t size = (size_t)(r->at - r->string);
    memcpy(buffer_more(r, size), r->string, size);
    r->used += size;
}

/* Reads four hexadecimal digits. */
static unsigned read_hex(struct json_reader *r, const char *at)
{
    unsigned value = 0;
    for (int i = 0; i < 4; i++) {
        char c = (char)(at + i < r->end ? at[i] : '\0');
        unsigned digit = is_digit(c)              ? (unsigned)(c - '0')
                         : (c >= 'a' && c <= 'f') ? (unsigned)(c - 'a') + 10
                         : (c >= 'A' && c <= 'F') ? (unsigned)(c - 'A') + 10
                                                  : 16;
        if (digit == 16)
            fail(r, "invalid escape, four hexadecimal digits expected,");
        value = value * 16 + digit;
    }
    return value;
}

static size_t put_utf8(char *out, unsigned c)
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    size_t size = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    static const unsigned char first[] = { 0, 0, 0xc0, 0xe0, 0xf0 };
    for (size_t i = size - 1; i > 0; i--, c >>= 6)
        out[i] = (char)(0x80 | (c & 0x3f));
    out[0] = (char)(first[size] | c);
    return size;
}

/* Reads \uXXXX, or a pair of them.  `at` is the first backslash. */
static void read_unicode(struct json_reader *r)
{
    unsigned c = read_hex(r, r->at + 2);
    size_t size = 6;
    if (c >= 0xdc00 && c <= 0xdfff)
        fail(r, "invalid Unicode escape, the second half of a pair without the first,");
    if (c >= 0xd800 && c <= 0xdbff) {
        if (r->end - r->at < 8 || r->at[6] != '\\' || r->at[7] != 'u')
            fail(r, "invalid Unicode escape, the first half of a pair without the second,");
        unsigned low = read_hex(r, r->at + 8);
        if (low < 0xdc00 || low > 0xdfff)
            fail(r, "invalid Unicode escape, the first half of a pair without the second,");
        c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
        size = 12;
    }
    r->used += put_utf8(buffer_more(r, 4), c);
    r->at += size;
}

/* Reads an escape.  `at` is its backslash; what comes before it is in the buffer. */
static void read_escape(struct json_reader *r)
{
    static const char letters[] = "\"\"\\\\//b\bf\fn\nr\rt\t";
    char c = (char)(r->end - r->at > 1 ? r->at[1] : '\0');
    if (c == 'u') {
        read_unicode(r);
        return;
    }
    const char *letter = letters;
    while (*letter && *letter != c)
        letter += 2;
    if (!*letter)
        fail(r, "invalid escape");
    *buffer_more(r, 1) = letter[1];
    r->used++;
    r->at += 2;
}

/* Pushes the string that ends at `at`. */
static void end_string(struct json_reader *r)
{
    if (!r->used) {
        lua_pushlstring(r->L, r->string, (size_t)(r->at - r->string));
    } else {
        buffer_plain(r);
        lua_pushlstring(r->L, buffer_of(r), r->used);
    }
    r->used = 0;
    r->at++;
}

/* Reads about a piece of a string.  True if the string ends: it is pushed. */
static bool read_piece(struct json_reader *r)
{
    const unsigned char *end = (const unsigned char *)r->end;
    const unsigned char *at = (const unsigned char *)r->at;
    const unsigned char *from = at;
    const unsigned char *stop = end - at > PIECE ? at + PIECE : end;
    bool over = false;
    while (at < stop) {
        if (stop - at >= 8 && utf8_plain8(at)) {
            at += 8;
        } else if (*at == '"') {
            over = true;
            break;
        } else if (*at == '\\') {
            r->at = (const char *)at;
            buffer_plain(r);
            read_escape(r);
            r->string = r->at;
            at = (const unsigned char *)r->at;
        } else if (*at < ' ') {
            r->at = (const char *)at;
            fail(r, *at == '\n' ? "a line break in a string" : "a control character in a string");
        } else if (*at < 0x80) {
            at++;
        } else {
            size_t size = utf8_character(at, end);
            r->at = (const char *)at;
            if (!size)
                fail(r, "a string that is not UTF-8");
            at += size;
        }
    }
    r->at = (const char *)at;
    r->steps -= (int)((at - from) / BYTES_A_STEP);
    if (over)
        end_string(r);
    else if (at == end)
        fail_at(r, r->end, "a string without an end");
    return over;
}

/* --- Arrays and objects ----------------------------------------------------------------------- */

static void begin_level(struct json_reader *r, bool object)
{
    if (r->depth == VALUES_DEPTH_MAX)
        fail(r, "arrays and objects are nested more than 200 deep");
    luaL_checkstack(r->L, GATHERED + 8, "not enough memory");
    lua_pushnil(r->L);
    r->levels[r->depth++] = (struct json_level){ .index = lua_gettop(r->L), .object = object };
    r->steps -= TABLE_STEPS;
    r->at++;
}

/* Makes a table of the values gathered, with room for `factor` times as many. */
static void make_table(lua_State *L, struct json_level *level, int factor)
{
    int count = level->pending;
    if (level->object)
        lua_createtable(L, 0, factor * count / 2);
    else
        lua_createtable(L, factor * count, 0);
    level->table = lua_topointer(L, -1);
    lua_replace(L, level->index);
    if (level->object) { /* in order: of two equal names the last one counts */
        for (int i = 1; i < count; i += 2) {
            lua_pushvalue(L, level->index + i);
            lua_pushvalue(L, level->index + i + 1);
            lua_rawset(L, level->index);
        }
        lua_settop(L, level->index);
    } else {
        for (int i = count; i > 0; i--)
            lua_rawseti(L, level->index, i);
        level->count = count;
    }
    level->pending = 0;
}

/* Puts the value at the top, and the name below it, into an array or object. */
static inline void put_value(lua_State *L, struct json_level *level)
{
    if (!level->table) {
        level->pending += 1 + level->object;
        if (level->pending == GATHERED)
            make_table(L, level, 2);
    } else if (level->object) {
        lua_rawset(L, level->index);
    } else {
        lua_rawseti(L, level->index, ++level->count);
    }
}

/* Ends an array or object at its closing bracket.  Leaves the table at the top. */
static void end_level(struct json_reader *r)
{
    struct json_level *level = &r->levels[r->depth - 1];
    if (!level->table) {
        bool empty = !level->pending;
        make_table(r->L, level, 1);
        if (empty && !level->object) {
            array_mark_push(r->L);
            lua_setmetatable(r->L, -2);
        }
    }
    r->depth--;
    r->at++;
}

/* --- Values ----------------------------------------------------------------------------------- */

static bool read_word(struct json_reader *r, const char *word, size_t size)
{
    if ((size_t)(r->end - r->at) < size || memcmp(r->at, word, size) != 0)
        return false;
    r->at += size;
    return true;
}

/* Reads a value.  True if it is complete: it is pushed.  False: `state` says how it goes on. */
static bool read_value(struct json_reader *r)
{
    switch (*r->at) {
    case '{':
        begin_level(r, true);
        r->state = AT_FIRST;
        return false;
    case '[':
        begin_level(r, false);
        r->state = AT_FIRST;
        return false;
    case '"':
        r->state = IN_STRING;
        r->string = ++r->at;
        return read_piece(r);
    case '-':
    case '0':
    case '1':
    case '2':
    case '3':
    case '4':
    case '5':
    case '6':
    case '7':
    case '8':
    case '9':
        read_number(r);
        return true;
    case 't':
        if (!read_word(r, "true", 4))
            break;
        lua_pushboolean(r->L, true);
        return true;
    case 'f':
        if (!read_word(r, "false", 5))
            break;
        lua_pushboolean(r->L, false);
        return true;
    case 'n':
        if (!read_word(r, "null", 4))
            break;
        lua_pushlightuserdata(r->L, NULL);
        return true;
    default:
        break;
    }
    fail(r, "invalid token, a value expected,");
    return false;
}

/* The value at the top is complete: puts it where it belongs. */
static inline void end_value(struct json_reader *r)
{
    r->state = r->depth ? AT_COMMA : AT_END;
    if (r->depth)
        put_value(r->L, &r->levels[r->depth - 1]);
}

/* Skips at most a piece of white space.  False if there may be more. */
static inline bool skip_space(struct json_reader *r)
{
    const char *from = r->at;
    const char *stop = r->end - from > PIECE ? from + PIECE : r->end;
    while (r->at < stop && (*r->at == ' ' || *r->at == '\n' || *r->at == '\r' || *r->at == '\t'))
        r->at++;
    if (r->at - from >= BYTES_A_STEP)
        r->steps -= (int)((r->at - from) / BYTES_A_STEP);
    return r->at < stop || stop == r->end;
}

/* Reads on in a string that is a name or a value. */
static void read_string(struct json_reader *r)
{
    if (!read_piece(r))
        return;
    if (r->state == IN_NAME)
        r->state = AT_COLON;
    else
        end_value(r);
}

static void read_name(struct json_reader *r)
{
    if (*r->at != '"')
        fail(r, r->state == AT_FIRST ? "a string, or '}', expected" : "a string expected");
    r->string = ++r->at;
    r->state = IN_NAME;
    read_string(r);
}

static void read_colon(struct json_reader *r)
{
    if (*r->at != ':')
        fail(r, "':' expected");
    r->at++;
    r->state = AT_VALUE;
}

/* Reads what follows an opening bracket. */
static void read_first(struct json_reader *r)
{
    bool object = r->levels[r->depth - 1].object;
    if (*r->at == (object ? '}' : ']')) {
        end_level(r);
        end_value(r);
    } else if (object) {
        read_name(r);
    } else if (read_value(r)) {
        end_value(r);
    }
}

/* Reads what follows a value of an array or object. */
static void read_comma(struct json_reader *r)
{
    bool object = r->levels[r->depth - 1].object;
    if (*r->at == ',') {
        r->at++;
        r->state = object ? AT_NAME : AT_VALUE;
    } else if (*r->at == (object ? '}' : ']')) {
        end_level(r);
        end_value(r);
    } else {
        fail(r, object ? "',' or '}' expected" : "',' or ']' expected");
    }
}

static void fail_at_end(struct json_reader *r)
{
    static const char *const expected[] = {
        [AT_VALUE] = "a value expected",           [AT_FIRST] = "a value, or a closing bracket, expected",
        [AT_NAME] = "a string expected",           [AT_COLON] = "':' expected",
        [AT_COMMA] = "a closing bracket expected",
    };
    fail(r, expected[r->state]);
}

/* Reads the next token.  `at` is not the end. */
static inline void read_token(struct json_reader *r)
{
    switch (r->state) {
    case AT_VALUE:
        if (read_value(r))
            end_value(r);
        break;
    case AT_FIRST:
        read_first(r);
        break;
    case AT_NAME:
        read_name(r);
        break;
    case AT_COLON:
        read_colon(r);
        break;
    case AT_COMMA:
        read_comma(r);
        break;
    default:
        fail(r, "the end of the text expected");
    }
}

/* --- All of it -------------------------------------------------------------------------------- */

/* Others may have run since the last step, with the debug library. */
static void check_unchanged(struct json_reader *r)
{
    lua_State *L = r->L;
    bool same = !r->buffer || lua_touserdata(L, r->base + 1) == r->buffer;
    for (int i = 0; same && i < r->depth; i++) {
        const struct json_level *level = &r->levels[i];
        same = !level->table || (lua_istable(L, level->index) && lua_topointer(L, level->index) == level->table);
    }
    if (!same)
        luaL_error(L, "the stack was changed while values were being read");
}

void json_reader_begin(struct json_reader *r, const char *text, size_t size, bool floats)
{
    r->text = r->at = r->counted = text;
    r->lines = r->columns = 0;
    r->end = text + size;
    r->floats = floats;
    r->started = false;
    r->depth = 0;
    r->state = AT_VALUE;
    r->buffer = NULL;
    r->used = 0;
    r->capacity = JSON_BUFFER;
}

static void start(struct json_reader *r)
{
    luaL_checkstack(r->L, 8, "not enough memory");
    r->base = lua_gettop(r->L);
    lua_pushnil(r->L);
    r->started = true;
}

int json_reader_step(struct json_reader *r, lua_State *L, int steps, const volatile bool *hurry)
{
    r->L = L;
    r->steps = steps;
    if (r->started)
        check_unchanged(r);
    else
        start(r);
    for (;;) {
        if (is_in_string(r)) {
            read_string(r);
        } else if (skip_space(r)) {
            if (r->at < r->end)
                read_token(r);
            else if (r->state == AT_END)
                break;
            else
                fail_at_end(r);
        }
        if (--r->steps < 0 || *hurry) {
            count_to(r, is_in_string(r) ? r->string : r->at);
            return -EAGAIN;
        }
    }
    lua_replace(L, r->base + 1);
    return 1;
}
