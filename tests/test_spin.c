/* When an idle worker looks for news before it sleeps. */
#include "harness.h"

#include "exec/spin.h"

static const uint64_t quick = SPIN_SHORT_NS - 1;

static void worker_with_cores_to_spare_always_looks(void **state)
{
    (void)state;
    struct spin spin = { .ns = 20000 };
    for (int i = 0; i < 100; i++) {
        assert_true(spin_is_worth_it(&spin, i % 2));
        spin_over(&spin, true);
    }
}

static void worker_that_was_told_to_sleep_never_looks(void **state)
{
    (void)state;
    struct spin spin = { .tries = true };
    for (int i = 0; i < 100; i++)
        spin_slept(&spin, quick);
    assert_false(spin_is_worth_it(&spin, false));
}

static void worker_looks_after_a_short_sleep(void **state)
{
    (void)state;
    struct spin spin = { .ns = SPIN_TRY_NS, .tries = true };
    assert_false(spin_is_worth_it(&spin, false));
    spin_slept(&spin, quick);
    assert_true(spin_is_worth_it(&spin, false));
    assert_false(spin_is_worth_it(&spin, true)); /* the reactor would not be looked at */
    spin_over(&spin, false);
    assert_true(spin_is_worth_it(&spin, false));
    spin_slept(&spin, SPIN_SHORT_NS);
    assert_false(spin_is_worth_it(&spin, false));
}

static void vain_looks_become_rare(void **state)
{
    (void)state;
    struct spin spin = { .ns = SPIN_TRY_NS, .tries = true };
    unsigned looks = 0;
    for (int i = 0; i < 100 * SPIN_MOST_SLEEPS; i++) {
        if (spin_is_worth_it(&spin, false)) {
            looks++;
            spin_over(&spin, true);
        }
        spin_slept(&spin, quick);
    }
    assert_in_range(looks, 50, 120);
}

static void look_that_finds_something_makes_up_for_vain_ones(void **state)
{
    (void)state;
    struct spin spin = { .ns = SPIN_TRY_NS, .tries = true };
    for (int i = 0; i < 8; i++)
        spin_over(&spin, true);
    while (!spin_is_worth_it(&spin, false))
        spin_slept(&spin, quick);
    spin_over(&spin, false);
    spin_slept(&spin, SPIN_SHORT_NS);
    spin_slept(&spin, quick);
    assert_true(spin_is_worth_it(&spin, false));
}

static const struct CMUnitTest spin_tests[] = {
    cmocka_unit_test(worker_with_cores_to_spare_always_looks),
    cmocka_unit_test(worker_that_was_told_to_sleep_never_looks),
    cmocka_unit_test(worker_looks_after_a_short_sleep),
    cmocka_unit_test(vain_looks_become_rare),
    cmocka_unit_test(look_that_finds_something_makes_up_for_vain_ones),
};

HARNESS_MAIN(spin_tests)
