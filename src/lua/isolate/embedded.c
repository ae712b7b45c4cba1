#include "lua/isolate/embedded.h"

#define EMBED(file) \
    extern const char orrery_lua_##file[]; \
    extern const size_t orrery_lua_##file##_size; \
    const struct embedded embedded_##file = { "=orrery/" #file ".lua", orrery_lua_##file, &orrery_lua_##file##_size }

EMBED(async);
EMBED(async_nvim);
EMBED(async_nvim_futures);
EMBED(async_nvim_sync);
EMBED(async_nvim_text);
EMBED(bounded);
EMBED(eventloop);
EMBED(events);
EMBED(fs);
EMBED(fs_tree);
EMBED(globals);
EMBED(late);
EMBED(net);
EMBED(net_serve);
EMBED(net_threads);
EMBED(require);
EMBED(testing_network);
EMBED(worker);

void embedded_push(lua_State *L, const struct embedded *file)
{
    if (luaL_loadbufferx(L, file->code, *file->size, file->name, "b") != LUA_OK)
        lua_error(L);
}
