#include "lua/api/json.h"

#include "lua/api/option_table.h"
#include "lua/isolate.h"
#include "lua/isolate/charge.h"
#include "lua/json/read.h"
#include "lua/json/write.h"
#include "lua/limits/paced.h"
#include "lua/limits/preempt.h"
#include "lua/values/mark.h"

#include <errno.h>

/* The work of one call, done in steps: see paced.h. */
struct writing {
    struct paced paced;
    struct message text;
    struct json_writer writer;
};

struct reading {
    struct paced paced;
    struct json_reader reader;
};

enum { WORK = 2 }; /* the stack slot of the work; the options were there */

static int option_indent(lua_State *L, int index)
{
    if (lua_isnoneornil(L, index))
        return 0;
    static const char *const known[] = { "indent", NULL };
    option_table_check(L, index, "json.encode", known);
    lua_getfield(L, index, "indent");
    int is_integer = 1;
    lua_Integer indent = lua_isnil(L, -1) ? 0 : lua_tointegerx(L, -1, &is_integer);
    if (!is_integer || indent < 0 || indent > JSON_INDENT_MAX)
        luaL_error(L, "json.encode: option indent is %s, expected a number of spaces from 0 to %d",
                   luaL_tolstring(L, -1, NULL), JSON_INDENT_MAX);
    lua_pop(L, 1);
    return (int)indent;
}

/* --- Writing ---------------------------------------------------------------------------------- */

static int writing_step(struct paced *paced, lua_State *L, int steps, const volatile bool *hurry)
{
    return json_writer_step(&container_of(paced, struct writing, paced)->writer, L, steps, hurry);
}

static void writing_move(struct paced *to, struct paced *from)
{
    struct writing *new = container_of(to, struct writing, paced);
    json_writer_move(&new->writer, &container_of(from, struct writing, paced)->writer, &new->text);
}

static void writing_free(struct paced *paced)
{
    message_free(&container_of(paced, struct writing, paced)->text);
}

/* Pushes the text: [writing]. */
static int push_text(lua_State *L)
{
    const struct writing *work = lua_touserdata(L, 1);
    lua_pushlstring(L, (const char *)work->text.bytes, work->text.size);
    return 1;
}

static int encode_on(lua_State *L, int status, lua_KContext context);

static int run_writing(lua_State *L, struct paced *work)
{
    int error = paced_run(L, &work);
    if (error == -EAGAIN)
        return preempt_hold(L, encode_on, (lua_KContext)work);
    if (error)
        return paced_fail(L, work);
    paced_finish(L, work, push_text, 1);
    return 1;
}

/* [value] [work] */
static int encode_on(lua_State *L, int status, lua_KContext context)
{
    (void)status;
    return run_writing(L, paced_kept(L, WORK, context));
}

/* encode(value[, options]) -> string */
static int encode(lua_State *L)
{
    static const struct paced_kind kind = {
        .size = sizeof(struct writing), .step = writing_step, .move = writing_move, .free = writing_free
    };
    struct orr_isolate *iso = isolate_of(L);
    struct writing work;
    luaL_checkany(L, 1);
    int indent = option_indent(L, 2);
    luaL_checkstack(L, VALUES_ERROR_SLOTS + 2, NULL);
    lua_settop(L, WORK);
    work.paced = (struct paced){ .kind = &kind, .slot = WORK };
    struct alloc alloc = charge_alloc(iso);
    message_init(&work.text, &alloc);
    work.text.flat = true;
    json_writer_begin(&work.writer, &work.text, L, 1, indent, iso->limits.longest_string);
    return run_writing(L, &work.paced);
}

/* --- Reading ---------------------------------------------------------------------------------- */

static int reading_step(struct paced *paced, lua_State *L, int steps, const volatile bool *hurry)
{
    return json_reader_step(&container_of(paced, struct reading, paced)->reader, L, steps, hurry);
}

static void reading_move(struct paced *to, struct paced *from)
{
    container_of(to, struct reading, paced)->reader = container_of(from, struct reading, paced)->reader;
}

static void reading_free(struct paced *paced)
{
    (void)paced;
}

static int decode_on(lua_State *L, int status, lua_KContext context);

static int run_reading(lua_State *L, struct paced *work)
{
    int count = paced_run(L, &work);
    return count == -EAGAIN ? preempt_hold(L, decode_on, (lua_KContext)work) : count;
}

/* [text] [work] */
static int decode_on(lua_State *L, int status, lua_KContext context)
{
    (void)status;
    struct paced *work = paced_kept(L, WORK, context);
    if (lua_tostring(L, 1) != container_of(work, struct reading, paced)->reader.text)
        return luaL_error(L, "json.decode: the text was replaced while it was read");
    return run_reading(L, work);
}

/* decode(text[, options]) -> value */
static int decode(lua_State *L)
{
    static const struct paced_kind kind = {
        .size = sizeof(struct reading), .step = reading_step, .move = reading_move, .free = reading_free
    };
    struct reading work;
    size_t size;
    const char *text = luaL_checklstring(L, 1, &size);
    bool floats = false;
    if (!lua_isnoneornil(L, 2)) {
        static const char *const known[] = { "floats", NULL };
        option_table_check(L, 2, "json.decode", known);
        floats = option_table_flag(L, 2, "json.decode", "floats");
    }
    lua_settop(L, WORK);
    work.paced = (struct paced){ .kind = &kind, .slot = WORK };
    json_reader_begin(&work.reader, text, size, floats);
    return run_reading(L, &work.paced);
}

/* --- Arrays ----------------------------------------------------------------------------------- */

/* array([table]) -> table, marked as an array */
static int array(lua_State *L)
{
    lua_settop(L, 1);
    if (lua_isnil(L, 1)) {
        lua_newtable(L);
        lua_replace(L, 1);
    }
    luaL_checktype(L, 1, LUA_TTABLE);
    mark_push(L, MARK_ARRAY);
    if (lua_getmetatable(L, 1) && !lua_rawequal(L, -1, -2))
        return luaL_argerror(L, 1, "expected a table without a metatable of its own");
    lua_settop(L, 2);
    lua_setmetatable(L, 1);
    return 1;
}

/* is_array(value) -> whether it is marked as an array */
static int is_array(lua_State *L)
{
    mark_push(L, MARK_ARRAY);
    lua_pushboolean(L, lua_type(L, 1) == LUA_TTABLE && lua_getmetatable(L, 1) && lua_rawequal(L, -1, -2));
    return 1;
}

void json_open(struct orr_isolate *iso, lua_State *L)
{
    static const luaL_Reg functions[] = {
        { "array", array }, { "decode", decode }, { "encode", encode }, { "is_array", is_array }, { NULL, NULL }
    };
    marks_make(L);
    lua_newtable(L);
    isolate_register(iso, L, functions);
    lua_pushlightuserdata(L, NULL);
    lua_setfield(L, -2, "null");
    lua_setfield(L, -2, "json");
}
