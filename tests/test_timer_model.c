/*
 * Timers against a naive model: a random sequence of starts, restarts, cancels and frees, with many
 * equal deadlines.  All that is due must fire, and nothing else, in the order of deadlines and of
 * starts.
 */
#include "alarm.h"
#include "failing.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>

enum { TIMERS = 6000 }; /* more than fit into a cache, as the library sees it */

struct model {
    struct orr_timer *timer;
    uint64_t deadline; /* 0: not started */
    uint64_t order;    /* of its start */
};

static struct model models[TIMERS];
static struct model *fired[TIMERS], *expected[TIMERS];
static unsigned fired_count;
static uint64_t starts, random_state;

static unsigned allocations_left = UINT_MAX;

static bool may_allocate(void)
{
    if (!allocations_left)
        return false;
    allocations_left--;
    return true;
}

static void note_fire(struct orr_timer *timer, void *data, int status)
{
    struct model *model = data;
    assert_ptr_equal(model->timer, timer);
    assert_int_equal(status, 0);
    assert_true(fired_count < TIMERS);
    fired[fired_count++] = model;
}

static unsigned below(unsigned limit)
{
    return (unsigned)(random_bits(&random_state) % limit);
}

static void make(struct orr_runtime *rt, struct model *model)
{
    struct orr_timer_options what = { .fire = note_fire, .data = model, .local = below(2) };
    assert_int_equal(orr_timer_new(rt, &what, &model->timer), 0);
    model->deadline = 0;
}

/* Near or far, on a coarse grid, so that many are equal. */
static uint64_t random_deadline(uint64_t now)
{
    static const uint64_t grids[] = { 1, 50, 5000, MS, 100 * MS };
    uint64_t grid = grids[below(LENGTH(grids))];
    return (now / grid + 1 + below(20)) * grid;
}

static void operate(struct orr_runtime *rt, struct model *model, uint64_t now)
{
    switch (below(8)) {
    case 0:
        assert_int_equal(orr_timer_cancel(model->timer), model->deadline ? ORR_CANCELLED : ORR_TOO_LATE);
        model->deadline = 0;
        break;
    case 1:
        if (below(8))
            break;
        orr_timer_free(model->timer);
        make(rt, model);
        break;
    case 2: /* exactly where it is, or where another is */
        if (!model->deadline)
            break;
        /* fall through */
    case 3:
        model->deadline = model->deadline ? model->deadline : models[below(TIMERS)].deadline;
        if (model->deadline <= now)
            model->deadline = random_deadline(now);
        assert_int_equal(orr_timer_start_at(model->timer, model->deadline, 0), 0);
        model->order = ++starts;
        break;
    default:
        model->deadline = random_deadline(now);
        assert_int_equal(orr_timer_start_at(model->timer, model->deadline, 0), 0);
        model->order = ++starts;
    }
}

static int by_deadline_and_start(const void *left, const void *right)
{
    const struct model *a = *(struct model *const *)left, *b = *(struct model *const *)right;
    if (a->deadline != b->deadline)
        return a->deadline < b->deadline ? -1 : 1;
    return a->order < b->order ? -1 : 1;
}

static void check_fires(uint64_t now)
{
    unsigned count = 0;
    for (unsigned i = 0; i < TIMERS; i++)
        if (models[i].deadline && models[i].deadline <= now)
            expected[count++] = &models[i];
    qsort(expected, count, sizeof *expected, by_deadline_and_start);
    assert_int_equal(fired_count, count);
    for (unsigned i = 0; i < count; i++) {
        assert_ptr_equal(fired[i], expected[i]);
        fired[i]->deadline = 0;
    }
}

static void timers_fire_in_the_order_of_deadlines_and_starts(void **state)
{
    (void)state;
    random_state = harness_seed(20261118) * 2 + 1;
    struct orr_runtime *rt = runtime_on(ORR_CLOCK_MANUAL, 1);
    for (unsigned i = 0; i < TIMERS; i++)
        make(rt, &models[i]);
    for (int round = 0; round < WORK(2000); round++) {
        assert_int_equal(orr_runtime_enter(rt), 0);
        /* In some rounds among a few timers only, so that they are restarted many times. */
        unsigned among = below(2) ? TIMERS : 1 + below(50);
        for (unsigned i = below(4) ? 500 : 5; i; i--)
            operate(rt, &models[below(among)], orr_runtime_now(rt));
        orr_runtime_leave(rt);
        fired_count = 0;
        advance(rt, below(4) ? below(100000) : below(100) * MS);
        check_fires(orr_runtime_now(rt));
    }
    for (unsigned i = 0; i < TIMERS; i++)
        orr_timer_free(models[i].timer);
    assert_int_equal(orr_runtime_free(rt), 0);
}

/* --- Memory ----------------------------------------------------------------------------------- */

static void timers_that_find_no_memory_leave_none_behind(void **state)
{
    (void)state;
    for (unsigned most = 0; most < 40; most++) {
        struct orr_runtime *rt = orr_runtime_new(&(struct orr_options){ .alloc = failing_alloc });
        assert_non_null(rt);
        allocations_left = most / 4;
        struct orr_timer *timers[2000];
        unsigned made = 0;
        struct orr_timer_options what = { .fire = note_fire };
        int error = 0;
        while (made < LENGTH(timers) && !(error = orr_timer_new(rt, &what, &timers[made])))
            made++;
        assert_true(error == 0 || error == -ENOMEM);
        allocations_left = UINT_MAX;
        /* In a different order each time; then there is memory again, also for the same places. */
        for (unsigned i = most % 4; i < made; i += 4)
            orr_timer_free(timers[i]);
        for (unsigned i = most % 4; i < made; i += 4)
            assert_int_equal(orr_timer_new(rt, &what, &timers[i]), 0);
        for (unsigned i = 0; i < made; i++)
            orr_timer_free(timers[most % 2 ? i : made - 1 - i]);
        assert_int_equal(orr_runtime_free(rt), 0);
        assert_int_equal(allocated_bytes, 0);
    }
}

static const struct CMUnitTest timer_model_tests[] = {
    cmocka_unit_test(timers_fire_in_the_order_of_deadlines_and_starts),
    cmocka_unit_test(timers_that_find_no_memory_leave_none_behind),
};

HARNESS_MAIN(timer_model_tests)
