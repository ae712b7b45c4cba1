#include "lua/isolate/objects.h"

#include "lua/isolate.h"
#include "lua/isolate/collector.h"
#include "lua/isolate/interrupt.h"

enum { FRESH_MAX = 8192 }; /* new objects that force a cycle of the collector */

static void force_cycle(struct orr_isolate *iso)
{
    struct objects *self = &iso->objects;
    self->fresh = 0;
    if (collector_is_managed(&iso->collector) && interrupt_request(iso))
        collector_force(iso, 1);
}

void objects_check(struct orr_isolate *iso, lua_State *L)
{
    unsigned most = iso->limits.max_objects;
    if (!most || iso->objects.count < most)
        return;
    force_cycle(iso); /* for a script that catches the error and tries again */
    luaL_error(L,
               "too many events, futures, channels, timers and other objects: the limit is %d; "
               "close or drop those that are not needed",
               (int)most);
}

void objects_made(struct orr_isolate *iso)
{
    struct objects *self = &iso->objects;
    self->count++;
    if (!iso->limits.max_objects)
        return;
    if (self->cycles != collector_cycles(&iso->collector)) {
        self->cycles = collector_cycles(&iso->collector);
        self->fresh = 0;
    }
    /* At the limit a cycle makes room for the next object, if any object is garbage */
    bool full = self->count >= iso->limits.max_objects;
    if (++self->fresh >= FRESH_MAX || full)
        force_cycle(iso);
}

void objects_gone(struct orr_isolate *iso)
{
    if (iso->objects.count) /* a trusted script may have called a finalizer itself */
        iso->objects.count--;
}
