/*
 * Fuzzes the reader of encoded values.  Any bytes are read or refused without harm.  What was read
 * can be written and read again, and has a text.  The memory needed is proportional to the bytes,
 * whatever lengths they claim.
 *
 * A target for libFuzzer: see tests/fuzz/run.
 */
#include "lua/values/decode.h"
#include "lua/values/encode.h"
#include "lua/values/mark.h"

#include "memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t size);

/*
 * The most memory that bytes may need: half of a table of pairs is free, a pair takes two bytes,
 * and its node 24.
 */
enum { STATE_MEMORY = 64 * 1024, MEMORY_A_BYTE = 160 };

static void must(int failure, const char *what, lua_State *L)
{
    if (!failure)
        return;
    fprintf(stderr, "%s: %s\n", what, lua_tostring(L, -1));
    abort();
}

struct input {
    const unsigned char *bytes;
    size_t size;
};

static int read_bytes(lua_State *L)
{
    const struct input *input = lua_touserdata(L, 1);
    return values_decode_bytes(L, input->bytes, input->size);
}

static int call_read(lua_State *L, const unsigned char *bytes, size_t size)
{
    struct input input = { .bytes = bytes, .size = size };
    lua_pushcfunction(L, read_bytes);
    lua_pushlightuserdata(L, &input);
    return lua_pcall(L, 1, LUA_MULTRET, 0);
}

static int prepare(lua_State *L)
{
    marks_make(L);
    return 0;
}

static void write_and_read_again(lua_State *L)
{
    static const struct alloc alloc = { .fn = alloc_libc };
    struct message m;
    message_init(&m, &alloc);
    m.flat = true;
    must(!lua_checkstack(L, VALUES_ERROR_SLOTS), "no stack", L);
    must(values_encode(&m, L, 1, lua_gettop(L), "value"), "what was read cannot be written", L);
    must(call_read(L, m.bytes, m.size), "what was written cannot be read", L);
    message_free(&m);
}

static int describe(lua_State *L)
{
    luaL_tolstring(L, 1, NULL);
    return 1;
}

/* tostring() of an error reads its fields, which may be anything. */
static void describe_all(lua_State *L)
{
    must(!lua_checkstack(L, 2), "no stack", L);
    for (int i = lua_gettop(L); i > 0; i--) {
        lua_pushcfunction(L, describe);
        lua_pushvalue(L, i);
        must(lua_pcall(L, 1, 1, 0), "no text", L);
        lua_pop(L, 1);
    }
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t size)
{
    held = 0;
    most = STATE_MEMORY + size * MEMORY_A_BYTE;
    lua_State *L = lua_newstate(account, NULL);
    lua_pushcfunction(L, prepare);
    must(lua_pcall(L, 0, 0, 0), "no state", L);
    if (call_read(L, bytes, size) == LUA_OK) {
        most = SIZE_MAX;
        describe_all(L);
        write_and_read_again(L);
    }
    lua_close(L);
    return 0;
}
