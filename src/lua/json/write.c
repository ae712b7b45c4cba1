/*
 * Writes JSON text in one pass.  As in values/encode.c, nothing here allocates in Lua, so nothing
 * raises.
 *
 * A table that occurs twice is written twice, so the text can be exponentially larger than the
 * values: hence the longest text.  Nothing is written and then taken back, because nested tables
 * would make that exponential as well.  Whether a table is an array is seen from its first key, and
 * is checked when a key comes that is not the next.
 */
#include "lua/json/write.h"

#include "lua/json/number.h"
#include "lua/json/scan.h"
#include "lua/json/utf8.h"
#include "lua/values/array_mark.h"
#include "lua/values/walk.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    WALK_SLOTS = 3,
    PIECE = 4096,      /* bytes of a string written at once */
    ESCAPED = 6,       /* bytes that a byte of a string may become */
    BYTES_A_STEP = 32, /* of a string */
    TABLE_STEPS = 3,   /* of a table, besides its content */
    FLOAT_STEPS = 4,   /* of a float */
};

static int refuse(struct json_writer *w, const char *reason)
{
    w->reason = reason;
    return -EINVAL;
}

/* --- Bytes ------------------------------------------------------------------------------------ */

static int refuse_length(struct json_writer *w)
{
    snprintf(w->refused, sizeof w->refused, "the text is longer than strings may be (%zu bytes)", w->longest);
    w->reason = w->refused;
    return -E2BIG;
}

/* Makes room for more bytes. */
static inline int reserve(struct json_writer *w, size_t size)
{
    struct message *out = w->out;
    if (out->size > w->longest)
        return refuse_length(w);
    return out->capacity - out->size >= size ? 0 : message_grow(out, size);
}

static inline int put(struct json_writer *w, const char *bytes, size_t size)
{
    int error = reserve(w, size);
    if (error)
        return error;
    memcpy(w->out->bytes + w->out->size, bytes, size);
    w->out->size += size;
    return 0;
}

/* Begins a line, with the indentation of the present depth. */
static int put_line(struct json_writer *w)
{
    size_t spaces = (size_t)w->indent * (size_t)w->depth;
    if (!w->indent)
        return 0;
    int error = reserve(w, spaces + 1);
    if (error)
        return error;
    unsigned char *at = w->out->bytes + w->out->size;
    *at = '\n';
    memset(at + 1, ' ', spaces);
    w->out->size += spaces + 1;
    w->steps -= (int)(spaces / BYTES_A_STEP);
    return 0;
}

/* --- Numbers and strings ---------------------------------------------------------------------- */

static int put_float(struct json_writer *w, lua_Number value)
{
    if (!isfinite(value))
        return refuse(w, isnan(value) ? "NaN cannot be written as JSON" : "an infinity cannot be written as JSON");
    int error = reserve(w, NUMBER_TEXT);
    if (error)
        return error;
    w->out->size += number_write((char *)w->out->bytes + w->out->size, value);
    w->steps -= FLOAT_STEPS;
    return 0;
}

static int put_integer(struct json_writer *w, lua_Integer value)
{
    char text[24];
    char *at = text + sizeof text;
    lua_Unsigned left = value < 0 ? 0 - (lua_Unsigned)value : (lua_Unsigned)value;
    do
        *--at = (char)('0' + left % 10);
    while (left /= 10);
    if (value < 0)
        *--at = '-';
    return put(w, at, (size_t)(text + sizeof text - at));
}

static unsigned char *escape(unsigned char *out, unsigned char c)
{
    static const char hex[] = "0123456789abcdef";
    static const char letters[] = "\"\"\\\\\bb\ff\nn\rr\tt";
    *out++ = '\\';
    for (const char *letter = letters; *letter; letter += 2) {
        if (c != (unsigned char)*letter)
            continue;
        *out++ = (unsigned char)letter[1];
        return out;
    }
    /* NOLINTNEXTLINE(bugprone-not-null-terminated-result) */
    memcpy(out, "u00", 3);
    out[3] = (unsigned char)hex[c >> 4];
    out[4] = (unsigned char)hex[c & 15];
    return out + 5;
}

/* Writes at most a piece of the string that is being written. */
static int put_piece(struct json_writer *w)
{
    const unsigned char *start = (const unsigned char *)w->text;
    const unsigned char *end = start + w->text_size;
    const unsigned char *at = start + w->text_at;
    const unsigned char *stop = w->text_size - w->text_at > PIECE ? at + PIECE : end;
    int error = reserve(w, ESCAPED * (size_t)(stop - at) + 8);
    if (error)
        return error;
    unsigned char *out = w->out->bytes + w->out->size;
    w->steps -= (int)((stop - at) / BYTES_A_STEP);
    while (at < stop) {
        if ((size_t)(stop - at) >= 8 && scan_plain8(at) == 8) {
            memcpy(out, at, 8);
            out += 8;
            at += 8;
        } else if (*at < ' ' || *at == '"' || *at == '\\') {
            out = escape(out, *at++);
        } else if (*at < 0x80) {
            *out++ = *at++;
        } else {
            size_t size = utf8_character(at, end);
            if (!size) {
                snprintf(w->refused, sizeof w->refused,
                         "a string that is not UTF-8 (byte %zu) cannot be written as JSON", (size_t)(at - start) + 1);
                return refuse(w, w->refused);
            }
            memcpy(out, at, size);
            out += size;
            at += size;
        }
    }
    w->text_at = (size_t)(at - start);
    if (at == end) {
        *out++ = '"';
        w->string = 0;
    }
    w->out->size = (size_t)(out - w->out->bytes);
    return 0;
}

/* Begins a string, and writes all of it if it is short. */
static int put_string(struct json_writer *w, int index, bool is_key)
{
    w->text = lua_tolstring(w->L, index, &w->text_size);
    w->text_at = 0;
    w->string = index;
    w->is_key = is_key;
    int error = put(w, "\"", 1);
    return error ? error : put_piece(w);
}

/* Writes the rest of a long string. */
static int put_rest(struct json_writer *w, const volatile bool *hurry)
{
    while (w->string) {
        if (w->steps < 0 || *hurry)
            return -EAGAIN;
        int error = put_piece(w);
        if (error)
            return error;
    }
    return 0;
}

/* --- Tables ----------------------------------------------------------------------------------- */

/* Begins a table: the walk goes on in it. */
static int put_table(struct json_writer *w, int index)
{
    const void *table = lua_topointer(w->L, index);
    for (int i = 0; i < w->depth; i++)
        if (w->tables[i].table == table)
            return refuse(w, "a table that contains itself cannot be written as JSON");
    if (w->depth == VALUES_DEPTH_MAX) {
        w->reason = "tables are nested too deep to be written as JSON";
        return -E2BIG;
    }
    if (!lua_checkstack(w->L, WALK_SLOTS + VALUES_ERROR_SLOTS))
        return -ENOMEM;
    enum array_mark mark = array_mark_of(w->L, index);
    if (mark == ARRAY_MARK_FOREIGN)
        return refuse(w, "a table with a metatable cannot be written as JSON");
    w->tables[w->depth++] = (struct json_table){ .table = table, .marked = mark == ARRAY_MARK_SET };
    w->steps -= TABLE_STEPS;
    lua_pushnil(w->L); /* before the first key */
    return 0;
}

static int put_bracket(struct json_writer *w, struct json_table *t)
{
    t->written = JSON_WRITTEN_BRACKET;
    return put(w, t->walk == JSON_WALK_FIELDS ? "{" : "[", 1);
}

/*
 * Refuses the table that the walk is in as a whole: the path ends with the table, not with one of
 * its keys.
 */
static int refuse_table(struct json_writer *w, const char *reason)
{
    w->depth--;
    return refuse(w, reason);
}

/* The keys do not come as 1, 2, 3, ...: looks at all of them first.  [key] [value] -> [nil] */
static void begin_check(struct json_writer *w, struct json_table *t, int key)
{
    t->walk = JSON_WALK_CHECK;
    lua_settop(w->L, key - 1);
    lua_pushnil(w->L);
}

static void check_key(lua_State *L, struct json_table *t, int key)
{
    lua_Integer number = lua_isinteger(L, key) ? lua_tointeger(L, key) : 0;
    bool element = number >= 1;
    t->elements += element;
    t->others |= !element;
    t->length = number > t->length ? number : t->length;
}

/*
 * A list with holes ends at its highest key.  Its border, which Lua's `#` finds, is no measure: any
 * hole may be one.  A few keys must not make a long text.
 */
static bool has_too_many_holes(const struct json_table *t)
{
    enum { HOLES = 1000 };
    return t->length / 2 > t->elements + HOLES;
}

/* The check has seen all keys: chooses how to go on.  [] -> [nil] */
static int end_check(struct json_writer *w, struct json_table *t)
{
    if (t->marked && t->others)
        return refuse_table(w, "an array with keys that are not 1 to n cannot be written as JSON");
    if (t->marked && has_too_many_holes(t))
        return refuse_table(w, "an array with far more holes than elements cannot be written as JSON");
    if (!t->marked && t->elements && t->others)
        return refuse_table(w, "a table with elements and other keys cannot be written as JSON");
    if (!t->marked && t->elements < t->length)
        return refuse_table(w, "an array with holes cannot be written as JSON; json.array() or json.null fill them");
    t->walk = t->marked || t->elements ? JSON_WALK_INDEX : JSON_WALK_FIELDS;
    lua_pushnil(w->L);
    return t->written ? 0 : put_bracket(w, t);
}

/* [key] [value]: the first of the table say how to walk. */
static int choose_walk(struct json_writer *w, struct json_table *t, int key)
{
    if (lua_isinteger(w->L, key) && lua_tointeger(w->L, key) == 1)
        t->walk = JSON_WALK_LIST;
    else if (lua_type(w->L, key) == LUA_TSTRING && !t->marked)
        t->walk = JSON_WALK_FIELDS;
    else
        begin_check(w, t, key);
    return t->walk == JSON_WALK_CHECK ? 0 : put_bracket(w, t);
}

/* Replaces the last key by the next key and value.  False at the end, with the key popped. */
static inline bool next_item(lua_State *L, const struct json_table *t, int table)
{
    if (t->walk != JSON_WALK_INDEX)
        return lua_next(L, table);
    lua_pop(L, 1);
    if (t->last >= t->length)
        return false;
    lua_pushinteger(L, t->last + 1);
    lua_rawgeti(L, table, t->last + 1);
    return true;
}

static int put_value(struct json_writer *w, int index);

static int put_name_and_value(struct json_writer *w, int key)
{
    if (lua_type(w->L, key) != LUA_TSTRING) {
        snprintf(w->refused, sizeof w->refused, "a %s that is a key cannot be written as JSON",
                 lua_typename(w->L, lua_type(w->L, key)));
        return refuse(w, w->refused);
    }
    int error = put_string(w, key, true);
    if (error || w->string)
        return error;
    error = put(w, ": ", w->indent ? 2 : 1);
    return error ? error : put_value(w, key + 1);
}

/* [key] [value]: writes an item of the table; during a check only looks at the key. */
static int put_item(struct json_writer *w, struct json_table *t, int key)
{
    lua_State *L = w->L;
    if (t->walk == JSON_WALK_NEW) {
        int error = choose_walk(w, t, key);
        if (error || t->walk == JSON_WALK_CHECK)
            return error;
    }
    bool number = lua_isinteger(L, key);
    if (t->walk == JSON_WALK_LIST && (!number || lua_tointeger(L, key) != t->last + 1)) {
        begin_check(w, t, key);
        return 0;
    }
    if (t->walk == JSON_WALK_CHECK) {
        check_key(L, t, key);
        return 0;
    }
    if (t->walk == JSON_WALK_FIELDS && number) {
        lua_Integer at = lua_tointeger(L, key);
        if (at >= 1)
            return refuse_table(w, "a table with elements and other keys cannot be written as JSON");
    }
    int error = t->written == JSON_WRITTEN_ITEMS ? put(w, ",", 1) : 0;
    t->written = JSON_WRITTEN_ITEMS;
    if (!error && w->indent)
        error = put_line(w);
    if (error)
        return error;
    if (t->walk == JSON_WALK_FIELDS)
        return put_name_and_value(w, key);
    t->last++;
    return put_value(w, key + 1);
}

/* The table has no more keys: ends it, or ends its check. */
static int end_table(struct json_writer *w, struct json_table *t)
{
    if (t->walk == JSON_WALK_CHECK)
        return end_check(w, t);
    w->depth--;
    if (t->written == JSON_WRITTEN_NOTHING)
        return put(w, t->marked ? "[]" : "{}", 2);
    int error = t->written == JSON_WRITTEN_ITEMS && w->indent ? put_line(w) : 0;
    return error ? error : put(w, t->walk == JSON_WALK_FIELDS ? "}" : "]", 1);
}

/* --- Values ----------------------------------------------------------------------------------- */

/* Writes a value.  A table or a long string only begins. */
static int put_value(struct json_writer *w, int index)
{
    lua_State *L = w->L;
    int type = lua_type(L, index);
    const char *name = lua_typename(L, type);
    switch (type) {
    case LUA_TNIL:
        return put(w, "null", 4);
    case LUA_TBOOLEAN:
        return lua_toboolean(L, index) ? put(w, "true", 4) : put(w, "false", 5);
    case LUA_TNUMBER:
        return lua_isinteger(L, index) ? put_integer(w, lua_tointeger(L, index)) : put_float(w, lua_tonumber(L, index));
    case LUA_TSTRING:
        return put_string(w, index, false);
    case LUA_TTABLE:
        return put_table(w, index);
    case LUA_TLIGHTUSERDATA:
        if (!lua_touserdata(L, index))
            return put(w, "null", 4);
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

/* Writes the rest of a long string, and if it is a name, its value. */
static int end_string(struct json_writer *w, const volatile bool *hurry)
{
    int error = put_rest(w, hurry);
    if (error || !w->is_key)
        return error;
    int value = w->base + 2 * w->depth;
    error = put(w, ": ", w->indent ? 2 : 1);
    w->is_key = false;
    return error ? error : put_value(w, value);
}

/*
 * Writes the rest of the tables that the walk is in.  After an error the keys stay on the stack,
 * for the path.
 */
static int walk(struct json_writer *w, const volatile bool *hurry)
{
    lua_State *L = w->L;
    while (w->depth || w->string) {
        int depth = w->depth;
        int key = walk_key(w->base, depth);
        if (w->string) {
            int error = end_string(w, hurry);
            if (error)
                return error;
            if (w->string || w->depth > depth || !depth)
                continue;
            lua_settop(L, key);
        }
        struct json_table *t = w->tables + depth - 1;
        int table = walk_table(w->value, w->base, depth);
        int error = 0;
        while (next_item(L, t, table)) {
            error = put_item(w, t, key);
            if (error)
                return error;
            if (w->string || w->depth > depth)
                break;
            lua_settop(L, key);
            if (--w->steps < 0 || *hurry)
                return -EAGAIN;
        }
        if (w->string || w->depth > depth)
            continue;
        error = end_table(w, t);
        if (error)
            return error;
        if (w->depth == depth) /* only its check has ended */
            continue;
        lua_settop(L, w->depth ? key - 2 : w->base);
        if (w->depth && (--w->steps < 0 || *hurry))
            return -EAGAIN;
    }
    return 0;
}

/* Others may have run since the last step: checks that the walk can go on. */
static int check_unchanged(struct json_writer *w)
{
    lua_State *L = w->L;
    bool same = !w->string || lua_tostring(L, w->string) == w->text;
    for (int depth = 1; depth <= w->depth; depth++) {
        int table = walk_table(w->value, w->base, depth);
        int key = walk_key(w->base, depth);
        bool inside = depth < w->depth || w->string;
        same = same && lua_gettop(L) >= key && lua_topointer(L, table) == w->tables[depth - 1].table;
        if (!same)
            luaL_error(L, "the stack was changed while values were being written");
        if (!inside && (lua_isnil(L, key) || w->tables[depth - 1].walk == JSON_WALK_INDEX))
            continue;
        if (walk_can_go_on(L, table, key, inside))
            continue;
        w->depth = depth;
        return refuse(w, "the table was changed while it was being written");
    }
    return same ? 0 : refuse(w, "the string was changed while it was being written");
}

/* --- All of it -------------------------------------------------------------------------------- */

void json_writer_begin(struct json_writer *w, struct message *out, lua_State *L, int index, int indent, size_t longest)
{
    w->L = L;
    w->out = out;
    w->longest = longest ? longest : SIZE_MAX;
    w->value = lua_absindex(L, index);
    w->base = lua_gettop(L);
    w->indent = indent;
    w->depth = 0;
    w->started = false;
    w->reason = NULL;
    w->string = 0;
    w->is_key = false;
}

void json_writer_move(struct json_writer *to, const struct json_writer *from, struct message *out)
{
    *to = *from;
    *out = *from->out;
    to->out = out;
    if (from->reason == from->refused)
        to->reason = to->refused;
}

int json_writer_step(struct json_writer *w, lua_State *L, int steps, const volatile bool *hurry)
{
    w->L = L;
    w->steps = steps;
    int error = w->started ? check_unchanged(w) : put_value(w, w->value);
    w->started = true;
    if (!error)
        error = walk(w, hurry);
    if (!error && w->out->size > w->longest)
        error = refuse_length(w);
    if (!error || error == -EAGAIN)
        return error;
    message_free(w->out);
    struct path path = { .root = "value", .first_key = w->base + 1, .depth = w->depth };
    walk_fail(L, &path, error == -E2BIG && !w->reason ? "too large to be written as JSON" : w->reason);
    return error;
}
