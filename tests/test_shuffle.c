/*
 * Ready tasks run in a random order: the same order for the same seed, another for another seed,
 * and in order of arrival without a seed.
 */
#include "harness.h"

#include <string.h>

enum { TASKS = 40 };

struct trace {
    char order[TASKS + 1];
    unsigned count;
};

struct runner {
    struct trace *trace;
    char name;
    bool begun;
};

/* The first poll only makes the task ready again, together with all others. */
static enum orr_poll run(struct orr_task *task, void *data)
{
    struct runner *self = data;
    if (!self->begun) {
        self->begun = true;
        return orr_task_yield(task);
    }
    self->trace->order[self->trace->count++] = self->name;
    return ORR_DONE;
}

static struct trace trace_of(uint64_t seed)
{
    struct trace trace = { 0 };
    struct runner runners[TASKS];
    struct orr_runtime *rt = harness_runtime_with((struct orr_options){ .shuffle_seed = seed });
    for (int i = 0; i < TASKS; i++) {
        runners[i] = (struct runner){ &trace, (char)('0' + i), false };
        assert_int_equal(orr_spawn(rt, &(struct orr_spawn){ .poll = run, .data = &runners[i] }), 0);
    }
    assert_int_equal(orr_runtime_run(rt), 0);
    assert_int_equal(orr_runtime_free(rt), 0);
    assert_int_equal(trace.count, TASKS);
    return trace;
}

static void ready_tasks_run_in_order_without_a_seed(void **state)
{
    (void)state;
    struct trace trace = trace_of(0);
    for (int i = 0; i < TASKS; i++)
        assert_int_equal(trace.order[i], '0' + i);
}

static void the_same_seed_gives_the_same_order_and_each_task_its_turn(void **state)
{
    (void)state;
    struct trace first = trace_of(5), again = trace_of(5), other = trace_of(6), plain = trace_of(0);
    assert_string_equal(first.order, again.order);
    assert_string_not_equal(first.order, other.order);
    assert_string_not_equal(first.order, plain.order);
    for (int i = 0; i < TASKS; i++)
        assert_non_null(strchr(first.order, '0' + i));
}

static const struct CMUnitTest shuffle[] = {
    cmocka_unit_test(ready_tasks_run_in_order_without_a_seed),
    cmocka_unit_test(the_same_seed_gives_the_same_order_and_each_task_its_turn),
};

HARNESS_MAIN(shuffle)
