/*
 * A lookup is a job of the pool of lookups.  The owner has the only reference to the future.  The
 * thread completes it with the pool's mutex held, and not if the lookup is abandoned: so once that
 * is done, no thread touches anything of the runtime or of its allocator.
 */
#include "io/resolve.h"

#include "io/blocking_pool.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_LENGTH = 255 }; /* as NI_MAXHOST, without the older, larger value */

struct lookup {
    struct blocking_job job;
    struct orr_future *future;
    struct resolve_answer *answer; /* the thread's, until the future is completed */
    int family;
    uint16_t port;
    char host[NAME_LENGTH + 1];
};

static struct blocking_pool pool = BLOCKING_POOL(pool, RESOLVE_THREADS, RESOLVE_RUNNING, RESOLVE_WAITING);

/* Replaced only while no lookup runs. */
static struct resolver {
    resolve_fn *lookup;
    void (*release)(struct addrinfo *found);
} resolver = { .lookup = getaddrinfo, .release = freeaddrinfo };

static struct lookup *lookup_of(struct blocking_job *job)
{
    return container_of(job, struct lookup, job);
}

/* --- Jobs ------------------------------------------------------------------------------------- */

static void drop_answer(void *answer)
{
    free(answer);
}

static unsigned count_addresses(const struct addrinfo *found)
{
    unsigned count = 0;
    for (; found && count < RESOLVE_ADDRESSES; found = found->ai_next)
        count += found->ai_addrlen <= sizeof(struct sockaddr_storage);
    return count;
}

/* NULL without memory. */
static struct resolve_answer *new_answer(int error, int system_error, const struct addrinfo *found)
{
    unsigned count = count_addresses(found);
    struct resolve_answer *answer = calloc(1, sizeof *answer + count * sizeof answer->addresses[0]);
    if (!answer)
        return NULL;
    answer->error = error;
    answer->system_error = system_error;
    for (; found && answer->count < count; found = found->ai_next) {
        if (found->ai_addrlen <= sizeof answer->addresses[0])
            memcpy(&answer->addresses[answer->count++], found->ai_addr, found->ai_addrlen);
    }
    return answer;
}

/* Blocks.  NULL without memory. */
static struct resolve_answer *look_up(const struct lookup *lookup)
{
    char service[8];
    snprintf(service, sizeof service, "%u", lookup->port);
    struct addrinfo hints = {
        .ai_family = lookup->family,
        .ai_socktype = SOCK_STREAM,
        .ai_flags = AI_NUMERICSERV | AI_ADDRCONFIG,
    };
    struct addrinfo *found = NULL;
    errno = 0;
    int error = resolver.lookup(lookup->host, service, &hints, &found);
    int system_error = error == EAI_SYSTEM ? errno : 0;
    struct resolve_answer *answer = new_answer(error, system_error, error ? NULL : found);
    if (found)
        resolver.release(found);
    return answer;
}

static void run(struct blocking_job *job)
{
    struct lookup *lookup = lookup_of(job);
    lookup->answer = look_up(lookup);
}

static void over(struct blocking_job *job)
{
    struct resolve_answer *answer = lookup_of(job)->answer;
    orr_future_complete(lookup_of(job)->future, (struct orr_result){
                                                    .value = answer,
                                                    .error = answer ? 0 : -ENOMEM,
                                                    .drop = answer ? drop_answer : NULL,
                                                });
}

static void drop(struct blocking_job *job)
{
    free(lookup_of(job)->answer);
    free(lookup_of(job));
}

static const struct blocking_kind lookup_kind = { .run = run, .over = over, .drop = drop };

/* --- What callers see ------------------------------------------------------------------------- */

struct blocking_client *resolve_client_new(void)
{
    return blocking_client_new(&pool);
}

void resolve_client_free(struct blocking_client *client)
{
    blocking_client_free(client);
}

int resolve_start(struct orr_runtime *rt, struct blocking_client *client, const char *host, uint16_t port, int family,
                  struct lookup **out)
{
    size_t length = host ? strlen(host) : 0;
    if (!client || !out || !length || length > NAME_LENGTH)
        return -EINVAL;
    struct lookup *lookup = calloc(1, sizeof *lookup);
    if (!lookup)
        return -ENOMEM;
    memcpy(lookup->host, host, length + 1);
    lookup->port = port;
    lookup->family = family;
    int error = orr_future_new(rt, &(struct orr_future_options){ .foreign = true }, &lookup->future);
    if (!error)
        error = blocking_start(client, &lookup->job, &lookup_kind);
    if (error) {
        orr_future_unref(lookup->future);
        free(lookup);
        return error;
    }
    *out = lookup;
    return 0;
}

struct orr_future *lookup_future(const struct lookup *lookup)
{
    return lookup->future;
}

const struct resolve_answer *lookup_answer(const struct lookup *lookup)
{
    const struct orr_result *result = orr_future_result(lookup->future);
    return result ? result->value : NULL;
}

void lookup_abandon(struct lookup *lookup)
{
    if (!lookup)
        return;
    struct orr_future *future = lookup->future;
    if (blocking_abandon(&pool, &lookup->job) != BLOCKING_RUNNING)
        free(lookup);
    orr_future_unref(future);
}

void resolve_replace(resolve_fn *lookup, void (*release)(struct addrinfo *found))
{
    pthread_mutex_lock(&pool.mutex);
    resolver.lookup = lookup ? lookup : getaddrinfo;
    resolver.release = release ? release : freeaddrinfo;
    pthread_mutex_unlock(&pool.mutex);
}

struct resolve_numbers resolve_numbers(void)
{
    struct blocking_numbers numbers = blocking_numbers(&pool);
    return (struct resolve_numbers){ numbers.threads, numbers.running, numbers.waiting };
}
