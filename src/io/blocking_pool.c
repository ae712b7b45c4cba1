/*
 * The mutex of a pool is held for a few instructions at a time, and for no system call but those of
 * the thread library and the wake of a worker.  No turn waits on anything else here.
 *
 * A client is in the pool's `clients` exactly while it has a line and may run another job.
 */
#include "io/blocking_pool.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

enum {
    IDLE_SECONDS = 5,
    STACK_SIZE = 512 * 1024, /* NSS modules use large buffers on the stack */
};

struct blocking_client {
    struct blocking_pool *pool;
    struct orr_link in_clients; /* alone while the client has nothing to start */
    struct orr_link line;       /* of jobs, by `in_line` */
    struct orr_link in_named;
    const void *name; /* of blocking_start_for(), or NULL */
    unsigned running, waiting;
    bool freed;
};

/* --- Clients, with the mutex held ------------------------------------------------------------- */

/* Puts a client that can start a job behind the others, and takes out one that cannot. */
static void place_client(struct blocking_client *client)
{
    list_remove(&client->in_clients);
    if (client->waiting && client->running < client->pool->max_running)
        list_append(&client->pool->clients, &client->in_clients);
}

static void free_client_if_over(struct blocking_client *client)
{
    if (!client->freed || client->running || client->waiting)
        return;
    list_remove(&client->in_clients);
    list_remove(&client->in_named);
    free(client);
}

/* Takes a job out of its client's line. */
static void leave_line(struct blocking_job *job)
{
    list_remove(&job->in_line);
    job->client->waiting--;
    job->client->pool->waiting--;
    place_client(job->client);
}

/* The next job to run; NULL if there is none. */
static struct blocking_job *take_next(struct blocking_pool *pool)
{
    if (list_empty(&pool->clients))
        return NULL;
    struct blocking_client *client = container_of(pool->clients.next, struct blocking_client, in_clients);
    struct blocking_job *job = container_of(client->line.next, struct blocking_job, in_line);
    client->running++;
    pool->running++;
    leave_line(job);
    job->state = BLOCKING_RUNNING;
    return job;
}

/* --- Threads ---------------------------------------------------------------------------------- */

/* Runs a job that take_next() gave.  The mutex is held before and after. */
static void run(struct blocking_pool *pool, struct blocking_job *job)
{
    pthread_mutex_unlock(&pool->mutex);
    job->kind->run(job);
    pthread_mutex_lock(&pool->mutex);

    struct blocking_client *client = job->client;
    client->running--;
    pool->running--;
    place_client(client);
    free_client_if_over(client);

    job->state = BLOCKING_ENDED;
    if (!job->abandoned) {
        job->kind->over(job);
        return;
    }
    pthread_mutex_unlock(&pool->mutex);
    job->kind->drop(job);
    pthread_mutex_lock(&pool->mutex);
}

/* Waits for work.  False if there was none for some seconds. */
static bool wait_for_work(struct blocking_pool *pool)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += IDLE_SECONDS;
    pool->idle++;
    int error = 0;
    while (list_empty(&pool->clients) && !error)
        error = pthread_cond_timedwait(&pool->work, &pool->mutex, &until);
    pool->idle--;
    return !list_empty(&pool->clients);
}

static void *thread_main(void *data);

/* Makes a thread that gets no signals: they are for the host's threads.  An errno. */
static int make_thread(struct blocking_pool *pool)
{
    pthread_attr_t attributes;
    int error = pthread_attr_init(&attributes);
    if (error)
        return error;
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, STACK_SIZE);
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_t thread;
    error = pthread_create(&thread, &attributes, thread_main, pool);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return error;
}

/* Has a thread take what can be started.  -EAGAIN: there is none, and none can be made. */
static int call_thread(struct blocking_pool *pool)
{
    if (list_empty(&pool->clients))
        return 0;
    if (pool->idle) {
        pthread_cond_signal(&pool->work);
        return 0;
    }
    if (pool->threads < pool->max_threads && !make_thread(pool))
        pool->threads++;
    return pool->threads ? 0 : -EAGAIN;
}

static void *thread_main(void *data)
{
    struct blocking_pool *pool = data;
    pthread_mutex_lock(&pool->mutex);
    do {
        struct blocking_job *job;
        while ((job = take_next(pool))) {
            call_thread(pool); /* for the next in line: both may have come together */
            run(pool, job);
        }
    } while (wait_for_work(pool));
    pool->threads--;
    pthread_mutex_unlock(&pool->mutex);
    return NULL;
}

/* --- What callers see ------------------------------------------------------------------------- */

struct blocking_client *blocking_client_new(struct blocking_pool *pool)
{
    struct blocking_client *client = calloc(1, sizeof *client);
    if (!client)
        return NULL;
    client->pool = pool;
    list_init(&client->in_clients);
    list_init(&client->in_named);
    list_init(&client->line);
    return client;
}

void blocking_client_free(struct blocking_client *client)
{
    if (!client)
        return;
    struct blocking_pool *pool = client->pool;
    pthread_mutex_lock(&pool->mutex);
    while (!list_empty(&client->line)) {
        struct blocking_job *job = container_of(client->line.next, struct blocking_job, in_line);
        leave_line(job);
        job->state = BLOCKING_ENDED;
    }
    client->freed = true;
    free_client_if_over(client);
    pthread_mutex_unlock(&pool->mutex);
}

/* The mutex is held. */
static int put_in_line(struct blocking_client *client, struct blocking_job *job)
{
    struct blocking_pool *pool = client->pool;
    job->client = client;
    if (client->waiting >= pool->max_waiting)
        return -ENOBUFS;
    list_append(&client->line, &job->in_line);
    client->waiting++;
    pool->waiting++;
    place_client(client);
    int error = call_thread(pool);
    if (error)
        leave_line(job);
    return error;
}

int blocking_start(struct blocking_client *client, struct blocking_job *job, const struct blocking_kind *kind)
{
    struct blocking_pool *pool = client->pool;
    job->kind = kind;
    job->state = BLOCKING_WAITING;
    pthread_mutex_lock(&pool->mutex);
    int error = put_in_line(client, job);
    pthread_mutex_unlock(&pool->mutex);
    return error;
}

/* The client with this name; NULL without memory.  The mutex is held. */
static struct blocking_client *client_named(struct blocking_pool *pool, const void *name)
{
    for (struct orr_link *link = pool->named.next; link != &pool->named; link = link->next) {
        struct blocking_client *client = container_of(link, struct blocking_client, in_named);
        if (client->name == name)
            return client;
    }
    struct blocking_client *client = blocking_client_new(pool);
    if (!client)
        return NULL;
    client->name = name;
    client->freed = true; /* it lives by its jobs */
    list_append(&pool->named, &client->in_named);
    return client;
}

int blocking_start_for(struct blocking_pool *pool, const void *name, struct blocking_job *job,
                       const struct blocking_kind *kind)
{
    job->kind = kind;
    job->state = BLOCKING_WAITING;
    pthread_mutex_lock(&pool->mutex);
    struct blocking_client *client = client_named(pool, name);
    int error = client ? put_in_line(client, job) : -ENOMEM;
    if (client)
        free_client_if_over(client);
    pthread_mutex_unlock(&pool->mutex);
    return error;
}

enum blocking_state blocking_abandon(struct blocking_pool *pool, struct blocking_job *job)
{
    pthread_mutex_lock(&pool->mutex);
    enum blocking_state state = job->state;
    if (state == BLOCKING_WAITING) {
        leave_line(job);
        free_client_if_over(job->client);
    } else if (state == BLOCKING_RUNNING) {
        job->abandoned = true;
    }
    pthread_mutex_unlock(&pool->mutex);
    return state;
}

bool blocking_detach(struct blocking_pool *pool, struct blocking_job *job)
{
    pthread_mutex_lock(&pool->mutex);
    bool ended = job->state == BLOCKING_ENDED;
    job->abandoned = !ended;
    pthread_mutex_unlock(&pool->mutex);
    return !ended;
}

struct blocking_numbers blocking_numbers(struct blocking_pool *pool)
{
    pthread_mutex_lock(&pool->mutex);
    struct blocking_numbers numbers = { pool->threads, pool->running, pool->waiting };
    pthread_mutex_unlock(&pool->mutex);
    return numbers;
}
