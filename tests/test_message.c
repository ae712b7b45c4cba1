/*
 * Messages: what is copied from one state to another, the memory that this needs, in success and in
 * failure, and bytes from anywhere, which are refused and do no harm.
 */
#include "harness.h"

#include "lua/values/decode.h"
#include "lua/values/encode.h"
#include "lua/values/format.h"
#include "lua/values/mark.h"

#include <errno.h>
#include <lualib.h>
#include <stdlib.h>
#include <string.h>

/* --- An allocator that counts and fails ------------------------------------------------------- */

static long long held, peak;
static int allowed = INT32_MAX; /* allocations until one fails */
static bool for_good;           /* all later ones fail as well: Lua tries twice */

static void *counted(void *data, void *block, size_t old_size, size_t size)
{
    (void)data;
    if (size && allowed-- <= 0 && (allowed == -1 || for_good))
        return NULL;
    if (size > 64 << 20) /* more than any test needs */
        return NULL;
    void *result = NULL;
    if (size)
        result = realloc(block, size);
    else
        free(block);
    /* For a new block, `old_size` is the kind of object. */
    held += (long long)size - (block ? (long long)old_size : 0);
    if (held > peak)
        peak = held;
    return result;
}

static const struct alloc alloc = { .fn = counted };

static lua_State *new_state(void)
{
    lua_State *L = lua_newstate(counted, NULL);
    assert_non_null(L);
    luaL_openlibs(L);
    marks_make(L);
    return L;
}

/* Pushes the value of an expression. */
static void push(lua_State *L, const char *expression)
{
    lua_pushfstring(L, "return %s", expression);
    if (luaL_dostring(L, lua_tostring(L, -1)) != LUA_OK)
        fail_msg("%s", lua_tostring(L, -1));
    lua_remove(L, -2);
}

/* Asserts an expression about `v`, the value at the top. */
static void holds(lua_State *L, const char *expression)
{
    lua_pushvalue(L, -1);
    lua_setglobal(L, "v");
    lua_pushfstring(L, "return %s", expression);
    if (luaL_dostring(L, lua_tostring(L, -1)) != LUA_OK)
        fail_msg("%s", lua_tostring(L, -1));
    if (!lua_toboolean(L, -1))
        fail_msg("does not hold: %s", expression);
    lua_pop(L, 2);
}

/* Bytes that a message holds, segments included. */
static size_t message_size(const struct message *m)
{
    size_t size = m->size;
    for (unsigned i = 0; i < m->segment_count; i++)
        size += m->segments[i].size;
    return size;
}

static void is_refused(lua_State *L, int count, const char *root, int error, const char *text)
{
    struct message m;
    int top = lua_gettop(L);
    message_init(&m, &alloc);
    assert_int_equal(values_encode(&m, L, top - count + 1, count, root), error);
    assert_int_equal(lua_gettop(L), top + 1);
    assert_string_equal(lua_tostring(L, -1), text);
    assert_int_equal(message_size(&m), 0);
    lua_settop(L, 0);
}

/* --- Copying ---------------------------------------------------------------------------------- */

static void a_message_outlives_the_state_it_came_from(void **state)
{
    (void)state;
    struct message m;
    message_init(&m, &alloc);
    lua_State *from = new_state();
    push(from, "{ 1, 2.0, 'a\\0b', { deep = { true, false } }, [0.5] = -1, [true] = 1 << 62 }");
    assert_int_equal(values_encode(&m, from, 1, 1, "args"), 0);
    lua_close(from);
    lua_State *to = new_state();
    for (int i = 0; i < 2; i++) { /* a message can be read more than once */
        assert_int_equal(values_decode(&m, to), 1);
        holds(to, "#v == 4 and v[1] == 1 and math.type(v[1]) == 'integer' and math.type(v[2]) == 'float'");
        holds(to, "v[3] == 'a\\0b' and v[4].deep[1] == true and v[4].deep[2] == false");
        holds(to, "v[0.5] == -1 and v[true] == 1 << 62");
    }
    message_free(&m);
    message_free(&m);
    lua_close(to);
    assert_int_equal(held, 0);
}

static void nils_are_copied_in_every_position(void **state)
{
    (void)state;
    struct message m;
    lua_State *L = new_state();
    message_init(&m, &alloc);
    lua_pushnil(L);
    lua_pushinteger(L, 1);
    lua_pushnil(L);
    assert_int_equal(values_encode(&m, L, 1, 3, "args"), 0);
    lua_settop(L, 0);
    assert_int_equal(values_decode(&m, L), 3);
    assert_int_equal(lua_gettop(L), 3);
    assert_true(lua_isnil(L, 1) && lua_tointeger(L, 2) == 1 && lua_isnil(L, 3));
    message_free(&m);
    assert_int_equal(values_encode(&m, L, 1, 0, "args"), 0);
    assert_int_equal(values_decode(&m, L), 0);
    message_free(&m);
    assert_int_equal(values_decode(&m, L), 0); /* an empty message */
    lua_close(L);
}

static void what_cannot_be_copied_is_named_by_its_path(void **state)
{
    (void)state;
    lua_State *L = new_state();
    push(L, "{ items = { 1, 2, { callback = print } } }");
    is_refused(L, 1, "args", -EINVAL, "args.items[3].callback: a function cannot be copied");
    push(L, "1");
    push(L, "{ x = coroutine.create(print) }");
    is_refused(L, 2, "results", -EINVAL, "results[2].x: a coroutine cannot be copied");
    push(L, "{ ['odd key'] = { [2.5] = { [false] = io.stdout } } }");
    is_refused(L, 1, "value", -EINVAL, "value[\"odd key\"][2.5][false]: a FILE* cannot be copied");
    push(L, "{ ['end'] = { ['a\"b\\n'] = setmetatable({}, {}) } }");
    is_refused(L, 1, "value", -EINVAL, "value[\"end\"][\"a\\x22b\\x0A\"]: a table with a metatable cannot be copied");
    push(L, "{ a = { [{}] = 1 } }");
    is_refused(L, 1, "value", -EINVAL, "value.a[a table]: a table that is a key cannot be copied");
    push(L, "(function() local t = { a = {} } t.a.b = t return t end)()");
    is_refused(L, 1, "value", -EINVAL, "value.a.b: a table that contains itself cannot be copied");
    lua_pushlightuserdata(L, &held);
    is_refused(L, 1, "value", -EINVAL, "value: a light userdata cannot be copied");
    push(L, "(function() local t = {} for i = 1, 201 do t = { t } end return t end)()");
    is_refused(L, 1, "v", -E2BIG,
               "v[1][1][1][1][1][1][1][1]...[1][1][1][1][1][1][1][1]: tables are nested too deep to be copied");
    lua_close(L);
    assert_int_equal(held, 0);
}

static void deepest_allowed_table_is_copied(void **state)
{
    (void)state;
    struct message m;
    lua_State *L = new_state();
    message_init(&m, &alloc);
    push(L, "(function() local t = {} for i = 1, 199 do t = { t } end return t end)()");
    assert_int_equal(values_encode(&m, L, 1, 1, "v"), 0);
    assert_int_equal(values_decode(&m, L), 1);
    holds(L, "(function() local n = 0 while v do v = v[1] n = n + 1 end return n == 200 end)()");
    message_free(&m);
    lua_close(L);
}

/* --- Long strings ----------------------------------------------------------------------------- */

static void long_strings_are_copied_once_and_never_moved(void **state)
{
    (void)state;
    struct message m;
    lua_State *L = new_state();
    message_init(&m, &alloc);
    push(L, "(function() local s = ('x'):rep(65536) local t = { s, s, ('y'):rep(65535) } "
            "for i = 1, 10000 do t[#t + 1] = i end return t end)()");
    assert_int_equal(values_encode(&m, L, 1, 1, "v"), 0);
    assert_int_equal(m.segment_count, 1);
    assert_int_equal(m.segments[0].size, 65536);
    assert_true(message_size(&m) > 2 * 65535 && message_size(&m) < 200000);
    struct message moved = m; /* to another owner */
    assert_int_equal(values_decode(&moved, L), 1);
    holds(L, "v[1] == ('x'):rep(65536) and v[2] == v[1] and v[3] == ('y'):rep(65535) and v[10003] == 10000");
    message_free(&moved);
    lua_close(L);
    assert_int_equal(held, 0);
}

static void a_string_that_is_met_often_takes_little_room(void **state)
{
    (void)state;
    struct message m;
    lua_State *L = new_state();
    push(L, "(function() local t, s = {}, ('x'):rep(10000) for i = 1, 1000 do t[i] = s end return t end)()");
    for (int flat = 0; flat < 2; flat++) {
        message_init(&m, &alloc);
        m.flat = flat;
        assert_int_equal(values_encode(&m, L, 1, 1, "v"), 0);
        assert_true(message_size(&m) < 20000);
        assert_int_equal(values_decode(&m, L), 1);
        holds(L, "#v == 1000 and v[1000] == ('x'):rep(10000)");
        message_free(&m);
    }
    lua_close(L);
}

/* --- Attachments ------------------------------------------------------------------------------ */

struct thing {
    struct attachment head;
    int references, pushed;
};

static void thing_ref(struct attachment *self)
{
    ((struct thing *)self)->references++;
}

static void thing_unref(struct attachment *self)
{
    ((struct thing *)self)->references--;
}

static int thing_gc(lua_State *L)
{
    struct attachment **block = lua_touserdata(L, 1);
    if (*block)
        (*block)->unref(*block);
    *block = NULL;
    return 0;
}

static int thing_push(lua_State *L, struct attachment *self)
{
    struct attachment **block = lua_newuserdatauv(L, sizeof *block, 0);
    *block = NULL;
    if (luaL_newmetatable(L, "orrery.thing")) {
        attachment_mark(L);
        lua_pushcfunction(L, thing_gc);
        lua_setfield(L, -2, "__gc");
    }
    lua_setmetatable(L, -2);
    self->ref(self);
    *block = self;
    ((struct thing *)self)->pushed++;
    return 1;
}

static struct thing new_thing(void)
{
    return (struct thing){ .head = { .ref = thing_ref, .unref = thing_unref, .push = thing_push }, .references = 1 };
}

static void attachments_are_copied_by_reference(void **state)
{
    (void)state;
    struct thing thing = new_thing();
    struct message m;
    message_init(&m, &alloc);
    lua_State *from = new_state();
    thing_push(from, &thing.head);
    lua_setglobal(from, "thing");
    push(from, "{ thing, again = { thing } }");
    assert_int_equal(values_encode(&m, from, 1, 1, "args"), 0);
    assert_int_equal(thing.references, 3);
    lua_close(from);
    assert_int_equal(thing.references, 2);
    lua_State *to = new_state();
    assert_int_equal(values_decode(&m, to), 1);
    holds(to, "type(v[1]) == 'userdata' and v[1] == v.again[1]");
    assert_int_equal(thing.references, 3);
    message_free(&m);
    message_free(&m);
    lua_close(to);
    assert_int_equal(thing.references, 1);
}

static void attachments_are_released_when_a_copy_fails(void **state)
{
    (void)state;
    struct thing thing = new_thing();
    lua_State *L = new_state();
    thing_push(L, &thing.head);
    lua_setglobal(L, "thing");
    push(L, "{ thing, print }");
    is_refused(L, 1, "args", -EINVAL, "args[2]: a function cannot be copied");
    assert_int_equal(thing.references, 2);
    struct message m;
    message_init(&m, &alloc);
    m.flat = true;
    push(L, "thing");
    assert_int_equal(values_encode(&m, L, 1, 1, "value"), -EINVAL);
    assert_string_equal(lua_tostring(L, -1), "value: a thing cannot be written to a string");
    lua_close(L);
    assert_int_equal(thing.references, 1);
}

static void a_metatable_that_only_looks_right_attaches_nothing(void **state)
{
    (void)state;
    lua_State *L = new_state();
    push(L, "setmetatable({}, { __orrery_attachment = true, __name = 'orrery.thing' })");
    is_refused(L, 1, "v", -EINVAL, "v: a table with a metatable cannot be copied");
    lua_newuserdatauv(L, sizeof(void *), 0);
    push(L, "{ __orrery_attachment = true, __name = 'orrery.event' }");
    lua_setmetatable(L, 1);
    is_refused(L, 1, "v", -EINVAL, "v: an event cannot be copied");
    lua_close(L);
}

/* --- Memory that runs out --------------------------------------------------------------------- */

static const char sample[] =
    "{ 1, -2, 300, 70000, 1 << 40, 0.5, true, false, 'name', 'name', ('long'):rep(20), ('x'):rep(70000),"
    " { a = 1, b = { c = {} }, [1.5] = 'x', [false] = 0 }, { 1, nil, 3 }, shared, { shared, text }, text,"
    " { { { { { { { { { { { { { { { { { {} } } } } } } } } } } } } } } } } } }";

static void push_sample(lua_State *L)
{
    push(L, "{ 7, 8, 9 }");
    lua_setglobal(L, "shared");
    push(L, "('shared text '):rep(10)");
    lua_setglobal(L, "text");
    push(L, sample);
}

static int decode_protected(lua_State *L)
{
    return values_decode(lua_touserdata(L, 1), L);
}

struct outcome {
    bool ran_out;
    int error;  /* what encoding returned */
    int status; /* what decoding returned */
};

/*
 * Encodes and decodes while only `allocations` allocations succeed, those of Lua and of the
 * message.
 */
static struct outcome run_out_after(int allocations, struct thing *thing)
{
    struct outcome outcome = { 0 };
    struct message m;
    message_init(&m, &alloc);
    lua_State *L = new_state();
    push_sample(L);
    thing_push(L, &thing->head);
    lua_setfield(L, 1, "thing");
    allowed = allocations;
    outcome.error = values_encode(&m, L, 1, 1, "args");
    if (!outcome.error) {
        lua_pushcfunction(L, decode_protected);
        lua_pushlightuserdata(L, &m);
        outcome.status = lua_pcall(L, 1, LUA_MULTRET, 0);
    }
    outcome.ran_out = allowed < 0;
    allowed = INT32_MAX;
    assert_int_equal(lua_gettop(L), 2);
    if (outcome.error || outcome.status)
        assert_non_null(strstr(lua_tostring(L, -1), "not enough memory"));
    message_free(&m);
    lua_close(L);
    assert_int_equal(held, 0);
    assert_int_equal(thing->references, 1);
    return outcome;
}

/* Each allocation fails in turn. */
static void nothing_is_lost_when_memory_runs_out(void **state)
{
    (void)state;
    struct thing thing = new_thing();
    for (int mode = 0; mode < 2; mode++) {
        unsigned encodings = 0;
        unsigned decodings = 0;
        for_good = mode;
        for (int n = 0;; n++) {
            struct outcome outcome = run_out_after(n, &thing);
            if (!outcome.ran_out) {
                assert_true(!outcome.error && !outcome.status);
                break;
            }
            assert_true(!outcome.error || outcome.error == -ENOMEM);
            assert_true(!outcome.status || outcome.status == LUA_ERRMEM);
            encodings += outcome.error != 0;
            decodings += outcome.status != 0;
        }
        assert_true(encodings > 5);
        if (for_good)
            assert_true(decodings > 20);
        for_good = false;
    }
}

/* --- Malformed bytes -------------------------------------------------------------------------- */

struct bytes {
    const unsigned char *start;
    size_t size;
};

static int decode_bytes(lua_State *L)
{
    const struct bytes *bytes = lua_touserdata(L, 1);
    return values_decode_bytes(L, bytes->start, bytes->size);
}

/*
 * Copies the bytes into a block of exactly their size, so that sanitizers see reads beyond it.
 * Returns whether they were accepted; leaves the stack as it was.
 */
static bool reads(lua_State *L, const unsigned char *start, size_t size)
{
    unsigned char *copy = malloc(size ? size : 1);
    assert_non_null(copy);
    memcpy(copy, start, size);
    struct bytes bytes = { .start = copy, .size = size };
    int top = lua_gettop(L);
    lua_pushcfunction(L, decode_bytes);
    lua_pushlightuserdata(L, &bytes);
    int status = lua_pcall(L, 1, LUA_MULTRET, 0);
    assert_true(status == LUA_OK || status == LUA_ERRRUN);
    if (status)
        assert_memory_equal(lua_tostring(L, -1), "byte ", 5);
    lua_settop(L, top);
    free(copy);
    return status == LUA_OK;
}

static void flat_sample(struct message *m, lua_State *L)
{
    message_init(m, &alloc);
    m->flat = true;
    push(L, "{ 7, 8, 9 }");
    lua_setglobal(L, "shared");
    push(L, "('shared text '):rep(5)");
    lua_setglobal(L, "text");
    push(L, "{ 1, -2, 300, 70000, 1 << 40, 0.5, true, 'name', 'name', text, { a = 1, b = { c = {} }, [1.5] = text },"
            " { 1, nil, 3 }, shared, { shared } }");
    assert_int_equal(values_encode(m, L, 1, 1, "v"), 0);
}

static void truncated_bytes_are_refused(void **state)
{
    (void)state;
    struct message m;
    lua_State *L = new_state();
    flat_sample(&m, L);
    assert_true(reads(L, m.bytes, m.size));
    for (size_t size = 0; size < m.size; size++)
        assert_false(reads(L, m.bytes, size));
    assert_int_equal(message_grow(&m, 1), 0);
    m.bytes[m.size] = TAG_NIL;
    assert_false(reads(L, m.bytes, m.size + 1));
    message_free(&m);
    lua_close(L);
}

static void changed_bytes_do_no_harm(void **state)
{
    (void)state;
    struct message m;
    lua_State *L = new_state();
    flat_sample(&m, L);
    long long before = held;
    peak = held;
    for (size_t i = 0; i < m.size; i++) {
        unsigned char was = m.bytes[i];
        for (unsigned value = 0; value < 256; value++) {
            m.bytes[i] = (unsigned char)value;
            reads(L, m.bytes, m.size);
        }
        m.bytes[i] = was;
        lua_gc(L, LUA_GCCOLLECT);
    }
    /* The garbage of 256 reads, not what a changed length claims. */
    assert_true(peak - before < 4 << 20);
    message_free(&m);
    lua_close(L);
    assert_int_equal(held, 0);
}

static void malformed_messages_are_refused_without_large_allocations(void **state)
{
    (void)state;
    lua_State *L = new_state();
    /* Nested tables, each of which claims all the bytes that are left. */
    static unsigned char bytes[1 << 16];
    size_t at = FORMAT_HEADER;
    memset(bytes, TAG_NIL, sizeof bytes);
    bytes[0] = FORMAT_VERSION;
    bytes[2] = 1;
    for (int i = 0; i < 150; i++, at += TABLE_HEADER) {
        bytes[at] = TAG_TABLE;
        store32(bytes + at + 1, (uint32_t)(sizeof bytes - at - TABLE_HEADER));
    }
    peak = held;
    long long before = held;
    assert_false(reads(L, bytes, sizeof bytes));
    assert_true(peak - before < 2 << 20);
    static const struct {
        unsigned char bytes[24];
        size_t size;
    } wrong[] = {
        { { 1, 0, 255, 255, 255, 255, 0 }, 7 },        /* more values than bytes */
        { { 1, 200, 1, 0, 0, 0, 0 }, 7 },              /* more slots than there are */
        { { 2, 0, 1, 0, 0, 0, 0 }, 7 },                /* unknown version */
        { { 1, 1, 1, 0, 0, 0, TAG_SAME_NAME, 0 }, 8 }, /* refers to a name that was not there */
        { { 1, 0, 1, 0, 0, 0, TAG_NAME, 0, 0 }, 9 },   /* a name in a slot that does not exist */
        /* A segment, but the message has none. */
        { { 1, 0, 1, 0, 0, 0, TAG_SEGMENT, 0, 0, 0, 0 }, 11 },
        /* An attachment, but the message has none. */
        { { 1, 0, 1, 0, 0, 0, TAG_ATTACHMENT, 0, 0, 0, 0 }, 11 },
        { { 1, 0, 1, 0, 0, 0, TAG_REFERENCE, 6, 0, 0, 0 }, 11 }, /* a reference to itself */
        /* A cycle. */
        { { 1, 0, 1, 0, 0, 0, TAG_TABLE | SHARED, 1, 0, 0, 0, 0, 0, 0, 0, TAG_REFERENCE, 6, 0, 0, 0 }, 20 },
        /* A nil key. */
        { { 1, 0, 1, 0, 0, 0, TAG_TABLE, 0, 0, 0, 0, 1, 0, 0, 0, TAG_NIL, TAG_NIL }, 17 },
        { { 1, 0, 1, 0, 0, 0, TAG_TABLE, 0, 0, 0, 0, 1, 0, 0, 0, TAG_FLOAT, 1, 0, 0, 0, 0, 0, 0xf8, 0x7f },
          24 },                                        /* NaN */
        { { 1, 0, 1, 0, 0, 0, TAG_NIL | SHARED }, 7 }, /* a nil cannot be shared */
        /* A string longer than the message. */
        { { 1, 0, 1, 0, 0, 0, TAG_STRING, 255, 255, 255, 255, 'x' }, 12 },
    };
    for (size_t i = 0; i < LENGTH(wrong); i++)
        if (reads(L, wrong[i].bytes, wrong[i].size))
            fail_msg("number %zu is read", i);
    lua_close(L);
    assert_int_equal(held, 0);
}

/* Reads `depth` nested tables around a nil. */
static bool reads_nested(lua_State *L, int depth)
{
    unsigned char bytes[FORMAT_HEADER + (VALUES_DEPTH_MAX + 1) * TABLE_HEADER + 1] = { FORMAT_VERSION, 0, 1 };
    size_t size = FORMAT_HEADER;
    for (int i = 0; i < depth; i++, size += TABLE_HEADER) {
        bytes[size] = TAG_TABLE;
        store32(bytes + size + 1, 1);
    }
    bytes[size++] = TAG_NIL;
    return reads(L, bytes, size);
}

static void reading_has_the_same_depth_limit_as_writing(void **state)
{
    (void)state;
    lua_State *L = new_state();
    assert_true(reads_nested(L, VALUES_DEPTH_MAX));
    assert_false(reads_nested(L, VALUES_DEPTH_MAX + 1));
    lua_close(L);
}

static const struct CMUnitTest message_tests[] = {
    cmocka_unit_test(a_message_outlives_the_state_it_came_from),
    cmocka_unit_test(nils_are_copied_in_every_position),
    cmocka_unit_test(what_cannot_be_copied_is_named_by_its_path),
    cmocka_unit_test(deepest_allowed_table_is_copied),
    cmocka_unit_test(long_strings_are_copied_once_and_never_moved),
    cmocka_unit_test(a_string_that_is_met_often_takes_little_room),
    cmocka_unit_test(attachments_are_copied_by_reference),
    cmocka_unit_test(attachments_are_released_when_a_copy_fails),
    cmocka_unit_test(a_metatable_that_only_looks_right_attaches_nothing),
    cmocka_unit_test(nothing_is_lost_when_memory_runs_out),
    cmocka_unit_test(truncated_bytes_are_refused),
    cmocka_unit_test(changed_bytes_do_no_harm),
    cmocka_unit_test(malformed_messages_are_refused_without_large_allocations),
    cmocka_unit_test(reading_has_the_same_depth_limit_as_writing),
};

HARNESS_MAIN(message_tests)
