#include "lua/isolate/objects.h"

#include "lua/isolate.h"
#include "lua/limits/budget.h"

enum { FRESH_MAX = 8192 }; /* objects between two cycles */

static void force_cycle(struct orr_isolate *iso)
{
    struct objects *self = &iso->objects;
    self->fresh = 0;
    if (iso->collector.managed && budget_ask(iso))
        collector_force(iso, 1);
}

void objects_check(struct orr_isolate *iso, lua_State *L)
{
    unsigned most = iso->limits.max_objects;
    if (!most || iso->objects.count < most)
        return;
    force_cycle(iso); /* whoever catches the error and tries again has the collector's help */
    luaL_error(L, "too many events, futures, channels, timers and the like: there are %d, and may be no more",
               (int)most);
}

void objects_made(struct orr_isolate *iso)
{
    struct objects *self = &iso->objects;
    self->count++;
    if (!iso->limits.max_objects)
        return;
    if (self->cycles != iso->collector.cycles) {
        self->cycles = iso->collector.cycles;
        self->fresh = 0;
    }
    if (++self->fresh >= FRESH_MAX ||
        self->count >= iso->limits.max_objects) /* so that the next finds room, if there is any */
        force_cycle(iso);
}

void objects_gone(struct orr_isolate *iso)
{
    if (iso->objects.count) /* a trusted script can have called a finalizer by itself */
        iso->objects.count--;
}
