/*
 * Loads and runs the module in states whose memory runs out: after one allocation, after two, and
 * so on, later in larger steps, until there is enough.  Each run must fail cleanly.  Under
 * AddressSanitizer, nothing may leak.
 */
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char script[] = "local orrery = require 'orrery'\n"
                             "assert(orrery.run(function() orrery.async.sleep(1) return 7 end) == 7)";

struct memory {
    bool limited;
    long left; /* allocations that succeed */
};

static void *allocate(void *data, void *block, size_t old_size, size_t size)
{
    struct memory *memory = data;
    if (!size) {
        free(block);
        return NULL;
    }
    bool more = !block || size > old_size; /* Lua relies on it that a block can always shrink */
    if (memory->limited && more && memory->left-- <= 0)
        return NULL;
    return realloc(block, size);
}

/* True if it ran, false if memory ran out.  Any other error ends the program. */
static bool run_with(long allocations)
{
    struct memory memory = { 0 };
    lua_State *L = lua_newstate(allocate, &memory);
    if (!L)
        exit(2);
    luaL_openlibs(L);
    luaL_loadstring(L, script);
    memory = (struct memory){ .limited = true, .left = allocations };
    bool ran = lua_pcall(L, 0, 0, 0) == LUA_OK;
    memory.limited = false;
    const char *why = ran ? "" : lua_tostring(L, -1);
    if (!ran && (!why || (!strstr(why, "not enough memory") && !strstr(why, "Cannot allocate memory")))) {
        printf("FAILED: after %ld allocations: %s\n0 passed, 1 failed\n", allocations, why ? why : "no message");
        exit(1);
    }
    lua_close(L);
    return ran;
}

int main(void)
{
    long allocations = 0;
    while (!run_with(allocations))
        allocations += allocations < 100 ? 1 : 23;
    printf("it takes at most %ld allocations\n1 passed, 0 failed\n", allocations);
    return allocations == 0; /* otherwise nothing was tested */
}
