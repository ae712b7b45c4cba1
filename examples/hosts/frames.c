#include "frames.h"

#include <stdio.h>
#include <stdlib.h>

#define FRAME_NS (UINT64_C(1000000000) / 60)

void frames_add(struct frames *frames, uint64_t now)
{
    if (frames->last && frames->count < FRAMES_MAX)
        frames->intervals[frames->count++] = now - frames->last;
    frames->last = now;
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static double part_us(const struct frames *frames, double part)
{
    return (double)frames->intervals[(unsigned)(part * (frames->count - 1) + 0.5)] / 1000;
}

struct frames_figures frames_figures(struct frames *frames)
{
    struct frames_figures figures = { .count = frames->count };
    if (!frames->count)
        return figures;
    qsort(frames->intervals, frames->count, sizeof frames->intervals[0], compare);
    figures.p50_us = part_us(frames, 0.5);
    figures.p999_us = part_us(frames, 0.999);
    figures.max_us = part_us(frames, 1);
    for (unsigned i = 0; i < frames->count; i++)
        figures.missed += frames->intervals[i] > FRAME_NS * 3 / 2;
    return figures;
}

void frames_line(const char *mode, const char *what, double value, const char *unit, double bare)
{
    char name[80], ratio[16] = "-";
    snprintf(name, sizeof name, "compositor_%s_%s", mode, what);
    if (bare > 0)
        snprintf(ratio, sizeof ratio, "%.3f", value / bare);
    printf("%-36s %10.1f %-8s %7s %s\n", name, value, unit, ratio, bare > 0 ? "compositor_no-script" : "-");
}

void frames_print(const char *mode, const struct frames_figures *figures, const struct frames_figures *bare)
{
    frames_line(mode, "frames", figures->count, "frames", 0);
    frames_line(mode, "p50", figures->p50_us, "us", bare ? bare->p50_us : 0);
    frames_line(mode, "p99.9", figures->p999_us, "us", bare ? bare->p999_us : 0);
    frames_line(mode, "max", figures->max_us, "us", bare ? bare->max_us : 0);
    frames_line(mode, "missed", figures->missed, "frames", 0);
}
