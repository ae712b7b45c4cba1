/*
 * Powers of ten, scaled to 128 bits by powers of two.  With p = powers[n - POWER_FIRST] as a number
 * of 128 bits, whose top bit is set:
 *
 *     p - 1 < 10^n / 2^(power_exponent(n) - 127) <= p
 *
 * and p is exact for n from 0 to 55.  tools/make-powers has made the table.
 */
#ifndef ORR_LUA_JSON_POWERS_H
#define ORR_LUA_JSON_POWERS_H

#include <stdint.h>

enum {
    POWER_FIRST = -342,
    POWER_LAST = 324,
    POWER_EXACT = 55,
};

struct power {
    uint64_t high, low;
};

extern const struct power powers[POWER_LAST - POWER_FIRST + 1];

static inline struct power power_of_ten(int n)
{
    return powers[n - POWER_FIRST];
}

/* The exponent of the highest power of two that is at most 10^n. */
static inline int power_exponent(int n)
{
    return n * 1741647 >> 19;
}

struct product {
    uint64_t high, low;
};

static inline struct product multiply(uint64_t a, uint64_t b)
{
#ifdef __SIZEOF_INT128__
    __extension__ typedef unsigned __int128 wide;
    wide product = (wide)a * b;
    return (struct product){ .high = (uint64_t)(product >> 64), .low = (uint64_t)product };
#else
    uint64_t a0 = (uint32_t)a, a1 = a >> 32, b0 = (uint32_t)b, b1 = b >> 32;
    uint64_t low = a0 * b0, middle = a1 * b0 + (low >> 32), other = a0 * b1 + (uint32_t)middle;
    return (struct product){ .high = a1 * b1 + (middle >> 32) + (other >> 32), .low = other << 32 | (uint32_t)low };
#endif
}

#endif
