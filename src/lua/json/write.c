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
#include "lua/json/write_bytes.h"
#include "lua/json/write_string.h"
#include "lua/values/mark.h"
#include "lua/values/walk.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    WALK_SLOTS = 3,    /* of L's stack, for a table */
    CHECKED = 8,       /* tables for whose slots the stack is checked at once */
    ROOM = 64,         /* for any value but a string, and all that may stand before and behind it */
    BYTES_A_STEP = 32, /* of white space */
    TABLE_STEPS = 2,   /* of a table, besides its content */
};

/* What functions that write answer, besides 0 and negative errors. */
enum {
    BEGUN = 1,  /* only the beginning is written: the walk goes on in the value */
    PASSED = 2, /* nothing is to be written for this key */
};

static int refuse(struct json_writer *w, const char *reason)
{
    w->reason = reason;
    return -EINVAL;
}

/* --- Numbers and white space ------------------------------------------------------------------ */

/* Begins a line, with the indentation of the present depth.  Makes room for what follows. */
static int put_line(struct json_writer *w)
{
    size_t spaces = (size_t)w->indent * (size_t)w->depth;
    int error = json_bytes_room(w, spaces + 1 + ROOM);
    if (error)
        return error;
    *w->at = '\n';
    memset(w->at + 1, ' ', spaces);
    w->at += spaces + 1;
    w->steps -= (int)(spaces / BYTES_A_STEP);
    return 0;
}

static int put_float(struct json_writer *w, double value)
{
    if (!isfinite(value))
        return refuse(w, isnan(value) ? "NaN cannot be written as JSON" : "an infinity cannot be written as JSON");
    w->at += number_write((char *)w->at, value);
    return 0;
}

static void put_integer(struct json_writer *w, lua_Integer value)
{
    *w->at = '-';
    w->at += value < 0;
    w->at += number_write_unsigned((char *)w->at, value < 0 ? 0 - (lua_Unsigned)value : (lua_Unsigned)value);
}

/* --- Tables ----------------------------------------------------------------------------------- */

/*
 * Whether the walk is in this table already.  Each table that the walk is in has a bit in a filter,
 * by its address; the first of those with the same bit has set it, and will clear it.  Only a table
 * whose bit is set must be looked for.
 */
static bool is_inside(const struct json_writer *w, const void *table)
{
    for (int i = 0; i < w->depth; i++)
        if (w->tables[i].table == table)
            return true;
    return false;
}

static inline unsigned filter_bit(const void *table)
{
    return (unsigned)(((uint64_t)(uintptr_t)table * UINT64_C(0x9e3779b97f4a7c15)) >> 54);
}

static inline bool filter_has(const struct json_writer *w, unsigned bit)
{
    return w->path[bit / 64] >> (bit % 64) & 1;
}

static inline void filter_flip(struct json_writer *w, unsigned bit)
{
    w->path[bit / 64] ^= UINT64_C(1) << (bit % 64);
}

/* Begins a table: the walk goes on in it.  Answers BEGUN, or an error. */
static int put_table(struct json_writer *w, int index)
{
    const void *table = lua_topointer(w->L, index);
    unsigned bit = filter_bit(table);
    bool known = filter_has(w, bit);
    if (known && is_inside(w, table))
        return refuse(w, "a table that contains itself cannot be written as JSON");
    if (w->depth == VALUES_DEPTH_MAX) {
        w->reason = "tables are nested too deep to be written as JSON";
        return -E2BIG;
    }
    if (w->depth % CHECKED == 0 && !lua_checkstack(w->L, CHECKED * WALK_SLOTS + VALUES_ERROR_SLOTS))
        return -ENOMEM;
    bool marked = false;
    if (lua_getmetatable(w->L, index)) { /* rarely */
        lua_pop(w->L, 1);
        enum mark mark = mark_of(w->L, index);
        marked = mark == MARK_ARRAY;
        if (mark == MARK_FOREIGN)
            return refuse(w, "a table with a metatable cannot be written as JSON");
    }
    w->tables[w->depth++] = (struct json_table){ .table = table, .marked = marked, .filtered = !known };
    if (!known)
        filter_flip(w, bit);
    w->steps -= TABLE_STEPS;
    lua_pushnil(w->L); /* before the first key */
    return BEGUN;
}

/* The walk leaves the table that it is in. */
static inline void leave_table(struct json_writer *w, const struct json_table *t)
{
    if (t->filtered)
        filter_flip(w, filter_bit(t->table));
    w->depth--;
}

static int put_bracket(struct json_writer *w, struct json_table *t)
{
    int error = json_bytes_room(w, ROOM);
    t->written = JSON_WRITTEN_BRACKET;
    if (!error)
        *w->at++ = t->walk == JSON_WALK_FIELDS ? '{' : '[';
    return error;
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

/* Puts a colon after a name.  Makes room for a value that is not a string. */
static inline int put_colon(struct json_writer *w)
{
    int error = json_bytes_room(w, ROOM);
    if (error)
        return error;
    *w->at++ = ':';
    *w->at = ' ';
    w->at += w->indent > 0;
    return 0;
}

/*
 * Puts a comma if an item comes before this one, and begins a line.  Makes room for what is not a
 * string.
 */
static inline int put_comma(struct json_writer *w, struct json_table *t)
{
    int error = json_bytes_room(w, ROOM);
    if (error)
        return error;
    *w->at = ',';
    w->at += t->written == JSON_WRITTEN_ITEMS;
    t->written = JSON_WRITTEN_ITEMS;
    return w->indent ? put_line(w) : 0;
}

static int refuse_key(struct json_writer *w, int key)
{
    int type = lua_type(w->L, key);
    if (lua_isinteger(w->L, key) && lua_tointeger(w->L, key) >= 1)
        return refuse_table(w, "a table with elements and other keys cannot be written as JSON");
    snprintf(w->refused, sizeof w->refused, "a %s that is a key cannot be written as JSON", lua_typename(w->L, type));
    return refuse(w, w->refused);
}

/* Writes the name of a field, up to its value.  A long name only begins. */
static inline int put_name(struct json_writer *w, struct json_table *t, int key)
{
    if (lua_type(w->L, key) != LUA_TSTRING)
        return refuse_key(w, key);
    int error = put_comma(w, t);
    if (!error)
        error = json_string_put(w, key);
    if (error)
        return error;
    w->is_key = w->string != 0;
    return w->is_key ? BEGUN : put_colon(w);
}

/* Writes what stands before the next element of an array. */
static inline int put_element(struct json_writer *w, struct json_table *t)
{
    t->last++;
    return put_comma(w, t);
}

/* Whether the key is the next of a list. */
static inline bool is_next(lua_State *L, const struct json_table *t, int key)
{
    return lua_isinteger(L, key) && lua_tointeger(L, key) == t->last + 1;
}

/* The first key of the table says how to walk.  Writes what stands before its value. */
static int put_first(struct json_writer *w, struct json_table *t, int key)
{
    if (is_next(w->L, t, key)) {
        t->walk = JSON_WALK_LIST;
    } else if (lua_type(w->L, key) == LUA_TSTRING && !t->marked) {
        t->walk = JSON_WALK_FIELDS;
    } else {
        begin_check(w, t, key);
        return PASSED;
    }
    int error = put_bracket(w, t);
    if (error)
        return error;
    return t->walk == JSON_WALK_LIST ? put_element(w, t) : put_name(w, t, key);
}

/* Writes what stands before the value of a key; during a check only looks at the key. */
static inline int put_key(struct json_writer *w, struct json_table *t, int key)
{
    switch (t->walk) {
    case JSON_WALK_LIST:
        if (is_next(w->L, t, key))
            return put_element(w, t);
        begin_check(w, t, key);
        return PASSED;
    case JSON_WALK_FIELDS:
        return put_name(w, t, key);
    case JSON_WALK_NEW:
        return put_first(w, t, key);
    case JSON_WALK_INDEX:
        return put_element(w, t);
    default:
        check_key(w->L, t, key);
        return PASSED;
    }
}

static int put_end(struct json_writer *w, const struct json_table *t)
{
    int error = json_bytes_room(w, ROOM);
    if (error)
        return error;
    if (t->written == JSON_WRITTEN_NOTHING) {
        json_bytes_put(w, t->marked ? "[]" : "{}", 2);
        return 0;
    }
    error = t->written == JSON_WRITTEN_ITEMS && w->indent ? put_line(w) : 0;
    if (!error)
        *w->at++ = t->walk == JSON_WALK_FIELDS ? '}' : ']';
    return error;
}

/* --- Values ----------------------------------------------------------------------------------- */

/* Refuses a value of a type that JSON does not have. */
static int refuse_value(struct json_writer *w, int type)
{
    const char *name = type == LUA_TTHREAD ? "coroutine" : lua_typename(w->L, type);
    snprintf(w->refused, sizeof w->refused, "a %s cannot be written as JSON", name);
    return refuse(w, w->refused);
}

/*
 * Writes a value.  Of a table or a long string only the beginning: BEGUN.  There is
 * room for any value that is not a
 * string.
 */
static inline int put_value(struct json_writer *w, int index)
{
    lua_State *L = w->L;
    int type = lua_type(L, index);
    switch (type) {
    case LUA_TSTRING: {
        int error = json_string_put(w, index);
        return error ? error : w->string ? BEGUN : 0;
    }
    case LUA_TNUMBER:
        if (!lua_isinteger(L, index))
            return put_float(w, lua_tonumber(L, index));
        put_integer(w, lua_tointeger(L, index));
        return 0;
    case LUA_TTABLE:
        return put_table(w, index);
    case LUA_TBOOLEAN:
        if (lua_toboolean(L, index))
            json_bytes_put(w, "true", 4);
        else
            json_bytes_put(w, "false", 5);
        return 0;
    case LUA_TLIGHTUSERDATA:
        if (lua_touserdata(L, index))
            return refuse_value(w, type);
        json_bytes_put(w, "null", 4);
        return 0;
    case LUA_TNIL:
        json_bytes_put(w, "null", 4);
        return 0;
    default:
        return refuse_value(w, type);
    }
}

/* --- The walk --------------------------------------------------------------------------------- */

/* Whether the step is over: all but its last answer is -EAGAIN. */
static inline bool is_over(struct json_writer *w, const volatile bool *hurry)
{
    return --w->steps < 0 || *hurry;
}

/* Writes the rest of a long string, and if it is a name, its value. */
static int end_string(struct json_writer *w, const volatile bool *hurry)
{
    while (w->string) {
        if (is_over(w, hurry))
            return -EAGAIN;
        int error = json_string_put_piece(w);
        if (error)
            return error;
    }
    if (w->is_key) {
        w->is_key = false;
        int answer = put_colon(w);
        if (!answer)
            answer = put_value(w, walk_key(w->base, w->depth) + 1);
        if (answer)
            return answer;
    }
    if (w->depth)
        lua_settop(w->L, walk_key(w->base, w->depth));
    return 0;
}

/* The table has no more keys: ends its check, or leaves it. */
static inline int end_table(struct json_writer *w, struct json_table *t, const volatile bool *hurry)
{
    if (t->walk == JSON_WALK_CHECK)
        return end_check(w, t);
    leave_table(w, t);
    int error = put_end(w, t);
    if (error)
        return error;
    if (!w->depth) {
        lua_settop(w->L, w->base);
        return 0;
    }
    lua_settop(w->L, walk_key(w->base, w->depth));
    return is_over(w, hurry) ? -EAGAIN : 0;
}

/* Writes the rest of the table that the walk is in, until an item begins that is long itself. */
static inline int put_items(struct json_writer *w, const volatile bool *hurry)
{
    lua_State *L = w->L;
    struct json_table *t = w->tables + w->depth - 1;
    int table = walk_table(w->value, w->base, w->depth);
    int key = walk_key(w->base, w->depth);
    while (next_item(L, t, table)) {
        int answer = put_key(w, t, key);
        if (!answer)
            answer = put_value(w, key + 1);
        if (answer && answer != PASSED)
            return answer;
        lua_settop(L, key);
        if (is_over(w, hurry))
            return -EAGAIN;
    }
    return end_table(w, t, hurry);
}

/*
 * Writes the rest of all tables that the walk is in.  After an error the keys stay on the stack,
 * for the path.
 */
static int walk(struct json_writer *w, const volatile bool *hurry)
{
    while (w->depth || w->string) {
        int answer = w->string ? end_string(w, hurry) : put_items(w, hurry);
        if (answer < 0)
            return answer;
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
    w->at = w->limit = NULL;
    w->started = false;
    w->reason = NULL;
    w->string = 0;
    w->is_key = false;
    memset(w->path, 0, sizeof w->path);
}

void json_writer_move(struct json_writer *to, const struct json_writer *from, struct message *out)
{
    *to = *from;
    *out = *from->out;
    to->out = out;
    if (from->reason == from->refused)
        to->reason = to->refused;
}

static int begin(struct json_writer *w)
{
    int error = json_bytes_room(w, ROOM);
    w->started = true;
    return error ? error : put_value(w, w->value);
}

int json_writer_step(struct json_writer *w, lua_State *L, int steps, const volatile bool *hurry)
{
    w->L = L;
    w->steps = steps;
    int error = w->started ? check_unchanged(w) : begin(w);
    if (error >= 0)
        error = walk(w, hurry);
    json_bytes_settle(w);
    if (!error && w->out->size > w->longest)
        error = json_bytes_refuse(w);
    if (!error || error == -EAGAIN)
        return error;
    message_free(w->out);
    struct path path = { .root = "value", .first_key = w->base + 1, .depth = w->depth };
    walk_fail(L, &path, error == -E2BIG && !w->reason ? "too large to be written as JSON" : w->reason);
    return error;
}
