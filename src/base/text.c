#include "base/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

size_t text_cut(const char *text, size_t length, size_t most)
{
    enum { LONGEST = 4 }; /* bytes of a character */
    if (length <= most)
        return length;
    size_t end = most;
    /* In the middle of a character. */
    while (end && most - end < LONGEST && ((unsigned char)text[end] & 0xc0) == 0x80)
        end--;
    return most - end < LONGEST ? end : most;
}

void text_name(char out[TEXT_NAME_ROOM], const char *name)
{
    static const char more[] = "...";
    size_t length = strnlen(name, TEXT_NAME_ROOM);
    if (length <= TEXT_NAME) {
        memcpy(out, name, length + 1);
        return;
    }
    size_t kept = text_cut(name, length, TEXT_NAME - (sizeof more - 1));
    memcpy(out, name, kept);
    memcpy(out + kept, more, sizeof more);
}

void text_size(char out[TEXT_SIZE_ROOM], size_t bytes)
{
    static const char *const units[] = { "bytes", "KB", "MB", "GB", "TB" };
    size_t unit = 0;
    double size = (double)bytes;
    for (; size >= 1000 && unit + 1 < sizeof units / sizeof *units; unit++)
        size /= 1024;
    snprintf(out, TEXT_SIZE_ROOM, "%.3g %s", size, units[unit]);
}

static uint64_t round_to(uint64_t ns, uint64_t step)
{
    return ns - ns % step + (ns % step >= step - step / 2 ? step : 0);
}

/* Writes three digits of a unit, with two, one or no decimals. */
static uint64_t round_to_digits(uint64_t ns, uint64_t unit)
{
    uint64_t rounded = round_to(ns, unit / 100);
    if (rounded >= 10 * unit)
        rounded = round_to(ns, unit / 10);
    return rounded >= 100 * unit ? round_to(ns, unit) : rounded;
}

static void write_decimal(char out[TEXT_DURATION_ROOM], uint64_t ns, uint64_t unit, const char *name)
{
    unsigned hundredths = (unsigned)(ns % unit / (unit / 100));
    if (!hundredths)
        snprintf(out, TEXT_DURATION_ROOM, "%" PRIu64 " %s", ns / unit, name);
    else if (hundredths % 10)
        snprintf(out, TEXT_DURATION_ROOM, "%" PRIu64 ".%02u %s", ns / unit, hundredths, name);
    else
        snprintf(out, TEXT_DURATION_ROOM, "%" PRIu64 ".%u %s", ns / unit, hundredths / 10, name);
}

/* Writes two units; leaves out the second if it is 0. */
static void write_pair(char out[TEXT_DURATION_ROOM], uint64_t parts, uint64_t size, const char *large,
                       const char *small)
{
    int length = snprintf(out, TEXT_DURATION_ROOM, "%" PRIu64 " %s", parts / size, large);
    if (parts % size)
        snprintf(out + length, TEXT_DURATION_ROOM - (size_t)length, " %" PRIu64 " %s", parts % size, small);
}

void text_duration(char out[TEXT_DURATION_ROOM], uint64_t ns)
{
    static const struct {
        const char *name;
        uint64_t ns, end; /* the first amount that needs the next unit */
    } units[] = { { "us", 1000, 1000000 }, { "ms", 1000000, 1000000000 }, { "s", 1000000000, 120000000000 } };
    if (ns < 1000) {
        snprintf(out, TEXT_DURATION_ROOM, "%" PRIu64 " %s", ns, ns ? "ns" : "s");
        return;
    }
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        uint64_t rounded = ns < units[i].end ? round_to_digits(ns, units[i].ns) : ns;
        if (rounded < units[i].end) {
            write_decimal(out, rounded, units[i].ns, units[i].name);
            return;
        }
    }
    uint64_t seconds = ns / 1000000000 + (ns % 1000000000 >= 500000000);
    if (seconds < 7200)
        write_pair(out, seconds, 60, "min", "s");
    else
        write_pair(out, seconds / 60 + (seconds % 60 >= 30), 60, "h", "min");
}
