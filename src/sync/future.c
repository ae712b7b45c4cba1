/*
 * A future.  The tasks that wait for it belong to one worker, its *owner*, and their line is
 * touched on that worker's thread only.  The rest is one word:
 *
 *     PENDING -> WRITING -> DONE
 *
 * The thread that changes PENDING to WRITING completes the future: it writes the result, then
 * stores DONE with release, so a thread that reads DONE with acquire may read the result.  If it is
 * not the owner's thread, the future then sends itself, as a letter, to the owner, which grants the
 * waits in line.
 *
 * The owner may have ended by then.  The letter goes to the worker's waker table, which is never
 * freed: a table without a holder refuses it, and another holder sees by the identity that the
 * letter is not for it.  So nothing of a runtime is touched after its end.  The future itself lives
 * by its references: the letter holds one, and so does every wait.
 *
 * `foreign` futures are counted in the owner from when they are made until the owner has heard of
 * their end.  If it never hears of it, it has ended before, and its count with it.
 */
#include "exec/await.h"
#include "exec/runtime.h"
#include "exec/virtual.h"

enum state {
    PENDING,
    WRITING,
    DONE,
};

struct orr_future {
    struct mail mail;
    struct waker_table *table;
    uint64_t owner; /* the identity of the worker whose tasks may wait */
    struct alloc alloc;
    _Atomic unsigned references;
    _Atomic unsigned state;
    struct orr_result result;

    /* The owner's thread only. */
    struct orr_link *line;
    struct worker *counted; /* the worker that counts it as foreign; NULL if none does */
};

static bool is_done(const struct orr_future *future)
{
    return atomic_load_explicit(&future->state, memory_order_acquire) == DONE;
}

static bool on_owner_thread(const struct orr_future *future)
{
    return worker_current && worker_current->identity == future->owner;
}

/*
 * On the owner's thread: the future counts as foreign no more, and the waits in line are granted.
 */
static void tell(struct orr_future *future)
{
    struct worker *worker = future->counted;
    future->counted = NULL;
    while (wait_grant_first(&future->line))
        continue;
    /* Its clock may have stood still for the future. */
    if (worker)
        virtual_ends_outside(worker);
}

static void arrives(struct worker *worker, struct mail *mail)
{
    struct orr_future *future = container_of(mail, struct orr_future, mail);
    if (worker->identity == future->owner)
        tell(future);
    else
        future->counted = NULL; /* that worker is gone */
    orr_future_unref(future);
}

int orr_future_new(struct orr_runtime *rt, const struct orr_future_options *options, struct orr_future **out)
{
    static const struct orr_future_options none;
    options = options ? options : &none;
    if (!runtime_valid(rt) || !out || options->worker > rt->worker_count)
        return -EINVAL;
    struct worker *owner = worker_current && worker_current->runtime == rt ? worker_current : runtime_worker(rt, 1);
    if (options->worker != ORR_HERE)
        owner = runtime_worker(rt, options->worker);
    bool ended = runtime_stopping(rt) || (owner->number > 1 && !atomic_load(&owner->shard->living));
    bool cleaning_up = worker_current && worker_current == owner && owner->phase == WORKER_GRACE;
    if (ended && !cleaning_up)
        return -ESHUTDOWN;
    struct orr_future *future = alloc_zeroed(&rt->alloc, sizeof *future);
    if (!future)
        return -ENOMEM;
    future->mail.arrive = arrives;
    future->table = owner->table;
    future->owner = owner->identity;
    future->alloc = rt->alloc;
    future->references = 1;
    if (options->foreign) {
        future->counted = owner;
        atomic_fetch_add(&owner->remote.foreign_futures, 1);
    }
    *out = future;
    return 0;
}

struct orr_future *orr_future_ref(struct orr_future *future)
{
    if (future)
        atomic_fetch_add_explicit(&future->references, 1, memory_order_relaxed);
    return future;
}

static void dispose(struct orr_future *future)
{
    if (future->result.drop && is_done(future))
        future->result.drop(future->result.value);
    struct alloc alloc = future->alloc;
    alloc_free(&alloc, future, sizeof *future);
}

void orr_future_unref(struct orr_future *future)
{
    /*
     * Release: everything done with the future comes before its end.  Acquire: for the thread that
     * ends it.
     */
    if (!future || atomic_fetch_sub_explicit(&future->references, 1, memory_order_acq_rel) != 1)
        return;
    if (future->counted && on_owner_thread(future)) {
        tell(future); /* nobody can complete it any more */
    } else if (future->counted) {
        atomic_store_explicit(&future->references, 1, memory_order_relaxed);
        if (waker_table_post(future->table, &future->mail.letter))
            return;
    }
    dispose(future);
}

int orr_future_complete(struct orr_future *future, struct orr_result result)
{
    if (!future)
        return -EINVAL;
    unsigned pending = PENDING;
    if (!atomic_compare_exchange_strong_explicit(&future->state, &pending, WRITING, memory_order_relaxed,
                                                 memory_order_relaxed))
        return -EALREADY;
    future->result = result;
    orr_future_ref(future); /* for the letter: a thread that reads DONE may give up its own */
    atomic_store_explicit(&future->state, DONE, memory_order_release);
    if (on_owner_thread(future))
        tell(future);
    else if (waker_table_post(future->table, &future->mail.letter))
        return 0;
    orr_future_unref(future);
    return 0;
}

const struct orr_result *orr_future_result(const struct orr_future *future)
{
    return future && is_done(future) ? &future->result : NULL;
}

static void future_withdraw(struct orr_wait *wait, bool granted)
{
    struct orr_future *future = wait->source;
    if (!granted)
        ring_remove(&future->line, &wait->in_source);
    orr_future_unref(future);
}

static const struct orr_wait_kind future_kind = { .name = "a future",
                                                  .withdraw = future_withdraw,
                                                  .ends_by_itself = true };

int orr_future_wait(struct orr_task *task, struct orr_wait *wait, struct orr_future *future)
{
    bool begun = wait && wait->state == WAIT_GRANTED;
    int answer = future && task && future->owner != task->worker->identity
                     ? -EPERM
                     : wait_poll(task, wait, future, &future_kind);
    if (answer == 0 && begun)
        orr_future_unref(future); /* the wait's reference; the caller has its own */
    if (answer != 1)
        return answer;
    if (is_done(future))
        return wait_at_once(wait);
    return wait_in_line(task, wait, orr_future_ref(future), &future_kind, &future->line);
}
