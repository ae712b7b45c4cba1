#include "lua/limits/stack_trace.h"

#include "base/text.h"
#include "lua/isolate/execution.h"

#include <string.h>

enum {
    LEVELS_TOP = 10, /* shown at each end of a deep stack */
    LEVELS_BOTTOM = 11,
    FIELDS_LOOKED_AT = 4096, /* for one stack trace */
};

/* --- Names ------------------------------------------------------------------------------------ */

bool stack_trace_push_name(lua_State *L, int *fields)
{
    int function = lua_gettop(L);
    lua_getfield(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
    for (lua_pushnil(L); *fields > 0 && lua_next(L, function + 1); lua_settop(L, function + 2)) {
        --*fields;
        if (!lua_istable(L, -1) || lua_type(L, -2) != LUA_TSTRING)
            continue;
        for (lua_pushnil(L); --*fields > 0 && lua_next(L, function + 3); lua_pop(L, 1)) {
            if (lua_type(L, -2) != LUA_TSTRING || !lua_rawequal(L, -1, function))
                continue;
            char module[TEXT_NAME_ROOM], name[TEXT_NAME_ROOM];
            text_name(module, lua_tostring(L, function + 2));
            text_name(name, lua_tostring(L, -2));
            bool global = !strcmp(module, LUA_GNAME);
            lua_pushfstring(L, "%s%s%s", global ? "" : module, global ? "" : ".", name);
            lua_replace(L, function);
            lua_settop(L, function);
            return true;
        }
    }
    lua_settop(L, function - 1);
    return false;
}

/* Replaces the function on top with its description for a line of the trace. */
static void name_function(lua_State *L, const lua_Debug *at, int *fields)
{
    char name[TEXT_NAME_ROOM];
    if (stack_trace_push_name(L, fields)) {
        lua_pushfstring(L, "function '%s'", lua_tostring(L, -1));
        lua_remove(L, -2);
    } else if (*at->namewhat) {
        text_name(name, at->name);
        lua_pushfstring(L, "%s '%s'", at->namewhat, name);
    } else if (*at->what == 'm') {
        lua_pushliteral(L, "main chunk");
    } else if (*at->what != 'C') {
        lua_pushfstring(L, "function <%s:%d>", at->short_src, at->linedefined);
    } else {
        lua_pushliteral(L, "?");
    }
}

static int count_levels(lua_State *co)
{
    lua_Debug at;
    int below = 0, above = 1;
    while (lua_getstack(co, above, &at)) {
        below = above;
        above *= 2;
    }
    while (below + 1 < above) {
        int middle = below + (above - below) / 2;
        *(lua_getstack(co, middle, &at) ? &below : &above) = middle;
    }
    return lua_getstack(co, 0, &at) ? below + 1 : 0;
}

/* [text] [function] -> [text with one more line] */
static void add_level(lua_State *L, const lua_Debug *at, int *fields)
{
    name_function(L, at, fields);
    if (at->currentline > 0)
        lua_pushfstring(L, "\n\t%s:%d: in ", at->short_src, at->currentline);
    else
        lua_pushfstring(L, "\n\t%s: in ", at->short_src);
    lua_insert(L, -2);
    lua_pushstring(L, at->istailcall ? "\n\t(...tail calls...)" : "");
    lua_concat(L, 4);
}

/*
 * The text grows as a string on the Lua stack, not in a luaL_Buffer, for two reasons.  The C stack
 * may be nearly full here.  And a luaL_Buffer has a to-be-closed variable, which lua_settop() of
 * Lua 5.4.4 closes too early when the Lua stack has moved.
 */
void stack_trace_push(lua_State *L, lua_State *co, int level)
{
    luaL_checkstack(L, 16, NULL);
    int levels = count_levels(co), fields = FIELDS_LOOKED_AT;
    bool deep = levels - level > LEVELS_TOP + LEVELS_BOTTOM;
    int skipped = deep ? levels - level - LEVELS_TOP - LEVELS_BOTTOM : 0;
    int first_skipped = level + LEVELS_TOP;
    lua_pushliteral(L, "stack traceback:");
    lua_Debug at;
    for (; lua_checkstack(co, 1) && lua_getstack(co, level, &at); level++) {
        if (skipped && level == first_skipped) {
            lua_pushfstring(L, "\n\t...\t(skipping %d levels)", skipped);
            lua_concat(L, 2);
            level += skipped - 1;
            continue;
        }
        lua_getinfo(co, "Slntf", &at);
        lua_xmove(co, L, 1);
        add_level(L, &at, &fields);
    }
}

void stack_trace_cut(lua_State *L, size_t most)
{
    size_t length;
    const char *text = lua_tolstring(L, -1, &length);
    if (length <= most)
        return;
    lua_pushlstring(L, text, text_cut(text, length, most));
    lua_pushfstring(L, "... (%I bytes)", (lua_Integer)length);
    lua_concat(L, 2);
    lua_remove(L, -2);
}

void stack_trace_push_chain(lua_State *L, const struct chain *chain, int level)
{
    stack_trace_push(L, L, level);
    for (const struct chain *at = chain; at && lua_rawlen(L, -1) <= STACK_TRACE_MAX; at = at->outer) {
        lua_pushliteral(L, "\n  inside:\n");
        stack_trace_push(L, at->L, 0);
        lua_concat(L, 3);
    }
    stack_trace_cut(L, STACK_TRACE_MAX);
}

/* --- Places ----------------------------------------------------------------------------------- */

bool stack_trace_is_of_script(const lua_Debug *at)
{
    return strncmp(at->source, "=orrery/", strlen("=orrery/")) != 0;
}

bool stack_trace_find_script(lua_State *co, int level, lua_Debug *at)
{
    for (; lua_getstack(co, level, at); level++) {
        lua_getinfo(co, "Sl", at);
        if (at->currentline > 0 && stack_trace_is_of_script(at))
            return true;
    }
    return false;
}

void stack_trace_push_location(lua_State *L, lua_State *co, int level)
{
    lua_Debug at;
    if (stack_trace_find_script(co, level, &at))
        lua_pushfstring(L, "%s:%d", at.short_src, at.currentline);
    else
        lua_pushliteral(L, "");
}
