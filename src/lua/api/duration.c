#include "lua/api/duration.h"

#include <math.h>

uint64_t duration_check(lua_State *L, int index)
{
    enum { NS_PER_MS = 1000000 };
    static const lua_Integer most = INT64_C(9000000000000); /* milliseconds: 9e18 nanoseconds */
    if (lua_isinteger(L, index)) {                          /* the usual case, without rounding */
        lua_Integer ms = lua_tointeger(L, index);
        if (ms >= 0 && ms <= most)
            return (uint64_t)ms * NS_PER_MS;
    }
    luaL_checktype(L, index, LUA_TNUMBER); /* a string of digits is not accepted */
    lua_Number ms = lua_tonumber(L, index);
    if (!(ms >= 0) || isinf(ms))
        luaL_argerror(L, index, lua_pushfstring(L, "expected milliseconds, at least 0, got %f", ms));
    lua_Number ns = ms * 1e6 + 0.5; /* rounded, so that 1.001 ms is not a nanosecond too short */
    return ns >= 9e18 ? (uint64_t)9e18 : (uint64_t)ns;
}
