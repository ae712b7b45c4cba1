/*
 * Any text is read as JSON, or refused, without harm; what is read can be written and read again; and jansson takes no more memory than
 * the isolate may have.  A target of libFuzzer: see tests/fuzz/run.
 */
#include "lua/json/json.h"

#include <jansson.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t size);

static struct orr_isolate isolate;
static size_t held, peak;

static void *counted_malloc(size_t size)
{
    void *block = malloc(size);
    held += block ? malloc_usable_size(block) : 0;
    if (held > peak)
        peak = held;
    return block;
}

static void counted_free(void *block)
{
    held -= block ? malloc_usable_size(block) : 0;
    free(block);
}

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
};

static int read_text(lua_State *L)
{
    const struct input *input = lua_touserdata(L, 1);
    return json_read(&isolate, L, input->text, input->size, false);
}

static bool reads(lua_State *L, const void *text, size_t size)
{
    struct input input = { .text = text, .size = size };
    lua_pushcfunction(L, read_text);
    lua_pushlightuserdata(L, &input);
    return lua_pcall(L, 1, 1, 0) == LUA_OK;
}

static void write_and_read_again(lua_State *L, int indent)
{
    static const struct alloc alloc = { .fn = alloc_libc };
    struct message text;
    message_init(&text, &alloc);
    text.flat = true;
    must(!json_write(&text, L, 1, indent, 0), "what was read cannot be written");
    must(reads(L, text.bytes, text.size), "what was written cannot be read");
    message_free(&text);
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t size)
{
    json_set_alloc_funcs(counted_malloc, counted_free);
    lua_State *L = luaL_newstate();
    values_make_array_mark(L);
    held = peak = 0;
    isolate.limits.memory = 4096 + size * 32; /* enough for some, too little for others */
    bool good = reads(L, bytes, size);
    must(peak <= isolate.limits.memory, "jansson took more memory than there was");
    must(!held, "jansson was left with memory");
    isolate.limits.memory = 0;
    if (good) {
        write_and_read_again(L, 0);
        write_and_read_again(L, 2);
    }
    lua_close(L);
    return 0;
}
