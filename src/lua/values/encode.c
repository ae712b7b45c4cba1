/*
 * Writes values in one pass.  Nothing here allocates in Lua.  So nothing raises, no collector runs,
 * and the addresses of strings and tables stay the same.  Between two steps others may run and
 * change a table that the walk is in; that is noticed where the walk could not go on.
 *
 * The counts of a table are written when they are known, and SHARED when an object occurs again:
 * both by offset, because the buffer moves.
 */
#include "lua/values/encode.h"

#include "lua/values/mark.h"
#include "lua/values/walk.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

enum {
    WALK_SLOTS = 3,     /* a key, a value, and a metatable */
    GAP = 16,           /* nils in an array, besides as many as it has elements */
    BYTES_A_STEP = 256, /* of a string */
    TABLE_STEPS = 3,    /* of a table, besides its content */
};

static int refuse(struct encoder *e, int error, const char *reason)
{
    e->reason = reason;
    return error;
}

/* --- Bytes ------------------------------------------------------------------------------------ */

static inline int reserve(struct encoder *e, size_t size)
{
    struct message *m = e->m;
    return m->capacity - m->size >= size ? 0 : message_grow(m, size);
}

/* Answers where the next `size` bytes go.  There is room for them. */
static inline unsigned char *take(struct encoder *e, size_t size)
{
    unsigned char *at = e->m->bytes + e->m->size;
    e->m->size += size;
    return at;
}

static int put_tag(struct encoder *e, unsigned tag)
{
    int error = reserve(e, 1);
    if (!error)
        *take(e, 1) = (unsigned char)tag;
    return error;
}

static int put_number32(struct encoder *e, enum tag tag, uint32_t number)
{
    int error = reserve(e, 5);
    if (error)
        return error;
    unsigned char *at = take(e, 5);
    at[0] = (unsigned char)tag;
    store32(at + 1, number);
    return 0;
}

static int put_integer(struct encoder *e, lua_Integer value)
{
    int error = reserve(e, 9);
    if (error)
        return error;
    unsigned char *at = e->m->bytes + e->m->size;
    if (value >= 0 && value < SMALL_INT) {
        at[0] = (unsigned char)(SMALL_INT + value);
        e->m->size += 1;
    } else if (value == (int8_t)value) {
        at[0] = TAG_INT8;
        at[1] = (unsigned char)value;
        e->m->size += 2;
    } else if (value == (int16_t)value) {
        at[0] = TAG_INT16;
        store16(at + 1, (uint16_t)value);
        e->m->size += 3;
    } else if (value == (int32_t)value) {
        at[0] = TAG_INT32;
        store32(at + 1, (uint32_t)value);
        e->m->size += 5;
    } else {
        at[0] = TAG_INT64;
        store64(at + 1, (uint64_t)value);
        e->m->size += 9;
    }
    return 0;
}

static int put_float(struct encoder *e, lua_Number value)
{
    uint64_t bits;
    static_assert(sizeof value == sizeof bits, "floats of Lua have 64 bits");
    int error = reserve(e, 9);
    if (error)
        return error;
    unsigned char *at = take(e, 9);
    memcpy(&bits, &value, sizeof bits);
    at[0] = TAG_FLOAT;
    store64(at + 1, bits);
    return 0;
}

/*
 * 1 if the object was seen before: writes a reference.  0 if not: the caller writes it next.  Or an
 * error.
 */
static int put_reference(struct encoder *e, const void *object)
{
    uint32_t offset = (uint32_t)e->m->size;
    int seen = seen_find_or_add(&e->seen, object, &offset);
    if (seen <= 0)
        return seen;
    for (int i = 0; i < e->depth; i++)
        if (e->tables[i].table == object)
            return refuse(e, -EINVAL, "a table that contains itself cannot be copied");
    e->m->bytes[offset] |= SHARED;
    int error = put_number32(e, TAG_REFERENCE, offset);
    return error ? error : 1;
}

/* --- Strings ---------------------------------------------------------------------------------- */

/* Lua keeps one copy of each short string, so equal names have equal addresses. */
static int put_name(struct encoder *e, const char *bytes, size_t size)
{
    unsigned place = (unsigned)(((uintptr_t)bytes >> 3) * UINT32_C(2654435769) >> 25) % NAME_SLOTS;
    int error = reserve(e, 3 + NAME_MAX_SIZE);
    if (error)
        return error;
    unsigned char *at = e->m->bytes + e->m->size;
    if (e->names[place] == bytes) {
        at[0] = TAG_SAME_NAME;
        at[1] = e->slots[place];
        e->m->size += 2;
        return 0;
    }
    if (!e->names[place])
        e->slots[place] = (unsigned char)e->slots_used++;
    e->names[place] = bytes;
    at[0] = TAG_NAME;
    at[1] = e->slots[place];
    at[2] = (unsigned char)size;
    memcpy(at + 3, bytes, size);
    e->m->size += 3 + size;
    return 0;
}

static void count_bytes(struct encoder *e, size_t size)
{
    size_t steps = size / BYTES_A_STEP;
    e->steps -= steps < INT_MAX / 2 ? (int)steps : INT_MAX / 2;
}

static int put_string(struct encoder *e, int index)
{
    size_t size;
    const char *bytes = lua_tolstring(e->L, index, &size);
    if (size <= NAME_MAX_SIZE)
        return put_name(e, bytes, size);
    int error = put_reference(e, bytes);
    if (error)
        return error < 0 ? error : 0;
    if (size >= SEGMENT_MIN && !e->m->flat) {
        error = message_add_segment(e->m, bytes, size);
        count_bytes(e, size);
        return error ? error : put_number32(e, TAG_SEGMENT, e->m->segment_count - 1);
    }
    if (size > UINT32_MAX)
        return -E2BIG;
    error = reserve(e, 5 + size);
    if (error)
        return error;
    unsigned char *at = take(e, 5 + size);
    at[0] = TAG_STRING;
    store32(at + 1, (uint32_t)size);
    memcpy(at + 5, bytes, size);
    count_bytes(e, size);
    return 0;
}

/* --- Userdata --------------------------------------------------------------------------------- */

static int refuse_type(struct encoder *e, const char *name)
{
    snprintf(e->refused, sizeof e->refused, "%s %.40s cannot be copied", strchr("aeiou", *name) ? "an" : "a", name);
    return refuse(e, -EINVAL, e->refused);
}

/* The name of a userdata's class: "channel" for orrery.channel.  The metatable keeps the string. */
static const char *class_name(lua_State *L, int index)
{
    const char *name = NULL;
    if (lua_getmetatable(L, index)) {
        /* The metatable is searched, because making a key to look the name up could raise. */
        lua_pushnil(L);
        while (!name && lua_next(L, -2)) {
            if (lua_type(L, -2) == LUA_TSTRING && !strcmp(lua_tostring(L, -2), "__name") &&
                lua_type(L, -1) == LUA_TSTRING)
                name = lua_tostring(L, -1);
            lua_pop(L, name ? 2 : 1);
        }
        lua_pop(L, 1);
    }
    if (!name)
        return "userdata";
    return strncmp(name, "orrery.", 7) ? name : name + 7;
}

static int put_userdata(struct encoder *e, int index)
{
    struct attachment *attachment = attachment_test(e->L, index);
    if (!attachment)
        return refuse_type(e, class_name(e->L, index));
    if (e->m->flat) {
        snprintf(e->refused, sizeof e->refused, "a %.40s cannot be written to a string", class_name(e->L, index));
        return refuse(e, -EINVAL, e->refused);
    }
    int error = put_reference(e, attachment);
    if (error)
        return error < 0 ? error : 0;
    error = message_add_attachment(e->m, attachment);
    return error ? error : put_number32(e, TAG_ATTACHMENT, e->m->attachment_count - 1);
}

/* --- Tables ----------------------------------------------------------------------------------- */

static int put_value(struct encoder *e, int index);

/* TAG_TABLE, TAG_ARRAY or TAG_ERROR; or a negative errno. */
static int table_tag(struct encoder *e, int index)
{
    switch (mark_of(e->L, index)) {
    case MARK_NONE:
        return TAG_TABLE;
    case MARK_ARRAY:
        return TAG_ARRAY;
    case MARK_ERROR:
        return TAG_ERROR;
    default:
        return refuse(e, -EINVAL, "a table with a metatable cannot be copied");
    }
}

static int put_key(struct encoder *e, int index)
{
    switch (lua_type(e->L, index)) {
    case LUA_TSTRING:
    case LUA_TNUMBER:
    case LUA_TBOOLEAN:
        return put_value(e, index);
    default:
        snprintf(e->refused, sizeof e->refused, "a %s that is a key cannot be copied",
                 lua_typename(e->L, lua_type(e->L, index)));
        return refuse(e, -EINVAL, e->refused);
    }
}

/* Writes nils. */
static int put_gap(struct encoder *e, size_t size)
{
    int error = reserve(e, size);
    if (!error)
        memset(take(e, size), TAG_NIL, size);
    return error;
}

/*
 * Begins a table: the walk goes on in it.
 *
 * lua_next() goes through the array part first, in order.  As long as the keys come in order, the
 * values are elements, and their keys are not written.  The rest are pairs.  Holes up to the border
 * that Lua sees are elements too, unless they are large.
 */
static int put_table(struct encoder *e, int index)
{
    const void *table = lua_topointer(e->L, index);
    int error = put_reference(e, table);
    if (error)
        return error < 0 ? error : 0;
    if (e->depth == VALUES_DEPTH_MAX)
        return refuse(e, -E2BIG, "tables are nested too deep to be copied");
    if (!lua_checkstack(e->L, WALK_SLOTS + VALUES_ERROR_SLOTS))
        return -ENOMEM;
    int tag = table_tag(e, index);
    if (tag < 0)
        return tag;
    error = reserve(e, TABLE_HEADER);
    if (error)
        return error;
    e->tables[e->depth++] = (struct encoder_table){ .table = table, .header = e->m->size };
    *take(e, TABLE_HEADER) = (unsigned char)tag;
    e->steps -= TABLE_STEPS;
    lua_pushnil(e->L); /* before the first key */
    return 0;
}

/* Leaves the table that the walk is in: writes its counts. */
static void end_table(struct encoder *e)
{
    const struct encoder_table *at = &e->tables[--e->depth];
    store32(e->m->bytes + at->header + 1, (uint32_t)at->last);
    store32(e->m->bytes + at->header + 5, at->pairs);
}

/*
 * Writes what comes before a value: nothing, if its key is the next; nils, after a small gap; or
 * the key.
 */
static inline int put_place(struct encoder *e, struct encoder_table *at, int table, int key)
{
    lua_State *L = e->L;
    lua_Integer here = !at->pairs && lua_isinteger(L, key) ? lua_tointeger(L, key) : 0;
    if (here == at->last + 1) {
        at->last = here;
        return 0;
    }
    if (here > at->last && here - at->last <= at->last + GAP && here <= (lua_Integer)lua_rawlen(L, table)) {
        size_t gap = (size_t)(here - at->last - 1);
        at->last = here;
        count_bytes(e, gap);
        return put_gap(e, gap);
    }
    at->pairs++;
    return put_key(e, key);
}

static int put_value(struct encoder *e, int index)
{
    switch (lua_type(e->L, index)) {
    case LUA_TNIL:
        return put_tag(e, TAG_NIL);
    case LUA_TBOOLEAN:
        return put_tag(e, lua_toboolean(e->L, index) ? TAG_TRUE : TAG_FALSE);
    case LUA_TNUMBER:
        if (lua_isinteger(e->L, index))
            return put_integer(e, lua_tointeger(e->L, index));
        return put_float(e, lua_tonumber(e->L, index));
    case LUA_TSTRING:
        return put_string(e, index);
    case LUA_TTABLE:
        return put_table(e, index);
    case LUA_TUSERDATA:
        return put_userdata(e, index);
    case LUA_TLIGHTUSERDATA:
        if (!lua_touserdata(e->L, index))
            return put_tag(e, TAG_NULL);
        return refuse_type(e, "light userdata");
    case LUA_TTHREAD:
        return refuse_type(e, "coroutine");
    default:
        return refuse_type(e, lua_typename(e->L, lua_type(e->L, index)));
    }
}

/* --- All of it -------------------------------------------------------------------------------- */

/*
 * Writes the rest of the tables that the walk is in.  After an error the keys stay on the stack,
 * for the path.
 */
static int walk(struct encoder *e, const volatile bool *hurry)
{
    lua_State *L = e->L;
    while (e->depth) {
        int depth = e->depth;
        int table = walk_table(e->first + e->number, e->base, depth);
        int key = walk_key(e->base, depth);
        struct encoder_table *at = &e->tables[depth - 1];
        while (lua_next(L, table)) {
            int error = put_place(e, at, table, key);
            if (!error)
                error = put_value(e, key + 1);
            if (error)
                return error;
            if (e->depth > depth)
                break;
            lua_settop(L, key);
            if (--e->steps < 0 || *hurry)
                return -EAGAIN;
        }
        if (e->depth > depth)
            continue;
        end_table(e);
        lua_settop(L, e->depth ? key - 2 : e->base);
        if (e->depth && (--e->steps < 0 || *hurry))
            return -EAGAIN;
    }
    return 0;
}

static int start(struct encoder *e)
{
    int error = reserve(e, FORMAT_HEADER);
    if (error)
        return error;
    unsigned char *at = take(e, FORMAT_HEADER);
    at[0] = FORMAT_VERSION;
    store32(at + 2, (uint32_t)e->count);
    return 0;
}

static int put_all(struct encoder *e, const volatile bool *hurry)
{
    int error = e->started ? 0 : start(e);
    e->started = true;
    while (!error && e->number < e->count) {
        if (!e->depth)
            error = put_value(e, e->first + e->number);
        if (!error && e->depth)
            error = walk(e, hurry);
        if (error)
            return error;
        e->number++;
        if (--e->steps < 0 || *hurry)
            return -EAGAIN;
    }
    if (!error)
        e->m->bytes[1] = (unsigned char)e->slots_used;
    return error;
}

/* The reason for -ENOMEM. */
static const char *lack_of(const struct message *m)
{
    return m->over_quota ? "not enough memory: more is on its way than the memory limit allows" : NULL;
}

/* Others may have run since the last step: checks that the walk can go on. */
static int check_unchanged(struct encoder *e)
{
    lua_State *L = e->L;
    for (int depth = 1; depth <= e->depth; depth++) {
        int table = walk_table(e->first + e->number, e->base, depth);
        int key = walk_key(e->base, depth);
        bool last = depth == e->depth;
        if (lua_gettop(L) < key || lua_type(L, table) != LUA_TTABLE ||
            lua_topointer(L, table) != e->tables[depth - 1].table)
            luaL_error(L, "the stack was changed while values were being copied");
        if ((last && lua_isnil(L, key)) || walk_can_go_on(L, table, key, !last))
            continue;
        e->depth = depth;
        return refuse(e, -EINVAL, "the table was changed while it was being copied");
    }
    return 0;
}

void encoder_begin(struct encoder *e, struct message *m, lua_State *L, int first, int count, const char *root)
{
    e->L = L;
    e->m = m;
    e->root = root;
    e->first = lua_absindex(L, first);
    e->count = count;
    e->number = 0;
    e->base = lua_gettop(L);
    e->depth = 0;
    e->started = false;
    e->reason = NULL;
    e->slots_used = 0;
    memset(e->names, 0, sizeof e->names);
    seen_init(&e->seen, m);
}

void encoder_move(struct encoder *to, const struct encoder *from, struct message *m)
{
    *to = *from;
    if (m) {
        *m = *from->m;
        to->m = m;
    }
    if (from->reason == from->refused)
        to->reason = to->refused;
    seen_move(&to->seen, &from->seen, to->m);
}

void encoder_free(struct encoder *e)
{
    seen_free(&e->seen);
}

int encoder_step(struct encoder *e, lua_State *L, int steps, const volatile bool *hurry)
{
    e->L = L;
    e->steps = steps;
    int error = e->started ? check_unchanged(e) : 0;
    if (!error)
        error = put_all(e, hurry);
    if (!error || error == -EAGAIN)
        return error;
    if (error == -ENOMEM && !e->reason)
        e->reason = lack_of(e->m);
    seen_free(&e->seen);
    message_clear(e->m);
    int number = e->count > 1 ? e->number + 1 : 0;
    struct path path = { .root = e->root, .number = number, .first_key = e->base + 1, .depth = e->depth };
    walk_fail(L, &path, error == -E2BIG && !e->reason ? "too large to be copied" : e->reason);
    return error;
}

int values_encode(struct message *m, lua_State *L, int first, int count, const char *root)
{
    static const volatile bool never = false;
    struct encoder e;
    encoder_begin(&e, m, L, first, count, root);
    int error;
    do
        error = encoder_step(&e, L, INT_MAX, &never);
    while (error == -EAGAIN);
    encoder_free(&e);
    return error;
}
