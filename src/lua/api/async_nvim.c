#include "lua/api/async_nvim.h"

#include "lua/isolate.h"
#include "lua/isolate/embedded.h"
#include "lua/sandbox/sandbox.h"

/*
 * The loader that `require` calls.  Upvalue: a function that returns the module `orrery`, without
 * what the host withholds.  Nothing of lua/async_nvim*.lua exists before.
 */
static int load(lua_State *L)
{
    embedded_push(L, &embedded_async_nvim);
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_call(L, 0, 1);
    embedded_push(L, &embedded_async_nvim_futures);
    embedded_push(L, &embedded_async_nvim_text);
    embedded_push(L, &embedded_async_nvim_sync);
    lua_call(L, 4, 1);
    return 1;
}

void async_nvim_open(struct orr_isolate *iso, lua_State *L)
{
    lua_pushvalue(L, -1);
    lua_pushcclosure(L, load, 1);
    sandbox_register(iso, L, ASYNC_NVIM_NAME);
}
