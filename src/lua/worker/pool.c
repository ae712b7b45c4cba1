#include "lua/worker/pool.h"

#include "lua/isolate/quota.h"

#include <errno.h>
#include <string.h>

/* --- All of a runtime's --------------------------------------------------------------------------------------------- */

static void pools_free(void *extension)
{
    struct pools *pools = extension;
    struct alloc alloc = pools->rt->alloc;
    for (unsigned i = 0; i < pools->count && pools->berths; i++)
        job_thread_free(pools->berths[i].job_thread, &alloc);
    if (pools->standard)
        pool_unref(pools->standard);
    if (pools->berths)
        alloc_free(&alloc, pools->berths, pools->count * sizeof *pools->berths);
    pthread_mutex_destroy(&pools->lock);
    alloc_free(&alloc, pools, sizeof *pools);
}

static void *pools_new(struct orr_runtime *rt)
{
    const struct alloc *alloc = &rt->alloc;
    struct pools *pools = alloc_zeroed(alloc, sizeof *pools);
    if (!pools)
        return NULL;
    pthread_mutex_init(&pools->lock, NULL);
    pools->rt = rt;
    pools->first = runtime_host_workers(rt) + 1;
    pools->count = runtime_open_workers(rt) - runtime_host_workers(rt);
    pools->berths = alloc_zeroed(alloc, pools->count * sizeof *pools->berths);
    pools->standard = pools->berths ? pool_new(pools, 0, 0) : NULL;
    if (pools->standard)
        return pools;
    pools_free(pools);
    return NULL;
}

int pools_get(struct orr_runtime *rt, struct pools **out)
{
    int error = runtime_grow(rt, job_thread_on_close);
    if (error)
        return error;
    *out = runtime_extension(rt, pools_new, pools_free);
    return *out ? 0 : -ENOMEM;
}

/* --- Pools ------------------------------------------------------------------------------------------------------------ */

struct pool *pool_new(struct pools *pools, unsigned size, unsigned limit)
{
    struct pool *pool = alloc_zeroed(&pools->rt->alloc, sizeof *pool);
    if (!pool)
        return NULL;
    pool->references = 1;
    pool->all = pools;
    pool->size = size ? size : pools->count;
    pool->limit = limit ? limit : QUEUE_DEFAULT;
    return pool;
}

struct pool *pool_ref(struct pool *pool)
{
    atomic_fetch_add_explicit(&pool->references, 1, memory_order_relaxed);
    return pool;
}

void pool_unref(struct pool *pool)
{
    /* Release and acquire: all that was done with it comes before its end. */
    if (pool && atomic_fetch_sub_explicit(&pool->references, 1, memory_order_acq_rel) == 1)
        alloc_free(&pool->all->rt->alloc, pool, sizeof *pool);
}

/* --- Jobs --------------------------------------------------------------------------------------------------------------- */

enum { JOB_COST = sizeof(struct job) + 128 }; /* with its future */

struct job *job_new(struct pool *pool, struct program *program)
{
    const struct alloc *alloc = &pool->all->rt->alloc;
    struct quota *quota = program->settings->quota;
    if (!quota_take(quota, JOB_COST))
        return NULL;
    struct job *job = alloc_zeroed(alloc, sizeof *job);
    if (!job)
        goto no_job;
    if (orr_future_new(pool->all->rt, NULL, &job->future))
        goto no_future;
    job->mail.arrive = job_arrives;
    job->references = 1;
    job->pool = pool_ref(pool);
    job->program = program_ref(program);
    message_init(&job->arguments, alloc);
    message_init(&job->result, alloc);
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
    /* Release and acquire, as above. */
    if (!job || atomic_fetch_sub_explicit(&job->references, 1, memory_order_acq_rel) != 1)
        return;
    struct alloc alloc = job->pool->all->rt->alloc;
    message_free(&job->arguments);
    message_free(&job->result);
    free_report(job);
    orr_future_unref(job->future);
    quota_give(job->program->settings->quota, JOB_COST);
    program_unref(job->program);
    pool_unref(job->pool);
    alloc_free(&alloc, job, sizeof *job);
}

static void append(struct pool *pool, struct job *job)
{
    job->place = JOB_WAITING;
    job->previous = pool->last;
    *(pool->last ? &pool->last->next : &pool->first) = job;
    pool->last = job;
    pool->waiting++;
}

static void take_out(struct pool *pool, struct job *job)
{
    *(job->previous ? &job->previous->next : &pool->first) = job->next;
    *(job->next ? &job->next->previous : &pool->last) = job->previous;
    job->next = job->previous = NULL;
    job->place = JOB_NOWHERE;
    pool->waiting--;
}

static void assign(struct job *job, unsigned which)
{
    struct pools *pools = job->pool->all;
    job->place = JOB_ON_A_THREAD;
    job->number = pools->first + which;
    job->pool->running++;
    pools->berths[which].load++;
}

static unsigned least_loaded(const struct pools *pools)
{
    unsigned best = 0;
    for (unsigned i = 1; i < pools->count; i++)
        if (pools->berths[i].load < pools->berths[best].load)
            best = i;
    return best;
}

int job_submit(struct job *job, bool bounded)
{
    struct pool *pool = job->pool;
    struct pools *pools = pool->all;
    job_ref(job); /* of the queue, or of the thread */
    pthread_mutex_lock(&pools->lock);
    bool at_once = pool->running < pool->size;
    bool full = !at_once && bounded && pool->waiting >= pool->limit;
    if (at_once)
        assign(job, least_loaded(pools));
    else if (!full)
        append(pool, job);
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
    struct pools *pools = job->pool->all;
    if (orr_future_complete(job->future, (struct orr_result){ .error = -ECANCELED }))
        return false;
    pthread_mutex_lock(&pools->lock);
    bool waiting = job->place == JOB_WAITING;
    struct orr_waker runner = job->runner;
    job->given_up = true;
    if (waiting)
        take_out(job->pool, job);
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
    bool given_up = job->given_up;
    pthread_mutex_unlock(&job->pool->all->lock);
    return !given_up;
}

bool job_is_given_up(struct job *job)
{
    pthread_mutex_lock(&job->pool->all->lock);
    bool given_up = job->given_up;
    pthread_mutex_unlock(&job->pool->all->lock);
    return given_up;
}

struct job *job_leave(struct job *job)
{
    struct pool *pool = job->pool;
    struct pools *pools = pool->all;
    unsigned which = job->number - pools->first;
    pthread_mutex_lock(&pools->lock);
    job->place = JOB_NOWHERE;
    job->runner = (struct orr_waker){ 0 };
    pool->running--;
    pools->berths[which].load--;
    pools->done++;
    struct job *next = pool->first;
    if (next && !runtime_stopping(pools->rt)) {
        take_out(pool, next);
        assign(next, which);
    } else {
        next = NULL;
    }
    pthread_mutex_unlock(&pools->lock);
    return next;
}
