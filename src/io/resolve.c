/*
 * One mutex guards everything but a running getaddrinfo(): the clients with a line, the counts, the
 * states of lookups.  It is held for a few instructions at a time, and for no system call but those
 * of the thread library and the wake of a worker.  No turn waits on anything else here.
 *
 * A lookup is WAITING (in its client's line), RUNNING (a thread has it), or ENDED.  It has up to
 * two holders: its owner until lookup_abandon(), and its thread while RUNNING.  The last one frees
 * it.  The owner has the only reference to the future.  The thread completes it with the mutex
 * held, and not if the lookup is abandoned: so once that is done, no thread touches anything of the
 * runtime or of its allocator.
 *
 * A client is in `clients` exactly while it has a line and may run another lookup.  A client lives
 * until it is freed and none of its lookups runs.
 */
#include "io/resolve.h"

#include "base/list.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    IDLE_SECONDS = 5,
    STACK_SIZE = 512 * 1024, /* NSS modules use large buffers on the stack */
    NAME_LENGTH = 255,       /* as NI_MAXHOST, without the older, larger value */
};

enum lookup_state {
    WAITING,
    RUNNING,
    ENDED,
};

struct resolve_client {
    struct orr_link in_clients; /* alone while the client has nothing to start */
    struct orr_link line;       /* of lookups, by `in_line` */
    unsigned running, waiting;
    bool freed;
};

struct lookup {
    struct orr_link in_line;
    struct resolve_client *client;
    enum lookup_state state;
    bool abandoned;
    struct orr_future *future;
    int family;
    uint16_t port;
    char host[NAME_LENGTH + 1];
};

static struct resolver {
    pthread_mutex_t mutex;
    pthread_cond_t work;
    struct orr_link clients; /* whose turn it is, first */
    unsigned threads, idle;
    unsigned running, waiting;
    resolve_fn *lookup;
    void (*release)(struct addrinfo *found);
} resolver = {
    .mutex = PTHREAD_MUTEX_INITIALIZER,
    .clients = { &resolver.clients, &resolver.clients },
    .lookup = getaddrinfo,
    .release = freeaddrinfo,
};

/* --- Clients, with the mutex held ------------------------------------------------------------- */

/* Puts a client that can start a lookup behind the others, and takes out one that cannot. */
static void place_client(struct resolve_client *client)
{
    list_remove(&client->in_clients);
    if (client->waiting && client->running < RESOLVE_RUNNING)
        list_append(&resolver.clients, &client->in_clients);
}

static void free_client_if_over(struct resolve_client *client)
{
    if (!client->freed || client->running)
        return;
    list_remove(&client->in_clients);
    free(client);
}

/* Takes a lookup out of its client's line. */
static void leave_line(struct lookup *lookup)
{
    list_remove(&lookup->in_line);
    lookup->client->waiting--;
    resolver.waiting--;
    place_client(lookup->client);
}

/* The next lookup to run; NULL if there is none. */
static struct lookup *take_next(void)
{
    if (list_empty(&resolver.clients))
        return NULL;
    struct resolve_client *client = container_of(resolver.clients.next, struct resolve_client, in_clients);
    struct lookup *lookup = container_of(client->line.next, struct lookup, in_line);
    client->running++;
    resolver.running++;
    leave_line(lookup);
    lookup->state = RUNNING;
    return lookup;
}

/* --- Threads ---------------------------------------------------------------------------------- */

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

/* Runs a lookup that take_next() gave.  The mutex is held before and after. */
static void run(struct lookup *lookup)
{
    pthread_mutex_unlock(&resolver.mutex);
    struct resolve_answer *answer = look_up(lookup);
    pthread_mutex_lock(&resolver.mutex);

    struct resolve_client *client = lookup->client;
    client->running--;
    resolver.running--;
    place_client(client);
    free_client_if_over(client);

    lookup->state = ENDED;
    if (lookup->abandoned) {
        free(answer);
        free(lookup);
    } else {
        orr_future_complete(lookup->future, (struct orr_result){
                                                .value = answer,
                                                .error = answer ? 0 : -ENOMEM,
                                                .drop = answer ? drop_answer : NULL,
                                            });
    }
}

/* Waits for work.  False if there was none for some seconds. */
static bool wait_for_work(void)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += IDLE_SECONDS;
    resolver.idle++;
    int error = 0;
    while (list_empty(&resolver.clients) && !error)
        error = pthread_cond_timedwait(&resolver.work, &resolver.mutex, &until);
    resolver.idle--;
    return !list_empty(&resolver.clients);
}

static void *thread_main(void *unused);

/* Makes a thread that gets no signals: they are for the host's threads.  An errno. */
static int make_thread(void)
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
    error = pthread_create(&thread, &attributes, thread_main, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return error;
}

/* Has a thread take what can be started.  -EAGAIN: there is none, and none can be made. */
static int call_thread(void)
{
    if (list_empty(&resolver.clients))
        return 0;
    if (resolver.idle) {
        pthread_cond_signal(&resolver.work);
        return 0;
    }
    if (resolver.threads < RESOLVE_THREADS && !make_thread())
        resolver.threads++;
    return resolver.threads ? 0 : -EAGAIN;
}

static void *thread_main(void *unused)
{
    pthread_mutex_lock(&resolver.mutex);
    do {
        struct lookup *lookup;
        while ((lookup = take_next())) {
            call_thread(); /* for the next in line, which may have come together with this one */
            run(lookup);
        }
    } while (wait_for_work());
    resolver.threads--;
    pthread_mutex_unlock(&resolver.mutex);
    return unused;
}

/* --- What callers see ------------------------------------------------------------------------- */

struct resolve_client *resolve_client_new(void)
{
    struct resolve_client *client = calloc(1, sizeof *client);
    if (!client)
        return NULL;
    list_init(&client->in_clients);
    list_init(&client->line);
    return client;
}

void resolve_client_free(struct resolve_client *client)
{
    if (!client)
        return;
    pthread_mutex_lock(&resolver.mutex);
    while (!list_empty(&client->line)) {
        struct lookup *lookup = container_of(client->line.next, struct lookup, in_line);
        leave_line(lookup);
        lookup->state = ENDED; /* its owner still abandons it, and it is never answered */
    }
    client->freed = true;
    free_client_if_over(client);
    pthread_mutex_unlock(&resolver.mutex);
}

static int put_in_line(struct resolve_client *client, struct lookup *lookup)
{
    int error = -ENOBUFS;
    pthread_mutex_lock(&resolver.mutex);
    if (client->waiting < RESOLVE_WAITING) {
        list_append(&client->line, &lookup->in_line);
        client->waiting++;
        resolver.waiting++;
        place_client(client);
        error = call_thread();
        if (error)
            leave_line(lookup);
    }
    pthread_mutex_unlock(&resolver.mutex);
    return error;
}

int resolve_start(struct orr_runtime *rt, struct resolve_client *client, const char *host, uint16_t port, int family,
                  struct lookup **out)
{
    size_t length = host ? strlen(host) : 0;
    if (!client || !out || !length || length > NAME_LENGTH)
        return -EINVAL;
    struct lookup *lookup = calloc(1, sizeof *lookup);
    if (!lookup)
        return -ENOMEM;
    memcpy(lookup->host, host, length + 1);
    lookup->client = client;
    lookup->port = port;
    lookup->family = family;
    int error = orr_future_new(rt, &(struct orr_future_options){ .foreign = true }, &lookup->future);
    if (!error)
        error = put_in_line(client, lookup);
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
    pthread_mutex_lock(&resolver.mutex);
    if (lookup->state == WAITING)
        leave_line(lookup);
    bool running = lookup->state == RUNNING;
    if (running)
        lookup->abandoned = true; /* its thread frees it */
    pthread_mutex_unlock(&resolver.mutex);
    if (!running)
        free(lookup);
    orr_future_unref(future);
}

void resolve_replace(resolve_fn *lookup, void (*release)(struct addrinfo *found))
{
    pthread_mutex_lock(&resolver.mutex);
    resolver.lookup = lookup ? lookup : getaddrinfo;
    resolver.release = release ? release : freeaddrinfo;
    pthread_mutex_unlock(&resolver.mutex);
}

struct resolve_numbers resolve_numbers(void)
{
    pthread_mutex_lock(&resolver.mutex);
    struct resolve_numbers numbers = { resolver.threads, resolver.running, resolver.waiting };
    pthread_mutex_unlock(&resolver.mutex);
    return numbers;
}
