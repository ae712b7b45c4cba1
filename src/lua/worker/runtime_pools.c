#include "lua/worker/runtime_pools.h"

#include "lua/worker/job_thread.h"
#include "lua/worker/run_job.h"

#include <errno.h>

/* The pool threads have ended. */
static void free_pools(struct pools *extension)
{
    struct job_pools *pools = (struct job_pools *)extension;
    for (unsigned i = 0; i < pools->count; i++)
        job_thread_free(runtime_worker(pools->rt, pools->first + i)->extension);
    job_pools_free(pools);
}

int runtime_pools_get(struct orr_runtime *rt, struct job_pools **out)
{
    int error = runtime_grow(rt, job_thread_on_close);
    if (error)
        return error;
    pthread_mutex_lock(&rt->growing);
    if (!rt->pools) {
        rt->pools = (struct pools *)job_pools_new(rt, run_job_arrive);
        rt->pools_free = free_pools;
    }
    *out = (struct job_pools *)rt->pools;
    pthread_mutex_unlock(&rt->growing);
    return *out ? 0 : -ENOMEM;
}
