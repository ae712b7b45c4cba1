/*
 * The shortest decimal number that is read as a given float, and of the shortest the nearest to it.
 *
 * This is the algorithm of R. Giulietti, "The Schubfach way to render doubles".  Every float has an
 * interval of real numbers that are rounded to it.  A power of ten 10^k is chosen such that the
 * interval is longer than 10^k, but not than 10^(k+1).  Then at least one multiple of 10^k is
 * inside, and at most one of 10^(k+1); that one, if it is there, is the shortest.  The ends of the
 * interval and the float itself are computed in units of 10^k / 4, as integers whose lowest bit
 * says whether anything is beyond it.  For comparisons that is as good as the exact number.
 */
#include "lua/json/number.h"
#include "lua/json/powers.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum {
    MANTISSA = 52,     /* bits of a float that are stored */
    EXPONENTS = 0x7ff, /* mask of the stored exponent */
    BIAS = 1075,       /* of an exponent whose mantissa is an integer */
    ALWAYS_FIXED = 15, /* digits that are written without an exponent */
};

/* The numbers from 00 to 99. */
static const char pairs[] = "00010203040506070809101112131415161718192021222324"
                            "25262728293031323334353637383940414243444546474849"
                            "50515253545556575859606162636465666768697071727374"
                            "75767778798081828384858687888990919293949596979899";

/* --- Integers --------------------------------------------------------------------------------- */

/* How many digits a number has; 1 for zero. */
static inline int count_digits(uint64_t value)
{
    static const uint64_t tens[] = { 0,
                                     UINT64_C(10),
                                     UINT64_C(100),
                                     UINT64_C(1000),
                                     UINT64_C(10000),
                                     UINT64_C(100000),
                                     UINT64_C(1000000),
                                     UINT64_C(10000000),
                                     UINT64_C(100000000),
                                     UINT64_C(1000000000),
                                     UINT64_C(10000000000),
                                     UINT64_C(100000000000),
                                     UINT64_C(1000000000000),
                                     UINT64_C(10000000000000),
                                     UINT64_C(100000000000000),
                                     UINT64_C(1000000000000000),
                                     UINT64_C(10000000000000000),
                                     UINT64_C(100000000000000000),
                                     UINT64_C(1000000000000000000),
                                     UINT64_C(10000000000000000000) };
    int bits = 64 - __builtin_clzll(value | 1);
    int guess = bits * 1233 >> 12; /* of 2^bits, less one: right, or one too few */
    return guess + (value >= tens[guess]);
}

/* Writes the last `count` digits of a number. */
static inline void put_digits(char *out, uint64_t value, int count)
{
    for (; count >= 2; count -= 2, value /= 100)
        memcpy(out + count - 2, pairs + 2 * (value % 100), 2);
    if (count)
        *out = (char)('0' + value % 10);
}

size_t number_write_unsigned(char *out, uint64_t value)
{
    int count = count_digits(value);
    put_digits(out, value, count);
    return (size_t)count;
}

/* --- The shortest decimal --------------------------------------------------------------------- */

/* `digits` times ten to the `exponent`. */
struct decimal {
    uint64_t digits;
    int exponent;
};

/* The product of a power and a factor, by 2^128.  The lowest bit is set if anything was lost. */
static inline uint64_t scale(struct power power, uint64_t factor)
{
    struct product high = multiply(power.high, factor), low = multiply(power.low, factor);
    uint64_t middle = high.low + low.high;
    return (high.high + (middle < low.high)) | (middle > 1);
}

/* The shortest decimal of a float that is not zero, from the bits that store it. */
static struct decimal shortest(uint64_t stored, int exponent)
{
    bool normal = exponent != 0;
    uint64_t mantissa = stored | (uint64_t)normal << MANTISSA;
    int binary = (normal ? exponent : 1) - BIAS;
    bool closer = stored == 0 && exponent > 1; /* to the float below than to that above */
    /* The exponent of the longest power of ten that is not longer than the interval. */
    int k = (binary * 1262611 - (closer ? 524031 : 0)) >> 22;
    int shift = binary + power_exponent(-k) + 1;
    struct power power = power_of_ten(-k);
    bool odd = mantissa & 1; /* then the ends do not belong to the interval */
    uint64_t low = scale(power, (4 * mantissa - 2 + closer) << shift) + odd;
    uint64_t value = scale(power, 4 * mantissa << shift);
    uint64_t high = scale(power, (4 * mantissa + 2) << shift) - odd;
    uint64_t units = value / 4;
    if (units >= 10) {
        uint64_t tens = units / 10;
        bool below = low <= 40 * tens, above = 40 * tens + 40 <= high;
        if (below != above)
            return (struct decimal){ .digits = tens + above, .exponent = k + 1 };
    }
    bool below = low <= 4 * units, above = 4 * units + 4 <= high;
    if (below != above)
        return (struct decimal){ .digits = units + above, .exponent = k };
    uint64_t middle = 4 * units + 2;
    bool up = value > middle || (value == middle && (units & 1));
    return (struct decimal){ .digits = units + up, .exponent = k };
}

/* Moves zeros at the end of the digits into the exponent. */
static inline struct decimal trim(struct decimal d)
{
    static const struct {
        uint32_t power;
        int zeros;
    } steps[] = { { 100000000, 8 }, { 10000, 4 }, { 100, 2 }, { 10, 1 } };
    if (d.digits % 10 != 0)
        return d;
    for (int i = 0; i < 4; i++) {
        uint64_t rest = d.digits / steps[i].power;
        if (rest * steps[i].power != d.digits)
            continue;
        d.digits = rest;
        d.exponent += steps[i].zeros;
    }
    return d;
}

/* --- Text ------------------------------------------------------------------------------------- */

/* Writes an exponent of at least two digits. */
static char *put_exponent(char *out, int exponent)
{
    *out++ = 'e';
    *out++ = exponent < 0 ? '-' : '+';
    exponent = abs(exponent);
    if (exponent >= 100)
        *out++ = (char)('0' + exponent / 100);
    memcpy(out, &pairs[(size_t)exponent % 100 * 2], 2);
    return out + 2;
}

/*
 * Writes a decimal as printf's %g does.  Copies of a fixed size may store more than the digits:
 * NUMBER_TEXT has room for that.
 */
static char *put_decimal(char *out, struct decimal d)
{
    char text[32] = { 0 }; /* what is copied beyond the digits is zero */
    int count = count_digits(d.digits);
    int first = d.exponent + count - 1; /* the power of ten of the first digit */
    put_digits(text, d.digits, count);
    if (first < -4 || first >= (count > ALWAYS_FIXED ? count : ALWAYS_FIXED)) {
        *out++ = text[0];
        *out = '.';
        memcpy(out + 1, text + 1, 16);
        return put_exponent(count > 1 ? out + count : out, first);
    }
    if (first < 0) {
        /* NOLINTNEXTLINE(bugprone-not-null-terminated-result): the caller knows the size */
        memcpy(out, "0.0000", 6);
        out += 1 - first;
        memcpy(out, text, 17);
        return out + count;
    }
    memcpy(out, text, 17);
    if (count <= first + 1) {
        memset(out + count, '0', (size_t)(first + 1 - count));
        /* NOLINTNEXTLINE(bugprone-not-null-terminated-result): the caller knows the size */
        memcpy(out + first + 1, ".0", 2);
        return out + first + 3;
    }
    out[first + 1] = '.';
    memcpy(out + first + 2, text + first + 1, 16);
    return out + count + 1;
}

size_t number_write(char *out, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    char *at = out;
    *at = '-';
    at += bits >> 63;
    double size = fabs(value);
    if (size < 1e15 && size == (double)(uint64_t)size) {
        at += number_write_unsigned(at, (uint64_t)size);
        /* NOLINTNEXTLINE(bugprone-not-null-terminated-result): the caller knows the size */
        memcpy(at, ".0", 2);
        return (size_t)(at + 2 - out);
    }
    uint64_t stored = bits & ((UINT64_C(1) << MANTISSA) - 1);
    at = put_decimal(at, trim(shortest(stored, (int)(bits >> MANTISSA & EXPONENTS))));
    return (size_t)(at - out);
}
