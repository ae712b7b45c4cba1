#include "lua/worker/runtime_pools.h"

#include "lua/worker/job_thread.h"
#include "lua/worker/run_job.h"

#include <errno.h>

/* The pool threads have ended. */
static void free_pools(void *extension)
{
    struct job_pools *pools = extension;
    for (unsigned i = 0; i < pools->count; i++)
        job_thread_free(worker_extension(runtime_worker(pools->rt, pools->first + i)));
    job_pools_close(pools);
}

static void *make_pools(struct orr_runtime *rt)
{
    return job_pools_new(rt, run_job_arrive);
}

int runtime_pools_get(struct orr_runtime *rt, struct job_pools **out)
{
    int error = runtime_grow(rt, job_thread_on_close);
    if (error)
        return error;
    *out = runtime_extension(rt, make_pools, free_pools);
    return *out ? 0 : -ENOMEM;
}
