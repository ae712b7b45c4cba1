#include "lua/isolate/life.h"

#include "lua/isolate.h"
#include "lua/isolate/charge.h"
#include "lua/isolate/grants.h"
#include "lua/isolate/memory.h"
#include "lua/isolate/settings.h"

/* An untrusted isolate reaches only what it was granted.  False without memory. */
static bool open_gate(struct orr_isolate *iso)
{
    const struct grants *grants = iso->settings->grants;
    if (iso->limits.profile == ORR_LUA_TRUSTED)
        return true;
    iso->gate = gate_new(&iso->alloc, grants ? &grants->network : NULL);
    return iso->gate;
}

struct orr_isolate *isolate_alloc(struct orr_runtime *rt, struct settings *settings)
{
    struct orr_isolate *iso = alloc_zeroed(&rt->alloc, sizeof *iso);
    if (!iso)
        return NULL;
    iso->alloc = rt->alloc;
    iso->settings = settings_ref(settings);
    iso->log = log_for(&rt->log, settings->name);
    iso->limits = settings->limits;
    charge_open(&iso->charge, settings->quota, !settings->for_jobs);
    memory_open(iso);
    iso->references = 1;
    if (open_gate(iso))
        return iso;
    isolate_unref(iso);
    return NULL;
}

void isolate_ref(struct orr_isolate *iso)
{
    iso->references++;
}

void isolate_unref(struct orr_isolate *iso)
{
    if (--iso->references)
        return;
    struct alloc alloc = iso->alloc;
    charge_close(iso);
    settings_unref(iso->settings);
    memory_close(iso);
    gate_free(iso->gate);
    alloc_free(&alloc, iso, sizeof *iso);
}
