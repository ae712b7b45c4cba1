/* The reactor on its own, as a worker sees it. */
#include "harness.h"

#include "base/bell.h"
#include "base/clock.h"
#include "reactor/reactor.h"

#include <poll.h>
#include <unistd.h>

struct rig {
    struct alloc alloc;
    struct log log;
    struct bell bell;
    struct reactor *reactor;
};

static struct rig rig_open(void)
{
    struct rig rig = { .alloc = alloc_from(NULL, NULL), .log = log_to(NULL, NULL) };
    assert_int_equal(bell_open(&rig.bell), 0);
    assert_int_equal(reactor_open(&rig.reactor, harness_reactor, &rig.alloc, &rig.log, rig.bell.fd), 0);
    return rig;
}

static void rig_close(struct rig *rig)
{
    reactor_close(rig->reactor);
    close(rig->bell.fd);
}

static bool readable_within(int fd, int ms)
{
    struct pollfd ready = { .fd = fd, .events = POLLIN };
    return poll(&ready, 1, ms) == 1;
}

static void wait_lasts_no_shorter_than_asked(void **state)
{
    (void)state;
    struct rig rig = rig_open();
    reactor_wait(rig.reactor, 1000000); /* the bell may show once before it has been rung */
    for (int i = 0; i < 5; i++) {
        uint64_t start = clock_now();
        assert_int_equal(reactor_wait(rig.reactor, 3500000), 0);
        assert_true(clock_now() - start >= 3500000);
    }
    rig_close(&rig);
}

static void bell_ends_a_wait_that_began_after_it_rang(void **state)
{
    (void)state;
    struct rig rig = rig_open();
    for (int i = 0; i < 100; i++) {
        bell_write(&rig.bell);
        assert_int_equal(reactor_wait(rig.reactor, ORR_NEVER), 0); /* hangs if the edge is lost */
    }
    rig_close(&rig);
}

static void deadline_shows_on_the_descriptor_when_it_has_come(void **state)
{
    (void)state;
    struct rig rig = rig_open();
    int fd = reactor_fd(rig.reactor);
    reactor_wait(rig.reactor, 0);
    assert_false(readable_within(fd, 0));
    uint64_t deadline = clock_now() + 5000000;
    assert_int_equal(reactor_show_deadline(rig.reactor, deadline), 0);
    assert_true(readable_within(fd, -1));
    assert_true(clock_now() >= deadline);
    assert_true(readable_within(fd, 0)); /* until the reactor is asked */
    reactor_wait(rig.reactor, 0);
    assert_false(readable_within(fd, 0));

    assert_int_equal(reactor_show_deadline(rig.reactor, 0), 0); /* long past */
    assert_true(readable_within(fd, -1));
    reactor_wait(rig.reactor, 0);
    assert_int_equal(reactor_show_deadline(rig.reactor, clock_now() + 1000000), 0);
    assert_int_equal(reactor_show_deadline(rig.reactor, ORR_NEVER), 0);
    assert_false(readable_within(fd, 20));
    rig_close(&rig);
}

static void reactor_with_nothing_in_flight_has_nothing_to_collect(void **state)
{
    (void)state;
    struct rig rig = rig_open();
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    assert_false(reactor_in_flight(rig.reactor));
    struct orr_io io = { .fd = ends[0], .kind = IO_WAIT, .events = POLLIN };
    assert_int_equal(reactor_start(rig.reactor, &io), 0);
    assert_true(reactor_in_flight(rig.reactor));
    assert_int_equal(write(ends[1], "x", 1), 1);
    while (!reactor_has_done(rig.reactor))
        assert_int_equal(reactor_wait(rig.reactor, ORR_NEVER), 0);
    assert_ptr_equal(reactor_next_done(rig.reactor), &io);
    assert_null(reactor_next_done(rig.reactor));
    assert_false(reactor_in_flight(rig.reactor));
    close(ends[0]);
    close(ends[1]);
    rig_close(&rig);
}

static const struct CMUnitTest reactor_tests[] = {
    cmocka_unit_test(wait_lasts_no_shorter_than_asked),
    cmocka_unit_test(bell_ends_a_wait_that_began_after_it_rang),
    cmocka_unit_test(deadline_shows_on_the_descriptor_when_it_has_come),
    cmocka_unit_test(reactor_with_nothing_in_flight_has_nothing_to_collect),
};

HARNESS_MAIN(reactor_tests)
