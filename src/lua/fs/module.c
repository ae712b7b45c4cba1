#include "lua/fs/module.h"

#include "lua/api/option_table.h"
#include "lua/fs/file_functions.h"
#include "lua/fs/file_methods.h"
#include "lua/fs/file_operation.h"
#include "lua/isolate.h"
#include "lua/isolate/embedded.h"
#include "lua/isolate/late.h"
#include "lua/net/stream_class.h"
#include "lua/net/stream_object.h"

/* Runs a file: [origin] [core] [methods], which stay. */
static void run(lua_State *L, const struct embedded *file)
{
    int origin = lua_gettop(L) - 2;
    late_push(L, file);
    for (int i = 0; i < 3; i++)
        lua_pushvalue(L, origin + i);
    lua_call(L, 3, 0);
}

void fs_module_run(struct orr_isolate *iso, lua_State *L)
{
    static const luaL_Reg functions[] = { { "advise", option_table_advise }, { NULL, NULL } };
    stream_class_open(iso, L);
    file_operation_open(iso, L);
    lua_newtable(L);
    isolate_register(iso, L, functions);
    file_functions_open(iso, L);
    file_methods_open(iso, L);
    isolate_push_methods(L, STREAM_CLASS);
    run(L, &embedded_fs);
    run(L, &embedded_fs_tree);
    lua_pop(L, 2);
}
