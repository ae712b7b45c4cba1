#include "lua/worker/job_thread.h"

enum { SPARES_MAX = 4 };

struct job_thread *job_thread_of(struct worker *worker)
{
    struct job_thread *thread = worker_extension(worker);
    if (thread)
        return thread;
    thread = alloc_zeroed(worker_alloc(worker), sizeof *thread);
    if (!thread)
        return NULL;
    thread->worker = worker;
    worker_set_extension(worker, thread);
    return thread;
}

/* --- Isolates --------------------------------------------------------------------------------- */

static void free_isolate(struct job_thread *thread, struct job_isolate *isolate)
{
    if (job_isolate_free(isolate))
        return;
    isolate->next = thread->unfreed;
    thread->unfreed = isolate;
}

static void free_all(struct job_thread *thread, struct job_isolate **first)
{
    while (*first) {
        struct job_isolate *isolate = *first;
        *first = isolate->next;
        free_isolate(thread, isolate);
    }
}

struct job_isolate *job_thread_take_isolate(struct job_thread *thread, struct job *job,
                                            job_isolate_unhandled *on_unhandled)
{
    for (struct job_isolate **at = &thread->spares; *at; at = &(*at)->next) {
        struct job_isolate *isolate = *at;
        if (isolate->program != job->program)
            continue;
        *at = isolate->next;
        thread->spare_count--;
        job_isolate_use_spare(isolate, job);
        return isolate;
    }
    job_pools_count_isolate(job->pool->all);
    return job_isolate_new(thread, job, on_unhandled);
}

static void free_oldest_spare(struct job_thread *thread)
{
    struct job_isolate **at = &thread->spares;
    while ((*at)->next)
        at = &(*at)->next;
    thread->spare_count--;
    free_all(thread, at);
}

void job_thread_give_isolate(struct job_thread *thread, struct job_isolate *isolate)
{
    if (thread->closing || !job_isolate_make_spare(isolate)) {
        free_isolate(thread, isolate);
        return;
    }
    isolate->next = thread->spares;
    thread->spares = isolate;
    if (++thread->spare_count > SPARES_MAX)
        free_oldest_spare(thread);
}

/* --- The end ---------------------------------------------------------------------------------- */

void job_thread_on_close(struct worker *worker)
{
    struct job_thread *thread = worker_extension(worker);
    if (!thread)
        return;
    thread->closing = true;
    thread->spare_count = 0;
    free_all(thread, &thread->spares);
}

void job_thread_free(struct job_thread *thread)
{
    if (!thread)
        return;
    struct alloc alloc = *worker_alloc(thread->worker);
    struct job_isolate *unfreed = thread->unfreed;
    thread->unfreed = NULL;
    free_all(thread, &unfreed);
    alloc_free(&alloc, thread, sizeof *thread);
}
