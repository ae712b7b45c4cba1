/*
 * The tables behind the wakers: slots, generations, zombies, and what one owner of a table leaves
 * to the next.
 */
#include "harness.h"

#include "exec/waker_table.h"

static struct slot *first_slot(struct waker_table *table)
{
    assert_int_equal(waker_table_reserve(table, 0), 0);
    return waker_table_slot(table, 0);
}

static uint32_t generation_of(struct slot *slot)
{
    return slot_generation(atomic_load(&slot->state));
}

static struct waker_table *acquire(void)
{
    struct waker_table *table;
    assert_int_equal(waker_table_acquire(&table), 0);
    return table;
}

static void chunks_cover_every_index_without_gaps(void **state)
{
    (void)state;
    unsigned chunk = 0;
    uint32_t offset = 0;
    for (uint32_t index = 0; index < 1u << WAKER_SLOT_BITS; index++) {
        struct chunk_position at = chunk_position(index);
        assert_int_equal(at.chunk, chunk);
        assert_int_equal(at.offset, offset);
        if (++offset == chunk_length(chunk)) {
            chunk++;
            offset = 0;
        }
    }
    assert_true(chunk < CHUNK_COUNT);
}

static void waker_keeps_its_table_index_and_generation(void **state)
{
    (void)state;
    struct orr_waker waker = waker_make(1000, 4194303, UINT32_MAX);
    assert_int_equal(waker_table_number(waker), 1000);
    assert_int_equal(waker_slot(waker), 4194303);
    assert_int_equal(waker_generation(waker), UINT32_MAX);
}

static void waker_table_is_reused_and_its_generations_go_on(void **state)
{
    (void)state;
    struct waker_table *table = acquire();
    struct slot *slot = first_slot(table);
    uint32_t generation = generation_of(slot);
    assert_true(slot_vacate(slot, generation, false));
    waker_table_release(table);
    struct waker_table *again = acquire();
    assert_ptr_equal(again, table);
    assert_int_equal(generation_of(first_slot(again)), generation + 1);
    waker_table_release(again);
}

static void second_wake_is_coalesced_and_counted(void **state)
{
    (void)state;
    struct waker_table *table = acquire();
    struct slot *slot = first_slot(table);
    uint32_t generation = generation_of(slot);
    struct orr_waker waker = waker_make(table->number, 0, generation);
    for (int i = 0; i < 3; i++)
        waker_table_wake(waker);
    assert_int_equal(waker_table_take(table), 1);
    assert_int_equal(slot->next, 0);
    assert_true(slot_opened(slot));
    assert_int_equal(slot_acknowledge(slot, generation), 2);
    assert_true(waker_table_inbox_empty(table));
    waker_table_release(table);
}

static void count_of_coalesced_wakes_does_not_overflow_into_the_generation(void **state)
{
    (void)state;
    struct waker_table *table = acquire();
    struct slot *slot = first_slot(table);
    uint32_t generation = generation_of(slot);
    struct orr_waker waker = waker_make(table->number, 0, generation);
    waker_table_wake(waker);
    atomic_fetch_or(&slot->state, SLOT_COALESCED_MASK);
    waker_table_wake(waker);
    assert_int_equal(generation_of(slot), generation);
    waker_table_take(table);
    assert_int_equal(slot_acknowledge(slot, generation), SLOT_COALESCED_MASK / SLOT_COALESCED);
    waker_table_release(table);
}

static void slot_that_ends_in_the_inbox_is_a_zombie_until_it_is_taken_out(void **state)
{
    (void)state;
    struct waker_table *table = acquire();
    struct slot *slot = first_slot(table);
    uint32_t generation = generation_of(slot);
    waker_table_wake(waker_make(table->number, 0, generation));
    assert_false(slot_vacate(slot, generation, false));
    assert_false(slot_vacant(slot));
    waker_table_release(table);

    table = acquire(); /* the next owner finds the zombie */
    assert_false(slot_vacant(first_slot(table)));
    assert_int_equal(waker_table_take(table), 1);
    assert_false(slot_opened(slot));
    assert_true(slot_vacant(slot));
    assert_int_equal(generation_of(slot), generation + 1);
    waker_table_release(table);
}

static void slot_with_no_generation_left_is_retired(void **state)
{
    (void)state;
    struct waker_table *table = acquire();
    struct slot *slot = first_slot(table);
    uint64_t before = atomic_load(&slot->state);
    uint32_t last = SLOT_LAST_GENERATION - 1;
    atomic_store(&slot->state, (uint64_t)last << 32);
    assert_true(slot_vacant(slot));
    assert_false(slot_vacate(slot, last, false));
    assert_false(slot_vacant(slot));

    /* A runtime that uses this table skips the slot. */
    waker_table_release(table);
    struct orr_runtime *rt = harness_runtime(1);
    struct probe probe = { 0 };
    probe_spawn(rt, &probe, ORR_HERE);
    harness_settle(rt);
    assert_int_equal(waker_table_number(probe_waker(&probe)), table->number);
    assert_int_equal(waker_slot(probe_waker(&probe)), 1);
    assert_int_equal(orr_runtime_free(rt), 0);
    atomic_store(&slot->state, before);
}

static void zombie_of_an_earlier_owner_is_reused_later(void **state)
{
    (void)state;
    struct waker_table *table = acquire();
    struct slot *slot = first_slot(table);
    uint32_t generation = generation_of(slot);
    /* A wake that is under way: it has set the flag, but has not pushed the slot yet. */
    atomic_fetch_or(&slot->state, SLOT_NOTIFIED);
    assert_false(slot_vacate(slot, generation, false));
    waker_table_release(table);

    struct orr_runtime *rt = harness_runtime(1);
    struct probe first = { 0 }, second = { 0 };
    probe_spawn(rt, &first, ORR_HERE);
    harness_settle(rt);
    assert_int_equal(waker_slot(probe_waker(&first)), 1);
    slot->next = 0; /* the wake arrives now */
    atomic_store(&table->inbox, 1);
    harness_settle(rt);
    probe_spawn(rt, &second, ORR_HERE);
    harness_settle(rt);
    assert_int_equal(waker_slot(probe_waker(&second)), 0);
    assert_int_equal(waker_generation(probe_waker(&second)), generation + 1);
    assert_int_equal(first.polls, 1);
    assert_int_equal(orr_runtime_free(rt), 0);
}

static const struct CMUnitTest waker_table[] = {
    cmocka_unit_test(chunks_cover_every_index_without_gaps),
    cmocka_unit_test(waker_keeps_its_table_index_and_generation),
    cmocka_unit_test(waker_table_is_reused_and_its_generations_go_on),
    cmocka_unit_test(second_wake_is_coalesced_and_counted),
    cmocka_unit_test(count_of_coalesced_wakes_does_not_overflow_into_the_generation),
    cmocka_unit_test(slot_that_ends_in_the_inbox_is_a_zombie_until_it_is_taken_out),
    cmocka_unit_test(slot_with_no_generation_left_is_retired),
    cmocka_unit_test(zombie_of_an_earlier_owner_is_reused_later),
};

HARNESS_MAIN(waker_table)
