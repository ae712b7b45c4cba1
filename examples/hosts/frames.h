/*
 * Measures how regularly frames come, and prints lines as the benchmarks do: "name value unit ratio
 * peer".
 */
#ifndef FRAMES_H
#define FRAMES_H

#include <stdint.h>

enum { FRAMES_MAX = 65536 }; /* a quarter of an hour at 60 Hz; later frames are not counted */

struct frames {
    uint64_t last; /* the time of the last frame, in nanoseconds; 0 before the first */
    unsigned count;
    uint64_t intervals[FRAMES_MAX];
};

void frames_add(struct frames *frames, uint64_t now);

struct frames_figures {
    unsigned count;
    double p50_us, p999_us, max_us;
    unsigned missed; /* intervals of more than one and a half frames at 60 Hz */
};

/* Sorts the intervals. */
struct frames_figures frames_figures(struct frames *frames);

/* `bare` are the figures without a script, to compare with; may be NULL. */
void frames_print(const char *mode, const struct frames_figures *figures, const struct frames_figures *bare);

/* Prints one more line; `bare` 0 for no comparison. */
void frames_line(const char *mode, const char *what, double value, const char *unit, double bare);

#endif
