/* Queues; and primitives that cannot be freed while a task still needs them. */
#include "wait_fixture.h"

/* --- Queues ----------------------------------------------------------------------------------- */

static int get(struct orr_task *task, struct step_task *self)
{
    void *item;
    int error = AWAIT(orr_queue_get(task, &self->wait, self->data, &item));
    if (error)
        return note_result(self, error);
    note("%s=%d", self->name, (int)(uintptr_t)item);
    return 0;
}

/* Puts the item `caught`. */
static int put(struct orr_task *task, struct step_task *self)
{
    return note_result(self, AWAIT(orr_queue_put(task, &self->wait, self->data, ITEM(self->caught))));
}

static void assert_got(struct orr_queue *queue, int expected)
{
    void *item;
    assert_int_equal(orr_queue_try_get(queue, &item), 0);
    assert_int_equal((int)(uintptr_t)item, expected);
}

static void unbounded_queue_keeps_the_order_of_its_items(void **state)
{
    (void)state;
    enum { MANY = 1000 };
    open_fixture();
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
    fixture_close(rt);
}

/* Starts three tasks that put the items 1, 2 and 3. */
static void start_putters(struct step_task *tasks)
{
    for (int i = 0; i < 3; i++)
        tasks[i].caught = i + 1;
    start_tasks(tasks, 3);
}

static void full_queue_lets_putters_in_in_order_of_arrival(void **state)
{
    (void)state;
    open_fixture();
    struct orr_queue *queue = new_queue(1);
    struct step_task tasks[] = THREE_TASKS(put, queue);
    start_putters(tasks);
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
    fixture_close(rt);
}

static void waiting_putter_is_let_in_when_a_getter_has_picked_up_its_item(void **state)
{
    (void)state;
    open_fixture();
    struct orr_queue *queue = new_queue(1);
    struct step_task gets = { .name = "gets", .body = get, .data = queue };
    struct step_task puts = { .name = "puts", .body = put, .data = queue, .caught = 2 };
    start_tasks(&gets, 1);
    step_task_start(rt, &puts); /* runs before the getter */
    assert_int_equal(orr_queue_try_put(queue, ITEM(1)), 0);
    settle();
    assert_string_equal(notes(), "gets=1 puts");
    assert_got(queue, 2);
    assert_int_equal(orr_queue_free(queue), 0);
    fixture_close(rt);
}

static void getters_are_served_in_order_of_arrival(void **state)
{
    (void)state;
    open_fixture();
    struct orr_queue *queue = new_queue(0);
    struct step_task tasks[] = THREE_TASKS(get, queue);
    start_tasks(tasks, 3);
    for (int i = 1; i <= 2; i++)
        assert_int_equal(orr_queue_try_put(queue, ITEM(i)), 0);
    settle();
    assert_string_equal(notes(), "a=1 b=2");
    assert_int_equal(orr_queue_try_put(queue, ITEM(3)), 0);
    settle();
    assert_string_equal(notes(), "a=1 b=2 c=3");
    assert_int_equal(orr_queue_free(queue), 0);
    fixture_close(rt);
}

static void item_granted_to_a_waiting_getter_cannot_be_taken_by_another(void **state)
{
    (void)state;
    open_fixture();
    struct orr_queue *queue = new_queue(0);
    struct step_task tasks[] = THREE_TASKS(get, queue);
    void *item;
    start_tasks(tasks, 1);
    step_task_start(rt, &tasks[1]); /* runs before the waiting task */
    assert_int_equal(orr_queue_try_put(queue, ITEM(1)), 0);
    assert_int_equal(orr_queue_try_get(queue, &item), -EAGAIN);
    settle();
    assert_string_equal(notes(), "a=1");
    drop_task(&tasks[1]);
    assert_int_equal(orr_queue_free(queue), 0);
    fixture_close(rt);
}

static void closed_queue_gives_its_last_items_and_then_ends(void **state)
{
    (void)state;
    open_fixture();
    struct orr_queue *queue = new_queue(0);
    struct step_task tasks[] = THREE_TASKS(get, queue);
    void *item;
    for (int i = 1; i <= 2; i++)
        assert_int_equal(orr_queue_try_put(queue, ITEM(i)), 0);
    assert_int_equal(orr_queue_close(queue), 0);
    assert_int_equal(orr_queue_try_put(queue, ITEM(3)), -EPIPE);
    start_tasks(tasks, 3);
    assert_string_equal(notes(), "a=1 b=2 c:EPIPE");
    assert_int_equal(orr_queue_try_get(queue, &item), -EPIPE);
    assert_int_equal(orr_queue_close(queue), 0);
    assert_int_equal(orr_queue_free(queue), 0);
    fixture_close(rt);
}

static void waiting_getters_are_told_when_a_queue_is_closed(void **state)
{
    (void)state;
    open_fixture();
    struct orr_queue *queue = new_queue(0);
    struct step_task tasks[] = THREE_TASKS(get, queue);
    start_tasks(tasks, 3);
    assert_int_equal(orr_queue_try_put(queue, ITEM(1)), 0);
    assert_int_equal(orr_queue_close(queue), 0);
    settle();
    assert_string_equal(notes(), "a=1 b:EPIPE c:EPIPE");
    assert_int_equal(orr_queue_free(queue), 0);
    fixture_close(rt);
}

static void last_item_of_a_closed_queue_passes_to_the_next_getter_if_its_getter_ends(void **state)
{
    (void)state;
    open_fixture();
    struct orr_queue *queue = new_queue(0);
    struct step_task tasks[] = THREE_TASKS(get, queue);
    start_tasks(tasks, 3);
    assert_int_equal(orr_queue_try_put(queue, ITEM(1)), 0);
    assert_int_equal(orr_queue_close(queue), 0);
    drop_task(&tasks[0]);
    settle();
    assert_string_equal(notes(), "b=1 c:EPIPE");
    assert_int_equal(orr_queue_free(queue), 0);
    fixture_close(rt);
}

static void closed_queue_has_not_ended_while_a_granted_item_is_not_picked_up(void **state)
{
    (void)state;
    open_fixture();
    struct orr_queue *queue = new_queue(0);
    struct step_task tasks[] = THREE_TASKS(get, queue);
    void *item;
    start_tasks(tasks, 1);
    assert_int_equal(orr_queue_try_put(queue, ITEM(1)), 0);
    assert_int_equal(orr_queue_close(queue), 0);
    assert_int_equal(orr_queue_try_get(queue, &item), -EAGAIN);
    drop_task(&tasks[0]);
    assert_got(queue, 1);
    assert_int_equal(orr_queue_try_get(queue, &item), -EPIPE);
    assert_int_equal(orr_queue_free(queue), 0);
    fixture_close(rt);
}

static void putters_turned_away_by_a_close_keep_their_items(void **state)
{
    (void)state;
    open_fixture();
    struct orr_queue *queue = new_queue(1);
    struct step_task tasks[] = THREE_TASKS(put, queue);
    start_putters(tasks);
    assert_int_equal(orr_queue_close(queue), 0);
    settle();
    assert_string_equal(notes(), "a b:EPIPE c:EPIPE");
    assert_int_equal(orr_queue_length(queue), 1);
    assert_int_equal(orr_queue_free(queue), 0);
    assert_int_equal(dropped_sum, 1);
    fixture_close(rt);
}

static void freed_queue_drops_its_items(void **state)
{
    (void)state;
    open_fixture();
    struct orr_queue *queue = new_queue(0);
    for (int i = 1; i <= 100; i++)
        assert_int_equal(orr_queue_try_put(queue, ITEM(i)), 0);
    assert_got(queue, 1);
    assert_int_equal(orr_queue_free(queue), 0);
    assert_int_equal(dropped_sum, 5050 - 1);
    fixture_close(rt);
}

/* --- Primitives in use are not freed ---------------------------------------------------------- */

/* A task that was granted something looks at the primitive once more. */
static void event_is_not_freed_before_the_tasks_it_woke_have_run(void **state)
{
    (void)state;
    open_fixture();
    struct orr_event *event = new_event();
    struct step_task waits = { .name = "waits", .body = await_event, .data = event };
    start_tasks(&waits, 1);
    assert_int_equal(orr_event_free(event), -EBUSY);
    assert_int_equal(orr_event_set(event), 1);
    assert_int_equal(orr_event_free(event), -EBUSY);
    settle();
    assert_string_equal(notes(), "waits");
    assert_int_equal(orr_event_free(event), 0);
    fixture_close(rt);
}

static void semaphore_is_not_freed_before_its_permit_has_been_picked_up(void **state)
{
    (void)state;
    open_fixture();
    struct orr_semaphore *semaphore = new_semaphore(1);
    struct step_task waits = { .name = "waits", .body = acquire, .data = semaphore };
    assert_int_equal(orr_semaphore_try(semaphore), 0);
    start_tasks(&waits, 1);
    assert_int_equal(orr_semaphore_free(semaphore), -EBUSY);
    assert_int_equal(orr_semaphore_release(semaphore), 0);
    assert_int_equal(orr_semaphore_free(semaphore), -EBUSY);
    settle();
    assert_int_equal(orr_semaphore_free(semaphore), 0);
    fixture_close(rt);
}

static void mutex_is_not_freed_before_its_next_owner_has_picked_it_up(void **state)
{
    (void)state;
    open_fixture();
    struct mutex_fixture fixture = new_mutex_fixture();
    struct step_task tasks[] = THREE_TASKS(lock_and_unlock, &fixture);
    start_tasks(tasks, 2);
    assert_int_equal(orr_mutex_free(fixture.mutex), -EBUSY);
    assert_int_equal(orr_mutex_unlock(tasks[0].task, fixture.mutex), 0);
    assert_int_equal(orr_mutex_free(fixture.mutex), -EBUSY);
    drop_task(&tasks[0]);
    drop_task(&tasks[1]);
    free_mutex_fixture(&fixture);
    fixture_close(rt);
}

static void queue_is_not_freed_before_its_putters_know_that_they_were_let_in(void **state)
{
    (void)state;
    open_fixture();
    struct orr_queue *queue = new_queue(1);
    struct step_task tasks[] = THREE_TASKS(put, queue);
    start_tasks(tasks, 2);
    assert_int_equal(orr_queue_free(queue), -EBUSY);
    assert_got(queue, 0);
    assert_int_equal(orr_queue_free(queue), -EBUSY);
    settle();
    assert_int_equal(orr_queue_free(queue), 0);
    fixture_close(rt);
}

static void queue_is_not_freed_before_its_getters_know_that_it_is_closed(void **state)
{
    (void)state;
    open_fixture();
    struct orr_queue *queue = new_queue(1);
    struct step_task tasks[] = THREE_TASKS(get, queue);
    start_tasks(tasks, 1);
    assert_int_equal(orr_queue_free(queue), -EBUSY);
    assert_int_equal(orr_queue_close(queue), 0);
    assert_int_equal(orr_queue_free(queue), -EBUSY);
    settle();
    assert_int_equal(orr_queue_free(queue), 0);
    fixture_close(rt);
}

static const struct CMUnitTest queue[] = {
    cmocka_unit_test(unbounded_queue_keeps_the_order_of_its_items),
    cmocka_unit_test(full_queue_lets_putters_in_in_order_of_arrival),
    cmocka_unit_test(waiting_putter_is_let_in_when_a_getter_has_picked_up_its_item),
    cmocka_unit_test(getters_are_served_in_order_of_arrival),
    cmocka_unit_test(item_granted_to_a_waiting_getter_cannot_be_taken_by_another),
    cmocka_unit_test(closed_queue_gives_its_last_items_and_then_ends),
    cmocka_unit_test(waiting_getters_are_told_when_a_queue_is_closed),
    cmocka_unit_test(last_item_of_a_closed_queue_passes_to_the_next_getter_if_its_getter_ends),
    cmocka_unit_test(closed_queue_has_not_ended_while_a_granted_item_is_not_picked_up),
    cmocka_unit_test(putters_turned_away_by_a_close_keep_their_items),
    cmocka_unit_test(freed_queue_drops_its_items),
    cmocka_unit_test(event_is_not_freed_before_the_tasks_it_woke_have_run),
    cmocka_unit_test(semaphore_is_not_freed_before_its_permit_has_been_picked_up),
    cmocka_unit_test(mutex_is_not_freed_before_its_next_owner_has_picked_it_up),
    cmocka_unit_test(queue_is_not_freed_before_its_putters_know_that_they_were_let_in),
    cmocka_unit_test(queue_is_not_freed_before_its_getters_know_that_it_is_closed),
};

HARNESS_MAIN(queue)
