#include "lua/isolate/registry.h"

#include "lua/isolate.h"
#include "lua/isolate/interrupt.h"
#include "lua/isolate/settings.h"

#include <string.h>

/* Makes room for twice as many references.  May raise: then nothing has changed. */
static void grow_tables(struct registry *self, lua_State *L)
{
    size_t size = (size_t)self->table_room * sizeof *self->tables;
    int *grown = lua_newuserdatauv(L, 2 * size, 0);
    memcpy(grown, self->tables, size);
    if (self->many_tables)
        lua_rawseti(L, LUA_REGISTRYINDEX, self->many_tables);
    else
        self->many_tables = luaL_ref(L, LUA_REGISTRYINDEX);
    self->tables = grown;
    self->table_room *= 2;
}

/* May raise: then nothing has changed.  The first table is small, for states with few tasks. */
static void add_table(struct registry *self, lua_State *L)
{
    if (self->table_count == self->table_room)
        grow_tables(self, L);
    lua_createtable(L, self->table_count ? ANCHORS_EACH : SPARE_ANCHORS, 0);
    self->tables[self->table_count] = luaL_ref(L, LUA_REGISTRYINDEX);
    self->table_count++;
}

void registry_open(struct orr_isolate *iso, lua_State *L)
{
    iso->registry.tables = iso->registry.few_tables;
    iso->registry.table_room = ANCHOR_TABLES;
    add_table(&iso->registry, L);
    lua_newtable(L);
    iso->registry.coroutines = luaL_ref(L, LUA_REGISTRYINDEX);
}

void registry_push_weak_table(lua_State *L)
{
    lua_newtable(L);
    lua_createtable(L, 0, 1);
    lua_pushliteral(L, "k");
    lua_setfield(L, -2, "__mode");
    lua_setmetatable(L, -2);
}

/* --- Registration ----------------------------------------------------------------------------- */

void isolate_register(struct orr_isolate *iso, lua_State *L, const luaL_Reg *functions)
{
    lua_pushlightuserdata(L, iso);
    luaL_setfuncs(L, functions, 1);
}

/* Watches the methods at the top, as those of "a task" for the class "orrery.task". */
static void watch_methods(lua_State *L, const char *class)
{
    const char *name = strrchr(class, '.') ? strrchr(class, '.') + 1 : class;
    lua_pushfstring(L, "%s %s", strchr("aeiou", *name) ? "an" : "a", name);
    lua_insert(L, -2);
    missing_watch(L, lua_tostring(L, -2));
    lua_remove(L, -2);
}

void isolate_class(struct orr_isolate *iso, lua_State *L, const char *name, const luaL_Reg *methods)
{
    luaL_newmetatable(L, name);
    lua_newtable(L);
    for (const luaL_Reg *method = methods; method->name; method++) {
        const luaL_Reg one[] = { *method, { NULL, NULL } };
        bool special = !strncmp(method->name, "__", 2);
        lua_pushvalue(L, special ? -2 : -1);
        isolate_register(iso, L, one);
        lua_pop(L, 1);
    }
    watch_methods(L, name);
    lua_pushvalue(L, -1);
    lua_setfield(L, -3, "methods");
    if (isolate_is_sandboxed(iso) || iso->settings->for_jobs)
        lua_pushboolean(L, false); /* or one script or job could change them for all */
    else
        lua_pushvalue(L, -1);
    lua_setfield(L, -3, "__metatable"); /* scripts see only the methods, not the finalizer */
    lua_setfield(L, -2, "__index");
    lua_pop(L, 1);
}

void isolate_push_methods(lua_State *L, const char *name)
{
    luaL_getmetatable(L, name);
    lua_getfield(L, -1, "methods");
    lua_remove(L, -2);
}

void isolate_object_class(struct orr_isolate *iso, lua_State *L, enum object_class which, const char *name,
                          const luaL_Reg *methods)
{
    if (iso->registry.identities[which])
        return; /* another module has made it, or an attempt that has failed later */
    isolate_class(iso, L, name, methods);
    luaL_getmetatable(L, name);
    const void *identity = lua_topointer(L, -1);
    iso->registry.classes[which] = luaL_ref(L, LUA_REGISTRYINDEX);
    iso->registry.identities[which] = identity;
}

void isolate_set_class(lua_State *L, enum object_class which)
{
    lua_rawgeti(L, LUA_REGISTRYINDEX, isolate_of(L)->registry.classes[which]);
    lua_setmetatable(L, -2);
}

void *isolate_test(lua_State *L, int index, enum object_class which)
{
    void *object = lua_touserdata(L, index);
    if (!object || !lua_getmetatable(L, index))
        return NULL;
    const void *identity = lua_topointer(L, -1);
    lua_pop(L, 1);
    return identity == isolate_of(L)->registry.identities[which] ? object : NULL;
}

void *isolate_check(lua_State *L, int index, enum object_class which, const char *name)
{
    void *object = isolate_test(L, index, which);
    return object ? object : luaL_checkudata(L, index, name); /* raises */
}

/* --- Anchors and coroutines ------------------------------------------------------------------- */

/* A few free anchors are in an array; the others form a list in the tables themselves. */
static int take_free_anchor(struct registry *self, lua_State *L)
{
    if (self->spare_count)
        return self->spare_anchors[--self->spare_count];
    int anchor = self->free_anchor;
    if (!anchor)
        return 0;
    int key = registry_push_table_of(self, L, anchor);
    lua_rawgeti(L, -1, key);
    self->free_anchor = (int)lua_tointeger(L, -1);
    lua_pop(L, 2);
    return anchor;
}

/* The slot exists from now on, with some value.  May raise: then nothing has changed. */
static int make_anchor(struct registry *self, lua_State *L)
{
    int anchor = self->last_anchor + 1;
    anchor += anchor % ANCHORS_EACH == 0; /* a table has no key 0 */
    if (anchor / ANCHORS_EACH == self->table_count)
        add_table(self, L);
    int key = registry_push_table_of(self, L, anchor);
    lua_pushboolean(L, false);
    lua_rawseti(L, -2, key);
    lua_pop(L, 1);
    return self->last_anchor = anchor;
}

int isolate_reserve_anchor(struct orr_isolate *iso, lua_State *L)
{
    int anchor = take_free_anchor(&iso->registry, L);
    return anchor ? anchor : make_anchor(&iso->registry, L);
}

void isolate_fill_anchor(struct orr_isolate *iso, lua_State *L, int anchor, int index)
{
    index = lua_absindex(L, index);
    int key = registry_push_table_of(&iso->registry, L, anchor);
    lua_pushvalue(L, index);
    lua_rawseti(L, -2, key);
    lua_pop(L, 1);
}

void isolate_unreserve_anchor(struct orr_isolate *iso, int anchor)
{
    if (iso->registry.spare_count < SPARE_ANCHORS)
        iso->registry.spare_anchors[iso->registry.spare_count++] = anchor;
    else
        isolate_unanchor(iso, iso->L, anchor);
}

int isolate_anchor(struct orr_isolate *iso, lua_State *L)
{
    int anchor = isolate_reserve_anchor(iso, L);
    isolate_fill_anchor(iso, L, anchor, -1);
    return anchor;
}

void isolate_push_anchored(struct orr_isolate *iso, lua_State *L, int anchor)
{
    int key = registry_push_table_of(&iso->registry, L, anchor);
    lua_rawgeti(L, -1, key);
    lua_remove(L, -2);
}

void isolate_unanchor(struct orr_isolate *iso, lua_State *L, int anchor)
{
    struct registry *self = &iso->registry;
    int key = registry_push_table_of(self, L, anchor);
    bool spare = self->spare_count < SPARE_ANCHORS;
    lua_pushinteger(L, spare ? 0 : self->free_anchor);
    lua_rawseti(L, -2, key); /* replaces the anchored value */
    lua_pop(L, 1);
    if (spare)
        self->spare_anchors[self->spare_count++] = anchor;
    else
        self->free_anchor = anchor;
}

int isolate_anchor_near(struct orr_isolate *iso, lua_State *L)
{
    int anchor = isolate_reserve_anchor(iso, L);
    if ((unsigned)anchor < ANCHORS_EACH) {
        lua_pushvalue(L, -1);
        lua_rawseti(L, lua_upvalueindex(FIRST_ANCHORS), anchor);
    } else {
        isolate_fill_anchor(iso, L, anchor, -1);
    }
    return anchor;
}

void isolate_unanchor_near(struct orr_isolate *iso, lua_State *L, int anchor)
{
    struct registry *self = &iso->registry;
    if ((unsigned)anchor >= ANCHORS_EACH || self->spare_count == SPARE_ANCHORS) {
        isolate_unanchor(iso, L, anchor);
        return;
    }
    lua_pushinteger(L, 0);
    lua_rawseti(L, lua_upvalueindex(FIRST_ANCHORS), anchor); /* replaces the anchored value */
    self->spare_anchors[self->spare_count++] = anchor;
}

void isolate_set_anchor(struct orr_isolate *iso, lua_State *L, int anchor, bool value)
{
    if (!value)
        lua_pushboolean(L, false);
    int key = registry_push_table_of(&iso->registry, L, anchor);
    lua_insert(L, -2);
    lua_rawseti(L, -2, key);
    lua_pop(L, 1);
}

/* Makes an empty seat, unless there are enough.  May raise: then nothing has changed. */
static void add_seat(struct registry *self, lua_State *L)
{
    if (self->seat_count == COROUTINES_MAX)
        return;
    lua_rawgeti(L, LUA_REGISTRYINDEX, self->coroutines);
    lua_pushboolean(L, false);
    lua_rawseti(L, -2, self->seat_count + 1);
    lua_pop(L, 1);
    self->seats[COROUTINES_MAX - ++self->empty_seats] = self->seat_count++;
}

lua_State *isolate_coroutine(struct orr_isolate *iso, lua_State *L)
{
    int seat = isolate_take_seat(&iso->registry);
    if (!seat) {
        add_seat(&iso->registry, L);
        lua_State *co = lua_newthread(L);
        interrupt_made_coroutine(iso, L, co);
        return co;
    }
    lua_State *co = isolate_seated(&iso->registry, seat);
    execution_push_coroutine(L, co);
    isolate_leave_seat(iso, L, seat);
    return co;
}

/* A new task begins without values and without a hook. */
static void clear(lua_State *co)
{
    lua_settop(co, 0);
    if (lua_gethook(co))
        lua_sethook(co, NULL, 0, 0);
}

void isolate_recycle(struct orr_isolate *iso, lua_State *co)
{
    struct registry *self = &iso->registry;
    if (!self->empty_seats || iso->closing)
        return;
    clear(co);
    uint8_t seat = self->seats[COROUTINES_MAX - self->empty_seats--];
    lua_rawgeti(co, LUA_REGISTRYINDEX, self->coroutines);
    lua_pushthread(co);
    lua_rawseti(co, -2, 1 + seat);
    lua_settop(co, 0);
    self->seated[seat] = co;
    self->seats[self->spare_seats++] = seat;
}

void isolate_return_seat(struct orr_isolate *iso, int seat)
{
    clear(isolate_seated(&iso->registry, seat));
    iso->registry.seats[iso->registry.spare_seats++] = (uint8_t)(seat - 1);
}

void isolate_leave_seat(struct orr_isolate *iso, lua_State *L, int seat)
{
    struct registry *self = &iso->registry;
    lua_rawgeti(L, LUA_REGISTRYINDEX, self->coroutines);
    lua_pushboolean(L, false);
    lua_rawseti(L, -2, seat);
    lua_pop(L, 1);
    self->seats[COROUTINES_MAX - ++self->empty_seats] = (uint8_t)(seat - 1);
}
