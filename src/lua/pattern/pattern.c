#include "lua/pattern/pattern.h"

#include "lua/pattern/find.h"
#include "lua/pattern/gsub.h"

void pattern_open(struct orr_isolate *iso, lua_State *L)
{
    find_open(iso, L);
    gsub_open(iso, L);
}
