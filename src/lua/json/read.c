/*
 * Reads JSON text in one pass.  The values of an array or object are first gathered on the stack. 
 * When it ends, or has many, a table of the right size is made of them: so most tables never grow.
 */
#include "lua/json/read.h"

#include "lua/json/number.h"
#include "lua/json/read_fault.h"
#include "lua/json/read_string.h"
#include "lua/values/mark.h"

#include <errno.h>
#include <string.h>

enum {
    GATHERED = 32,     /* values on the stack before a table is made */
    CHECKED = 4,       /* tables for whose values the stack is checked at once */
    SPARE = 8,         /* slots of the stack for everything else */
    PIECE = 4096,      /* bytes of white space skipped at once */
    BYTES_A_STEP = 32, /* of white space or a number */
    TABLE_STEPS = 3,   /* of a table, besides its content */
    DIGITS_MAX = 19,   /* that always fit into 64 bits */
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

/* --- Numbers ---------------------------------------------------------------------------------- */

/* Reads digits, and appends them to `*digits`.  Raises if there is none. */
static inline const char *read_digits(struct json_reader *r, const char *at, const char *stop, uint64_t *digits)
{
    const char *first = at;
    uint64_t value = *digits;
    for (; at < stop && (unsigned)(*at - '0') < 10; at++)
        value = value * 10 + (uint64_t)(*at - '0');
    if (at == first)
        json_fault_at(r, at, "a digit expected");
    *digits = value;
    return at;
}

static const char *read_exponent(struct json_reader *r, const char *at, const char *stop, int *exponent)
{
    enum { LARGE = 100000 }; /* a larger one makes no difference */
    bool minus = at < stop && *at == '-';
    at += at < stop && (*at == '+' || *at == '-');
    const char *first = at;
    int value = 0;
    for (; at < stop && (unsigned)(*at - '0') < 10; at++)
        value = value < LARGE ? value * 10 + (*at - '0') : value;
    if (at == first)
        json_fault_at(r, at, "a digit expected");
    *exponent += minus ? -value : value;
    return at;
}

static void push_integer(struct json_reader *r, const char *start, uint64_t digits, size_t count)
{
    bool negative = *start == '-';
    if (count > DIGITS_MAX || digits > (uint64_t)LUA_MAXINTEGER + negative)
        json_fault_at(r, start, negative ? "too big negative integer" : "too big integer");
    lua_pushinteger(r->L, (lua_Integer)(negative ? 0 - digits : digits));
}

/* The number goes from `start` to the reader's place. */
static void push_float(struct json_reader *r, const char *start, uint64_t digits, size_t count, int exponent)
{
    double value;
    if (count > DIGITS_MAX || !number_from_decimal(digits, exponent, &value)) {
        if (!number_read(start, r->at, &value))
            json_fault_at(r, start, "real number overflow");
    } else if (*start == '-') {
        value = -value;
    }
    lua_pushnumber(r->L, value);
}

static void read_number(struct json_reader *r)
{
    const char *start = r->at;
    const char *stop = r->end - start > JSON_NUMBER_MAX ? start + JSON_NUMBER_MAX : r->end;
    const char *first = start + (*start == '-');
    uint64_t digits = 0;
    int exponent = 0;
    const char *at = read_digits(r, first, stop, &digits);
    size_t count = (size_t)(at - first);
    bool integer = true;
    if (*first == '0' && count > 1)
        json_fault_at(r, start, "a number that begins with 0");
    if (at < stop && *at == '.') {
        const char *point = at;
        integer = false;
        at = read_digits(r, at + 1, stop, &digits);
        exponent = (int)(point + 1 - at);
        count += (size_t)(at - point - 1);
    }
    if (at < stop && (*at == 'e' || *at == 'E')) {
        integer = false;
        at = read_exponent(r, at + 1, stop, &exponent);
    }
    if (at == stop && stop < r->end)
        json_fault_at(r, start, "a number of more than 65536 bytes");
    r->at = at;
    r->steps -= (int)((at - start) / BYTES_A_STEP);
    if (integer && !r->floats)
        push_integer(r, start, digits, count);
    else
        push_float(r, start, digits, count, exponent);
}

/* --- Arrays and objects ----------------------------------------------------------------------- */

static void begin_level(struct json_reader *r, bool object)
{
    if (r->depth == VALUES_DEPTH_MAX)
        json_fault(r, "arrays and objects are nested more than 200 deep");
    if (r->depth % CHECKED == 0)
        luaL_checkstack(r->L, CHECKED * (GATHERED + 2) + SPARE, "not enough memory");
    lua_pushnil(r->L);
    struct json_level *level = &r->levels[r->depth++];
    level->table = NULL;
    level->index = lua_gettop(r->L);
    level->pending = 0;
    level->object = object;
    r->steps -= TABLE_STEPS;
    r->at++;
    r->state = AT_FIRST;
}

/* Makes a table of the values gathered, with room for `factor` times as many. */
static inline void make_table(lua_State *L, const struct json_level *level, int factor)
{
    int count = level->pending;
    if (level->object)
        lua_createtable(L, 0, factor * count / 2);
    else
        lua_createtable(L, factor * count, 0);
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
    }
}

/* Many values are gathered, and more will come: makes the table. */
static void begin_table(lua_State *L, struct json_level *level)
{
    make_table(L, level, 2);
    level->table = lua_topointer(L, level->index);
    level->count = level->pending;
    level->pending = 0;
}

/* Puts the value at the top, and the name below it, into an array or object. */
static inline void put_value(lua_State *L, struct json_level *level)
{
    if (!level->table) {
        level->pending += 1 + level->object;
        if (level->pending == GATHERED)
            begin_table(L, level);
    } else if (level->object) {
        lua_rawset(L, level->index);
    } else {
        lua_rawseti(L, level->index, ++level->count);
    }
}

/* Ends an array or object at its closing bracket.  Leaves the table at the top. */
static void end_level(struct json_reader *r)
{
    const struct json_level *level = &r->levels[r->depth - 1];
    if (!level->table) {
        make_table(r->L, level, 1);
        if (!level->pending && !level->object) {
            mark_push(r->L, MARK_ARRAY);
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
        return false;
    case '[':
        begin_level(r, false);
        return false;
    case '"':
        r->state = IN_STRING;
        r->at++;
        return json_string_begin(r);
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
    json_fault(r, "invalid token, a value expected,");
    return false;
}

/* Skips at most a piece of white space.  False if there may be more. */
static bool skip_much_space(struct json_reader *r)
{
    const char *from = r->at;
    const char *stop = r->end - from > PIECE ? from + PIECE : r->end;
    while (r->at < stop && (*r->at == ' ' || *r->at == '\n' || *r->at == '\r' || *r->at == '\t'))
        r->at++;
    r->steps -= (int)((r->at - from) / BYTES_A_STEP);
    return r->at < stop || stop == r->end;
}

static inline bool skip_space(struct json_reader *r)
{
    return (r->at < r->end && (unsigned char)*r->at > ' ') || skip_much_space(r);
}

/* Skips this character, if it comes next. */
static inline bool skip(struct json_reader *r, char c)
{
    bool next = r->at < r->end && *r->at == c;
    r->at += next;
    return next;
}

/*
 * The value at the top is complete: puts it where it belongs, and reads the comma behind it.  A
 * closing bracket there completes another value.
 */
static inline void end_value(struct json_reader *r)
{
    while (r->depth) {
        struct json_level *level = &r->levels[r->depth - 1];
        put_value(r->L, level);
        if (skip(r, ',')) {
            r->state = level->object ? AT_NAME : AT_VALUE;
            return;
        }
        if (r->at == r->end || *r->at != (level->object ? '}' : ']')) {
            r->state = AT_COMMA;
            return;
        }
        end_level(r);
    }
    r->state = AT_END;
}

static inline void end_name(struct json_reader *r)
{
    r->state = skip(r, ':') ? AT_VALUE : AT_COLON;
}

/* Reads on in a string that is a name or a value. */
static void read_string(struct json_reader *r)
{
    if (!json_string_more(r))
        return;
    if (r->state == IN_NAME)
        end_name(r);
    else
        end_value(r);
}

static inline void read_name(struct json_reader *r)
{
    if (*r->at != '"')
        json_fault(r, r->state == AT_FIRST ? "a string, or '}', expected" : "a string expected");
    r->at++;
    r->state = IN_NAME;
    if (json_name_begin(r))
        end_name(r);
}

static void read_colon(struct json_reader *r)
{
    if (*r->at != ':')
        json_fault(r, "':' expected");
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
        json_fault(r, object ? "',' or '}' expected" : "',' or ']' expected");
    }
}

static void fail_at_end(struct json_reader *r)
{
    static const char *const expected[] = {
        [AT_VALUE] = "a value expected",           [AT_FIRST] = "a value, or a closing bracket, expected",
        [AT_NAME] = "a string expected",           [AT_COLON] = "':' expected",
        [AT_COMMA] = "a closing bracket expected",
    };
    json_fault(r, expected[r->state]);
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
        json_fault(r, "the end of the text expected");
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
}

static void start(struct json_reader *r)
{
    luaL_checkstack(r->L, SPARE, "not enough memory");
    r->base = lua_gettop(r->L);
    json_strings_begin(r);
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
            json_fault_count(r, r->at);
            return -EAGAIN;
        }
    }
    lua_replace(L, r->base + 1);
    lua_settop(L, r->base + 1);
    return 1;
}
