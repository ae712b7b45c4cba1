/*
 * Fuzzes the JSON reader and writer.  Any text is read or refused without harm.  Reading in steps
 * of any size gives the same result.  What was read can be written, at once or in steps, and read
 * again.  The memory needed is proportional to the text.
 *
 * A target for libFuzzer: see tests/fuzz/run.
 */
#include "lua/json/read.h"
#include "lua/json/write.h"
#include "lua/values/mark.h"

#include "memory.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t size);

/*
 * The most memory a text may need: two bytes may be an array, whose elements are first collected on
 * the stack.
 */
enum { STATE_MEMORY = 64 * 1024, MEMORY_A_BYTE = 600 };

static const volatile bool never = false;
static void must(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "%s\n", what);
    abort();
}

struct input {
    const char *text;
    size_t size;
    int steps; /* values in one step; 0: all */
};

static int read_text(lua_State *L)
{
    const struct input *input = lua_touserdata(L, 1);
    int steps = input->steps ? input->steps : INT_MAX;
    struct json_reader reader;
    json_reader_begin(&reader, input->text, input->size, false);
    int answer;
    while ((answer = json_reader_step(&reader, L, steps, &never)) == -EAGAIN)
        lua_gc(L, LUA_GCSTEP, 1);
    return answer;
}

/* Pushes the value, or the error message. */
static bool reads(lua_State *L, const void *text, size_t size, int steps)
{
    struct input input = { .text = text, .size = size, .steps = steps };
    lua_pushcfunction(L, read_text);
    lua_pushlightuserdata(L, &input);
    return lua_pcall(L, 1, 1, 0) == LUA_OK;
}

/* Pushes the text. */
static void write_text(lua_State *L, int value, int indent, int steps)
{
    static const struct alloc alloc = { .fn = alloc_libc };
    struct message text;
    struct json_writer writer;
    message_init(&text, &alloc);
    text.flat = true;
    luaL_checkstack(L, VALUES_ERROR_SLOTS, NULL);
    json_writer_begin(&writer, &text, L, value, indent, 0);
    int error;
    do
        error = json_writer_step(&writer, L, steps, &never);
    while (error == -EAGAIN);
    must(!error, "what was read cannot be written");
    lua_pushlstring(L, (const char *)text.bytes, text.size);
    message_free(&text);
}

static void write_and_read_again(lua_State *L, int indent, int steps)
{
    int top = lua_gettop(L);
    size_t size;
    write_text(L, 1, indent, 1 << 30);
    write_text(L, 1, indent, steps);
    must(lua_rawequal(L, -1, -2), "written in steps, it is another text");
    const char *text = lua_tolstring(L, -1, &size);
    must(reads(L, text, size, 0), "what was written cannot be read");
    write_text(L, lua_gettop(L), indent, 1 << 30);
    must(lua_rawlen(L, -1) == size, "read and written again, it is another text");
    lua_settop(L, top);
}

static int prepare(lua_State *L)
{
    marks_make(L);
    return 0;
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t size)
{
    int steps = size ? bytes[size - 1] % 7 : 0;
    held = 0;
    most = STATE_MEMORY + size * MEMORY_A_BYTE;
    lua_State *L = lua_newstate(account, NULL);
    lua_pushcfunction(L, prepare);
    must(lua_pcall(L, 0, 0, 0) == LUA_OK, "no state");
    bool good = reads(L, bytes, size, 0);
    most = SIZE_MAX;
    must(reads(L, bytes, size, steps + 1) == good, "read in steps, it is not the same");
    if (good) {
        write_text(L, 1, 0, 1 << 30);
        write_text(L, 2, 0, 1 << 30);
        must(lua_rawequal(L, -1, -2), "read in steps, it is another value");
        lua_settop(L, 1);
        write_and_read_again(L, 0, steps);
        write_and_read_again(L, 2, steps);
    } else {
        must(lua_rawequal(L, 1, 2), "read in steps, another error");
    }
    lua_close(L);
    return 0;
}
