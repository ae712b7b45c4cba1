#include "lua/task/script.h"

#include "lua/isolate/settings.h"
#include "lua/task/task.h"

static const char chunks_key; /* in the registry: the numbers of chunks, which are weak keys */

uint32_t script_running(const struct orr_isolate *iso)
{
    return execution_task(&iso->execution) ? execution_task(&iso->execution)->script : iso->scripts.caller;
}

void script_own_isolate(struct scripts *self, uint32_t script)
{
    self->sole = self->caller = script;
}

void script_add_name(struct scripts *self, struct script_name *name)
{
    name->next = self->names;
    self->names = name;
}

void script_remove_name(struct scripts *self, const struct script_name *name)
{
    struct script_name **at = &self->names;
    while (*at && *at != name)
        at = &(*at)->next;
    if (*at)
        *at = name->next;
}

const char *script_name(const struct orr_isolate *iso, uint32_t number)
{
    for (const struct script_name *at = iso->scripts.names; at; at = at->next)
        if (at->number == number)
            return at->text;
    return iso->settings->named ? iso->settings->name : NULL;
}

void script_number_chunk(struct orr_isolate *iso, lua_State *L)
{
    luaL_checkstack(L, 5, NULL);
    if (lua_rawgetp(L, LUA_REGISTRYINDEX, &chunks_key) != LUA_TTABLE) {
        lua_pop(L, 1);
        lua_newtable(L);
        lua_createtable(L, 0, 1);
        lua_pushliteral(L, "k");
        lua_setfield(L, -2, "__mode");
        lua_setmetatable(L, -2);
        lua_pushvalue(L, -1);
        lua_rawsetp(L, LUA_REGISTRYINDEX, &chunks_key);
    }
    lua_pushvalue(L, -2);
    lua_pushinteger(L, iso->scripts.last_number + 1);
    lua_rawset(L, -3);
    lua_pop(L, 1);
    iso->scripts.last_number++; /* nothing has raised */
}

uint32_t script_of_chunk(lua_State *L, int index)
{
    uint32_t script = 0;
    index = lua_absindex(L, index);
    luaL_checkstack(L, 2, NULL);
    if (lua_rawgetp(L, LUA_REGISTRYINDEX, &chunks_key) == LUA_TTABLE) {
        lua_pushvalue(L, index);
        lua_rawget(L, -2);
        script = (uint32_t)lua_tointeger(L, -1);
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
    return script;
}

void script_body_loads(struct ltask *body)
{
    body->loading = true;
    body->iso->scripts.loading++;
}

void script_body_began(struct ltask *body)
{
    body->iso->scripts.loading--;
    body->loading = false;
}
