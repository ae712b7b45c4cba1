/*
 * The float nearest to a decimal number.
 *
 * Digits and a power of ten that are both exact as floats need one multiplication or division,
 * which rounds correctly (W. Clinger).  Otherwise 19 digits are multiplied with a power of ten of
 * 128 bits, as D. Lemire describes in "Number parsing at a gigabyte per second".  That power is a
 * little too large, so the product is an upper bound, and the product less one unit of the power a
 * lower bound.  If both are rounded to the same float, that is the nearest.  libc gets the rest:
 * very few numbers, and those of a size that floats hardly have.
 */
#include "lua/json/number.h"
#include "lua/json/powers.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MANTISSA = 53,         /* bits of a float */
    DIGITS_MAX = 19,       /* that always fit into 64 bits */
    DIGITS_KEPT = 800,     /* of a long number: at most 767 can matter */
    EXPONENT_MAX = 100000, /* larger exponents make no difference */
    EXACT_TENS = 22,       /* powers of ten that are exact as floats */
};

/* Both factors are exact, so one rounding is correct.  False if they are not. */
static inline bool from_exact(uint64_t digits, int exponent, double *value)
{
#if defined(__FLT_EVAL_METHOD__) && __FLT_EVAL_METHOD__ == 0
    static const double tens[] = { 1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                   1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22 };
    if (digits > UINT64_C(1) << MANTISSA || exponent < -EXACT_TENS || exponent > EXACT_TENS)
        return false;
    *value = exponent < 0 ? (double)digits / tens[-exponent] : (double)digits * tens[exponent];
    return true;
#else
    return digits == 0 && (*value = 0, true);
#endif
}

/* Adds up the product of 192 bits: its highest 128 bits, and the rest in `*low`. */
static inline struct product multiply_power(struct power power, uint64_t factor, uint64_t *low)
{
    struct product top = multiply(power.high, factor), rest = multiply(power.low, factor);
    *low = rest.low;
    top.low += rest.high;
    top.high += top.low < rest.high;
    return top;
}

/* from_exact() for any digits but zero. */
static bool from_product(uint64_t digits, int exponent, double *value)
{
    if (exponent < POWER_FIRST || exponent > POWER_LAST)
        return false;
    int zeros = __builtin_clzll(digits);
    uint64_t factor = digits << zeros, low;
    struct product upper = multiply_power(power_of_ten(exponent), factor, &low);
    struct product lower = upper;
    bool exact = exponent >= 0 && exponent <= POWER_EXACT;
    if (!exact && low < factor) {
        lower.high -= lower.low == 0;
        lower.low--;
    }
    /* A float, and one bit more for rounding, is above `shift` bits of the highest 64. */
    int shift = 9 + (int)(upper.high >> 63);
    uint64_t rounded = upper.high >> shift;
    if (rounded != lower.high >> shift)
        return false;
    /* A tie would have to be exact.  If it is not, the number is above the lower bound. */
    bool rest = !exact || (upper.high & ((UINT64_C(1) << shift) - 1)) || upper.low || low;
    rounded += rounded & (rest || (rounded & 2));
    int stored = power_exponent(exponent) - zeros + shift + 1 + MANTISSA + 1023;
    if (stored < 1 || stored > 2045)
        return false;
    uint64_t bits = ((uint64_t)stored << (MANTISSA - 1)) + (rounded >> 1) - (UINT64_C(1) << (MANTISSA - 1));
    memcpy(value, &bits, sizeof bits);
    return true;
}

bool number_from_decimal(uint64_t digits, int exponent, double *value)
{
    return from_exact(digits, exponent, value) || (digits && from_product(digits, exponent, value));
}

/*
 * number_read() for numbers of any size.  libc gets the digits that can matter, without a point,
 * which may be another character in this locale.  Of the other digits it only matters whether all
 * are zero.
 */
static bool read_long(const char *text, const char *end, double *value)
{
    char buffer[DIGITS_KEPT + 24];
    size_t kept = 0;
    long exponent = 0;
    bool point = false, rest = false;
    char *out = buffer;
    if (*text == '-') {
        *out++ = '-';
        text++;
    }
    for (; text < end && *text != 'e' && *text != 'E'; text++) {
        if (*text == '.') {
            point = true;
            continue;
        }
        exponent -= point;
        if (kept == 0 && *text == '0')
            continue;
        if (kept < DIGITS_KEPT) {
            *out++ = *text;
            kept++;
            continue;
        }
        rest |= *text != '0';
        exponent++;
    }
    if (!kept)
        *out++ = '0';
    if (rest) {
        *out++ = '1';
        exponent--;
    }
    if (text < end) {
        bool minus = *++text == '-';
        text += *text == '-' || *text == '+';
        long given = 0;
        for (; text < end; text++)
            given = given < EXPONENT_MAX ? given * 10 + (*text - '0') : given;
        exponent += minus ? -given : given;
    }
    snprintf(out, 16, "e%ld", exponent);
    *value = strtod(buffer, NULL);
    return isfinite(*value);
}

bool number_read(const char *text, const char *end, double *value)
{
    const char *at = text + (*text == '-');
    uint64_t digits = 0;
    int count = 0, exponent = 0;
    bool point = false, more = false;
    for (; at < end && *at != 'e' && *at != 'E'; at++) {
        if (*at == '.') {
            point = true;
            continue;
        }
        count += count > 0 || *at != '0';
        if (count > DIGITS_MAX) {
            more = true; /* also if they are zeros: that is rare, and no worse */
            exponent += !point;
            continue;
        }
        exponent -= point;
        digits = digits * 10 + (uint64_t)(*at - '0');
    }
    if (at < end) {
        bool minus = *++at == '-';
        at += *at == '-' || *at == '+';
        int given = 0;
        for (; at < end; at++)
            given = given < EXPONENT_MAX ? given * 10 + (*at - '0') : given;
        exponent += minus ? -given : given;
    }
    /* With more digits, the number is between these digits and the next higher ones. */
    double above;
    if (!number_from_decimal(digits, exponent, value) ||
        (more && (!number_from_decimal(digits + 1, exponent, &above) || above != *value)))
        return read_long(text, end, value);
    if (*text == '-')
        *value = -*value;
    return true;
}
