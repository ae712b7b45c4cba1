#include "lua/task/told.h"

#include "lua/isolate.h"

#include <string.h>

#define ELSEWHERE "orrery.failure"

static const char told_key; /* in the registry: a list with weak values */

void told_open(struct orr_isolate *iso, lua_State *L)
{
    (void)iso;
    lua_createtable(L, TOLD_MAX, 0);
    for (int i = 1; i <= TOLD_MAX; i++) { /* now, so that no later store needs memory */
        lua_pushboolean(L, false);
        lua_rawseti(L, -2, i);
    }
    lua_createtable(L, 0, 1);
    lua_pushliteral(L, "v");
    lua_setfield(L, -2, "__mode");
    lua_setmetatable(L, -2);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &told_key);
    luaL_newmetatable(L, ELSEWHERE);
    lua_pop(L, 1);
}

/* Makes the value at the top the last failure, and pops it. */
static void keep(struct orr_isolate *iso, lua_State *L)
{
    struct told *self = &iso->told;
    lua_rawgetp(L, LUA_REGISTRYINDEX, &told_key);
    lua_insert(L, -2);
    lua_rawseti(L, -2, (lua_Integer)(self->next % TOLD_MAX) + 1);
    lua_pop(L, 1);
    self->next++;
}

void told_note(struct orr_isolate *iso, lua_State *L, int handle)
{
    if (!lua_checkstack(L, 2))
        return;
    lua_pushvalue(L, handle);
    keep(iso, L);
}

void told_note_elsewhere(struct orr_isolate *iso, lua_State *L, int error, const char *report)
{
    error = lua_absindex(L, error);
    luaL_checkstack(L, 4, NULL);
    size_t length = strlen(report);
    struct told_elsewhere *made = lua_newuserdatauv(L, sizeof *made + length + 1, 1);
    const char *stack = strstr(report, "\nstack traceback:");
    made->message = stack ? (size_t)(stack - report) : length;
    memcpy(made->text, report, length + 1);
    luaL_setmetatable(L, ELSEWHERE);
    lua_pushvalue(L, error);
    lua_setiuservalue(L, -2, 1);
    keep(iso, L);
}

static lua_Integer slot_of(const struct told *self, unsigned number)
{
    return (lua_Integer)((self->next - 1 - number) % TOLD_MAX) + 1;
}

int told_push(const struct orr_isolate *iso, lua_State *L, unsigned number)
{
    lua_rawgetp(L, LUA_REGISTRYINDEX, &told_key);
    int type = lua_rawgeti(L, -1, slot_of(&iso->told, number));
    lua_remove(L, -2);
    if (type == LUA_TUSERDATA)
        return type;
    lua_pop(L, 1);
    return LUA_TNIL;
}

void told_forget(const struct orr_isolate *iso, lua_State *L, unsigned number)
{
    lua_rawgetp(L, LUA_REGISTRYINDEX, &told_key);
    lua_pushboolean(L, false);
    lua_rawseti(L, -2, slot_of(&iso->told, number));
    lua_pop(L, 1);
}

void told_clear(struct orr_isolate *iso)
{
    if (!iso->told.next)
        return;
    for (unsigned i = 0; i < TOLD_MAX && lua_checkstack(iso->L, 2); i++)
        told_forget(iso, iso->L, i);
    iso->told.next = 0;
}

const struct told_elsewhere *told_elsewhere_at_top(lua_State *L)
{
    return luaL_testudata(L, -1, ELSEWHERE);
}
