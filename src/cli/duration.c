#include "cli/duration.h"

#include "base/text.h"

#include <lauxlib.h>
#include <lua.h>

int duration_text(lua_State *L)
{
    static const lua_Number longest = 1e12; /* milliseconds */
    lua_Number ms = luaL_checknumber(L, 1);
    ms = ms > 0 ? ms : 0;
    char text[TEXT_DURATION_ROOM];
    text_duration(text, (uint64_t)((ms < longest ? ms : longest) * 1e6 + 0.5));
    lua_pushstring(L, text);
    return 1;
}
