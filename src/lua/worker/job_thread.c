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

/* Where the spare for a program is in the list: one of its own rather than a kindred program's. */
static struct job_isolate **find_spare(struct job_thread *thread, const struct program *program)
{
    struct job_isolate **kin = NULL;
    for (struct job_isolate **at = &thread->spares; *at; at = &(*at)->next) {
        if ((*at)->program == program)
            return at;
        if (!kin && program_is_kin((*at)->program, program))
            kin = at;
    }
    return kin;
}

struct job_isolate *job_thread_take_isolate(struct job_thread *thread, struct job *job,
                                            job_isolate_unhandled *on_unhandled)
{
    struct job_isolate **at = find_spare(thread, job->program);
    if (at) {
        struct job_isolate *isolate = *at;
        *at = isolate->next;
        thread->spare_count--;
        if (job_isolate_use_spare(isolate, job))
            return isolate;
        free_isolate(thread, isolate);
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
