/*
 * Reads values from bytes.  The decoder holds nothing that needs to be freed, so it may raise at
 * any point.
 *
 * The bytes may have any origin.  Each size is compared with the bytes that are left.  A table is
 * made as large as its header says only if that many bytes are left that no other table has
 * claimed, so a few bytes cannot ask for much memory.  A table that is not complete cannot be
 * referred to, so there are no cycles.  The same checks hold for messages, and cost next
 * to nothing.
 */
#include "lua/values/decode.h"

#include "lua/values/mark.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <string.h>

enum {
    WALK_SLOTS = 4,     /* a table, a key, a value, and one more */
    BYTES_A_STEP = 256, /* of a string */
    SLOTS_A_STEP = 16,  /* of a table that is made */
    TABLE_STEPS = 3,    /* of a table, besides its content */
    /*
     * Elements and pairs that a table has room for from the start: making it cannot be suspended.
     */
    ELEMENTS_MADE = 1 << 18,
    PAIRS_MADE = 1 << 15,
};

static void fail(const struct decoder *d, const char *what)
{
    luaL_error(d->L, "byte %d: %s", (int)(d->at - d->start) + 1, what);
}

static inline void need(const struct decoder *d, size_t size)
{
    if ((size_t)(d->end - d->at) < size)
        fail(d, "the data ends here, expected more bytes");
}

static inline uint32_t read32(struct decoder *d)
{
    need(d, 4);
    d->at += 4;
    return load32(d->at - 4);
}

static inline void count(struct decoder *d, size_t amount, size_t a_step)
{
    size_t steps = amount / a_step;
    d->steps -= steps < INT_MAX / 2 ? (int)steps : INT_MAX / 2;
}

/* --- Strings and attachments ------------------------------------------------------------------ */

static void read_name(struct decoder *d)
{
    need(d, 2);
    unsigned slot = d->at[0];
    size_t size = d->at[1];
    if (slot >= d->slots || slot > d->taken)
        fail(d, "a name for a slot that does not exist");
    if (size > NAME_MAX_SIZE)
        fail(d, "a name longer than 40 bytes");
    d->at += 2;
    need(d, size);
    lua_pushlstring(d->L, (const char *)d->at, size);
    lua_copy(d->L, -1, d->names + (int)slot);
    d->taken += slot == d->taken;
    d->at += size;
}

static void read_same_name(struct decoder *d)
{
    need(d, 1);
    unsigned slot = *d->at;
    if (slot >= d->taken)
        fail(d, "a slot without a name");
    lua_pushvalue(d->L, d->names + (int)slot);
    d->at++;
}

static void read_string(struct decoder *d)
{
    size_t size = read32(d);
    need(d, size);
    lua_pushlstring(d->L, (const char *)d->at, size);
    d->at += size;
    count(d, size, BYTES_A_STEP);
}

static void read_segment(struct decoder *d)
{
    uint32_t number = read32(d);
    if (!d->m || number >= d->m->segment_count) {
        fail(d, "a segment that does not exist");
    } else {
        lua_pushlstring(d->L, d->m->segments[number].bytes, d->m->segments[number].size);
        count(d, d->m->segments[number].size, BYTES_A_STEP);
    }
}

static void read_attachment(struct decoder *d)
{
    uint32_t number = read32(d);
    if (!d->m || number >= d->m->attachment_count)
        fail(d, "an attachment that does not exist");
    else
        d->m->attachments[number]->push(d->L, d->m->attachments[number]);
}

/* --- References ------------------------------------------------------------------------------- */

/* Notes the complete object at the top, whose tag is at an offset: references may name it. */
static void share(struct decoder *d, size_t offset)
{
    if (lua_isnil(d->L, d->shared)) {
        lua_newtable(d->L);
        lua_replace(d->L, d->shared);
    }
    lua_pushvalue(d->L, -1);
    lua_rawseti(d->L, d->shared, (lua_Integer)offset);
}

static void read_reference(struct decoder *d)
{
    uint32_t offset = read32(d);
    if (lua_isnil(d->L, d->shared) || lua_rawgeti(d->L, d->shared, offset) == LUA_TNIL)
        fail(d, "a reference to no earlier object");
}

/* --- Tables ----------------------------------------------------------------------------------- */

static void claim(struct decoder *d, uint64_t size)
{
    if (size > d->unclaimed)
        fail(d, "a table with more values than there are bytes");
    d->unclaimed -= (size_t)size;
}

static enum mark mark_for(unsigned tag)
{
    return tag == TAG_ARRAY ? MARK_ARRAY : tag == TAG_ERROR ? MARK_ERROR : MARK_NONE;
}

/* Begins a table: the values that follow go into it. */
static void begin_table(struct decoder *d, unsigned tag)
{
    lua_State *L = d->L;
    const unsigned char *begin = d->at - 1;
    if (d->depth == VALUES_DEPTH_MAX)
        fail(d, "tables are nested too deep");
    uint32_t elements = read32(d);
    uint32_t pairs = read32(d);
    claim(d, (uint64_t)elements + 2 * (uint64_t)pairs);
    if (elements > INT32_MAX || pairs > INT32_MAX)
        fail(d, "a table too large for Lua");
    luaL_checkstack(L, WALK_SLOTS, "not enough memory");
    lua_createtable(L, (int)(elements < ELEMENTS_MADE ? elements : ELEMENTS_MADE),
                    (int)(pairs < PAIRS_MADE ? pairs : PAIRS_MADE));
    struct decoder_table *table = &d->tables[d->depth++];
    table->table = lua_topointer(L, -1);
    table->begin = begin;
    table->index = lua_gettop(L);
    table->elements = elements;
    table->pairs = pairs;
    table->at = 0;
    table->mark = mark_for(tag & ~(unsigned)SHARED);
    table->shared = tag & SHARED;
    table->has_key = false;
    count(d, (size_t)elements + 2 * (size_t)pairs, SLOTS_A_STEP);
    d->steps -= TABLE_STEPS;
}

/* Ends the table at the top, which is complete. */
static void end_table(struct decoder *d)
{
    const struct decoder_table *table = &d->tables[--d->depth];
    if (table->mark != MARK_NONE) {
        mark_push(d->L, table->mark);
        lua_setmetatable(d->L, -2);
    }
    if (table->shared)
        share(d, (size_t)(table->begin - d->start));
}

/* Raises if the value at the top cannot be a key.  `begin` is its tag. */
static void check_key(struct decoder *d, const unsigned char *begin)
{
    int type = lua_type(d->L, -1);
    bool good = type == LUA_TSTRING || type == LUA_TBOOLEAN ||
                (type == LUA_TNUMBER && (lua_isinteger(d->L, -1) || !isnan(lua_tonumber(d->L, -1))));
    if (good)
        return;
    d->at = begin;
    fail(d, "a key that is no string, number or boolean");
}

/* --- Values ----------------------------------------------------------------------------------- */

static void read_float(struct decoder *d)
{
    lua_Number value;
    need(d, 8);
    uint64_t bits = load64(d->at);
    memcpy(&value, &bits, sizeof value);
    lua_pushnumber(d->L, value);
    d->at += 8;
}

static void read_integer(struct decoder *d, enum tag tag)
{
    size_t size = (size_t)1 << (tag - TAG_INT8);
    need(d, size);
    lua_Integer value = tag == TAG_INT8    ? (int8_t)*d->at
                        : tag == TAG_INT16 ? (int16_t)load16(d->at)
                        : tag == TAG_INT32 ? (int32_t)load32(d->at)
                                           : (int64_t)load64(d->at);
    lua_pushinteger(d->L, value);
    d->at += size;
}

/* Pushes an object that can be shared.  False if it is a table, which only begins. */
static bool read_shareable(struct decoder *d, unsigned tag)
{
    size_t offset = (size_t)(d->at - d->start) - 1;
    switch (tag & ~(unsigned)SHARED) {
    case TAG_STRING:
        read_string(d);
        break;
    case TAG_SEGMENT:
        read_segment(d);
        break;
    case TAG_TABLE:
    case TAG_ARRAY:
    case TAG_ERROR:
        begin_table(d, tag);
        return false;
    case TAG_ATTACHMENT:
        read_attachment(d);
        break;
    default:
        d->at--;
        fail(d, "an unknown tag");
    }
    if (tag & SHARED)
        share(d, offset);
    return true;
}

/* Pushes the next value.  False if it is a table, which only begins. */
static bool read_value(struct decoder *d)
{
    need(d, 1);
    unsigned tag = *d->at++;
    if (tag >= SMALL_INT) {
        lua_pushinteger(d->L, tag - SMALL_INT);
        return true;
    }
    switch (tag) {
    case TAG_NIL:
        lua_pushnil(d->L);
        break;
    case TAG_FALSE:
    case TAG_TRUE:
        lua_pushboolean(d->L, tag == TAG_TRUE);
        break;
    case TAG_NULL:
        lua_pushlightuserdata(d->L, NULL);
        break;
    case TAG_INT8:
    case TAG_INT16:
    case TAG_INT32:
    case TAG_INT64:
        read_integer(d, tag);
        break;
    case TAG_FLOAT:
        read_float(d);
        break;
    case TAG_NAME:
        read_name(d);
        break;
    case TAG_SAME_NAME:
        read_same_name(d);
        break;
    case TAG_REFERENCE:
        read_reference(d);
        break;
    default:
        return read_shareable(d, tag);
    }
    return true;
}

/* --- All of it -------------------------------------------------------------------------------- */

/* Puts the value at the top into the table. */
static inline void put_value(lua_State *L, struct decoder_table *table)
{
    table->at++;
    if (!table->has_key) {
        lua_rawseti(L, table->index, table->at);
        return;
    }
    lua_rawset(L, table->index);
    table->has_key = false;
}

/* Reads the rest of the tables that are being filled. */
static int fill(struct decoder *d, const volatile bool *hurry)
{
    lua_State *L = d->L;
    while (d->depth) {
        int depth = d->depth;
        struct decoder_table *table = &d->tables[depth - 1];
        uint32_t count = table->elements + table->pairs;
        while (table->at < count) {
            if (table->at >= table->elements && !table->has_key) {
                const unsigned char *begin = d->at;
                if (!read_value(d))
                    d->depth--; /* so that the error is about the key, not its content */
                check_key(d, begin);
                table->has_key = true;
            }
            if (!read_value(d))
                break;
            put_value(L, table);
            if (--d->steps < 0 || *hurry)
                return -EAGAIN;
        }
        if (d->depth > depth)
            continue;
        end_table(d);
        if (!d->depth)
            return 0;
        put_value(L, &d->tables[d->depth - 1]);
        if (--d->steps < 0 || *hurry)
            return -EAGAIN;
    }
    return 0;
}

static void start(struct decoder *d)
{
    lua_State *L = d->L;
    d->base = lua_gettop(L);
    need(d, FORMAT_HEADER);
    /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference) */
    if (*d->at != FORMAT_VERSION)
        fail(d, "an unknown version of the format, expected 1");
    d->at++;
    d->slots = *d->at;
    if (d->slots > NAME_SLOTS)
        fail(d, "more than 128 slots for names");
    d->at++;
    int own = 1 + (int)d->slots;
    d->count = read32(d);
    if (d->count > (size_t)(d->end - d->at))
        fail(d, "fewer values than the header says");
    if (d->count > INT32_MAX / 2 || !lua_checkstack(L, own + (int)d->count + WALK_SLOTS))
        fail(d, "more values than Lua's stack has room for");
    d->unclaimed = (size_t)(d->end - d->at);
    d->shared = d->base + 1;
    d->names = d->base + 2;
    lua_settop(L, d->base + own);
    d->started = true;
}

/* Others may have run since the last step, with the debug library. */
static void check_unchanged(struct decoder *d)
{
    lua_State *L = d->L;
    bool same = lua_isnil(L, d->shared) || lua_istable(L, d->shared);
    for (int i = 0; same && i < d->depth; i++) {
        const struct decoder_table *table = &d->tables[i];
        same = lua_istable(L, table->index) && lua_topointer(L, table->index) == table->table;
    }
    if (!same)
        luaL_error(L, "the stack was changed while values were being read");
}

int decoder_step(struct decoder *d, lua_State *L, int steps, const volatile bool *hurry)
{
    d->L = L;
    d->steps = steps;
    if (d->start == d->end && d->m) /* an empty message */
        return 0;
    if (d->started)
        check_unchanged(d);
    else
        start(d);
    while (d->number < d->count) {
        if (d->depth || !read_value(d)) {
            int error = fill(d, hurry);
            if (error)
                return error;
        }
        d->number++;
        if (--d->steps < 0 || *hurry)
            return -EAGAIN;
    }
    if (d->at != d->end)
        fail(d, "bytes after the last value");
    lua_rotate(L, d->base + 1, (int)d->count);
    lua_settop(L, d->base + (int)d->count);
    return (int)d->count;
}

void decoder_begin(struct decoder *d, const struct message *m, const void *bytes, size_t size)
{
    d->start = d->at = m ? m->bytes : bytes;
    d->end = d->start + (m ? m->size : size);
    d->m = m;
    d->taken = 0;
    d->number = 0;
    d->depth = 0;
    d->started = false;
}

static int decode(lua_State *L, const struct message *m, const void *bytes, size_t size)
{
    static const volatile bool never = false;
    struct decoder d;
    decoder_begin(&d, m, bytes, size);
    int count;
    do
        count = decoder_step(&d, L, INT_MAX, &never);
    while (count == -EAGAIN);
    return count;
}

int values_decode(const struct message *m, lua_State *L)
{
    return decode(L, m, NULL, 0);
}

int values_decode_bytes(lua_State *L, const void *bytes, size_t size)
{
    return decode(L, NULL, bytes, size);
}
