/*
 * What tasks wait for, one primitive after the other: who is served, in which order, with what answer, and what is
 * refused.  Actors note how their waits end: "a" for 0, "a:EPIPE" for an error, "a=3" for an item.
 */
#include "script.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ITEM(n) ((void *)(uintptr_t)(n))

static struct orr_runtime *rt;

static void open_stage(void)
{
    rt = stage_open();
}

/* Plays on until everybody waits. */
static void settle(void)
{
    assert_int_equal(orr_runtime_leave(rt), 0);
    harness_settle(rt);
    assert_int_equal(orr_runtime_enter(rt), 0);
}

static int say(const struct actor *self, int error)
{
    if (error)
        note("%s:%s", self->name, strerrorname_np(-error));
    else
        note("%s", self->name);
    return 0;
}

static void start_all_of(struct actor *actors, size_t count)
{
    for (size_t i = 0; i < count; i++)
        actor_start(rt, &actors[i]);
    settle();
}

static void drop(struct actor *actor)
{
    assert_int_equal(orr_task_drop(orr_task_waker(actor->task)), 0);
}

/* For what is done in one poll. */
static void play_inside(actor_fn *act)
{
    struct actor actor = { .name = "inside", .act = act };
    actor_start(rt, &actor);
    settle();
    assert_true(orr_task_done(actor.task));
    assert_int_equal(actor.error, 0);
}

static int sleep_long(struct orr_task *task, struct actor *self)
{
    return say(self, AWAIT(orr_sleep(task, &self->wait2, HOUR)));
}

/* --- Events ------------------------------------------------------------------------------------------------------- */

static int await_event(struct orr_task *task, struct actor *self)
{
    return say(self, AWAIT(orr_event_wait(task, &self->wait, self->extra)));
}

#define THREE(how, what) \
    { \
        { .name = "a", .act = (how), .extra = (what) }, { .name = "b", .act = (how), .extra = (what) }, \
            { .name = "c", .act = (how), .extra = (what) }, \
    }

static struct orr_event *new_event(void)
{
    struct orr_event *event;
    assert_int_equal(orr_event_new(&event), 0);
    assert_false(orr_event_is_set(event));
    return event;
}

static void event_that_is_set_wakes_all_who_wait(void **state)
{
    (void)state;
    open_stage();
    struct orr_event *event = new_event();
    struct actor actors[] = THREE(await_event, event);
    start_all_of(actors, 3);
    assert_string_equal(notes(), "");
    assert_int_equal(orr_event_set(event), 3);
    settle();
    assert_string_equal(notes(), "a b c");
    assert_int_equal(orr_event_free(event), 0);
    stage_close(rt);
}

static void event_that_is_set_lets_everybody_through_until_it_is_cleared(void **state)
{
    (void)state;
    open_stage();
    struct orr_event *event = new_event();
    struct actor actors[] = THREE(await_event, event);
    assert_int_equal(orr_event_set(event), 0);
    assert_true(orr_event_is_set(event));
    start_all_of(actors, 2);
    assert_string_equal(notes(), "a b");
    assert_int_equal(orr_event_clear(event), 0);
    assert_false(orr_event_is_set(event));
    start_all_of(&actors[2], 1);
    assert_string_equal(notes(), "a b");
    drop(&actors[2]);
    assert_int_equal(orr_event_free(event), 0);
    stage_close(rt);
}

static void event_wakes_at_most_so_many_in_order_and_stays_unset(void **state)
{
    (void)state;
    open_stage();
    struct orr_event *event = new_event();
    struct actor actors[] = THREE(await_event, event);
    start_all_of(actors, 3);
    assert_int_equal(orr_event_wake(event, 0), 0);
    assert_int_equal(orr_event_wake(event, 2), 2);
    assert_false(orr_event_is_set(event));
    settle();
    assert_string_equal(notes(), "a b");
    assert_int_equal(orr_event_wake(event, 9), 1);
    settle();
    assert_string_equal(notes(), "a b c");
    assert_int_equal(orr_event_free(event), 0);
    stage_close(rt);
}

static void those_woken_by_an_event_stay_woken_when_it_is_cleared_before_they_run(void **state)
{
    (void)state;
    open_stage();
    struct orr_event *event = new_event();
    struct actor actors[] = THREE(await_event, event);
    start_all_of(actors, 3);
    assert_int_equal(orr_event_set(event), 3);
    assert_int_equal(orr_event_clear(event), 0);
    settle();
    assert_string_equal(notes(), "a b c");
    assert_int_equal(orr_event_free(event), 0);
    stage_close(rt);
}

static int await_event_and_drop_other(struct orr_task *task, struct actor *self)
{
    int error = orr_event_wait(task, &self->wait, self->extra);
    if (!self->step++)
        drop(self->other);
    return error == -EAGAIN ? error : say(self, error);
}

/* Everybody who was there has been woken, so there is nothing to pass on. */
static void one_who_came_after_an_event_was_cleared_is_not_woken_by_it(void **state)
{
    (void)state;
    open_stage();
    struct orr_event *event = new_event();
    struct actor early = { .name = "early", .act = await_event, .extra = event };
    struct actor late = { .name = "late", .act = await_event_and_drop_other, .extra = event, .other = &early };
    start_all_of(&early, 1);
    actor_start(rt, &late); /* so it runs before the early one, which is woken now */
    assert_int_equal(orr_event_set(event), 1);
    assert_int_equal(orr_event_clear(event), 0);
    settle();
    assert_string_equal(notes(), "");
    drop(&late);
    assert_int_equal(orr_event_free(event), 0);
    stage_close(rt);
}

/* --- Semaphores --------------------------------------------------------------------------------------------------- */

static int acquire(struct orr_task *task, struct actor *self)
{
    return say(self, AWAIT(orr_semaphore_acquire(task, &self->wait, self->extra)));
}

static struct orr_semaphore *new_semaphore(uint32_t permits)
{
    struct orr_semaphore *semaphore;
    assert_int_equal(orr_semaphore_new(permits, &semaphore), 0);
    assert_int_equal(orr_semaphore_free_permits(semaphore), permits);
    return semaphore;
}

static void semaphore_serves_in_order_of_arrival(void **state)
{
    (void)state;
    open_stage();
    struct orr_semaphore *semaphore = new_semaphore(1);
    struct actor actors[] = THREE(acquire, semaphore);
    start_all_of(actors, 3);
    assert_string_equal(notes(), "a");
    assert_int_equal(orr_semaphore_release(semaphore), 0);
    settle();
    assert_string_equal(notes(), "a b");
    assert_int_equal(orr_semaphore_release(semaphore), 0);
    settle();
    assert_string_equal(notes(), "a b c");
    assert_int_equal(orr_semaphore_free(semaphore), 0);
    stage_close(rt);
}

static void permit_released_to_one_in_line_cannot_be_taken_by_another(void **state)
{
    (void)state;
    open_stage();
    struct orr_semaphore *semaphore = new_semaphore(1);
    struct actor actors[] = THREE(acquire, semaphore);
    start_all_of(actors, 2);
    actor_start(rt, &actors[2]); /* it runs before the one in line */
    assert_int_equal(orr_semaphore_release(semaphore), 0);
    assert_int_equal(orr_semaphore_free_permits(semaphore), 0);
    assert_int_equal(orr_semaphore_try(semaphore), -EAGAIN);
    settle();
    assert_string_equal(notes(), "a b");
    drop(&actors[2]);
    assert_int_equal(orr_semaphore_free(semaphore), 0);
    stage_close(rt);
}

static void semaphore_takes_back_no_more_than_it_gave(void **state)
{
    (void)state;
    open_stage();
    struct orr_semaphore *semaphore = new_semaphore(2);
    assert_int_equal(orr_semaphore_release(semaphore), -EOVERFLOW);
    assert_int_equal(orr_semaphore_try(semaphore), 0);
    assert_int_equal(orr_semaphore_try(semaphore), 0);
    assert_int_equal(orr_semaphore_try(semaphore), -EAGAIN);
    assert_int_equal(orr_semaphore_release(semaphore), 0);
    assert_int_equal(orr_semaphore_release(semaphore), 0);
    assert_int_equal(orr_semaphore_release(semaphore), -EOVERFLOW);
    assert_int_equal(orr_semaphore_free_permits(semaphore), 2);
    assert_int_equal(orr_semaphore_free(semaphore), 0);
    stage_close(rt);
}

static void semaphore_without_permits_is_not_made(void **state)
{
    (void)state;
    open_stage();
    struct orr_semaphore *semaphore;
    assert_int_equal(orr_semaphore_new(0, &semaphore), -EINVAL);
    stage_close(rt);
}

/* --- Mutexes ------------------------------------------------------------------------------------------------------ */

/* Has it until `extra`'s event lets it go on. */
struct hold {
    struct orr_mutex *mutex;
    struct orr_event *go_on;
    struct orr_condition *condition;
};

static int lock_and_unlock(struct orr_task *task, struct actor *self)
{
    struct hold *hold = self->extra;
    SCRIPT(self)
    {
        self->caught = AWAIT(orr_mutex_lock(task, &self->wait, hold->mutex));
        say(self, self->caught);
        STEP(self, 1)
        AWAIT(orr_event_wait(task, &self->wait, hold->go_on));
        assert_int_equal(orr_mutex_unlock(task, hold->mutex), 0);
    }
    return 0;
}

static struct hold new_hold(void)
{
    struct hold hold = { .go_on = new_event() };
    assert_int_equal(orr_mutex_new(&hold.mutex), 0);
    assert_int_equal(orr_condition_new(&hold.condition), 0);
    return hold;
}

static void free_hold(struct hold *hold)
{
    assert_int_equal(orr_condition_free(hold->condition), 0);
    assert_int_equal(orr_mutex_free(hold->mutex), 0);
    assert_int_equal(orr_event_free(hold->go_on), 0);
}

static void mutex_is_handed_over_in_order_of_arrival(void **state)
{
    (void)state;
    open_stage();
    struct hold hold = new_hold();
    struct actor actors[] = THREE(lock_and_unlock, &hold);
    start_all_of(actors, 3);
    for (const char *const *expected = (const char *const[]){ "a", "a b", "a b c", NULL }; *expected; expected++) {
        assert_string_equal(notes(), *expected);
        assert_true(orr_mutex_locked(hold.mutex));
        orr_event_wake(hold.go_on, 1);
        settle();
    }
    assert_false(orr_mutex_locked(hold.mutex));
    free_hold(&hold);
    stage_close(rt);
}

static int try_others_mutex(struct orr_task *task, struct actor *self)
{
    struct hold *hold = self->other->extra;
    assert_int_equal(orr_mutex_try(task, hold->mutex), -EAGAIN);
    assert_int_equal(orr_mutex_unlock(task, hold->mutex), -EPERM);
    return 0;
}

static void mutex_unlocked_for_one_in_line_cannot_be_taken_or_unlocked_by_another(void **state)
{
    (void)state;
    open_stage();
    struct hold hold = new_hold();
    struct actor actors[] = THREE(lock_and_unlock, &hold);
    struct actor other = { .act = try_others_mutex, .other = &actors[0] };
    start_all_of(actors, 2);
    actor_start(rt, &other); /* it runs before the one in line */
    assert_int_equal(orr_mutex_unlock(actors[0].task, hold.mutex), 0);
    settle();
    assert_true(orr_task_done(other.task));
    assert_string_equal(notes(), "a b");
    drop(&actors[0]);
    drop(&actors[1]);
    free_hold(&hold);
    stage_close(rt);
}

static int lock_twice(struct orr_task *task, struct actor *self)
{
    struct orr_mutex *mutex;
    assert_int_equal(orr_mutex_new(&mutex), 0);
    assert_int_equal(orr_mutex_unlock(task, mutex), -EPERM);
    assert_int_equal(orr_mutex_lock(task, &self->wait, mutex), 0);
    assert_int_equal(orr_mutex_lock(task, &self->wait, mutex), -EDEADLK);
    assert_int_equal(orr_mutex_try(task, mutex), -EDEADLK);
    assert_int_equal(orr_mutex_unlock(task, mutex), 0);
    assert_int_equal(orr_mutex_unlock(task, mutex), -EPERM);
    assert_int_equal(orr_mutex_try(task, mutex), 0);
    assert_int_equal(orr_mutex_unlock(task, mutex), 0);
    assert_int_equal(orr_mutex_free(mutex), 0);
    return 0;
}

static void mutex_knows_its_owner(void **state)
{
    (void)state;
    open_stage();
    play_inside(lock_twice);
    stage_close(rt);
}

static void one_who_gets_the_mutex_of_a_task_that_has_ended_is_told_once(void **state)
{
    (void)state;
    open_stage();
    struct hold hold = new_hold();
    struct actor actors[] = THREE(lock_and_unlock, &hold);
    start_all_of(actors, 3);
    drop(&actors[0]);
    settle();
    assert_string_equal(notes(), "a b:EOWNERDEAD");
    assert_true(orr_mutex_locked(hold.mutex));
    orr_event_set(hold.go_on);
    settle();
    assert_string_equal(notes(), "a b:EOWNERDEAD c");
    free_hold(&hold);
    stage_close(rt);
}

static void one_who_comes_later_is_told_too_that_the_owner_has_ended(void **state)
{
    (void)state;
    open_stage();
    struct hold hold = new_hold();
    struct actor actors[] = THREE(lock_and_unlock, &hold);
    start_all_of(actors, 1);
    drop(&actors[0]);
    assert_false(orr_mutex_locked(hold.mutex));
    start_all_of(&actors[1], 1);
    assert_string_equal(notes(), "a b:EOWNERDEAD");
    drop(&actors[1]);
    free_hold(&hold);
    stage_close(rt);
}

/* The one in line has it only when it has picked it up; else there would be two who think so. */
static void mutex_granted_to_one_who_does_not_know_it_yet_is_not_unlocked(void **state)
{
    (void)state;
    open_stage();
    struct hold hold = new_hold();
    struct actor actors[] = THREE(lock_and_unlock, &hold);
    start_all_of(actors, 3);
    assert_int_equal(orr_mutex_unlock(actors[0].task, hold.mutex), 0);
    assert_int_equal(orr_mutex_unlock(actors[1].task, hold.mutex), -EPERM);
    settle();
    assert_string_equal(notes(), "a b");
    for (int i = 0; i < 3; i++)
        drop(&actors[i]);
    free_hold(&hold);
    stage_close(rt);
}

/* --- Conditions --------------------------------------------------------------------------------------------------- */

static bool has_mutex(struct orr_task *task, struct orr_mutex *mutex)
{
    return orr_mutex_try(task, mutex) == -EDEADLK;
}

static int await_condition(struct orr_task *task, struct actor *self)
{
    struct hold *hold = self->extra;
    SCRIPT(self)
    {
        AWAIT(orr_mutex_lock(task, &self->wait, hold->mutex));
        STEP(self, 1)
        self->caught = AWAIT(orr_condition_wait(task, &self->wait, hold->condition, hold->mutex));
        say(self, self->caught);
        assert_true(has_mutex(task, hold->mutex));
        assert_int_equal(orr_mutex_unlock(task, hold->mutex), 0);
    }
    return 0;
}

static void condition_notifies_at_most_so_many_in_order(void **state)
{
    (void)state;
    open_stage();
    struct hold hold = new_hold();
    struct actor actors[] = THREE(await_condition, &hold);
    start_all_of(actors, 3);
    assert_false(orr_mutex_locked(hold.mutex));
    assert_int_equal(orr_condition_notify(hold.condition, 0), 0);
    assert_int_equal(orr_condition_notify(hold.condition, 1), 1);
    settle();
    assert_string_equal(notes(), "a");
    assert_int_equal(orr_condition_notify(hold.condition, 9), 2);
    settle();
    assert_string_equal(notes(), "a b c");
    assert_int_equal(orr_condition_notify(hold.condition, 1), 0);
    free_hold(&hold);
    stage_close(rt);
}

static int lock_and_notify(struct orr_task *task, struct actor *self)
{
    struct hold *hold = self->extra;
    SCRIPT(self)
    {
        AWAIT(orr_mutex_lock(task, &self->wait, hold->mutex));
        assert_int_equal(orr_condition_notify(hold->condition, 1), 1);
        STEP(self, 1)
        AWAIT(orr_event_wait(task, &self->wait, hold->go_on));
        say(self, orr_mutex_unlock(task, hold->mutex));
    }
    return 0;
}

static void notified_task_runs_when_it_has_the_mutex_again(void **state)
{
    (void)state;
    open_stage();
    struct hold hold = new_hold();
    struct actor waits = { .name = "waits", .act = await_condition, .extra = &hold };
    struct actor notifies = { .name = "notifies", .act = lock_and_notify, .extra = &hold };
    start_all_of(&waits, 1);
    start_all_of(&notifies, 1);
    assert_string_equal(notes(), "");
    assert_int_equal(orr_condition_free(hold.condition), -EBUSY);
    orr_event_set(hold.go_on);
    settle();
    assert_string_equal(notes(), "notifies waits");
    free_hold(&hold);
    stage_close(rt);
}

static void cancelled_wait_for_a_condition_goes_on_until_it_has_the_mutex(void **state)
{
    (void)state;
    open_stage();
    struct hold hold = new_hold();
    struct actor waits = { .name = "waits", .act = await_condition, .extra = &hold };
    struct actor has = { .name = "has", .act = lock_and_unlock, .extra = &hold };
    start_all_of(&waits, 1);
    start_all_of(&has, 1);
    assert_int_equal(orr_task_cancel(waits.task, NULL), 0);
    assert_int_equal(orr_condition_notify(hold.condition, 1), 0); /* it is in line no more */
    settle();
    assert_string_equal(notes(), "has");
    orr_event_set(hold.go_on);
    settle();
    assert_string_equal(notes(), "has waits:ECANCELED");
    free_hold(&hold);
    stage_close(rt);
}

static void one_notified_who_ends_before_it_has_the_mutex_passes_it_on(void **state)
{
    (void)state;
    open_stage();
    struct hold hold = new_hold();
    struct actor actors[] = THREE(await_condition, &hold);
    struct actor has = { .name = "has", .act = lock_and_unlock, .extra = &hold };
    start_all_of(actors, 2);
    start_all_of(&has, 1);
    assert_int_equal(orr_condition_notify(hold.condition, 1), 1);
    drop(&actors[0]);
    orr_event_set(hold.go_on);
    settle();
    assert_string_equal(notes(), "has b");
    free_hold(&hold);
    stage_close(rt);
}

static int wait_without_the_mutex(struct orr_task *task, struct actor *self)
{
    struct hold hold = new_hold();
    assert_int_equal(orr_condition_wait(task, &self->wait, hold.condition, hold.mutex), -EPERM);
    assert_int_equal(orr_condition_wait(task, &self->wait, hold.condition, NULL), -EINVAL);
    free_hold(&hold);
    return 0;
}

static void condition_wants_its_mutex_locked(void **state)
{
    (void)state;
    open_stage();
    play_inside(wait_without_the_mutex);
    stage_close(rt);
}

static void mutex_that_those_who_wait_for_a_condition_will_lock_again_is_not_freed(void **state)
{
    (void)state;
    open_stage();
    struct hold hold = new_hold();
    struct actor waits = { .name = "waits", .act = await_condition, .extra = &hold };
    start_all_of(&waits, 1);
    assert_int_equal(orr_mutex_free(hold.mutex), -EBUSY);
    drop(&waits);
    free_hold(&hold);
    stage_close(rt);
}

/* --- Queues ------------------------------------------------------------------------------------------------------- */

static int get(struct orr_task *task, struct actor *self)
{
    void *item;
    int error = AWAIT(orr_queue_get(task, &self->wait, self->extra, &item));
    if (error)
        return say(self, error);
    note("%s=%d", self->name, (int)(uintptr_t)item);
    return 0;
}

/* Puts `caught`. */
static int put(struct orr_task *task, struct actor *self)
{
    return say(self, AWAIT(orr_queue_put(task, &self->wait, self->extra, ITEM(self->caught))));
}

static unsigned dropped_sum;

static void drop_item(void *item)
{
    dropped_sum += (unsigned)(uintptr_t)item;
}

static struct orr_queue *new_queue(size_t capacity)
{
    struct orr_queue *queue;
    dropped_sum = 0;
    assert_int_equal(orr_queue_new(capacity, drop_item, &queue), 0);
    return queue;
}

static void assert_got(struct orr_queue *queue, int expected)
{
    void *item;
    assert_int_equal(orr_queue_try_get(queue, &item), 0);
    assert_int_equal((int)(uintptr_t)item, expected);
}

static void queue_without_a_bound_gives_what_it_was_given_in_order(void **state)
{
    (void)state;
    enum { MANY = 1000 };
    open_stage();
    struct orr_queue *queue = new_queue(0);
    void *item;
    for (int round = 0; round < 3; round++) {
        for (int i = 1; i <= MANY; i++)
            assert_int_equal(orr_queue_try_put(queue, ITEM(i)), 0);
        assert_int_equal(orr_queue_length(queue), MANY);
        for (int i = 1; i <= MANY; i++)
            assert_got(queue, i);
        assert_int_equal(orr_queue_try_get(queue, &item), -EAGAIN);
    }
    assert_int_equal(orr_queue_free(queue), 0);
    assert_int_equal(dropped_sum, 0);
    stage_close(rt);
}

static void bounded_queue_holds_back_putters_and_lets_them_in_in_order(void **state)
{
    (void)state;
    open_stage();
    struct orr_queue *queue = new_queue(1);
    struct actor actors[] = THREE(put, queue);
    for (int i = 0; i < 3; i++)
        actors[i].caught = i + 1;
    start_all_of(actors, 3);
    assert_string_equal(notes(), "a");
    assert_int_equal(orr_queue_try_put(queue, ITEM(9)), -EAGAIN);
    assert_got(queue, 1);
    assert_int_equal(orr_queue_try_put(queue, ITEM(9)), -EAGAIN);
    settle();
    assert_string_equal(notes(), "a b");
    assert_got(queue, 2);
    assert_got(queue, 3);
    settle();
    assert_string_equal(notes(), "a b c");
    assert_int_equal(orr_queue_free(queue), 0);
    stage_close(rt);
}

static void putter_in_line_is_let_in_when_a_getter_has_picked_up_its_item(void **state)
{
    (void)state;
    open_stage();
    struct orr_queue *queue = new_queue(1);
    struct actor gets = { .name = "gets", .act = get, .extra = queue };
    struct actor puts = { .name = "puts", .act = put, .extra = queue, .caught = 2 };
    start_all_of(&gets, 1);
    actor_start(rt, &puts); /* it runs before the getter */
    assert_int_equal(orr_queue_try_put(queue, ITEM(1)), 0);
    settle();
    assert_string_equal(notes(), "gets=1 puts");
    assert_got(queue, 2);
    assert_int_equal(orr_queue_free(queue), 0);
    stage_close(rt);
}

static void getters_are_served_in_order_of_arrival(void **state)
{
    (void)state;
    open_stage();
    struct orr_queue *queue = new_queue(0);
    struct actor actors[] = THREE(get, queue);
    start_all_of(actors, 3);
    for (int i = 1; i <= 2; i++)
        assert_int_equal(orr_queue_try_put(queue, ITEM(i)), 0);
    settle();
    assert_string_equal(notes(), "a=1 b=2");
    assert_int_equal(orr_queue_try_put(queue, ITEM(3)), 0);
    settle();
    assert_string_equal(notes(), "a=1 b=2 c=3");
    assert_int_equal(orr_queue_free(queue), 0);
    stage_close(rt);
}

static void item_for_one_in_line_cannot_be_taken_by_another(void **state)
{
    (void)state;
    open_stage();
    struct orr_queue *queue = new_queue(0);
    struct actor actors[] = THREE(get, queue);
    void *item;
    start_all_of(actors, 1);
    actor_start(rt, &actors[1]); /* it runs before the one in line */
    assert_int_equal(orr_queue_try_put(queue, ITEM(1)), 0);
    assert_int_equal(orr_queue_try_get(queue, &item), -EAGAIN);
    settle();
    assert_string_equal(notes(), "a=1");
    drop(&actors[1]);
    assert_int_equal(orr_queue_free(queue), 0);
    stage_close(rt);
}

static void closed_queue_gives_what_is_left_then_ends(void **state)
{
    (void)state;
    open_stage();
    struct orr_queue *queue = new_queue(0);
    struct actor actors[] = THREE(get, queue);
    void *item;
    for (int i = 1; i <= 2; i++)
        assert_int_equal(orr_queue_try_put(queue, ITEM(i)), 0);
    assert_int_equal(orr_queue_close(queue), 0);
    assert_int_equal(orr_queue_try_put(queue, ITEM(3)), -EPIPE);
    start_all_of(actors, 3);
    assert_string_equal(notes(), "a=1 b=2 c:EPIPE");
    assert_int_equal(orr_queue_try_get(queue, &item), -EPIPE);
    assert_int_equal(orr_queue_close(queue), 0);
    assert_int_equal(orr_queue_free(queue), 0);
    stage_close(rt);
}

static void getters_in_line_are_told_when_a_queue_is_closed(void **state)
{
    (void)state;
    open_stage();
    struct orr_queue *queue = new_queue(0);
    struct actor actors[] = THREE(get, queue);
    start_all_of(actors, 3);
    assert_int_equal(orr_queue_try_put(queue, ITEM(1)), 0);
    assert_int_equal(orr_queue_close(queue), 0);
    settle();
    assert_string_equal(notes(), "a=1 b:EPIPE c:EPIPE");
    assert_int_equal(orr_queue_free(queue), 0);
    stage_close(rt);
}

static void last_item_of_a_closed_queue_passes_to_the_next_if_its_getter_ends(void **state)
{
    (void)state;
    open_stage();
    struct orr_queue *queue = new_queue(0);
    struct actor actors[] = THREE(get, queue);
    start_all_of(actors, 3);
    assert_int_equal(orr_queue_try_put(queue, ITEM(1)), 0);
    assert_int_equal(orr_queue_close(queue), 0);
    drop(&actors[0]);
    settle();
    assert_string_equal(notes(), "b=1 c:EPIPE");
    assert_int_equal(orr_queue_free(queue), 0);
    stage_close(rt);
}

static void closed_queue_has_not_ended_while_an_item_is_promised_but_not_got(void **state)
{
    (void)state;
    open_stage();
    struct orr_queue *queue = new_queue(0);
    struct actor actors[] = THREE(get, queue);
    void *item;
    start_all_of(actors, 1);
    assert_int_equal(orr_queue_try_put(queue, ITEM(1)), 0);
    assert_int_equal(orr_queue_close(queue), 0);
    assert_int_equal(orr_queue_try_get(queue, &item), -EAGAIN);
    drop(&actors[0]);
    assert_got(queue, 1);
    assert_int_equal(orr_queue_try_get(queue, &item), -EPIPE);
    assert_int_equal(orr_queue_free(queue), 0);
    stage_close(rt);
}

static void putters_turned_away_by_a_close_keep_their_items(void **state)
{
    (void)state;
    open_stage();
    struct orr_queue *queue = new_queue(1);
    struct actor actors[] = THREE(put, queue);
    for (int i = 0; i < 3; i++)
        actors[i].caught = i + 1;
    start_all_of(actors, 3);
    assert_int_equal(orr_queue_close(queue), 0);
    settle();
    assert_string_equal(notes(), "a b:EPIPE c:EPIPE");
    assert_int_equal(orr_queue_length(queue), 1);
    assert_int_equal(orr_queue_free(queue), 0);
    assert_int_equal(dropped_sum, 1);
    stage_close(rt);
}

static void freed_queue_drops_what_is_left(void **state)
{
    (void)state;
    open_stage();
    struct orr_queue *queue = new_queue(0);
    for (int i = 1; i <= 100; i++)
        assert_int_equal(orr_queue_try_put(queue, ITEM(i)), 0);
    assert_got(queue, 1);
    assert_int_equal(orr_queue_free(queue), 0);
    assert_int_equal(dropped_sum, 5050 - 1);
    stage_close(rt);
}

/* --- Nothing is freed while somebody needs it --------------------------------------------------------------------- */

/* Those who were granted what they wait for look at it once more. */
static void event_is_not_freed_before_those_it_has_woken_know(void **state)
{
    (void)state;
    open_stage();
    struct orr_event *event = new_event();
    struct actor waits = { .name = "waits", .act = await_event, .extra = event };
    start_all_of(&waits, 1);
    assert_int_equal(orr_event_free(event), -EBUSY);
    assert_int_equal(orr_event_set(event), 1);
    assert_int_equal(orr_event_free(event), -EBUSY);
    settle();
    assert_string_equal(notes(), "waits");
    assert_int_equal(orr_event_free(event), 0);
    stage_close(rt);
}

static void semaphore_is_not_freed_before_its_permit_has_been_picked_up(void **state)
{
    (void)state;
    open_stage();
    struct orr_semaphore *semaphore = new_semaphore(1);
    struct actor waits = { .name = "waits", .act = acquire, .extra = semaphore };
    assert_int_equal(orr_semaphore_try(semaphore), 0);
    start_all_of(&waits, 1);
    assert_int_equal(orr_semaphore_free(semaphore), -EBUSY);
    assert_int_equal(orr_semaphore_release(semaphore), 0);
    assert_int_equal(orr_semaphore_free(semaphore), -EBUSY);
    settle();
    assert_int_equal(orr_semaphore_free(semaphore), 0);
    stage_close(rt);
}

static void mutex_is_not_freed_before_its_next_owner_has_picked_it_up(void **state)
{
    (void)state;
    open_stage();
    struct hold hold = new_hold();
    struct actor actors[] = THREE(lock_and_unlock, &hold);
    start_all_of(actors, 2);
    assert_int_equal(orr_mutex_free(hold.mutex), -EBUSY);
    assert_int_equal(orr_mutex_unlock(actors[0].task, hold.mutex), 0);
    assert_int_equal(orr_mutex_free(hold.mutex), -EBUSY);
    drop(&actors[0]);
    drop(&actors[1]);
    free_hold(&hold);
    stage_close(rt);
}

static void queue_is_not_freed_before_its_putters_know_that_they_were_let_in(void **state)
{
    (void)state;
    open_stage();
    struct orr_queue *queue = new_queue(1);
    struct actor actors[] = THREE(put, queue);
    start_all_of(actors, 2);
    assert_int_equal(orr_queue_free(queue), -EBUSY);
    assert_got(queue, 0);
    assert_int_equal(orr_queue_free(queue), -EBUSY);
    settle();
    assert_int_equal(orr_queue_free(queue), 0);
    stage_close(rt);
}

static void queue_is_not_freed_before_its_getters_know_that_it_is_closed(void **state)
{
    (void)state;
    open_stage();
    struct orr_queue *queue = new_queue(1);
    struct actor actors[] = THREE(get, queue);
    start_all_of(actors, 1);
    assert_int_equal(orr_queue_free(queue), -EBUSY);
    assert_int_equal(orr_queue_close(queue), 0);
    assert_int_equal(orr_queue_free(queue), -EBUSY);
    settle();
    assert_int_equal(orr_queue_free(queue), 0);
    stage_close(rt);
}

/* --- Futures ------------------------------------------------------------------------------------------------------ */

static int await_future(struct orr_task *task, struct actor *self)
{
    int error = AWAIT(orr_future_wait(task, &self->wait, self->extra));
    self->caught = error ? error : orr_future_result(self->extra)->error;
    return say(self, error);
}

static _Atomic unsigned values_dropped;

static void drop_value(void *value)
{
    atomic_fetch_add(&values_dropped, (unsigned)(uintptr_t)value);
}

static const struct orr_result answer = { .value = ITEM(1), .drop = drop_value };

static struct orr_future *new_future(bool foreign)
{
    struct orr_future *future;
    values_dropped = 0;
    assert_int_equal(orr_future_new(rt, &(struct orr_future_options){ .foreign = foreign }, &future), 0);
    assert_null(orr_future_result(future));
    return future;
}

static void complete_it(void *future)
{
    assert_int_equal(orr_future_complete(future, answer), 0);
}

static void give_it_up(void *future)
{
    orr_future_unref(future);
}

static void future_is_waited_for_by_several_tasks(void **state)
{
    (void)state;
    open_stage();
    struct orr_future *future = new_future(false);
    struct actor actors[] = THREE(await_future, future);
    start_all_of(actors, 2);
    complete_it(future);
    assert_ptr_equal(orr_future_result(future)->value, ITEM(1));
    start_all_of(&actors[2], 1);
    assert_string_equal(notes(), "a b c");
    assert_int_equal(values_dropped, 0);
    orr_future_unref(future);
    assert_int_equal(values_dropped, 1);
    stage_close(rt);
}

static void future_completed_by_another_thread_wakes_those_who_wait(void **state)
{
    (void)state;
    open_stage();
    struct orr_future *future = new_future(false);
    struct actor actors[] = THREE(await_future, future);
    start_all_of(actors, 3);
    harness_elsewhere(complete_it, future);
    settle();
    assert_string_equal(notes(), "a b c");
    orr_future_unref(future);
    assert_int_equal(values_dropped, 1);
    stage_close(rt);
}

static void future_tells_the_error_that_it_was_completed_with(void **state)
{
    (void)state;
    open_stage();
    struct orr_future *future = new_future(false);
    struct actor waits = { .name = "waits", .act = await_future, .extra = future };
    start_all_of(&waits, 1);
    assert_int_equal(orr_future_complete(future, (struct orr_result){ .error = -EIO }), 0);
    settle();
    assert_string_equal(notes(), "waits");
    assert_int_equal(waits.caught, -EIO);
    orr_future_unref(future);
    stage_close(rt);
}

static void future_is_completed_once(void **state)
{
    (void)state;
    open_stage();
    struct orr_future *future = new_future(false);
    complete_it(future);
    struct orr_result late = { .value = ITEM(100), .drop = drop_value };
    assert_int_equal(orr_future_complete(future, late), -EALREADY);
    assert_ptr_equal(orr_future_result(future)->value, ITEM(1));
    orr_future_unref(future);
    assert_int_equal(values_dropped, 1);
    stage_close(rt);
}

static void future_is_completed_when_its_runtime_is_gone(void **state)
{
    (void)state;
    for (int foreign = 0; foreign < 2; foreign++) {
        open_stage();
        struct orr_future *future = new_future(foreign);
        struct actor actors[] = THREE(await_future, future);
        start_all_of(actors, 3);
        stage_close(rt);
        assert_string_equal(notes(), "a:ECANCELED b:ECANCELED c:ECANCELED");
        harness_elsewhere(complete_it, future);
        assert_ptr_equal(orr_future_result(future)->value, ITEM(1));
        assert_int_equal(values_dropped, 0);
        harness_elsewhere(give_it_up, future);
        assert_int_equal(values_dropped, 1);
    }
}

/* The worker's place is another's by then. */
static void future_of_a_runtime_that_is_gone_leaves_the_next_one_alone(void **state)
{
    (void)state;
    open_stage();
    struct orr_future *given_up = new_future(true), *completed = new_future(true);
    stage_close(rt);
    open_stage();
    struct orr_future *own = new_future(true);
    struct actor sleeps = { .name = "sleeps", .act = sleep_long };
    harness_elsewhere(give_it_up, given_up);
    harness_elsewhere(complete_it, completed);
    start_all_of(&sleeps, 1);
    assert_string_equal(notes(), "");
    orr_future_unref(completed);
    orr_future_unref(own);
    settle();
    assert_string_equal(notes(), "sleeps");
    assert_int_equal(values_dropped, 1);
    stage_close(rt);
}

static void one_who_waits_keeps_a_future(void **state)
{
    (void)state;
    open_stage();
    struct orr_future *future = new_future(false);
    struct actor waits = { .name = "waits", .act = await_future, .extra = future };
    start_all_of(&waits, 1);
    complete_it(future);
    orr_future_unref(future);
    assert_int_equal(values_dropped, 0);
    drop(&waits);
    assert_int_equal(values_dropped, 1);
    stage_close(rt);
}

static void virtual_clock_stands_still(struct actor *sleeps)
{
    start_all_of(sleeps, 1);
    assert_string_equal(notes(), "");
    assert_int_equal(stage_ms(rt), 0);
}

static void foreign_future_holds_back_the_virtual_clock_until_it_is_completed(void **state)
{
    (void)state;
    open_stage();
    struct orr_future *here = new_future(true), *elsewhere = new_future(true);
    struct actor sleeps = { .name = "sleeps", .act = sleep_long };
    virtual_clock_stands_still(&sleeps);
    complete_it(here);
    settle();
    assert_string_equal(notes(), "");
    harness_elsewhere(complete_it, elsewhere);
    settle();
    assert_string_equal(notes(), "sleeps");
    orr_future_unref(here);
    orr_future_unref(elsewhere);
    stage_close(rt);
}

static void foreign_future_holds_back_the_virtual_clock_until_it_is_given_up(void **state)
{
    (void)state;
    open_stage();
    struct orr_future *here = new_future(true), *elsewhere = new_future(true);
    struct actor sleeps = { .name = "sleeps", .act = sleep_long };
    virtual_clock_stands_still(&sleeps);
    orr_future_unref(here);
    settle();
    assert_string_equal(notes(), "");
    harness_elsewhere(give_it_up, elsewhere);
    settle();
    assert_string_equal(notes(), "sleeps");
    stage_close(rt);
}

static void future_that_is_not_foreign_holds_back_no_clock(void **state)
{
    (void)state;
    open_stage();
    struct orr_future *future = new_future(false);
    struct actor sleeps = { .name = "sleeps", .act = sleep_long };
    start_all_of(&sleeps, 1);
    assert_string_equal(notes(), "sleeps");
    orr_future_unref(future);
    stage_close(rt);
}

static void stop_worker(unsigned worker)
{
    struct probe probe = { .done_after = 1 };
    struct orr_spawn what = { .poll = probe_poll, .data = &probe, .drop = probe_drop, .worker = worker };
    unsigned spawned = 0;
    assert_int_equal(orr_worker_stop(rt, worker), 0);
    while (!orr_spawn(rt, &what))
        harness_await(&probe.drops, ++spawned);
}

struct sleeper {
    struct orr_wait wait;
    bool awake;
};

static enum orr_poll sleep_an_hour(struct orr_task *task, void *data)
{
    struct sleeper *self = data;
    if (orr_sleep(task, &self->wait, HOUR) == -EAGAIN)
        return ORR_PENDING;
    self->awake = !orr_checkpoint(task);
    return ORR_DONE;
}

/* Whoever was to hear of its end is gone, but the runtime is not. */
static void foreign_future_of_a_worker_that_has_stopped_holds_back_no_clock(void **state)
{
    (void)state;
    rt = runtime_on(ORR_CLOCK_VIRTUAL, 2);
    struct orr_future *future;
    assert_int_equal(orr_future_new(rt, &(struct orr_future_options){ .worker = 2, .foreign = true }, &future), 0);
    stop_worker(2);
    values_dropped = 0;
    complete_it(future);
    orr_future_unref(future);
    assert_int_equal(values_dropped, 1);
    struct sleeper sleeper = { 0 };
    assert_int_equal(orr_spawn(rt, &(struct orr_spawn){ .poll = sleep_an_hour, .data = &sleeper }), 0);
    for (int turns = 0; turns < 100000 && !sleeper.awake; turns++) {
        harness_settle(rt);
        sched_yield(); /* the worker's thread has its last steps to go */
    }
    bool awake = sleeper.awake;
    assert_int_equal(orr_runtime_free(rt), 0);
    assert_true(awake);
}

static enum orr_poll wait_for_anothers_future(struct orr_task *task, void *data)
{
    struct orr_wait wait = { 0 };
    struct orr_future *future;
    assert_int_equal(orr_future_new(rt, &(struct orr_future_options){ .worker = 2 }, &future), 0);
    *(int *)data = orr_future_wait(task, &wait, future);
    orr_future_unref(future);
    return ORR_DONE;
}

static void future_is_waited_for_on_its_own_worker(void **state)
{
    (void)state;
    int error = 0;
    rt = harness_runtime(2);
    assert_int_equal(orr_spawn(rt, &(struct orr_spawn){ .poll = wait_for_anothers_future, .data = &error }), 0);
    assert_int_equal(orr_runtime_run(rt), 0);
    assert_int_equal(error, -EPERM);
    assert_int_equal(orr_runtime_free(rt), 0);
}

static void misuse_of_futures_is_refused(void **state)
{
    (void)state;
    open_stage();
    struct orr_future *future;
    assert_int_equal(orr_future_new(NULL, NULL, &future), -EINVAL);
    assert_int_equal(orr_future_new(rt, NULL, NULL), -EINVAL);
    assert_int_equal(orr_future_new(rt, &(struct orr_future_options){ .worker = 2 }, &future), -EINVAL);
    assert_int_equal(orr_future_complete(NULL, answer), -EINVAL);
    assert_null(orr_future_result(NULL));
    assert_null(orr_future_ref(NULL));
    orr_future_unref(NULL);
    orr_runtime_stop(rt);
    assert_int_equal(orr_future_new(rt, NULL, &future), -ESHUTDOWN);
    stage_close(rt);
}

/* --- Groups ------------------------------------------------------------------------------------------------------- */

struct trio {
    struct orr_group group;
    struct orr_wait waits[3];
    struct orr_semaphore *semaphores[3];
};

static void trio_open(struct trio *trio)
{
    *trio = (struct trio){ 0 };
    for (int i = 0; i < 3; i++) {
        trio->semaphores[i] = new_semaphore(1);
        assert_int_equal(orr_semaphore_try(trio->semaphores[i]), 0);
    }
}

/* Each permit is back. */
static void trio_close(struct trio *trio)
{
    for (int i = 0; i < 3; i++) {
        assert_int_equal(orr_semaphore_free_permits(trio->semaphores[i]), 1);
        assert_int_equal(orr_semaphore_free(trio->semaphores[i]), 0);
    }
}

static void trio_release(struct trio *trio, int i)
{
    assert_int_equal(orr_semaphore_release(trio->semaphores[i]), 0);
}

static void trio_begin(struct orr_task *task, struct trio *trio)
{
    for (int i = 0; i < 3; i++) {
        assert_int_equal(orr_group_add(&trio->group, &trio->waits[i]), 0);
        assert_int_equal(orr_semaphore_acquire(task, &trio->waits[i], trio->semaphores[i]), -EAGAIN);
    }
}

/* Takes the permit of a wait that has come out, and gives it back. */
static void pick_up(struct orr_task *task, struct trio *trio, struct orr_wait *wait)
{
    int i = (int)(wait - trio->waits);
    assert_int_equal(orr_semaphore_acquire(task, wait, trio->semaphores[i]), 0);
    trio_release(trio, i);
    note("%d", i);
}

static int one_after_the_other(struct orr_task *task, struct actor *self)
{
    struct trio *trio = self->extra;
    struct orr_wait *next = NULL;
    if (!self->step++)
        trio_begin(task, trio);
    do {
        int error = AWAIT(orr_group_next(task, &trio->group, &next));
        if (error)
            return say(self, error);
        if (next)
            pick_up(task, trio, next);
    } while (next);
    return say(self, 0);
}

static int first_of_all(struct orr_task *task, struct actor *self)
{
    struct trio *trio = self->extra;
    struct orr_wait *first;
    SCRIPT(self)
    {
        trio_begin(task, trio);
        STEP(self, 1)
        self->caught = AWAIT(orr_wait_any(task, &trio->group, &first));
        if (!self->caught)
            pick_up(task, trio, first);
        say(self, self->caught);
        STEP(self, 2)
        AWAIT(orr_sleep(task, &self->wait, HOUR));
    }
    return 0;
}

static int all_of_them(struct orr_task *task, struct actor *self)
{
    struct trio *trio = self->extra;
    if (!self->step++)
        trio_begin(task, trio);
    int error = AWAIT(orr_wait_all(task, &trio->group));
    for (int i = 0; !error && i < 3; i++)
        pick_up(task, trio, &trio->waits[i]);
    return say(self, error);
}

static void group_hands_out_its_waits_in_the_order_in_which_they_were_granted(void **state)
{
    (void)state;
    open_stage();
    struct trio trio;
    trio_open(&trio);
    struct actor actor = { .name = "end", .act = one_after_the_other, .extra = &trio };
    start_all_of(&actor, 1);
    trio_release(&trio, 2);
    trio_release(&trio, 0);
    settle();
    assert_string_equal(notes(), "2 0");
    trio_release(&trio, 1);
    settle();
    assert_string_equal(notes(), "2 0 1 end");
    trio_close(&trio);
    stage_close(rt);
}

static void first_of_a_group_withdraws_the_others(void **state)
{
    (void)state;
    open_stage();
    struct trio trio;
    trio_open(&trio);
    struct actor actor = { .name = "first", .act = first_of_all, .extra = &trio };
    start_all_of(&actor, 1);
    trio_release(&trio, 1);
    trio_release(&trio, 0); /* granted too, so it is given back */
    assert_int_equal(orr_semaphore_free_permits(trio.semaphores[0]), 0);
    settle();
    assert_string_equal(notes(), "1 first");
    trio_release(&trio, 2); /* nobody waits for it any more */
    trio_close(&trio);
    stage_close(rt);
}

static void all_of_a_group_are_waited_for(void **state)
{
    (void)state;
    open_stage();
    struct trio trio;
    trio_open(&trio);
    struct actor actor = { .name = "all", .act = all_of_them, .extra = &trio };
    start_all_of(&actor, 1);
    trio_release(&trio, 2);
    trio_release(&trio, 0);
    settle();
    assert_string_equal(notes(), "");
    trio_release(&trio, 1);
    settle();
    assert_string_equal(notes(), "0 1 2 all");
    trio_close(&trio);
    stage_close(rt);
}

static void end_of_a_body_gives_back_what_its_group_was_granted(void **state)
{
    (void)state;
    actor_fn *const acts[] = { one_after_the_other, first_of_all, all_of_them };
    for (size_t i = 0; i < LENGTH(acts); i++) {
        open_stage();
        struct trio trio;
        trio_open(&trio);
        struct actor actor = { .name = "all", .act = acts[i], .extra = &trio };
        start_all_of(&actor, 1);
        trio_release(&trio, 0);
        drop(&actor);
        trio_release(&trio, 1);
        trio_release(&trio, 2);
        trio_close(&trio);
        stage_close(rt);
    }
}

static void cancelled_task_is_told_by_its_group(void **state)
{
    (void)state;
    actor_fn *const acts[] = { one_after_the_other, all_of_them };
    for (size_t i = 0; i < LENGTH(acts); i++) {
        open_stage();
        struct trio trio;
        trio_open(&trio);
        struct actor actor = { .name = "group", .act = acts[i], .extra = &trio };
        start_all_of(&actor, 1);
        assert_int_equal(orr_task_cancel(actor.task, NULL), 0);
        settle();
        assert_string_equal(notes(), "group:ECANCELED");
        for (int k = 0; k < 3; k++)
            trio_release(&trio, k);
        trio_close(&trio);
        stage_close(rt);
    }
}

static int use_a_wait_that_has_failed(struct orr_task *task, struct actor *self)
{
    struct orr_group group = { 0 };
    struct orr_mutex *mutex;
    struct orr_wait *next;
    assert_int_equal(orr_mutex_new(&mutex), 0);
    assert_int_equal(orr_mutex_try(task, mutex), 0);
    assert_int_equal(orr_group_add(&group, &self->wait), 0);
    assert_int_equal(orr_mutex_lock(task, &self->wait, mutex), -EDEADLK);
    assert_int_equal(orr_sleep(task, &self->wait, HOUR), -EAGAIN);
    self->caught = orr_group_next(task, &group, &next);
    orr_group_clear(&group);
    assert_int_equal(orr_mutex_free(mutex), 0);
    note("%d", self->caught); /* -EAGAIN, if the sleep has gone into the group */
    return 0;
}

static void wait_that_has_failed_has_left_its_group(void **state)
{
    (void)state;
    open_stage();
    play_inside(use_a_wait_that_has_failed);
    assert_string_equal(notes(), "0");
    stage_close(rt);
}

static int leave_group_without_asking_it(struct orr_task *task, struct actor *self)
{
    struct trio *trio = self->extra;
    SCRIPT(self)
    {
        trio_begin(task, trio);
        self->step = 1;
        return -EAGAIN;
        STEP(self, 1)
        for (int i = 0; i < 3; i++)
            pick_up(task, trio, &trio->waits[i]);
        STEP(self, 2)
        AWAIT(orr_event_wait(task, &self->wait, self->children[0]->extra));
    }
    return 0;
}

static void tell_what_it_waits_for(void *data, const struct orr_task_info *info)
{
    *(const char **)data = info->waits_for;
}

/* Its memory may be used for something else. */
static void group_that_all_have_left_is_not_waited_for(void **state)
{
    (void)state;
    open_stage();
    struct trio trio;
    trio_open(&trio);
    struct orr_event *event = new_event();
    struct actor ends = { .extra = event };
    struct actor actor = { .act = leave_group_without_asking_it, .extra = &trio, .children = { &ends } };
    start_all_of(&actor, 1);
    for (int i = 0; i < 3; i++)
        trio_release(&trio, i);
    settle();
    const char *waits_for = NULL;
    assert_int_equal(orr_tree_visit(actor.task, tell_what_it_waits_for, &waits_for), 1);
    assert_string_equal(waits_for, "an event");
    orr_event_set(event);
    settle();
    trio_close(&trio);
    assert_int_equal(orr_event_free(event), 0);
    stage_close(rt);
}

static int misuse_group(struct orr_task *task, struct actor *self)
{
    struct orr_group group = { 0 };
    struct orr_wait *next = &self->wait;
    assert_int_equal(orr_group_add(NULL, &self->wait), -EINVAL);
    assert_int_equal(orr_group_add(&group, NULL), -EINVAL);
    assert_int_equal(orr_group_next(NULL, &group, &next), -EINVAL);
    assert_int_equal(orr_group_next(task, NULL, &next), -EINVAL);
    assert_int_equal(orr_group_next(task, &group, NULL), -EINVAL);
    assert_int_equal(orr_wait_any(task, NULL, &next), -EINVAL);
    assert_int_equal(orr_wait_all(task, NULL), -EINVAL);
    orr_group_clear(NULL);
    assert_int_equal(orr_group_next(task, &group, &next), 0);
    assert_null(next);
    assert_int_equal(orr_wait_all(task, &group), 0);
    assert_int_equal(orr_sleep(task, &self->wait, HOUR), -EAGAIN);
    assert_int_equal(orr_group_add(&group, &self->wait), -EBUSY);
    return 0;
}

static void misuse_of_groups_is_refused(void **state)
{
    (void)state;
    open_stage();
    play_inside(misuse_group);
    struct orr_group group = { 0 };
    struct orr_wait *next;
    struct actor other = { .name = "other", .act = sleep_long };
    actor_start(rt, &other);
    assert_int_equal(orr_group_next(other.task, &group, &next), -EPERM);
    assert_int_equal(orr_wait_all(other.task, &group), -EPERM);
    stage_close(rt);
}

/* --- Tasks -------------------------------------------------------------------------------------------------------- */

static int await_task(struct orr_task *task, struct actor *self)
{
    return say(self, AWAIT(orr_task_await(task, &self->wait, self->other->task)));
}

/* Has a child in a scope of its own, supervised if `caught` says so, and leaves it when its event is set. */
static int keep_a_child(struct orr_task *task, struct actor *self)
{
    SCRIPT(self)
    {
        struct orr_scope_options options = { .supervise = self->caught };
        assert_int_equal(orr_scope_enter(task, &self->scope, &options), 0);
        actor_start(rt, self->children[0]);
        STEP(self, 1)
        self->caught = AWAIT(orr_event_wait(task, &self->wait, self->extra));
        say(self, self->caught);
        STEP(self, 2)
        say(self, AWAIT(orr_scope_leave(task, &self->wait, &self->scope, self->caught)));
    }
    return 0;
}

static void fail_at_once(struct actor *actor)
{
    assert_int_equal(orr_task_complete(actor->task, (struct orr_result){ .error = -EIO }), 0);
    drop(actor);
}

static void failure_goes_up_if_whoever_awaited_the_task_was_cancelled(void **state)
{
    (void)state;
    open_stage();
    struct orr_event *event = new_event();
    struct actor child = { .name = "child", .act = await_event, .extra = event };
    struct actor parent = { .name = "parent", .act = keep_a_child, .extra = event, .children = { &child } };
    struct actor waits = { .name = "waits", .act = await_task, .other = &child };
    start_all_of(&parent, 1);
    start_all_of(&waits, 1);
    assert_int_equal(orr_task_cancel(waits.task, NULL), 0);
    fail_at_once(&child);
    settle();
    assert_string_equal(notes(), "waits:ECANCELED parent:ECHILD parent:ECHILD");
    assert_int_equal(orr_event_free(event), 0);
    stage_close(rt);
}

/* As if nobody had awaited it: the scope keeps it, and tells when it is left. */
static void failure_that_nobody_picked_up_goes_to_the_scope_of_the_child(void **state)
{
    (void)state;
    open_stage();
    struct orr_event *event = new_event(), *never = new_event();
    struct actor child = { .name = "child", .act = await_event, .extra = never };
    struct actor parent = {
        .name = "parent", .act = keep_a_child, .extra = event, .children = { &child }, .caught = 1
    };
    struct actor waits = { .name = "waits", .act = await_task, .other = &child };
    start_all_of(&parent, 1);
    start_all_of(&waits, 1);
    fail_at_once(&child);
    drop(&waits);
    settle();
    assert_string_equal(notes(), "");
    assert_int_equal(orr_event_set(event), 1);
    settle();
    assert_string_equal(notes(), "parent parent:ECHILD");
    assert_int_equal(orr_event_free(event), 0);
    assert_int_equal(orr_event_free(never), 0);
    stage_close(rt);
}

/* --- Sleep -------------------------------------------------------------------------------------------------------- */

static int sleep_for_or_until(struct orr_task *task, struct actor *self)
{
    uint64_t ms = (uintptr_t)self->extra;
    int error = self->step ? orr_sleep_until(task, &self->wait, (uint64_t)self->caught + ms * MS)
                           : orr_sleep(task, &self->wait, ms * MS);
    if (error == -EAGAIN)
        return error;
    note("%s@%llu", self->name, stage_ms(rt));
    return 0;
}

static void sleepers_wake_in_the_order_of_their_times(void **state)
{
    (void)state;
    open_stage();
    struct actor actors[] = {
        { .name = "late", .act = sleep_for_or_until, .extra = ITEM(20) },
        { .name = "early", .act = sleep_for_or_until, .extra = ITEM(10) },
        { .name = "at-once", .act = sleep_for_or_until, .extra = ITEM(0) },
        { .name = "past", .act = sleep_for_or_until, .extra = ITEM(0), .step = 1 },
    };
    start_all_of(actors, LENGTH(actors));
    assert_string_equal(notes(), "past@0 at-once@0 early@10 late@20");
    stage_close(rt);
}

static int yield_to_others(struct orr_task *task, struct actor *self)
{
    note("%s-first", self->name);
    return say(self, AWAIT(orr_sleep(task, &self->wait, 0)));
}

static int say_name(struct orr_task *task, struct actor *self)
{
    (void)task;
    return say(self, 0);
}

static void sleep_of_no_time_lets_others_go_first(void **state)
{
    (void)state;
    open_stage();
    struct actor yields = { .name = "yields", .act = yield_to_others }, other = { .name = "other", .act = say_name };
    actor_start(rt, &yields);
    actor_start(rt, &other);
    settle();
    assert_string_equal(notes(), "yields-first other yields-first yields");
    stage_close(rt);
}

static int sleep_in_a_scope(struct orr_task *task, struct actor *self)
{
    SCRIPT(self)
    {
        struct orr_scope_options limit = { .timeout_ns = 10 * MS };
        assert_int_equal(orr_scope_enter(task, &self->scope, &limit), 0);
        STEP(self, 1)
        self->caught = AWAIT(orr_sleep(task, &self->wait, 10 * MS));
        self->caught = orr_scope_leave(task, &self->wait, &self->scope, self->caught);
    }
    return say(self, self->caught);
}

/* Both are due in the same turn, the deadline first; the sleep is taken out from under the clock's hands. */
static void sleep_that_is_due_with_its_scopes_deadline_is_cut_short(void **state)
{
    (void)state;
    open_stage();
    struct actor actors[] = THREE(sleep_in_a_scope, NULL);
    start_all_of(actors, 3);
    assert_string_equal(notes(), "a:ETIMEDOUT b:ETIMEDOUT c:ETIMEDOUT");
    stage_close(rt);
}

/* --- I/O ---------------------------------------------------------------------------------------------------------- */

struct reading {
    struct orr_io io;
    int pipe[2];
    char byte;
    struct actor child;
};

static int read_byte(struct orr_task *task, struct actor *self)
{
    struct reading *reading = self->extra;
    SCRIPT(self)
    {
        assert_int_equal(orr_io_await(task, &reading->io), -EALREADY);
        assert_int_equal(orr_io_read(task, &reading->io, reading->pipe[0], &reading->byte, 1), 0);
        if (reading->child.act)
            actor_start(rt, &reading->child);
        STEP(self, 1)
        self->caught = AWAIT(orr_io_await(task, &reading->io));
        assert_true(orr_io_done(&reading->io));
    }
    return say(self, self->caught);
}

static void reading_start(struct reading *reading, struct actor *reader)
{
    assert_int_equal(pipe(reading->pipe), 0);
    start_all_of(reader, 1);
    assert_string_equal(notes(), "");
}

/* What the kernel does takes as long as it takes. */
static void reading_end(struct reading *reading, struct actor *reader)
{
    while (!orr_task_done(reader->task))
        settle();
    close(reading->pipe[0]);
    close(reading->pipe[1]);
}

static void input_is_awaited(void **state)
{
    (void)state;
    open_stage();
    struct reading reading = { 0 };
    struct actor reader = { .name = "reader", .act = read_byte, .extra = &reading };
    reading_start(&reading, &reader);
    assert_int_equal(write(reading.pipe[1], "x", 1), 1);
    reading_end(&reading, &reader);
    assert_string_equal(notes(), "reader");
    assert_int_equal(reading.io.result, 1);
    assert_int_equal(reading.byte, 'x');
    stage_close(rt);
}

static void input_of_a_cancelled_task_is_given_up(void **state)
{
    (void)state;
    open_stage();
    struct reading reading = { 0 };
    struct actor reader = { .name = "reader", .act = read_byte, .extra = &reading };
    reading_start(&reading, &reader);
    assert_int_equal(orr_task_cancel(reader.task, NULL), 0);
    reading_end(&reading, &reader);
    assert_string_equal(notes(), "reader:ECANCELED");
    assert_int_equal(reading.io.result, -ECANCELED);
    stage_close(rt);
}

static void input_is_given_up_when_a_child_fails(void **state)
{
    (void)state;
    open_stage();
    struct orr_event *event = new_event();
    struct reading reading = { .child = { .name = "child", .act = await_event, .extra = event } };
    struct actor reader = { .name = "reader", .act = read_byte, .extra = &reading };
    reading_start(&reading, &reader);
    assert_int_equal(orr_task_complete(reading.child.task, (struct orr_result){ .error = -EIO }), 0);
    reading_end(&reading, &reader);
    assert_string_equal(notes(), "child:ECANCELED reader:ECHILD");
    assert_int_equal(reading.io.result, -ECANCELED);
    assert_int_equal(orr_event_free(event), 0);
    stage_close(rt);
}

/* Asks for its byte when it is cancelled, and not before. */
static int read_byte_late(struct orr_task *task, struct actor *self)
{
    struct reading *reading = self->extra;
    if (!self->step++)
        assert_int_equal(orr_io_read(task, &reading->io, reading->pipe[0], &reading->byte, 1), 0);
    return orr_task_cancelled(task) ? say(self, AWAIT(orr_io_await(task, &reading->io))) : -EAGAIN;
}

static void input_that_was_there_before_the_task_was_cancelled_is_had(void **state)
{
    (void)state;
    open_stage();
    struct reading reading = { 0 };
    struct actor reader = { .name = "reader", .act = read_byte_late, .extra = &reading };
    reading_start(&reading, &reader);
    assert_int_equal(write(reading.pipe[1], "x", 1), 1);
    while (!orr_io_done(&reading.io))
        settle();
    assert_int_equal(orr_task_cancel(reader.task, NULL), 0);
    reading_end(&reading, &reader);
    assert_string_equal(notes(), "reader");
    assert_int_equal(reading.byte, 'x');
    stage_close(rt);
}

static int misuse_io(struct orr_task *task, struct actor *self)
{
    struct orr_io io = { 0 };
    (void)self;
    assert_int_equal(orr_io_await(NULL, &io), -EINVAL);
    assert_int_equal(orr_io_await(task, NULL), -EINVAL);
    assert_int_equal(orr_io_await(task, &io), -EALREADY);
    return 0;
}

static void misuse_of_io_await_is_refused(void **state)
{
    (void)state;
    open_stage();
    play_inside(misuse_io);
    struct actor other = { .name = "other", .act = sleep_long };
    struct orr_io io = { 0 };
    actor_start(rt, &other);
    assert_int_equal(orr_io_await(other.task, &io), -EPERM);
    stage_close(rt);
}

/* --- Misuse ------------------------------------------------------------------------------------------------------- */

/* One of each. */
struct things {
    struct orr_event *event;
    struct orr_semaphore *semaphore;
    struct orr_mutex *mutex;
    struct orr_condition *condition;
    struct orr_queue *queue;
    struct orr_future *future;
    struct orr_task *task;
    struct orr_wait wait;
};

static void things_open(struct things *things)
{
    *things = (struct things){ .event = new_event(), .semaphore = new_semaphore(1), .queue = new_queue(1) };
    assert_int_equal(orr_mutex_new(&things->mutex), 0);
    assert_int_equal(orr_condition_new(&things->condition), 0);
    things->future = new_future(false);
}

static void things_close(struct things *things)
{
    assert_int_equal(orr_event_free(things->event), 0);
    assert_int_equal(orr_semaphore_free(things->semaphore), 0);
    assert_int_equal(orr_condition_free(things->condition), 0);
    assert_int_equal(orr_mutex_free(things->mutex), 0);
    assert_int_equal(orr_queue_free(things->queue), 0);
    orr_future_unref(things->future);
}

/* Every wait there is must answer this. */
static void assert_waits(struct things *things, struct orr_task *task, struct orr_wait *wait, int expected)
{
    void *item;
    assert_int_equal(orr_event_wait(task, wait, things->event), expected);
    assert_int_equal(orr_semaphore_acquire(task, wait, things->semaphore), expected);
    assert_int_equal(orr_mutex_lock(task, wait, things->mutex), expected);
    assert_int_equal(orr_condition_wait(task, wait, things->condition, things->mutex), expected);
    assert_int_equal(orr_queue_put(task, wait, things->queue, ITEM(1)), expected);
    assert_int_equal(orr_queue_get(task, wait, things->queue, &item), expected);
    assert_int_equal(orr_future_wait(task, wait, things->future), expected);
    assert_int_equal(orr_task_await(task, wait, things->task), expected);
    assert_int_equal(orr_sleep(task, wait, HOUR), expected);
    assert_int_equal(orr_sleep_until(task, wait, HOUR), expected);
}

static int do_without_things(struct orr_task *task, struct actor *self)
{
    struct things none = { 0 }, some;
    void *item;
    things_open(&some);
    some.task = task;
    assert_waits(&some, NULL, &self->wait, -EINVAL);
    assert_waits(&some, task, NULL, -EINVAL);
    assert_int_equal(orr_event_wait(task, &self->wait, none.event), -EINVAL);
    assert_int_equal(orr_semaphore_acquire(task, &self->wait, none.semaphore), -EINVAL);
    assert_int_equal(orr_mutex_lock(task, &self->wait, none.mutex), -EINVAL);
    assert_int_equal(orr_condition_wait(task, &self->wait, none.condition, some.mutex), -EINVAL);
    assert_int_equal(orr_queue_put(task, &self->wait, none.queue, ITEM(1)), -EINVAL);
    assert_int_equal(orr_queue_get(task, &self->wait, none.queue, &item), -EINVAL);
    assert_int_equal(orr_queue_get(task, &self->wait, some.queue, NULL), -EINVAL);
    assert_int_equal(orr_future_wait(task, &self->wait, none.future), -EINVAL);
    assert_int_equal(orr_task_await(task, &self->wait, none.task), -EINVAL);
    assert_int_equal(orr_checkpoint(NULL), -EINVAL);
    things_close(&some);
    return 0;
}

static void waits_for_nothing_are_refused(void **state)
{
    (void)state;
    open_stage();
    play_inside(do_without_things);
    stage_close(rt);
}

static void assert_operations(struct things *things, int expected)
{
    void *item;
    assert_int_equal(orr_event_set(things->event), expected);
    assert_int_equal(orr_event_wake(things->event, 1), expected);
    assert_int_equal(orr_event_clear(things->event), expected);
    assert_int_equal(orr_semaphore_try(things->semaphore), expected);
    assert_int_equal(orr_semaphore_release(things->semaphore), expected);
    assert_int_equal(orr_mutex_try(things->task, things->mutex), expected);
    assert_int_equal(orr_mutex_unlock(things->task, things->mutex), expected);
    assert_int_equal(orr_condition_notify(things->condition, 1), expected);
    assert_int_equal(orr_queue_try_put(things->queue, ITEM(1)), expected);
    assert_int_equal(orr_queue_try_get(things->queue, &item), expected);
    assert_int_equal(orr_queue_close(things->queue), expected);
}

static void assert_made(struct things *out, int expected)
{
    assert_int_equal(orr_event_new(&out->event), expected);
    assert_int_equal(orr_semaphore_new(1, &out->semaphore), expected);
    assert_int_equal(orr_mutex_new(&out->mutex), expected);
    assert_int_equal(orr_condition_new(&out->condition), expected);
    assert_int_equal(orr_queue_new(0, NULL, &out->queue), expected);
}

static void operations_on_nothing_are_refused(void **state)
{
    (void)state;
    open_stage();
    struct things none = { 0 };
    assert_operations(&none, -EINVAL);
    assert_int_equal(orr_event_new(NULL), -EINVAL);
    assert_int_equal(orr_semaphore_new(1, NULL), -EINVAL);
    assert_int_equal(orr_mutex_new(NULL), -EINVAL);
    assert_int_equal(orr_condition_new(NULL), -EINVAL);
    assert_int_equal(orr_queue_new(1, NULL, NULL), -EINVAL);
    assert_false(orr_event_is_set(NULL));
    assert_int_equal(orr_semaphore_free_permits(NULL), 0);
    assert_false(orr_mutex_locked(NULL));
    assert_int_equal(orr_queue_length(NULL), 0);
    things_close(&none); /* NULL may be freed */
    orr_wait_withdraw(NULL);
    orr_wait_withdraw(&none.wait);
    stage_close(rt);
}

static void try_all(void *data)
{
    struct things *things = data, made;
    assert_operations(things, -EPERM);
    assert_waits(things, things->task, &things->wait, -EPERM);
    assert_made(&made, -EPERM);
    assert_int_equal(orr_event_free(things->event), -EPERM);
    assert_int_equal(orr_semaphore_free(things->semaphore), -EPERM);
    assert_int_equal(orr_mutex_free(things->mutex), -EPERM);
    assert_int_equal(orr_condition_free(things->condition), -EPERM);
    assert_int_equal(orr_queue_free(things->queue), -EPERM);
}

static void other_threads_are_refused(void **state)
{
    (void)state;
    open_stage();
    struct things things;
    things_open(&things);
    struct actor other = { .name = "other", .act = sleep_long };
    actor_start(rt, &other);
    things.task = other.task;
    harness_elsewhere(try_all, &things);
    things_close(&things);
    stage_close(rt);
}

static void waits_outside_the_tasks_own_poll_are_refused(void **state)
{
    (void)state;
    open_stage();
    struct things things;
    things_open(&things);
    struct actor other = { .name = "other", .act = sleep_long };
    actor_start(rt, &other);
    things.task = other.task;
    assert_waits(&things, other.task, &things.wait, -EPERM);
    assert_int_equal(orr_checkpoint(other.task), -EPERM);
    assert_int_equal(orr_mutex_try(other.task, things.mutex), -EPERM);
    things_close(&things);
    stage_close(rt);
}

static int use_a_wait_twice(struct orr_task *task, struct actor *self)
{
    struct things things;
    struct orr_event *event = new_event();
    static struct actor other; /* outlives this poll */
    other = (struct actor){ .name = "other", .act = sleep_long };
    things_open(&things);
    actor_start(rt, &other);
    things.task = other.task;
    assert_int_equal(orr_event_wait(task, &self->wait, event), -EAGAIN);
    assert_waits(&things, task, &self->wait, -EBUSY);
    assert_int_equal(orr_event_free(event), -EBUSY);
    orr_wait_withdraw(&self->wait);
    assert_int_equal(orr_event_free(event), 0);
    things_close(&things);
    return 0;
}

static void wait_that_waits_for_something_else_is_refused(void **state)
{
    (void)state;
    open_stage();
    play_inside(use_a_wait_twice);
    stage_close(rt);
}

/* --- Futures under fire ------------------------------------------------------------------------------------------- */

/*
 * Threads complete futures, in an order of their own, that tasks on three workers wait for, while others cancel those
 * tasks, and now and then the runtime is freed under them.  Each value must be dropped once, each task end once, and
 * whoever was told that a future is completed must find its result.
 */
enum { FIRE_WORKERS = 3, FIRE_THREADS = 3, FIRE_TASKS = 32, FIRE_FUTURES = FIRE_WORKERS * FIRE_TASKS };

struct target {
    struct orr_future *future;
    struct orr_wait wait;
    struct orr_task *task;
};

struct fire {
    struct orr_runtime *rt;
    struct target targets[FIRE_FUTURES];
    _Atomic unsigned ends, losses, completed;
    _Atomic bool begin;
};

struct gun {
    struct fire *fire;
    unsigned number, seed;
};

struct squad {
    struct fire *fire;
    unsigned worker, seed, step;
};

static struct fire *field;
static _Atomic unsigned told, cancelled; /* how the waits have ended, so that one sees what was tried */

static enum orr_poll target_poll(struct orr_task *task, void *data)
{
    struct target *self = data;
    int error = orr_future_wait(task, &self->wait, self->future);
    if (error == -EAGAIN)
        return ORR_PENDING;
    const struct orr_result *result = orr_future_result(self->future);
    atomic_fetch_add(error ? &cancelled : &told, 1);
    if (!error && (!result || result->value != ITEM(1)))
        atomic_fetch_add(&field->losses, 1);
    return orr_task_fail(task, error);
}

static void target_drop(void *data)
{
    struct target *self = data;
    orr_future_unref(self->future);
    atomic_fetch_add(&field->ends, 1);
}

static void squad_start(struct orr_task *task, struct squad *self)
{
    for (unsigned i = 0; i < FIRE_TASKS; i++) {
        struct target *target = &field->targets[(self->worker - 1) * FIRE_TASKS + i];
        struct orr_spawn what = { .poll = target_poll, .data = target, .drop = target_drop, .task = &target->task };
        if (orr_spawn(orr_task_runtime(task), &what))
            target_drop(target);
    }
}

/* Starts its tasks, then cancels some of them, one in a poll. */
static enum orr_poll squad_poll(struct orr_task *task, void *data)
{
    struct squad *self = data;
    if (orr_checkpoint(task))
        return ORR_DONE;
    if (!self->step++)
        squad_start(task, self);
    struct target *target =
        &field->targets[(self->worker - 1) * FIRE_TASKS + (unsigned)rand_r(&self->seed) % FIRE_TASKS];
    if (target->task)
        orr_task_cancel(target->task, NULL);
    return self->step < FIRE_TASKS ? orr_task_yield(task) : ORR_DONE;
}

/* What the runtime ended before it began. */
static void squad_drop(void *data)
{
    struct squad *self = data;
    for (unsigned i = 0; !self->step && i < FIRE_TASKS; i++)
        target_drop(&field->targets[(self->worker - 1) * FIRE_TASKS + i]);
}

static void *shoot(void *data)
{
    struct gun *self = data;
    struct orr_result result = { .value = ITEM(1), .drop = drop_value };
    while (!atomic_load(&self->fire->begin))
        sched_yield();
    unsigned first = (unsigned)rand_r(&self->seed);
    for (unsigned i = 0; i < FIRE_FUTURES; i++) {
        /* Two threads at each future, so that one of them comes too late. */
        unsigned at = (first + i) % FIRE_FUTURES;
        if (at % FIRE_THREADS == self->number)
            continue;
        int error = orr_future_complete(self->fire->targets[at].future, result);
        atomic_fetch_add(&self->fire->completed, !error);
    }
    return NULL;
}

static void fire_open(struct fire *fire, struct squad *squads, unsigned *seed)
{
    fire->rt = harness_runtime(FIRE_WORKERS);
    for (unsigned i = 0; i < FIRE_FUTURES; i++) {
        struct orr_future_options options = { .worker = 1 + i / FIRE_TASKS, .foreign = i % 2 };
        assert_int_equal(orr_future_new(fire->rt, &options, &fire->targets[i].future), 0);
        orr_future_ref(fire->targets[i].future); /* for those who complete it */
    }
    for (unsigned i = 0; i < FIRE_WORKERS; i++) {
        squads[i] = (struct squad){ .fire = fire, .worker = i + 1, .seed = (unsigned)rand_r(seed) };
        struct orr_spawn what = { .poll = squad_poll, .data = &squads[i], .drop = squad_drop, .worker = i + 1 };
        what.supervise = true;
        assert_int_equal(orr_spawn(fire->rt, &what), 0);
    }
}

/* To the end, or a few turns and then no more. */
static void fire_drive(struct fire *fire, unsigned *seed)
{
    if (rand_r(seed) % 2)
        assert_int_equal(orr_runtime_run(fire->rt), 0);
    else
        for (int turns = rand_r(seed) % 8; turns--;)
            orr_runtime_turn(fire->rt, ORR_NEVER);
    assert_int_equal(orr_runtime_free(fire->rt), 0);
}

static void fire_once(unsigned *seed)
{
    struct fire *fire = field = calloc(1, sizeof *fire);
    struct squad squads[FIRE_WORKERS];
    struct gun guns[FIRE_THREADS];
    pthread_t threads[FIRE_THREADS];
    values_dropped = 0;
    fire_open(fire, squads, seed);
    for (unsigned i = 0; i < FIRE_THREADS; i++) {
        guns[i] = (struct gun){ .fire = fire, .number = i, .seed = (unsigned)rand_r(seed) };
        assert_int_equal(pthread_create(&threads[i], NULL, shoot, &guns[i]), 0);
    }
    atomic_store(&fire->begin, true);
    fire_drive(fire, seed);
    for (unsigned i = 0; i < FIRE_THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(fire->ends, FIRE_FUTURES);
    assert_int_equal(fire->losses, 0);
    assert_int_equal(fire->completed, FIRE_FUTURES);
    for (unsigned i = 0; i < FIRE_FUTURES; i++)
        orr_future_unref(fire->targets[i].future);
    assert_int_equal(values_dropped, FIRE_FUTURES);
    free(fire);
}

static void futures_under_fire_are_completed_once_and_dropped_once(void **state)
{
    (void)state;
    unsigned seed = getenv("SEED") ? (unsigned)strtoul(getenv("SEED"), NULL, 0) : 1;
    print_message("SEED=%u\n", seed);
    for (int i = 0; i < WORK(2000); i++)
        fire_once(&seed);
    print_message("%u waits were told, %u were cancelled\n", told, cancelled);
    assert_true(told && cancelled);
}

static const struct CMUnitTest sync_tests[] = {
    cmocka_unit_test(event_that_is_set_wakes_all_who_wait),
    cmocka_unit_test(event_that_is_set_lets_everybody_through_until_it_is_cleared),
    cmocka_unit_test(event_wakes_at_most_so_many_in_order_and_stays_unset),
    cmocka_unit_test(those_woken_by_an_event_stay_woken_when_it_is_cleared_before_they_run),
    cmocka_unit_test(one_who_came_after_an_event_was_cleared_is_not_woken_by_it),
    cmocka_unit_test(semaphore_serves_in_order_of_arrival),
    cmocka_unit_test(permit_released_to_one_in_line_cannot_be_taken_by_another),
    cmocka_unit_test(semaphore_takes_back_no_more_than_it_gave),
    cmocka_unit_test(semaphore_without_permits_is_not_made),
    cmocka_unit_test(mutex_is_handed_over_in_order_of_arrival),
    cmocka_unit_test(mutex_unlocked_for_one_in_line_cannot_be_taken_or_unlocked_by_another),
    cmocka_unit_test(mutex_knows_its_owner),
    cmocka_unit_test(one_who_gets_the_mutex_of_a_task_that_has_ended_is_told_once),
    cmocka_unit_test(one_who_comes_later_is_told_too_that_the_owner_has_ended),
    cmocka_unit_test(mutex_granted_to_one_who_does_not_know_it_yet_is_not_unlocked),
    cmocka_unit_test(condition_notifies_at_most_so_many_in_order),
    cmocka_unit_test(notified_task_runs_when_it_has_the_mutex_again),
    cmocka_unit_test(cancelled_wait_for_a_condition_goes_on_until_it_has_the_mutex),
    cmocka_unit_test(one_notified_who_ends_before_it_has_the_mutex_passes_it_on),
    cmocka_unit_test(condition_wants_its_mutex_locked),
    cmocka_unit_test(mutex_that_those_who_wait_for_a_condition_will_lock_again_is_not_freed),
    cmocka_unit_test(queue_without_a_bound_gives_what_it_was_given_in_order),
    cmocka_unit_test(bounded_queue_holds_back_putters_and_lets_them_in_in_order),
    cmocka_unit_test(putter_in_line_is_let_in_when_a_getter_has_picked_up_its_item),
    cmocka_unit_test(getters_are_served_in_order_of_arrival),
    cmocka_unit_test(item_for_one_in_line_cannot_be_taken_by_another),
    cmocka_unit_test(closed_queue_gives_what_is_left_then_ends),
    cmocka_unit_test(getters_in_line_are_told_when_a_queue_is_closed),
    cmocka_unit_test(last_item_of_a_closed_queue_passes_to_the_next_if_its_getter_ends),
    cmocka_unit_test(closed_queue_has_not_ended_while_an_item_is_promised_but_not_got),
    cmocka_unit_test(putters_turned_away_by_a_close_keep_their_items),
    cmocka_unit_test(freed_queue_drops_what_is_left),
    cmocka_unit_test(event_is_not_freed_before_those_it_has_woken_know),
    cmocka_unit_test(semaphore_is_not_freed_before_its_permit_has_been_picked_up),
    cmocka_unit_test(mutex_is_not_freed_before_its_next_owner_has_picked_it_up),
    cmocka_unit_test(queue_is_not_freed_before_its_putters_know_that_they_were_let_in),
    cmocka_unit_test(queue_is_not_freed_before_its_getters_know_that_it_is_closed),
    cmocka_unit_test(future_is_waited_for_by_several_tasks),
    cmocka_unit_test(future_completed_by_another_thread_wakes_those_who_wait),
    cmocka_unit_test(future_tells_the_error_that_it_was_completed_with),
    cmocka_unit_test(future_is_completed_once),
    cmocka_unit_test(future_is_completed_when_its_runtime_is_gone),
    cmocka_unit_test(future_of_a_runtime_that_is_gone_leaves_the_next_one_alone),
    cmocka_unit_test(one_who_waits_keeps_a_future),
    cmocka_unit_test(foreign_future_holds_back_the_virtual_clock_until_it_is_completed),
    cmocka_unit_test(foreign_future_holds_back_the_virtual_clock_until_it_is_given_up),
    cmocka_unit_test(future_that_is_not_foreign_holds_back_no_clock),
    cmocka_unit_test(foreign_future_of_a_worker_that_has_stopped_holds_back_no_clock),
    cmocka_unit_test(future_is_waited_for_on_its_own_worker),
    cmocka_unit_test(misuse_of_futures_is_refused),
    cmocka_unit_test(group_hands_out_its_waits_in_the_order_in_which_they_were_granted),
    cmocka_unit_test(first_of_a_group_withdraws_the_others),
    cmocka_unit_test(all_of_a_group_are_waited_for),
    cmocka_unit_test(end_of_a_body_gives_back_what_its_group_was_granted),
    cmocka_unit_test(cancelled_task_is_told_by_its_group),
    cmocka_unit_test(wait_that_has_failed_has_left_its_group),
    cmocka_unit_test(group_that_all_have_left_is_not_waited_for),
    cmocka_unit_test(misuse_of_groups_is_refused),
    cmocka_unit_test(failure_goes_up_if_whoever_awaited_the_task_was_cancelled),
    cmocka_unit_test(failure_that_nobody_picked_up_goes_to_the_scope_of_the_child),
    cmocka_unit_test(sleepers_wake_in_the_order_of_their_times),
    cmocka_unit_test(sleep_of_no_time_lets_others_go_first),
    cmocka_unit_test(sleep_that_is_due_with_its_scopes_deadline_is_cut_short),
    cmocka_unit_test(input_is_awaited),
    cmocka_unit_test(input_of_a_cancelled_task_is_given_up),
    cmocka_unit_test(input_is_given_up_when_a_child_fails),
    cmocka_unit_test(input_that_was_there_before_the_task_was_cancelled_is_had),
    cmocka_unit_test(misuse_of_io_await_is_refused),
    cmocka_unit_test(waits_for_nothing_are_refused),
    cmocka_unit_test(operations_on_nothing_are_refused),
    cmocka_unit_test(other_threads_are_refused),
    cmocka_unit_test(waits_outside_the_tasks_own_poll_are_refused),
    cmocka_unit_test(wait_that_waits_for_something_else_is_refused),
    cmocka_unit_test(futures_under_fire_are_completed_once_and_dropped_once),
};

HARNESS_MAIN(sync_tests)
