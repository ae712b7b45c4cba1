/* An isolate's gate, for functions of the host that open sockets on behalf of a script. */
#include "lua/isolate.h"

#include <errno.h>

int orr_lua_gate(lua_State *L, const struct orr_gate **gate)
{
    struct orr_isolate *iso = L ? isolate_find(L) : NULL;
    if (!iso || !gate)
        return -EINVAL;
    int error = isolate_visit(iso);
    if (error)
        return error;
    *gate = iso->gate;
    isolate_leave(iso);
    return 0;
}
