#include "lua/isolate/missing.h"

#include "lua/isolate.h"
#include "lua/isolate/settings.h"

#include <string.h>

static const char metatable_key, watched_key; /* in the registry */

enum {
    FRAMES_OF_OURS = 3,  /* functions of lua/ between a script and a read that they do for it */
    STATEMENT_LINES = 20 /* the longest statement whose reads are found */
};

/* __index: [table] [key] -> nil */
static int note_read(lua_State *L)
{
    missing_note(isolate_of(L), L, 1, 2);
    return 0;
}

void missing_open(struct orr_isolate *iso, lua_State *L)
{
    lua_createtable(L, 0, 2);
    lua_pushlightuserdata(L, iso);
    lua_pushcclosure(L, note_read, 1);
    lua_setfield(L, -2, "__index");
    if (isolate_is_sandboxed(iso) || iso->settings->for_jobs) {
        lua_pushboolean(L, false); /* or one script or job could change it for all */
        lua_setfield(L, -2, "__metatable");
    }
    lua_rawsetp(L, LUA_REGISTRYINDEX, &metatable_key);
    lua_newtable(L);
    lua_createtable(L, 0, 1);
    lua_pushliteral(L, "k");
    lua_setfield(L, -2, "__mode");
    lua_setmetatable(L, -2);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &watched_key);
}

void missing_push_watched(lua_State *L)
{
    lua_rawgetp(L, LUA_REGISTRYINDEX, &watched_key);
}

void missing_watch(lua_State *L, const char *name)
{
    lua_rawgetp(L, LUA_REGISTRYINDEX, &metatable_key);
    if (lua_getmetatable(L, -2)) { /* [table] [ours] [its own] */
        if (lua_getfield(L, -1, "__index") == LUA_TNIL) {
            lua_getfield(L, -3, "__index");
            lua_setfield(L, -3, "__index");
        }
        lua_pop(L, 3);
    } else {
        lua_setmetatable(L, -2);
    }
    missing_push_watched(L);
    lua_pushvalue(L, -2);
    lua_pushstring(L, name);
    lua_rawset(L, -3);
    lua_pop(L, 1);
}

int missing_watch_from_lua(lua_State *L)
{
    const char *name = luaL_checkstring(L, 2);
    lua_pushvalue(L, 1);
    missing_watch(L, name);
    return 1;
}

struct missing_place missing_find_place(lua_State *L, int level)
{
    struct missing_place place = { NULL, -1 };
    lua_Debug frame;
    for (int last = level + FRAMES_OF_OURS; level < last && lua_getstack(L, level, &frame); level++) {
        lua_getinfo(L, "Slf", &frame);
        place = (struct missing_place){ lua_topointer(L, -1), frame.currentline };
        lua_pop(L, 1);
        if (strncmp(frame.source, "=orrery/", 8) != 0)
            break;
    }
    return place;
}

void missing_note(struct orr_isolate *iso, lua_State *L, int object, int key)
{
    size_t length;
    const char *name = lua_type(L, key) == LUA_TSTRING ? lua_tolstring(L, key, &length) : NULL;
    if (!name || length >= MISSING_NAME || !lua_checkstack(L, 2))
        return;
    struct missing_read *read = &iso->missing.last[iso->missing.count++ % MISSING_KEPT];
    read->object = lua_topointer(L, object);
    read->place = missing_find_place(L, 1);
    memcpy(read->key, name, length + 1);
}

/* Pushes the watched table at an address, and its name; false if it is gone. */
static bool push_watched(lua_State *L, const void *object)
{
    missing_push_watched(L);
    for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) {
        if (lua_topointer(L, -2) != object)
            continue;
        lua_remove(L, -3);
        return true;
    }
    lua_pop(L, 1);
    return false;
}

/* The line of a call is that of the statement's beginning, or of a line before the field's. */
static bool is_read_at(const struct missing_read *read, const struct missing_place *place)
{
    int later = read->place.line - place->line;
    return read->place.function == place->function && later >= 0 && later < STATEMENT_LINES;
}

bool missing_find(struct orr_isolate *iso, lua_State *L, const char *key, const struct missing_place *place)
{
    const struct missing *self = &iso->missing;
    for (unsigned back = 1; back <= MISSING_KEPT && back <= self->count; back++) {
        const struct missing_read *read = &self->last[(self->count - back) % MISSING_KEPT];
        if ((!place || is_read_at(read, place)) && !strcmp(read->key, key))
            return push_watched(L, read->object);
    }
    return false;
}
