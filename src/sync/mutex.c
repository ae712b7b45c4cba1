#include "sync/mutex.h"

static const struct orr_wait_kind death_kind = { .name = "the end of a mutex's owner" };

static void owner_ended(struct orr_task *task, void *data)
{
    struct orr_mutex *mutex = data;
    (void)task;
    mutex->observing = false;
    mutex->owner = NULL;
    mutex->orphaned = true;
    mutex_pass_on(mutex);
}

/* Whether the owner is done, its children included: see mutex_belongs_to(). */
static inline bool has_dead_owner(const struct orr_mutex *mutex)
{
    const struct orr_task *owner = mutex->owner;
    if (!owner || (owner->generation == mutex->generation && owner->life == TASK_LIVE))
        return false;
    return owner->generation != mutex->generation + 1 || owner->life != TASK_ENDING;
}

/* Takes the mutex from an owner that has ended. */
static void bury_owner(struct orr_mutex *mutex)
{
    mutex->owner = NULL;
    mutex->orphaned = true;
}

/* The mutex knows the task from now on, so its memory must not become another's unnoticed. */
static inline void set_owner(struct orr_mutex *mutex, struct orr_task *task)
{
    mutex->owner = task;
    mutex->generation = task->generation;
    task->named = true;
}

/* The owner has not ended. */
static void observe_owner(struct orr_mutex *mutex)
{
    if (mutex->observing)
        return;
    mutex->observing = true;
    mutex->death.done = owner_ended;
    mutex->death.data = mutex;
    observe(mutex->owner, &mutex->death, &death_kind);
}

static void stop_observing(struct orr_mutex *mutex)
{
    if (!mutex->observing)
        return;
    mutex->observing = false;
    unobserve(&mutex->death);
}

void mutex_pass_on(struct orr_mutex *mutex)
{
    stop_observing(mutex);
    mutex->owner = NULL;
    struct orr_wait *next = primitive_grant_first(&mutex->common, &mutex->common.line);
    if (!next)
        return;
    set_owner(mutex, wait_task(next));
    if (mutex->common.line)
        observe_owner(mutex);
}

void mutex_join(struct orr_mutex *mutex, struct orr_wait *wait)
{
    if (has_dead_owner(mutex))
        bury_owner(mutex);
    ring_append(&mutex->common.line, &wait->in_source);
    if (mutex->owner)
        observe_owner(mutex);
    else
        mutex_pass_on(mutex);
}

static void mutex_withdraw(struct orr_wait *wait, bool granted)
{
    struct orr_mutex *mutex = wait->source;
    if (!granted) {
        ring_remove(&mutex->common.line, &wait->in_source);
        return;
    }
    mutex->common.granted--;
    mutex_pass_on(mutex);
}

static const struct orr_wait_kind mutex_kind = { .name = "a mutex", .withdraw = mutex_withdraw };

int orr_mutex_new(struct orr_mutex **mutex)
{
    return primitive_new(mutex, sizeof **mutex);
}

const size_t mutex_size = sizeof(struct orr_mutex);

int mutex_init(struct orr_mutex *mutex)
{
    return primitive_init(mutex, sizeof *mutex);
}

int mutex_end(struct orr_mutex *mutex)
{
    int error = primitive_check_end(mutex);
    if (error || !primitive_lives(mutex))
        return error;
    if (mutex->wanted)
        return -EBUSY;
    stop_observing(mutex);
    mutex->owner = NULL;
    primitive_end(mutex);
    return 0;
}

int orr_mutex_free(struct orr_mutex *mutex)
{
    return primitive_free(mutex_end(mutex), mutex, sizeof *mutex);
}

static __attribute__((noinline)) int lock_slowly(struct orr_task *task, struct orr_wait *wait, struct orr_mutex *mutex)
{
    int answer = primitive_poll(task, wait, mutex, &mutex_kind);
    if (answer == 0)
        return mutex_news(mutex);
    if (answer != 1)
        return answer;
    if (__builtin_expect(has_dead_owner(mutex), 0))
        bury_owner(mutex);
    if (!mutex->owner) {
        set_owner(mutex, task);
        wait_at_once(wait);
        return mutex_news(mutex);
    }
    if (mutex_belongs_to(mutex, task))
        return wait_refuse(wait, -EDEADLK);
    wait_begin(task, wait, mutex, &mutex_kind);
    mutex_join(mutex, wait);
    return -EAGAIN;
}

/* A free mutex that has nothing to tell is taken at once. */
int orr_mutex_lock(struct orr_task *task, struct orr_wait *wait, struct orr_mutex *mutex)
{
    if (!primitive_may_begin(task, wait, mutex) || mutex->owner || mutex->orphaned)
        return lock_slowly(task, wait, mutex);
    set_owner(mutex, task);
    return wait_at_once(wait);
}

int orr_mutex_try(struct orr_task *task, struct orr_mutex *mutex)
{
    int error = task ? primitive_check(mutex) : -EINVAL;
    if (error)
        return error;
    if (!wait_allowed(task))
        return -EPERM;
    if (has_dead_owner(mutex))
        bury_owner(mutex);
    if (mutex->owner)
        return mutex_belongs_to(mutex, task) ? -EDEADLK : -EAGAIN;
    set_owner(mutex, task);
    return mutex_news(mutex);
}

static __attribute__((noinline)) int unlock_slowly(struct orr_task *task, struct orr_mutex *mutex)
{
    int error = task ? primitive_check(mutex) : -EINVAL;
    if (error)
        return error;
    if (!mutex_belongs_to(mutex, task) || mutex->common.granted)
        return -EPERM;
    mutex_pass_on(mutex);
    return 0;
}

/*
 * What a living owner unlocks while no task is in line, granted the mutex or observed for it, is
 * free.
 */
int orr_mutex_unlock(struct orr_task *task, struct orr_mutex *mutex)
{
    bool alone = task && mutex && mutex->common.worker == worker_current && mutex->owner == task &&
                 mutex->generation == task->generation && !mutex->observing && !mutex->common.line &&
                 !mutex->common.granted;
    if (!alone)
        return unlock_slowly(task, mutex);
    mutex->owner = NULL;
    return 0;
}

bool orr_mutex_locked(const struct orr_mutex *mutex)
{
    return mutex && mutex->owner && !has_dead_owner(mutex);
}
