/*
 * Values as JSON text, in one pass, straight into the buffer.  As in values/encode.c, nothing here allocates in Lua and nothing raises,
 * and the stack holds one key and one value for each table that the walk is in.
 *
 * A table that is met twice is written twice, so what is written can be exponentially larger than what there is: hence the longest text.
 * Nothing is ever written twice because a first try failed, for tables in one another would make that exponential as well: whether a table is
 * an array is seen from its first key, and checked when a key comes that is not the next.
 */
#include "lua/json/json.h"

#include "lua/json/number.h"
#include "lua/json/utf8.h"
#include "lua/values/path.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    WALK_SLOTS = 3,
    PIECE = 4096,      /* bytes of a string that are written at once */
    ESCAPED = 6,       /* bytes that one byte of a string takes at most */
    BYTES_A_STEP = 32, /* of strings */
    TABLE_STEPS = 3,   /* what a table takes, besides its content */
    FLOAT_STEPS = 4,   /* what a float takes */
};

/* How a table is walked over. */
enum mode {
    MODE_NEW,    /* it is not known yet */
    MODE_LIST,   /* by lua_next(), whose keys have been 1, 2, 3, … so far */
    MODE_CHECK,  /* by lua_next(), only to look at the keys */
    MODE_INDEX,  /* by index: they are 1 to n, but do not come in order, or some are nil */
    MODE_FIELDS, /* by lua_next(), and the keys are names */
};

static int refuse(struct json_writer *w, const char *reason)
{
    w->reason = reason;
    return -EINVAL;
}

/* --- Bytes ------------------------------------------------------------------------------------------------------- */

static int refuse_length(struct json_writer *w)
{
    snprintf(w->refused, sizeof w->refused, "the text is longer than strings may be (%zu bytes)", w->longest);
    w->reason = w->refused;
    return -E2BIG;
}

/* Room for so many bytes more. */
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

/* The beginning of a line, at the depth that there is now. */
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

/* --- Numbers and strings -------------------------------------------------------------------------------------------- */

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

/* Goes on with the string that is being written, for at most a piece. */
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
        if ((size_t)(stop - at) >= 8 && utf8_plain8(at)) {
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

/* Begins a string.  If it is short, that is all. */
static int put_string(struct json_writer *w, int index, bool is_key)
{
    w->text = lua_tolstring(w->L, index, &w->text_size);
    w->text_at = 0;
    w->string = index;
    w->is_key = is_key;
    int error = put(w, "\"", 1);
    return error ? error : put_piece(w);
}

/* The rest of a long string. */
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

/* --- Tables --------------------------------------------------------------------------------------------------------- */

/* 1 if json.array() has marked it, 0 if it has no metatable; or an error. */
static int is_marked(struct json_writer *w, int index)
{
    if (!lua_getmetatable(w->L, index))
        return 0;
    values_push_array_mark(w->L);
    bool marked = lua_rawequal(w->L, -1, -2);
    lua_pop(w->L, 2);
    return marked ? 1 : refuse(w, "a table with a metatable cannot be written as JSON");
}

/* Begins a table: the walk goes on in it. */
static int put_table(struct json_writer *w, int index)
{
    const void *table = lua_topointer(w->L, index);
    for (int i = 0; i < w->depth; i++)
        if (w->tables[i].table == table)
            return refuse(w, "a table that contains itself cannot be written as JSON");
    if (w->depth == JSON_DEPTH_MAX) {
        w->reason = "tables are nested too deep to be written as JSON";
        return -E2BIG;
    }
    if (!lua_checkstack(w->L, WALK_SLOTS + VALUES_ERROR_SLOTS))
        return -ENOMEM;
    int marked = is_marked(w, index);
    if (marked < 0)
        return marked;
    w->tables[w->depth++] = (struct json_table){ .table = table, .marked = marked };
    w->steps -= TABLE_STEPS;
    lua_pushnil(w->L); /* before the first key */
    return 0;
}

static int begin_table(struct json_writer *w, struct json_table *t)
{
    t->begun = true;
    return put(w, t->mode == MODE_FIELDS ? "{" : "[", 1);
}

/* What is wrong with the table that the walk is in, as a whole: its own keys are no part of where it is. */
static int refuse_table(struct json_writer *w, const char *reason)
{
    w->depth--;
    return refuse(w, reason);
}

/* The keys do not come as 1, 2, 3, …: all of them are to be looked at.  [key] [value] -> [nil] */
static void begin_check(struct json_writer *w, struct json_table *t, int table, int key)
{
    t->mode = MODE_CHECK;
    t->length = (lua_Integer)lua_rawlen(w->L, table);
    lua_settop(w->L, key - 1);
    lua_pushnil(w->L);
}

static void check_key(lua_State *L, struct json_table *t, int key)
{
    lua_Integer number = lua_isinteger(L, key) ? lua_tointeger(L, key) : 0;
    bool element = number >= 1 && number <= t->length;
    t->elements += element;
    t->others |= !element;
}

/* All keys have been looked at.  [] -> [nil], or the key that was written last. */
static int end_check(struct json_writer *w, struct json_table *t)
{
    if (t->marked && t->others)
        return refuse_table(w, "an array with keys that are not 1 to n cannot be written as JSON");
    if (!t->marked && t->elements && t->others)
        return refuse_table(w, "a table with elements and other keys cannot be written as JSON");
    if (!t->marked && t->elements < t->length)
        return refuse_table(w, "an array with holes cannot be written as JSON; json.array() or json.null fill them");
    t->mode = t->marked || t->elements ? MODE_INDEX : MODE_FIELDS;
    lua_pushnil(w->L);
    return t->begun ? 0 : begin_table(w, t);
}

/* [key] [value], the first of the table. */
static int choose_mode(struct json_writer *w, struct json_table *t, int table, int key)
{
    if (lua_isinteger(w->L, key) && lua_tointeger(w->L, key) == 1)
        t->mode = MODE_LIST;
    else if (lua_type(w->L, key) == LUA_TSTRING && !t->marked)
        t->mode = MODE_FIELDS;
    else
        begin_check(w, t, table, key);
    return t->mode == MODE_CHECK ? 0 : begin_table(w, t);
}

/* Pushes the next key and value of a table, in the place of the last key.  False at the end. */
static inline bool next_item(lua_State *L, const struct json_table *t, int table)
{
    if (t->mode != MODE_INDEX)
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

/* [key] [value] of the table: what comes before, and the value; or only a look. */
static int put_item(struct json_writer *w, struct json_table *t, int table, int key)
{
    lua_State *L = w->L;
    if (t->mode == MODE_NEW) {
        int error = choose_mode(w, t, table, key);
        if (error || t->mode == MODE_CHECK)
            return error;
    }
    bool number = lua_isinteger(L, key);
    if (t->mode == MODE_LIST && (!number || lua_tointeger(L, key) != t->last + 1)) {
        begin_check(w, t, table, key);
        return 0;
    }
    if (t->mode == MODE_CHECK) {
        check_key(L, t, key);
        return 0;
    }
    if (t->mode == MODE_FIELDS && number) {
        lua_Integer at = lua_tointeger(L, key);
        if (at >= 1 && at <= (lua_Integer)lua_rawlen(L, table))
            return refuse_table(w, "a table with elements and other keys cannot be written as JSON");
    }
    int error = t->written ? put(w, ",", 1) : 0;
    t->written = true;
    if (!error && w->indent)
        error = put_line(w);
    if (error)
        return error;
    if (t->mode == MODE_FIELDS)
        return put_name_and_value(w, key);
    t->last++;
    return put_value(w, key + 1);
}

/* There is no more key in the table, or the check has come to its end. */
static int end_table(struct json_writer *w, struct json_table *t)
{
    if (t->mode == MODE_CHECK)
        return end_check(w, t);
    w->depth--;
    if (!t->begun)
        return put(w, t->marked ? "[]" : "{}", 2);
    int error = t->written && w->indent ? put_line(w) : 0;
    return error ? error : put(w, t->mode == MODE_FIELDS ? "}" : "]", 1);
}

/* --- Values --------------------------------------------------------------------------------------------------------- */

/* Writes a value; a table, or a long string, is only begun. */
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

static int table_index(const struct json_writer *w, int depth)
{
    return depth == 1 ? w->value : w->base + 2 * (depth - 1);
}

/* The rest of a long string that is being written, and of a value that it is the name of. */
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

/* The rest of the tables that the walk is in.  Where there is an error, the keys stay, for the path. */
static int walk(struct json_writer *w, const volatile bool *hurry)
{
    lua_State *L = w->L;
    while (w->depth || w->string) {
        int depth = w->depth;
        int key = w->base + 2 * depth - 1;
        if (w->string) {
            int error = end_string(w, hurry);
            if (error)
                return error;
            if (w->string || w->depth > depth || !depth)
                continue;
            lua_settop(L, key);
        }
        struct json_table *t = w->tables + depth - 1;
        int table = table_index(w, depth);
        int error = 0;
        while (next_item(L, t, table)) {
            error = put_item(w, t, table, key);
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
        if (w->depth == depth) /* it was only the check */
            continue;
        lua_settop(L, w->depth ? key - 2 : w->base);
        if (w->depth && (--w->steps < 0 || *hurry))
            return -EAGAIN;
    }
    return 0;
}

/* As in values/encode.c: the walk can go on only from keys that are still there. */
static int check_unchanged(struct json_writer *w)
{
    lua_State *L = w->L;
    bool same = !w->string || lua_tostring(L, w->string) == w->text;
    for (int depth = 1; depth <= w->depth; depth++) {
        int table = table_index(w, depth);
        int key = w->base + 2 * depth - 1;
        bool inside = depth < w->depth || w->string;
        same = same && lua_gettop(L) >= key && lua_topointer(L, table) == w->tables[depth - 1].table;
        if (!same)
            luaL_error(L, "somebody has changed what is being written");
        if (!inside && (lua_isnil(L, key) || w->tables[depth - 1].mode == MODE_INDEX))
            continue;
        lua_pushvalue(L, key);
        lua_rawget(L, table);
        bool there = inside ? lua_rawequal(L, -1, key + 1) : !lua_isnil(L, -1);
        lua_pop(L, 1);
        if (there)
            continue;
        w->depth = depth;
        return refuse(w, "the table was changed while it was being written");
    }
    return same ? 0 : refuse(w, "the string was changed while it was being written");
}

/* --- All of it ------------------------------------------------------------------------------------------------------ */

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
    path_push_error(L, &path, error == -E2BIG && !w->reason ? "too large to be written as JSON" : w->reason);
    lua_rotate(L, w->base + 1, 1);
    lua_settop(L, w->base + 1);
    return error;
}

int json_write(struct message *out, lua_State *L, int index, int indent, size_t longest)
{
    static const volatile bool never = false;
    struct json_writer w;
    json_writer_begin(&w, out, L, index, indent, longest);
    int error;
    do
        error = json_writer_step(&w, L, INT_MAX, &never);
    while (error == -EAGAIN);
    return error;
}
