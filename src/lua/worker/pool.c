#include "lua/worker/pool.h"

#include "lua/isolate/quota.h"

#include <errno.h>
#include <string.h>

enum {
    WAITING_DEFAULT = 1024,
    JOB_COST = sizeof(struct job) + 128, /* with its future */
};

/* --- All pools of a runtime ------------------------------------------------------------------- */

static void unref_pools(struct job_pools *pools)
{
    /* Release, so that every use comes before the end; acquire in the thread that frees them. */
    if (atomic_fetch_sub_explicit(&pools->references, 1, memory_order_acq_rel) != 1)
        return;
    struct alloc alloc = pools->alloc;
    if (pools->loads)
        alloc_free(&alloc, pools->loads, pools->count * sizeof *pools->loads);
    pthread_mutex_destroy(&pools->lock);
    alloc_free(&alloc, pools, sizeof *pools);
}

struct job_pools *job_pools_new(struct orr_runtime *rt, void (*arrive)(struct worker *worker, struct mail *mail))
{
    struct job_pools *pools = alloc_zeroed(&rt->alloc, sizeof *pools);
    if (!pools)
        return NULL;
    pthread_mutex_init(&pools->lock, NULL);
    pools->references = 1;
    pools->alloc = rt->alloc;
    pools->rt = pools->home = rt;
    pools->arrive = arrive;
    pools->first = runtime_host_workers(rt) + 1;
    pools->count = runtime_open_workers(rt) - runtime_host_workers(rt);
    pools->loads = alloc_zeroed(&pools->alloc, pools->count * sizeof *pools->loads);
    pools->standard = pools->loads ? job_pool_new(pools, 0, 0) : NULL;
    if (pools->standard)
        return pools;
    unref_pools(pools);
    return NULL;
}

void job_pools_close(struct job_pools *pools)
{
    struct job_pool *standard = pools->standard;
    pools->standard = NULL;
    job_pool_unref(standard);
    unref_pools(pools);
}

void job_pools_count_isolate(struct job_pools *pools)
{
    pthread_mutex_lock(&pools->lock);
    pools->isolates++;
    pthread_mutex_unlock(&pools->lock);
}

/* --- Pools ------------------------------------------------------------------------------------ */

struct job_pool *job_pool_new(struct job_pools *pools, unsigned size, unsigned waiting_max)
{
    struct job_pool *pool = alloc_zeroed(&pools->alloc, sizeof *pool);
    if (!pool)
        return NULL;
    /* Relaxed: the caller has a reference, or is the runtime. */
    atomic_fetch_add_explicit(&pools->references, 1, memory_order_relaxed);
    pool->references = 1;
    pool->all = pools;
    pool->size = size ? size : pools->count;
    pool->waiting_max = waiting_max ? waiting_max : WAITING_DEFAULT;
    list_init(&pool->queue);
    return pool;
}

struct job_pool *job_pool_ref(struct job_pool *pool)
{
    atomic_fetch_add_explicit(&pool->references, 1, memory_order_relaxed);
    return pool;
}

void job_pool_unref(struct job_pool *pool)
{
    /*
     * Release, so that every use comes before the end; acquire in the thread that frees the pool.
     */
    if (!pool || atomic_fetch_sub_explicit(&pool->references, 1, memory_order_acq_rel) != 1)
        return;
    struct job_pools *pools = pool->all;
    alloc_free(&pools->alloc, pool, sizeof *pool);
    unref_pools(pools);
}

struct job_pool_figures job_pool_read(const struct job_pool *pool)
{
    struct job_pools *pools = pool->all;
    pthread_mutex_lock(&pools->lock);
    struct job_pool_figures figures = {
        .threads = pools->count,
        .size = pool->size,
        .waiting_max = pool->waiting_max,
        .running = pool->running,
        .waiting = pool->waiting,
        .finished = pools->finished,
        .isolates = pools->isolates,
    };
    pthread_mutex_unlock(&pools->lock);
    return figures;
}

/* --- The life of a job ------------------------------------------------------------------------ */

struct job *job_new(struct job_pool *pool, struct program *program)
{
    const struct alloc *alloc = &pool->all->alloc;
    struct quota *quota = program->settings->quota;
    if (!quota_take(quota, JOB_COST))
        return NULL;
    struct job *job = alloc_new(alloc, sizeof *job);
    if (!job)
        goto no_job;
    memset(job, 0, offsetof(struct job, rooms));
    /* Another runtime will complete the future: this one does not see that from its own tasks. */
    struct orr_future_options options = { .foreign = pool->all->home != pool->all->rt };
    if (orr_future_new(pool->all->home, &options, &job->future))
        goto no_future;
    job->mail.arrive = pool->all->arrive;
    job->references = 1;
    job->pool = job_pool_ref(pool);
    job->program = program_ref(program);
    list_init(&job->link);
    message_init(&job->arguments, alloc);
    message_init(&job->result, alloc);
    message_give_room(&job->arguments, job->rooms[0], JOB_ROOM);
    message_give_room(&job->result, job->rooms[1], JOB_ROOM);
    if (!message_charge_to(&job->arguments, quota) && !message_charge_to(&job->result, quota))
        return job;
    job_unref(job);
    return NULL;
no_future:
    alloc_free(alloc, job, sizeof *job);
no_job:
    quota_give(quota, JOB_COST);
    return NULL;
}

void job_set_report(struct job *job, const char *report)
{
    struct quota *quota = job->program->settings->quota;
    size_t size = report ? strlen(report) + 1 : 0;
    if (!report || !quota_take(quota, size))
        return;
    job->report = alloc_copy(&job->program->alloc, report);
    if (!job->report)
        quota_give(quota, size);
}

static void free_report(struct job *job)
{
    if (!job->report)
        return;
    size_t size = strlen(job->report) + 1;
    alloc_free(&job->program->alloc, job->report, size);
    quota_give(job->program->settings->quota, size);
}

struct job *job_ref(struct job *job)
{
    atomic_fetch_add_explicit(&job->references, 1, memory_order_relaxed);
    return job;
}

void job_unref(struct job *job)
{
    /* Release, so that every use comes before the end; acquire in the thread that frees the job. */
    if (!job || atomic_fetch_sub_explicit(&job->references, 1, memory_order_acq_rel) != 1)
        return;
    struct alloc alloc = job->pool->all->alloc;
    message_free(&job->arguments);
    message_free(&job->result);
    free_report(job);
    orr_future_unref(job->future);
    quota_give(job->program->settings->quota, JOB_COST);
    program_unref(job->program);
    job_pool_unref(job->pool);
    alloc_free(&alloc, job, sizeof *job);
}

/* --- Where a job is --------------------------------------------------------------------------- */

/* The functions of this section that are static are called under the lock. */

static void enqueue(struct job_pool *pool, struct job *job)
{
    job->state = JOB_WAITING;
    list_append(&pool->queue, &job->link);
    pool->waiting++;
}

static void dequeue(struct job_pool *pool, struct job *job)
{
    list_remove(&job->link);
    pool->waiting--;
}

static void assign(struct job *job, unsigned thread)
{
    struct job_pools *pools = job->pool->all;
    job->state = JOB_ON_THREAD;
    job->number = pools->first + thread;
    job->pool->running++;
    pools->loads[thread]++;
}

static unsigned least_loaded(const struct job_pools *pools)
{
    unsigned best = 0;
    for (unsigned i = 1; i < pools->count; i++)
        if (pools->loads[i] < pools->loads[best])
            best = i;
    return best;
}

int job_submit(struct job *job, bool bounded)
{
    struct job_pool *pool = job->pool;
    struct job_pools *pools = pool->all;
    job_ref(job); /* of the queue, or of the thread */
    pthread_mutex_lock(&pools->lock);
    bool at_once = pool->running < pool->size;
    bool full = !at_once && bounded && pool->waiting >= pool->waiting_max;
    if (at_once)
        assign(job, least_loaded(pools));
    else if (!full)
        enqueue(pool, job);
    pthread_mutex_unlock(&pools->lock);
    if (full) {
        job_unref(job);
        return -EAGAIN;
    }
    if (!at_once || worker_post(runtime_worker(pools->rt, job->number), &job->mail))
        return 0;
    job_leave(job);
    job_unref(job);
    return -ESHUTDOWN;
}

bool job_give_up(struct job *job)
{
    struct job_pools *pools = job->pool->all;
    if (orr_future_complete(job->future, (struct orr_result){ .error = -ECANCELED }))
        return false;
    pthread_mutex_lock(&pools->lock);
    bool waiting = job->state == JOB_WAITING;
    struct orr_waker runner = job->runner;
    job->state = JOB_GIVEN_UP;
    if (waiting)
        dequeue(job->pool, job);
    pthread_mutex_unlock(&pools->lock);
    if (waiting)
        job_unref(job);
    else
        orr_waker_wake(runner);
    return true;
}

bool job_begin(struct job *job, struct orr_waker runner)
{
    pthread_mutex_lock(&job->pool->all->lock);
    job->runner = runner;
    bool given_up = job->state == JOB_GIVEN_UP;
    pthread_mutex_unlock(&job->pool->all->lock);
    return !given_up;
}

bool job_is_given_up(struct job *job)
{
    pthread_mutex_lock(&job->pool->all->lock);
    bool given_up = job->state == JOB_GIVEN_UP;
    pthread_mutex_unlock(&job->pool->all->lock);
    return given_up;
}

struct job *job_leave(struct job *job)
{
    struct job_pool *pool = job->pool;
    struct job_pools *pools = pool->all;
    struct job *next = NULL;
    unsigned thread = job->number - pools->first;
    pthread_mutex_lock(&pools->lock);
    job->state = JOB_LEFT;
    job->runner = (struct orr_waker){ 0 };
    pool->running--;
    pools->loads[thread]--;
    pools->finished++;
    if (!list_empty(&pool->queue) && !runtime_stopping(pools->rt)) {
        next = container_of(pool->queue.next, struct job, link);
        dequeue(pool, next);
        assign(next, thread);
    }
    pthread_mutex_unlock(&pools->lock);
    return next;
}
