/* The wheel compared with a simple sorted list, and special cases of time. */
#include "harness.h"

#include "time/histogram.h"
#include "time/wheel.h"

#include <stdio.h>
#include <stdlib.h>

struct item {
    struct wheel_entry entry;
    uint64_t order; /* order of insertion; 0 when it is in no wheel */
};

static bool keep_all(void *data, struct wheel_entry *entry)
{
    (void)data;
    (void)entry;
    return true;
}

static bool starts_before(const struct orr_link *a, const struct orr_link *b)
{
    return container_of(a, struct item, entry.link)->order < container_of(b, struct item, entry.link)->order;
}

static struct item *pop(struct wheel *wheel, uint64_t now)
{
    unsigned steps = 1000000;
    struct wheel_entry *entry = wheel_pop(wheel, now, &steps, keep_all, NULL);
    assert_true(steps > 0);
    return entry ? container_of(entry, struct item, entry) : NULL;
}

/* --- A random sequence compared with a model -------------------------------------------------- */

static uint64_t random_state;

/* From a nanosecond to years, each magnitude with the same probability. */
static uint64_t random_span(unsigned bits)
{
    return random_bits(&random_state) >> (64 - 1 - random_bits(&random_state) % bits);
}

enum { ITEMS = 200 };

struct walk {
    struct wheel wheel;
    struct item items[ITEMS];
    uint64_t now, inserted;
};

static struct item *soonest(struct walk *walk)
{
    struct item *best = NULL;
    for (int i = 0; i < ITEMS; i++) {
        struct item *item = &walk->items[i];
        if (item->order && (!best || item->entry.deadline < best->entry.deadline ||
                            (item->entry.deadline == best->entry.deadline && item->order < best->order)))
            best = item;
    }
    return best;
}

static void walk_pop(struct walk *walk)
{
    unsigned steps = (unsigned)(random_bits(&random_state) % 40);
    while (steps) {
        struct wheel_entry *entry = wheel_pop(&walk->wheel, walk->now, &steps, keep_all, NULL);
        struct item *expected = soonest(walk);
        if (entry) {
            assert_ptr_equal(container_of(entry, struct item, entry), expected);
            assert_true(entry->deadline <= walk->now);
            expected->order = 0;
        } else if (steps) {
            assert_true(!expected || expected->entry.deadline > walk->now);
            break;
        }
    }
}

static void walk_insert(struct walk *walk, struct item *item)
{
    uint64_t deadline = walk->now + random_span(60);
    switch (random_bits(&random_state) % 8) {
    case 0: /* in the past */
        deadline = walk->now - random_span(30) % (walk->now + 1);
        break;
    case 1: /* equal to that of another entry */
        deadline = walk->items[random_bits(&random_state) % ITEMS].entry.deadline;
        break;
    case 2: /* close to that of another entry */
        deadline = walk->items[random_bits(&random_state) % ITEMS].entry.deadline + random_bits(&random_state) % 20000;
        break;
    }
    wheel_insert(&walk->wheel, &item->entry, deadline);
    item->order = ++walk->inserted;
    assert_true(item->entry.deadline >= deadline);
}

static void walk_step(struct walk *walk)
{
    struct item *item = &walk->items[random_bits(&random_state) % ITEMS];
    switch (random_bits(&random_state) % 8) {
    case 0:
        walk->now += random_span(random_bits(&random_state) % 16 ? 34 : 58);
        /* fall through */
    case 1:
    case 2:
        walk_pop(walk);
        break;
    case 3:
        wheel_scrub(&walk->wheel, (unsigned)(random_bits(&random_state) % 8), keep_all, NULL);
        break;
    default:
        if (item->order) {
            wheel_remove(&walk->wheel, &item->entry);
            item->order = 0;
        } else {
            walk_insert(walk, item);
        }
    }
    struct item *expected = soonest(walk);
    assert_true(wheel_next(&walk->wheel) <= (expected ? expected->entry.deadline : ORR_NEVER));
    assert_true(!expected == (wheel_next(&walk->wheel) == ORR_NEVER));
}

static void wheel_agrees_with_a_sorted_list_at_every_step(void **state)
{
    (void)state;
    random_state = harness_seed(20261115) * 2 + 1;
    struct walk *walk = malloc(sizeof *walk);
    for (int round = 0; round < 40; round++) {
        walk->now = random_span(50);
        walk->inserted = 0;
        wheel_init(&walk->wheel, walk->now, starts_before);
        for (int i = 0; i < ITEMS; i++)
            walk->items[i] = (struct item){ .entry.deadline = walk->now };
        for (int step = 0; step < WORK(100000); step++)
            walk_step(walk);
    }
    free(walk);
}

/* --- Special cases ---------------------------------------------------------------------------- */

static void entry_is_due_at_its_deadline_and_never_early(void **state)
{
    (void)state;
    static const uint64_t delays[] = { 1,         8191, 8192,       8193,      1 * MS, SECOND, 20 * 60 * SECOND,
                                       36 * HOUR, YEAR, 100 * YEAR, 292 * YEAR };
    static struct wheel wheel;
    for (size_t i = 0; i < LENGTH(delays); i++) {
        uint64_t now = 123456789;
        struct item item = { 0 };
        wheel_init(&wheel, now, starts_before);
        wheel_insert(&wheel, &item.entry, now + delays[i]);
        /* Exact, so that no wake comes too early. */
        assert_int_equal(wheel_next(&wheel), now + delays[i]);
        assert_null(pop(&wheel, now));
        assert_null(pop(&wheel, now + delays[i] / 2));
        assert_null(pop(&wheel, now + delays[i] - 1));
        assert_ptr_equal(pop(&wheel, now + delays[i]), &item);
        assert_null(pop(&wheel, ORR_NEVER));
        assert_true(wheel_next(&wheel) == ORR_NEVER);
    }
}

static void equal_deadlines_keep_their_order_in_every_ring(void **state)
{
    (void)state;
    static struct wheel wheel;
    uint64_t deadline = 40 * DAY + 77;
    struct item items[60] = { 0 };
    wheel_init(&wheel, 0, starts_before);
    uint64_t now = 0;
    for (size_t i = 0; i < LENGTH(items); i++) {
        wheel_insert(&wheel, &items[i].entry, deadline);
        now += (deadline - now) / 2; /* closer each time, through every ring */
        assert_null(pop(&wheel, now));
    }
    for (size_t i = 0; i < LENGTH(items); i++)
        assert_ptr_equal(pop(&wheel, deadline), &items[i]);
}

static void entries_of_one_tick_come_in_the_order_of_their_deadlines(void **state)
{
    (void)state;
    static struct wheel wheel;
    static struct item items[5000];
    wheel_init(&wheel, 0, starts_before);
    uint64_t base = 100 << 13;
    for (unsigned i = 0; i < LENGTH(items); i++)
        /* Every deadline differs. */
        wheel_insert(&wheel, &items[i].entry, base + (i * 7919) % 5000);
    for (unsigned i = 0; i < LENGTH(items); i++) {
        assert_null(pop(&wheel, base + i - 1));
        struct item *item = pop(&wheel, base + i);
        assert_non_null(item);
        assert_int_equal(item->entry.deadline, base + i);
    }
}

static void long_pause_costs_only_the_due_entries(void **state)
{
    (void)state;
    static const uint64_t pauses[] = { HOUR, DAY, YEAR };
    static struct wheel wheel;
    for (size_t p = 0; p < LENGTH(pauses); p++) {
        struct item items[100] = { 0 };
        wheel_init(&wheel, 0, starts_before);
        for (unsigned i = 0; i < LENGTH(items); i++)
            wheel_insert(&wheel, &items[i].entry, pauses[p] / 100 * i + 1);
        /* Each entry is taken once, and spilled at most once in each ring. */
        unsigned steps = 100 + 100 * WHEEL_RINGS;
        for (unsigned i = 0; i < LENGTH(items); i++)
            assert_ptr_equal(wheel_pop(&wheel, pauses[p], &steps, keep_all, NULL), &items[i].entry);
    }
}

static void advance_continues_where_its_budget_ran_out(void **state)
{
    (void)state;
    static struct wheel wheel;
    static struct item items[1000];
    wheel_init(&wheel, 0, starts_before);
    for (unsigned i = 0; i < LENGTH(items); i++)
        wheel_insert(&wheel, &items[i].entry, HOUR + i * 100);
    unsigned taken = 0, calls = 0;
    while (taken < LENGTH(items)) {
        unsigned steps = 7;
        struct wheel_entry *entry;
        while ((entry = wheel_pop(&wheel, 2 * HOUR, &steps, keep_all, NULL)))
            assert_ptr_equal(entry, &items[taken++].entry);
        /* There is more to do. */
        assert_true(wheel_next(&wheel) <= 2 * HOUR || taken == LENGTH(items));
        calls++;
    }
    assert_true(calls > 1000 / 7);
}

static void entry_added_while_its_bucket_is_spilled_keeps_its_order(void **state)
{
    (void)state;
    static struct wheel wheel;
    struct item items[10] = { 0 }, later = { 0 }, late = { 0 };
    wheel_init(&wheel, 0, starts_before);
    wheel_insert(&wheel, &later.entry, HOUR + 1); /* the bucket has to be spilled */
    for (unsigned i = 0; i < LENGTH(items); i++)
        wheel_insert(&wheel, &items[i].entry, HOUR);
    unsigned steps = 3;
    assert_null(wheel_pop(&wheel, HOUR, &steps, keep_all, NULL));
    assert_true(wheel.spilling);
    wheel_insert(&wheel, &late.entry, HOUR);
    for (unsigned i = 0; i < LENGTH(items); i++)
        assert_ptr_equal(pop(&wheel, HOUR), &items[i]);
    assert_ptr_equal(pop(&wheel, HOUR), &late);
}

static bool drop_odd(void *data, struct wheel_entry *entry)
{
    struct item *items = data;
    size_t index = (size_t)(container_of(entry, struct item, entry) - items);
    return index % 2 == 0;
}

static void scrub_reaches_every_bucket_and_leaves_the_rest_in_order(void **state)
{
    (void)state;
    static struct wheel wheel;
    static struct item items[500];
    wheel_init(&wheel, 0, starts_before);
    for (unsigned i = 0; i < LENGTH(items); i++)
        wheel_insert(&wheel, &items[i].entry, (uint64_t)(i + 2) * (i + 2) * (i + 2) * (i + 2) * (i + 2) * 1000);
    for (int turn = 0; turn < 200; turn++)
        wheel_scrub(&wheel, 16, drop_odd, items);
    assert_int_equal(wheel.count, LENGTH(items) / 2);
    for (unsigned i = 0; i < LENGTH(items); i += 2)
        assert_ptr_equal(pop(&wheel, ORR_NEVER), &items[i]);
    assert_null(pop(&wheel, ORR_NEVER));
    wheel_scrub(&wheel, 16, drop_odd, items); /* there is nothing to scrub */
}

static void scrub_gets_to_the_end_of_a_long_list_while_buckets_are_opened(void **state)
{
    (void)state;
    static struct wheel wheel;
    static struct item items[5000], ticker;
    wheel_init(&wheel, 0, starts_before);
    for (unsigned i = 0; i < LENGTH(items); i++)
        wheel_insert(&wheel, &items[i].entry, HOUR);
    uint64_t now = 0;
    for (int turn = 0; turn < 400; turn++) { /* enough for a little more than one round */
        wheel_insert(&wheel, &ticker.entry, now + 100000);
        now += 100000;
        assert_ptr_equal(pop(&wheel, now), &ticker);
        wheel_scrub(&wheel, 16, drop_odd, items);
    }
    assert_int_equal(wheel.count, LENGTH(items) / 2);
}

static void histogram_has_a_class_for_every_duration(void **state)
{
    (void)state;
    unsigned before = 0;
    for (uint64_t ns = 0; ns < UINT64_MAX / 3 * 2; ns += ns / 7 + 1) {
        unsigned class = histogram_class(ns);
        assert_true(class < HISTOGRAM_CLASSES);
        assert_true(class == before || class == before + 1);
        assert_true(ns <= histogram_limit(class));
        assert_true(class == 0 || ns > histogram_limit(class - 1));
        before = class;
    }
    assert_true(histogram_class(UINT64_MAX) < HISTOGRAM_CLASSES);
}

static void drain_empties_a_wheel_in_any_state(void **state)
{
    (void)state;
    static struct wheel wheel;
    struct item items[50] = { 0 };
    wheel_init(&wheel, 0, starts_before);
    for (unsigned i = 0; i < LENGTH(items); i++)
        wheel_insert(&wheel, &items[i].entry, (i % 3) * HOUR + i);
    unsigned steps = 20; /* some are due, some half spilled, some untouched */
    assert_non_null(wheel_pop(&wheel, HOUR, &steps, keep_all, NULL));
    unsigned drained = 0;
    while (wheel_drain(&wheel))
        drained++;
    assert_int_equal(drained, LENGTH(items) - 1);
    assert_int_equal(wheel.count, 0);
    assert_true(wheel_next(&wheel) == ORR_NEVER);
}

static const struct CMUnitTest wheel_tests[] = {
    cmocka_unit_test(wheel_agrees_with_a_sorted_list_at_every_step),
    cmocka_unit_test(entry_is_due_at_its_deadline_and_never_early),
    cmocka_unit_test(equal_deadlines_keep_their_order_in_every_ring),
    cmocka_unit_test(entries_of_one_tick_come_in_the_order_of_their_deadlines),
    cmocka_unit_test(long_pause_costs_only_the_due_entries),
    cmocka_unit_test(advance_continues_where_its_budget_ran_out),
    cmocka_unit_test(entry_added_while_its_bucket_is_spilled_keeps_its_order),
    cmocka_unit_test(scrub_reaches_every_bucket_and_leaves_the_rest_in_order),
    cmocka_unit_test(scrub_gets_to_the_end_of_a_long_list_while_buckets_are_opened),
    cmocka_unit_test(histogram_has_a_class_for_every_duration),
    cmocka_unit_test(drain_empties_a_wheel_in_any_state),
};

HARNESS_MAIN(wheel_tests)
