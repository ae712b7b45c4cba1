#include "sync/mutex.h"

static const struct orr_wait_kind death_kind = { .name = "the end of a mutex's owner" };

static void owner_ended(struct orr_task *task, void *data)
{
    struct orr_mutex *mutex = data;
    (void)task;
    mutex->owner = NULL;
    mutex->orphaned = true;
    mutex_pass_on(mutex);
}

static void set_owner(struct orr_mutex *mutex, struct orr_task *task)
{
    if (mutex->owner)
        orr_task_unobserve(&mutex->death);
    mutex->owner = task;
    if (!task)
        return;
    mutex->death.done = owner_ended;
    mutex->death.data = mutex;
    observe(task, &mutex->death, &death_kind);
}

void mutex_pass_on(struct orr_mutex *mutex)
{
    struct orr_wait *next = primitive_grant_first(&mutex->common, &mutex->common.line);
    set_owner(mutex, next ? wait_task(next) : NULL);
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
    set_owner(mutex, NULL);
    primitive_end(mutex);
    return 0;
}

int orr_mutex_free(struct orr_mutex *mutex)
{
    return primitive_free(mutex_end(mutex), mutex, sizeof *mutex);
}

int orr_mutex_lock(struct orr_task *task, struct orr_wait *wait, struct orr_mutex *mutex)
{
    int answer = primitive_poll(task, wait, mutex, &mutex_kind);
    if (answer == 0)
        return mutex_news(mutex);
    if (answer != 1)
        return answer;
    if (mutex->owner == task)
        return wait_refuse(wait, -EDEADLK);
    if (mutex->owner)
        return wait_in_line(task, wait, mutex, &mutex_kind, &mutex->common.line);
    set_owner(mutex, task);
    wait_at_once(wait);
    return mutex_news(mutex);
}

int orr_mutex_try(struct orr_task *task, struct orr_mutex *mutex)
{
    int error = task ? primitive_check(mutex) : -EINVAL;
    if (error)
        return error;
    if (!wait_allowed(task))
        return -EPERM;
    if (mutex->owner)
        return mutex->owner == task ? -EDEADLK : -EAGAIN;
    set_owner(mutex, task);
    return mutex_news(mutex);
}

int orr_mutex_unlock(struct orr_task *task, struct orr_mutex *mutex)
{
    int error = task ? primitive_check(mutex) : -EINVAL;
    if (error)
        return error;
    if (mutex->owner != task || mutex->common.granted)
        return -EPERM;
    mutex_pass_on(mutex);
    return 0;
}

bool orr_mutex_locked(const struct orr_mutex *mutex)
{
    return mutex && mutex->owner;
}
