/*
 * What a host grants to an untrusted isolate.  Part of the settings, and shared like them: jobs
 * have the grants of the isolate that made their worker.  Never changes.  Any thread.
 */
#ifndef ORR_LUA_ISOLATE_GRANTS_H
#define ORR_LUA_ISOLATE_GRANTS_H

#include "base/alloc.h"
#include "io/gate.h"
#include "orrery.h"

struct log;

struct grants {
    struct gate_rules network;
    orr_grant_fn *ask; /* NULL: what no rule decides is refused */
    void *ask_data;
};

/* Whether scripts get the module `net` with these grants, which may be NULL. */
bool grants_have_network(const struct orr_grants *grants);

/*
 * Copies the grants of the options; NULL gives NULL.  -ENOMEM; or -EINVAL for a bad rule, or grants
 * for a trusted isolate, which is logged.
 */
int grants_new(const struct orr_lua_options *options, const struct alloc *alloc, const struct log *log,
               struct grants **out);

void grants_free(struct grants *grants, const struct alloc *alloc); /* NULL is allowed */

#endif
