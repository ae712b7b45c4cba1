#include "lua/terms.h"

#include "lua/capability.h"
#include "lua/quota.h"
#include "lua/sandbox/roots.h"

#include <errno.h>
#include <string.h>

int terms_new(const struct orr_lua_options *options, const struct alloc *alloc, const struct log *log,
              struct terms **out)
{
    static const struct orr_lua_options none;
    options = options ? options : &none;
    struct limits limits;
    int error = limits_choose(&limits, options, log);
    if (error)
        return error;
    struct terms *terms = alloc_zeroed(alloc, sizeof *terms);
    if (!terms)
        return -ENOMEM;
    terms->references = 1;
    terms->alloc = *alloc;
    terms->limits = limits;
    terms->modules = capability_mask(options->modules, CAPABILITY_ALL);
    terms->worker_modules = capability_mask(options->worker_modules, CAPABILITY_OF_JOBS) & terms->modules;
    terms->prepare = options->worker_prepare;
    terms->prepare_data = options->worker_data;
    if (options->mount)
        terms->mount = alloc_copy(alloc, options->mount);
    error = options->mount && !terms->mount ? -ENOMEM : 0;
    if (!error && limits.memory && !(terms->quota = quota_new(alloc, limits.memory)))
        error = -ENOMEM;
    if (!error && limits.profile == ORR_LUA_UNTRUSTED)
        error = roots_open(options->roots, alloc, log, &terms->roots);
    if (error)
        terms_unref(terms);
    else
        *out = terms;
    return error;
}

/* A job's deadlines are its time-out, and what goes wrong in it is its outcome: the host is told nothing besides. */
int terms_for_jobs(struct terms *host, size_t memory, struct terms **out)
{
    struct terms *terms = alloc_zeroed(&host->alloc, sizeof *terms);
    if (!terms)
        return -ENOMEM;
    terms->references = 1;
    terms->alloc = host->alloc;
    terms->limits = host->limits;
    terms->limits.notice = NULL;
    if (terms->limits.mode == ORR_LUA_OFF)
        terms->limits.mode = ORR_LUA_SIGNAL; /* or nobody could stop a job */
    terms->limits.memory_soft = 0;
    terms->limits.testing = false; /* what they make is not the test's, and ends with the job */
    if (memory && (!terms->limits.memory || memory < terms->limits.memory))
        terms->limits.memory = memory;
    terms->modules = host->worker_modules;
    terms->roots = host->roots;
    terms->mount = host->mount;
    terms->prepare = host->prepare;
    terms->prepare_data = host->prepare_data;
    terms->quota = quota_ref(host->quota);
    terms->for_jobs = true;
    terms->host = terms_ref(host);
    *out = terms;
    return 0;
}

struct terms *terms_ref(struct terms *terms)
{
    atomic_fetch_add_explicit(&terms->references, 1, memory_order_relaxed);
    return terms;
}

void terms_unref(struct terms *terms)
{
    /* Release, so that all that was done with them comes before their end; acquire in whoever ends them. */
    if (!terms || atomic_fetch_sub_explicit(&terms->references, 1, memory_order_acq_rel) != 1)
        return;
    struct alloc alloc = terms->alloc;
    quota_unref(terms->quota);
    if (terms->host) {
        terms_unref(terms->host);
    } else {
        roots_close(terms->roots, &alloc);
        if (terms->mount)
            alloc_free(&alloc, terms->mount, strlen(terms->mount) + 1);
    }
    alloc_free(&alloc, terms, sizeof *terms);
}
