/* Lookups of names on threads of their own. */
#include "wait_fixture.h"

#include "io/resolve.h"

#include <arpa/inet.h>
#include <assert.h>
#include <netinet/in.h>

/* --- A lookup function that the test controls ------------------------------------------------- */

static struct gate {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    unsigned entered, left; /* lookups that have begun, and that have ended */
    unsigned allowed;       /* how many may end */
    char names[64];         /* the first letters of the names that were looked up, in order */
} gate = { .mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

/* Waits until enough lookups may end, then answers 127.0.0.7, or an error for "unknown". */
static int gated_lookup(const char *host, const char *service, const struct addrinfo *hints, struct addrinfo **found)
{
    assert(hints->ai_socktype == SOCK_STREAM);
    pthread_mutex_lock(&gate.mutex);
    gate.names[gate.entered++] = host[0];
    pthread_cond_broadcast(&gate.changed);
    while (gate.left >= gate.allowed)
        pthread_cond_wait(&gate.changed, &gate.mutex);
    gate.left++;
    pthread_cond_broadcast(&gate.changed);
    pthread_mutex_unlock(&gate.mutex);
    if (!strcmp(host, "unknown"))
        return EAI_NONAME;
    struct addrinfo numeric = { .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM };
    return getaddrinfo("127.0.0.7", service, &numeric, found);
}

static void gate_open(unsigned allowed)
{
    pthread_mutex_lock(&gate.mutex);
    gate.allowed = allowed;
    pthread_cond_broadcast(&gate.changed);
    pthread_mutex_unlock(&gate.mutex);
}

/* Waits until so many lookups have begun, and ended. */
static void gate_await(unsigned entered, unsigned left)
{
    pthread_mutex_lock(&gate.mutex);
    while (gate.entered < entered || gate.left < left)
        pthread_cond_wait(&gate.changed, &gate.mutex);
    pthread_mutex_unlock(&gate.mutex);
}

static void await_quiet(void)
{
    for (struct resolve_numbers now = resolve_numbers(); now.running + now.waiting; now = resolve_numbers())
        sched_yield();
}

static struct blocking_client *client;

static int set_up(void **state)
{
    (void)state;
    gate.entered = gate.left = gate.allowed = 0;
    memset(gate.names, 0, sizeof gate.names);
    resolve_replace(gated_lookup, NULL);
    open_fixture();
    client = resolve_client_new();
    return client ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    resolve_client_free(client);
    fixture_close(rt);
    gate_open(1000);
    await_quiet();
    resolve_replace(NULL, NULL);
    return 0;
}

static struct lookup *start(struct blocking_client *who, const char *host)
{
    struct lookup *lookup = NULL;
    assert_int_equal(resolve_start(rt, who, host, 80, AF_UNSPEC, &lookup), 0);
    return lookup;
}

static int await_lookup(struct orr_task *task, struct step_task *self)
{
    return note_result(self, AWAIT(orr_future_wait(task, &self->wait, lookup_future(self->data))));
}

/* Turns until the task has ended: the answer comes from another thread, at any time. */
static void await_end(struct step_task *task)
{
    while (!orr_task_done(task->task))
        settle();
}

/* --- Tests ------------------------------------------------------------------------------------ */

static void lookup_gives_the_addresses_with_the_port(void **state)
{
    (void)state;
    struct lookup *lookup = start(client, "host");
    struct step_task waits = { .name = "a", .body = await_lookup, .data = lookup };
    start_tasks(&waits, 1);
    assert_null(lookup_answer(lookup));
    gate_open(1);
    await_end(&waits);
    const struct resolve_answer *found = lookup_answer(lookup);
    assert_int_equal(found->error, 0);
    assert_int_equal(found->count, 1);
    const struct sockaddr_in *address = (const void *)&found->addresses[0];
    assert_int_equal(address->sin_family, AF_INET);
    assert_int_equal(ntohl(address->sin_addr.s_addr), 0x7f000007);
    assert_int_equal(ntohs(address->sin_port), 80);
    assert_string_equal(notes(), "a");
    lookup_abandon(lookup);
    STEP_TASKS_UNREF(&waits);
}

static void lookup_tells_the_error(void **state)
{
    (void)state;
    gate_open(1);
    struct lookup *lookup = start(client, "unknown");
    struct step_task waits = { .name = "a", .body = await_lookup, .data = lookup };
    start_tasks(&waits, 1);
    await_end(&waits);
    assert_int_equal(lookup_answer(lookup)->error, EAI_NONAME);
    assert_int_equal(lookup_answer(lookup)->count, 0);
    lookup_abandon(lookup);
    STEP_TASKS_UNREF(&waits);
}

static void lookup_by_the_system_finds_a_numeric_host(void **state)
{
    (void)state;
    resolve_replace(NULL, NULL);
    struct lookup *lookup = start(client, "::1");
    struct step_task waits = { .name = "a", .body = await_lookup, .data = lookup };
    start_tasks(&waits, 1);
    await_end(&waits);
    assert_int_equal(lookup_answer(lookup)->error, 0);
    assert_int_equal(lookup_answer(lookup)->addresses[0].ss_family, AF_INET6);
    lookup_abandon(lookup);
    STEP_TASKS_UNREF(&waits);
}

static void lookup_refuses_names_that_cannot_be(void **state)
{
    (void)state;
    char name[300];
    memset(name, 'a', sizeof name);
    name[256] = 0;
    struct lookup *lookup;
    assert_int_equal(resolve_start(rt, client, "", 80, AF_UNSPEC, &lookup), -EINVAL);
    assert_int_equal(resolve_start(rt, client, NULL, 80, AF_UNSPEC, &lookup), -EINVAL);
    assert_int_equal(resolve_start(rt, client, name, 80, AF_UNSPEC, &lookup), -EINVAL);
    assert_int_equal(resolve_numbers().waiting, 0);
}

static void client_runs_two_lookups_at_a_time_and_others_pass(void **state)
{
    (void)state;
    struct blocking_client *other = resolve_client_new();
    struct lookup *lookups[6];
    for (int i = 0; i < 5; i++)
        lookups[i] = start(client, "slow");
    gate_await(RESOLVE_RUNNING, 0);
    assert_int_equal(resolve_numbers().waiting, 3);
    lookups[5] = start(other, "quick");
    gate_await(RESOLVE_RUNNING + 1, 0);
    assert_string_equal(gate.names, "ssq");
    gate_open(1000);
    gate_await(6, 6);
    for (int i = 0; i < 6; i++)
        lookup_abandon(lookups[i]);
    resolve_client_free(other);
}

static void client_has_a_limited_line(void **state)
{
    (void)state;
    struct lookup *lookups[RESOLVE_RUNNING + RESOLVE_WAITING], *refused;
    for (unsigned i = 0; i < LENGTH(lookups); i++) {
        lookups[i] = start(client, "slow");
        if (i < RESOLVE_RUNNING)
            gate_await(i + 1, 0);
    }
    assert_int_equal(resolve_start(rt, client, "slow", 80, AF_UNSPEC, &refused), -ENOBUFS);
    for (unsigned i = 0; i < LENGTH(lookups); i++)
        lookup_abandon(lookups[i]);
    assert_int_equal(resolve_numbers().waiting, 0);
    assert_int_equal(gate.entered, RESOLVE_RUNNING);
}

static void abandoned_lookup_goes_on_unseen_and_still_counts(void **state)
{
    (void)state;
    for (unsigned i = 0; i < RESOLVE_RUNNING; i++) {
        struct lookup *lookup = start(client, "slow");
        gate_await(i + 1, 0);
        lookup_abandon(lookup);
    }
    struct lookup *next = start(client, "next");
    assert_int_equal(resolve_numbers().running, RESOLVE_RUNNING);
    assert_int_equal(resolve_numbers().waiting, 1);
    gate_open(1);
    gate_await(RESOLVE_RUNNING + 1, 1);
    lookup_abandon(next);
}

static void cancelled_task_leaves_its_lookup_at_once(void **state)
{
    (void)state;
    struct lookup *lookup = start(client, "slow");
    gate_await(1, 0);
    struct step_task waits = { .name = "a", .body = await_lookup, .data = lookup };
    start_tasks(&waits, 1);
    orr_task_cancel(waits.task, NULL);
    settle();
    assert_string_equal(notes(), "a:ECANCELED");
    assert_int_equal(resolve_numbers().running, 1);
    lookup_abandon(lookup);
    STEP_TASKS_UNREF(&waits);
}

static void runtime_and_client_end_while_a_lookup_runs(void **state)
{
    (void)state;
    struct lookup *running[RESOLVE_RUNNING], *waiting;
    for (unsigned i = 0; i < RESOLVE_RUNNING; i++) {
        running[i] = start(client, "slow");
        gate_await(i + 1, 0);
    }
    waiting = start(client, "never");
    resolve_client_free(client);
    for (unsigned i = 0; i < RESOLVE_RUNNING; i++)
        lookup_abandon(running[i]);
    lookup_abandon(waiting);
    fixture_close(rt);
    gate_open(1000);
    await_quiet();
    assert_null(strchr(gate.names, 'n'));
    open_fixture();
    client = resolve_client_new();
}

static unsigned callocs_left;

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size)
{
    if (callocs_left && !--callocs_left)
        return NULL;
    return __real_calloc(count, size);
}

static void lookup_without_memory_leaves_nothing_behind(void **state)
{
    (void)state;
    struct lookup *lookup;
    callocs_left = 1;
    assert_int_equal(resolve_start(rt, client, "host", 80, AF_UNSPEC, &lookup), -ENOMEM);
    callocs_left = 2; /* the future's */
    int error = resolve_start(rt, client, "host", 80, AF_UNSPEC, &lookup);
    callocs_left = 0;
    if (!error)
        lookup_abandon(lookup);
    else
        assert_int_equal(error, -ENOMEM);
    gate_open(1000);
    await_quiet();
    callocs_left = 1;
    assert_null(resolve_client_new());
}

/* Lookups begin and are abandoned at every moment, while others end: for ThreadSanitizer. */
static void lookups_are_abandoned_at_any_moment(void **state)
{
    (void)state;
    gate_open(UINT32_MAX);
    resolve_replace(NULL, NULL);
    for (unsigned i = 0; i < WORK(20000); i++) {
        struct lookup *lookup;
        int error = resolve_start(rt, client, "127.0.0.1", 80, AF_INET, &lookup);
        if (error == -ENOBUFS) {
            sched_yield();
            continue;
        }
        assert_int_equal(error, 0);
        for (unsigned spin = i % 50; spin; spin--)
            sched_yield();
        lookup_abandon(lookup);
    }
    await_quiet();
    assert_in_range(resolve_numbers().threads, 1, RESOLVE_THREADS);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

static const struct CMUnitTest resolve[] = {
    TEST(lookup_gives_the_addresses_with_the_port),
    TEST(lookup_tells_the_error),
    TEST(lookup_by_the_system_finds_a_numeric_host),
    TEST(lookup_refuses_names_that_cannot_be),
    TEST(client_runs_two_lookups_at_a_time_and_others_pass),
    TEST(client_has_a_limited_line),
    TEST(abandoned_lookup_goes_on_unseen_and_still_counts),
    TEST(cancelled_task_leaves_its_lookup_at_once),
    TEST(runtime_and_client_end_while_a_lookup_runs),
    TEST(lookup_without_memory_leaves_nothing_behind),
    TEST(lookups_are_abandoned_at_any_moment),
};

HARNESS_MAIN(resolve)
