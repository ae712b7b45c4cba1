#include "lua/limits/slow_call.h"

#include "base/text.h"
#include "lua/isolate.h"
#include "lua/isolate/interrupt.h"
#include "lua/limits/notices.h"
#include "lua/limits/stack_trace.h"

#include <stdio.h>
#include <string.h>

enum { FIELDS_LOOKED_AT = 4096 };

/* Arguments of write_notice(), which runs in protected mode. */
struct slow_call {
    struct orr_isolate *iso;
    lua_Debug *returning;
    uint64_t took;
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
    bool known = stack_trace_push_name(L, &fields);
    char name[TEXT_NAME_ROOM];
    text_name(name, known ? lua_tostring(L, -1) : returning->name ? returning->name : "");
    bool found = stack_trace_find_script(L, 1, &caller); /* 0 is this function */
    char place[LUA_IDSIZE + 24] = "", text[LUA_IDSIZE + TEXT_NAME_ROOM + 200], took[TEXT_DURATION_ROOM];
    if (found)
        snprintf(place, sizeof place, "%s:%d: ", caller.short_src, caller.currentline);
    text_duration(took, slow->took);
    if (!is_new(&iso->slow_calls, hash(hash(UINT64_C(14695981039346656037), place), name)))
        return 0;
    snprintf(
        text, sizeof text,
        "%s%s%s%s has blocked the loop for %s: no other task could run meanwhile; call it in a job of worker.new()",
        place, *name ? "'" : "", name, *name ? "', a C function," : "a C function", took);
    notices_add(iso, ORR_LUA_BLOCKED, text);
    return 0;
}

void slow_call_note(struct orr_isolate *iso, lua_State *L, lua_Debug *returning, const struct moment *since)
{
    uint64_t limit = iso->limits.slow_call_ns, took = limit ? moment_passed(since) : 0;
    if (!limit || took < limit || !lua_checkstack(L, 2))
        return;
    if (!moment_slept(since) && moment_passed_cpu(since) < limit / 2)
        return;
    struct slow_call slow = { .iso = iso, .returning = returning, .took = took };
    lua_pushcfunction(L, write_notice);
    lua_pushlightuserdata(L, &slow);
    if (lua_pcall(L, 1, 0, 0) != LUA_OK)
        lua_pop(L, 1);
}
