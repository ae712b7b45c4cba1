#include "lua/api/values.h"

#include "lua/isolate.h"
#include "lua/isolate/charge.h"
#include "lua/limits/preempt.h"
#include "lua/values/work.h"

#include <errno.h>

/* Pushes the encoded text: [encoding]. */
static int push_bytes(lua_State *L)
{
    const struct encoding *work = lua_touserdata(L, 1);
    size_t longest = isolate_find(L)->limits.longest_string;
    if (longest && work->own.size > longest)
        return luaL_error(L, "values.encode: the text is longer than strings may be (%d bytes); encode it in parts",
                          (int)longest);
    lua_pushlstring(L, (const char *)work->own.bytes, work->own.size);
    return 1;
}

/* [work] [values...] */
static int encode_on(lua_State *L, int status, lua_KContext context);

static int run_encoding(lua_State *L, struct paced *work)
{
    int error = paced_run(L, &work);
    if (error == -EAGAIN)
        return preempt_hold(L, encode_on, (lua_KContext)work);
    if (error)
        return paced_fail(L, work);
    paced_finish(L, work, push_bytes, 1);
    return 1;
}

static int encode_on(lua_State *L, int status, lua_KContext context)
{
    (void)status;
    return run_encoding(L, paced_kept(L, 1, context));
}

/* encode(...) -> string */
static int encode(lua_State *L)
{
    struct encoding work;
    int count = lua_gettop(L);
    luaL_checkstack(L, VALUES_ERROR_SLOTS + 2, NULL);
    lua_pushnil(L);
    lua_insert(L, 1);
    encoding_begin(&work, L, 1, NULL, 2, count, "value");
    return run_encoding(L, &work.paced);
}

/* [text] [work] */
static int decode_on(lua_State *L, int status, lua_KContext context);

static int run_decoding(lua_State *L, struct paced *work)
{
    int count = paced_run(L, &work);
    return count == -EAGAIN ? preempt_hold(L, decode_on, (lua_KContext)work) : count;
}

static int decode_on(lua_State *L, int status, lua_KContext context)
{
    (void)status;
    struct paced *work = paced_kept(L, 2, context);
    if ((const void *)lua_tostring(L, 1) != container_of(work, struct decoding, paced)->decoder.start)
        luaL_error(L, "values.decode: the text was replaced while it was read");
    return run_decoding(L, work);
}

/* decode(string) -> values */
static int decode(lua_State *L)
{
    struct decoding work;
    size_t size;
    const char *bytes = luaL_checklstring(L, 1, &size);
    lua_settop(L, 2);
    decoding_begin(&work, 2, NULL, bytes, size);
    return run_decoding(L, &work.paced);
}

void values_open(struct orr_isolate *iso, lua_State *L)
{
    static const luaL_Reg functions[] = { { "decode", decode }, { "encode", encode }, { NULL, NULL } };
    lua_newtable(L);
    isolate_register(iso, L, functions);
    lua_setfield(L, -2, "values");
}
