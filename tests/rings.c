#include "rings.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

enum { NAPS = 20000, RING_BYTES = 32768 };

int ring_open_patiently(ring_open_fn *open, unsigned entries, struct io_uring *ring, struct io_uring_params *params)
{
    const struct io_uring_params wanted = *params;
    int error = open(entries, ring, params);
    for (int nap = 0; error == -ENOMEM && nap < NAPS; nap++) {
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
        *params = wanted;
        error = open(entries, ring, params);
    }
    return error;
}

void rings_explain(int error)
{
    struct rlimit locked;
    getrlimit(RLIMIT_MEMLOCK, &locked);
    if (error == -ENOMEM)
        printf("left out: %d rings of io_uring need more than the %llu KB of locked memory that the user may have "
               "(ulimit -l)\n",
               RINGS_NEEDED, (unsigned long long)locked.rlim_cur / 1024);
    else
        printf("left out: io_uring is not available: %s\n", strerror(-error));
    fflush(stdout);
}

/* With so much locked memory there is room for all rings, sooner or later. */
static bool has_room(void)
{
    struct rlimit locked;
    return getrlimit(RLIMIT_MEMLOCK, &locked) == 0 && locked.rlim_cur >= (rlim_t)RINGS_NEEDED * RING_BYTES;
}

bool rings_available(ring_open_fn *open)
{
    struct io_uring rings[RINGS_NEEDED];
    unsigned wanted = has_room() ? 1 : RINGS_NEEDED, count = 0;
    int error = 0;
    while (count < wanted && !error) {
        struct io_uring_params params = { 0 };
        error = wanted == 1 ? ring_open_patiently(open, RING_ENTRIES, &rings[count], &params)
                            : open(RING_ENTRIES, &rings[count], &params);
        if (!error)
            count++;
    }
    while (count)
        io_uring_queue_exit(&rings[--count]);
    if (error)
        rings_explain(error);
    return !error;
}
