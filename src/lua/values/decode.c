/*
 * Reads values from bytes.  It holds nothing of its own, so that it may raise at any point: Lua's stack has all there is.
 *
 * The bytes may be anybody's.  What is read is first compared with what is left; a table is made as large as it says only if as many bytes
 * are left for it that no other table has claimed, so that a few bytes cannot ask for much; tables that are not over cannot be referred to,
 * so there are no cycles.  For messages of our own the same checks hold, and cost next to nothing.
 */
#include "lua/values/format.h"
#include "lua/values/message.h"

#include <math.h>
#include <string.h>

enum { WALK_SLOTS = 4 }; /* a table, a key, a value, and one to spare */

struct decoder {
    lua_State *L;
    const unsigned char *start, *at, *end;
    const struct message *m; /* or NULL */
    size_t unclaimed;        /* bytes that no table has claimed for its content */
    int names;               /* the first slot's index */
    unsigned slots, taken;   /* how many there are; how many, from the first on, have a name in them */
    int shared; /* index of the table of what may be referred to, by offset; nil until there is something */
};

static void fail(const struct decoder *d, const char *what)
{
    luaL_error(d->L, "byte %d: %s", (int)(d->at - d->start) + 1, what);
}

static inline void need(const struct decoder *d, size_t size)
{
    if ((size_t)(d->end - d->at) < size)
        fail(d, "the end, expected more");
}

static inline uint32_t read32(struct decoder *d)
{
    need(d, 4);
    d->at += 4;
    return load32(d->at - 4);
}

/* --- Strings and attachments ---------------------------------------------------------------------------------------- */

static void read_name(struct decoder *d)
{
    need(d, 2);
    unsigned slot = d->at[0];
    size_t size = d->at[1];
    if (slot >= d->slots || slot > d->taken)
        fail(d, "no slot for a name has this number");
    if (size > NAME_MAX_SIZE)
        fail(d, "a name is longer than names are");
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
        fail(d, "no name is in this slot");
    lua_pushvalue(d->L, d->names + (int)slot);
    d->at++;
}

static void read_string(struct decoder *d)
{
    size_t size = read32(d);
    need(d, size);
    lua_pushlstring(d->L, (const char *)d->at, size);
    d->at += size;
}

static void read_segment(struct decoder *d)
{
    uint32_t number = read32(d);
    if (!d->m || number >= d->m->segment_count)
        fail(d, "no segment has this number");
    else
        lua_pushlstring(d->L, d->m->segments[number].bytes, d->m->segments[number].size);
}

static void read_attachment(struct decoder *d)
{
    uint32_t number = read32(d);
    if (!d->m || number >= d->m->attachment_count)
        fail(d, "no attachment has this number");
    else
        d->m->attachments[number]->push(d->L, d->m->attachments[number]);
}

/* --- References ----------------------------------------------------------------------------------------------------- */

/* What is at the top, and is over, began at an offset. */
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
        fail(d, "a reference to nothing that came before it");
}

/* --- Tables --------------------------------------------------------------------------------------------------------- */

static void read_value(struct decoder *d, int depth);

static void read_key(struct decoder *d, int depth)
{
    const unsigned char *begin = d->at;
    read_value(d, depth);
    int type = lua_type(d->L, -1);
    bool good = type == LUA_TSTRING || type == LUA_TBOOLEAN ||
                (type == LUA_TNUMBER && (lua_isinteger(d->L, -1) || !isnan(lua_tonumber(d->L, -1))));
    if (good)
        return;
    d->at = begin;
    fail(d, "a key that is none");
}

static void claim(struct decoder *d, uint64_t size)
{
    if (size > d->unclaimed)
        fail(d, "a table that claims more than there is");
    d->unclaimed -= (size_t)size;
}

static void read_table(struct decoder *d, int depth, bool array)
{
    lua_State *L = d->L;
    if (depth == VALUES_DEPTH_MAX)
        fail(d, "tables are nested too deep");
    uint32_t elements = read32(d);
    uint32_t pairs = read32(d);
    claim(d, (uint64_t)elements + 2 * (uint64_t)pairs);
    if (elements > INT32_MAX || pairs > INT32_MAX)
        fail(d, "a table with more than any can have");
    luaL_checkstack(L, WALK_SLOTS, "not enough memory");
    lua_createtable(L, (int)elements, (int)pairs);
    for (uint32_t i = 1; i <= elements; i++) {
        read_value(d, depth + 1);
        lua_rawseti(L, -2, i);
    }
    for (uint32_t i = 0; i < pairs; i++) {
        read_key(d, depth + 1);
        read_value(d, depth + 1);
        lua_rawset(L, -3);
    }
    if (array) {
        values_push_array_mark(L);
        lua_setmetatable(L, -2);
    }
}

/* --- Values --------------------------------------------------------------------------------------------------------- */

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

/* What another may refer to. */
static void read_shareable(struct decoder *d, int depth, unsigned tag)
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
        read_table(d, depth, false);
        break;
    case TAG_ARRAY:
        read_table(d, depth, true);
        break;
    case TAG_ATTACHMENT:
        read_attachment(d);
        break;
    default:
        d->at--;
        fail(d, "no value begins like this");
    }
    if (tag & SHARED)
        share(d, offset);
}

static void read_value(struct decoder *d, int depth)
{
    need(d, 1);
    unsigned tag = *d->at++;
    if (tag >= SMALL_INT) {
        lua_pushinteger(d->L, tag - SMALL_INT);
        return;
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
        read_shareable(d, depth, tag);
    }
}

/* --- All of it ------------------------------------------------------------------------------------------------------ */

static int read_all(struct decoder *d)
{
    lua_State *L = d->L;
    int top = lua_gettop(L);
    need(d, FORMAT_HEADER);
    if (*d->at != FORMAT_VERSION)
        fail(d, "not the version of this form that is known here");
    d->at++;
    d->slots = *d->at;
    if (d->slots > NAME_SLOTS)
        fail(d, "more slots for names than there can be");
    d->at++;
    int own = 1 + (int)d->slots;
    uint32_t count = read32(d);
    if (count > (size_t)(d->end - d->at))
        fail(d, "fewer values than there should be");
    if (count > INT32_MAX / 2 || !lua_checkstack(L, own + (int)count + WALK_SLOTS))
        fail(d, "more values than Lua's stack has room for");
    d->unclaimed = (size_t)(d->end - d->at);
    d->shared = top + 1;
    d->names = top + 2;
    lua_settop(L, top + own);
    for (uint32_t i = 0; i < count; i++)
        read_value(d, 0);
    if (d->at != d->end)
        fail(d, "more than there should be");
    lua_rotate(L, top + 1, (int)count);
    lua_settop(L, top + (int)count);
    return (int)count;
}

int values_decode(const struct message *m, lua_State *L)
{
    if (!m->size) /* nothing was ever put in */
        return 0;
    struct decoder d = { .L = L, .start = m->bytes, .at = m->bytes, .end = m->bytes + m->size, .m = m };
    return read_all(&d);
}

int values_decode_bytes(lua_State *L, const void *bytes, size_t size)
{
    const unsigned char *start = bytes;
    struct decoder d = { .L = L, .start = start, .at = start, .end = start + size };
    return read_all(&d);
}
