#include "lua/limits/slow_call.h"

#include "base/clock.h"
#include "base/text.h"
#include "lua/isolate.h"
#include "lua/limits/notices.h"
#include "lua/limits/stack_trace.h"

#include <stdio.h>
#include <string.h>

enum { FIELDS_LOOKED_AT = 4096 };

/* Arguments of write_notice(), which runs in protected mode. */
struct slow_call {
    struct orr_isolate *iso;
    lua_Debug *returning;
    uint64_t took, cpu_ns;
};

static uint64_t hash(uint64_t seed, const char *text)
{
    for (; *text; text++)
        seed = (seed ^ (unsigned char)*text) * UINT64_C(1099511628211); /* FNV-1a */
    return seed;
}

/* Whether the host has not been told of the place yet.  Notes that it is told now. */
static bool is_new(struct slow_calls *self, uint64_t place)
{
    for (unsigned i = 0; i < self->count; i++)
        if (self->places[i] == place)
            return false;
    if (self->count == SLOW_CALL_PLACES)
        return false;
    self->places[self->count++] = place;
    return true;
}

/*
 * Functions that wait for nothing.  If such a function took long, and the processor did not work for
 * it, the machine ran something else meanwhile.
 */
static bool only_computes(const char *name)
{
    static const char *const modules[] = { "string.", "table.", "math.", "utf8.", "coroutine." };
    for (size_t i = 0; i < sizeof modules / sizeof *modules; i++)
        if (!strncmp(name, modules[i], strlen(modules[i])))
            return true;
    return false;
}

/* [slow call]: adds the notice. */
static int write_notice(lua_State *L)
{
    const struct slow_call *slow = lua_touserdata(L, 1);
    struct orr_isolate *iso = slow->iso;
    int fields = FIELDS_LOOKED_AT;
    lua_Debug *returning = slow->returning, caller;
    luaL_checkstack(L, 8, NULL);
    lua_getinfo(L, "nSf", returning);
    if (*returning->what != 'C')
        return 0;
    lua_pushvalue(L, -1);
    bool ours = lua_getupvalue(L, -1, 1) && lua_touserdata(L, -1) == iso;
    lua_settop(L, 2);
    bool known = stack_trace_push_name(L, &fields);
    char name[TEXT_NAME_ROOM];
    text_name(name, known ? lua_tostring(L, -1) : returning->name ? returning->name : "?");
    if ((ours || only_computes(name)) && slow->cpu_ns < slow->took / 2)
        return 0;
    bool found = stack_trace_find_script(L, 1, &caller); /* 0 is this function */
    char place[LUA_IDSIZE + 24] = "", text[LUA_IDSIZE + TEXT_NAME_ROOM + 200], took[TEXT_DURATION_ROOM];
    if (found)
        snprintf(place, sizeof place, "%s:%d: ", caller.short_src, caller.currentline);
    text_duration(took, slow->took);
    if (!is_new(&iso->slow_calls, hash(hash(UINT64_C(14695981039346656037), place), name)))
        return 0;
    snprintf(text, sizeof text,
             "%s'%s', a C function, has blocked the loop for %s: no other task could run meanwhile; call it in a job "
             "of worker.new()",
             place, name, took);
    notices_add(iso, ORR_LUA_BLOCKED, text);
    return 0;
}

void slow_call_note(struct orr_isolate *iso, lua_State *L, lua_Debug *returning, uint64_t since, uint64_t cpu_ns)
{
    uint64_t limit = iso->limits.slow_call_ns, now = clock_now();
    if (!limit || now - since < limit || !lua_checkstack(L, 2))
        return;
    struct slow_call slow = { .iso = iso, .returning = returning, .took = now - since, .cpu_ns = cpu_ns };
    lua_pushcfunction(L, write_notice);
    lua_pushlightuserdata(L, &slow);
    if (lua_pcall(L, 1, 0, 0) != LUA_OK)
        lua_pop(L, 1);
}
