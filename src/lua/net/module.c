#include "lua/net/module.h"

#include "lua/api/option_table.h"
#include "lua/isolate.h"
#include "lua/isolate/embedded.h"
#include "lua/isolate/late.h"
#include "lua/net/connect.h"
#include "lua/net/datagram_class.h"
#include "lua/net/listener_class.h"
#include "lua/net/lookup.h"
#include "lua/net/permission.h"
#include "lua/net/serve.h"
#include "lua/net/stream_class.h"
#include "lua/net/stream_copy.h"
#include "lua/net/stream_end.h"

void net_module_run(struct orr_isolate *iso, lua_State *L)
{
    static const luaL_Reg functions[] = {
        { "finish", stream_finish },
        { "finish_now", stream_finish_now },
        { "advise", option_table_advise },
        { "watch", missing_watch_from_lua },
        { NULL, NULL },
    };
    stream_class_open(iso, L);
    late_push(L, &embedded_net);
    lua_pushvalue(L, -2);
    lua_newtable(L);
    isolate_register(iso, L, functions);
    connect_open(iso, L);
    listener_class_open(iso, L);
    datagram_class_open(iso, L);
    lookup_open(iso, L);
    permission_open(iso, L);
    stream_copy_open(iso, L);
    serve_open(iso, L);
    lua_call(L, 2, 0);
}
