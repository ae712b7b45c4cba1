#include "lua/json/number.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    POWERS = 28,           /* powers of five that fit into 64 bits */
    MANTISSA = 53,         /* bits of a float */
    DIGITS_KEPT = 800,     /* of a long number: at most 767 can matter */
    EXPONENT_MAX = 100000, /* larger exponents make no difference */
};

#ifdef __SIZEOF_INT128__

__extension__ typedef unsigned __int128 wide;

static const uint64_t fives[POWERS] = {
    UINT64_C(1),
    UINT64_C(5),
    UINT64_C(25),
    UINT64_C(125),
    UINT64_C(625),
    UINT64_C(3125),
    UINT64_C(15625),
    UINT64_C(78125),
    UINT64_C(390625),
    UINT64_C(1953125),
    UINT64_C(9765625),
    UINT64_C(48828125),
    UINT64_C(244140625),
    UINT64_C(1220703125),
    UINT64_C(6103515625),
    UINT64_C(30517578125),
    UINT64_C(152587890625),
    UINT64_C(762939453125),
    UINT64_C(3814697265625),
    UINT64_C(19073486328125),
    UINT64_C(95367431640625),
    UINT64_C(476837158203125),
    UINT64_C(2384185791015625),
    UINT64_C(11920928955078125),
    UINT64_C(59604644775390625),
    UINT64_C(298023223876953125),
    UINT64_C(1490116119384765625),
    UINT64_C(7450580596923828125),
};

static int bits_of(wide value)
{
    uint64_t high = (uint64_t)(value >> 64);
    return high ? 128 - __builtin_clzll(high) : (uint64_t)value ? 64 - __builtin_clzll((uint64_t)value) : 0;
}

/*
 * Shifts `value` to the right and rounds to nearest, ties to even.  `rest`: the exact value is a
 * little larger.
 */
static wide shift_rounded(wide value, int shift, bool rest)
{
    if (shift <= 0)
        return value << -shift;
    wide half = (wide)1 << (shift - 1);
    wide low = value & ((half << 1) - 1);
    wide high = value >> shift;
    return high + (low > half || (low == half && (rest || (high & 1))));
}

/* number_from_decimal() for digits that are not 0 and an exponent in the range of `fives`. */
static bool from_decimal(uint64_t digits, int exponent, double *value)
{
    wide product;
    bool rest = false;
    if (exponent >= 0) {
        product = (wide)digits * fives[exponent];
    } else {
        int shift = __builtin_clzll(digits);
        wide dividend = (wide)(digits << shift) << 64;
        product = dividend / fives[-exponent];
        rest = dividend % fives[-exponent] != 0;
        exponent -= 64 + shift;
    }
    int excess = bits_of(product) - MANTISSA;
    if (excess > 0) {
        product = shift_rounded(product, excess, rest);
        exponent += excess;
    }
    *value = ldexp((double)(uint64_t)product, exponent);
    return true;
}

/*
 * Rounds a float above zero to `count` decimal digits.  `exponent` is the power of ten of the first
 * digit.  False if the float is not of moderate size.
 */
static bool to_decimal(double value, int count, uint64_t *digits, int *exponent)
{
    static const uint64_t tens[] = { UINT64_C(1000000000000000), UINT64_C(10000000000000000),
                                     UINT64_C(100000000000000000) };
    int binary;
    uint64_t mantissa = (uint64_t)ldexp(frexp(value, &binary), MANTISSA);
    uint64_t above = tens[count - 15];
    binary -= MANTISSA;
    int first = (int)floor((binary + MANTISSA - 1) * 0.30102999566398120);
    for (;; first++) { /* the first guess may be too small by one */
        int scale = count - 1 - first;
        if (scale <= -POWERS || scale >= POWERS)
            return false;
        wide product;
        bool rest = false;
        int shift = -binary - scale;
        if (scale >= 0) {
            product = (wide)mantissa * fives[scale];
        } else {
            wide dividend = (wide)mantissa << 74;
            product = dividend / fives[-scale];
            rest = dividend % fives[-scale] != 0;
            shift += 74;
        }
        if (shift >= 127 || bits_of(product) - shift > 63)
            return false;
        *digits = (uint64_t)shift_rounded(product, shift, rest);
        *exponent = first;
        if (*digits < above)
            return true;
    }
}

#else

static bool from_decimal(uint64_t digits, int exponent, double *value)
{
    (void)digits;
    (void)exponent;
    (void)value;
    return false;
}

static bool to_decimal(double value, int count, uint64_t *digits, int *exponent)
{
    (void)value;
    (void)count;
    (void)digits;
    (void)exponent;
    return false;
}

#endif

/* --- From text -------------------------------------------------------------------------------- */

bool number_from_decimal(uint64_t digits, int exponent, double *value)
{
    static const double tens[] = { 1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                   1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22 };
    if (!digits) {
        *value = 0;
        return true;
    }
    if (exponent <= -POWERS || exponent >= POWERS)
        return false;
#if defined(__FLT_EVAL_METHOD__) && __FLT_EVAL_METHOD__ == 0
    if (digits <= UINT64_C(1) << MANTISSA && exponent >= -22 &&
        exponent <= 22) { /* both factors are exact, so one rounding is correct */
        *value = exponent < 0 ? (double)digits / tens[-exponent] : (double)digits * tens[exponent];
        return true;
    }
#endif
    return from_decimal(digits, exponent, value);
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
    bool point = false;
    for (; at < end && *at != 'e' && *at != 'E'; at++) {
        if (*at == '.') {
            point = true;
            continue;
        }
        exponent -= point;
        count += count > 0 || *at != '0';
        if (count > 19)
            return read_long(text, end, value);
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
    if (!number_from_decimal(digits, exponent, value))
        return read_long(text, end, value);
    if (*text == '-')
        *value = -*value;
    return true;
}

/* --- To text ---------------------------------------------------------------------------------- */

/* The numbers from 00 to 99. */
static const char pairs[] = "00010203040506070809101112131415161718192021222324"
                            "25262728293031323334353637383940414243444546474849"
                            "50515253545556575859606162636465666768697071727374"
                            "75767778798081828384858687888990919293949596979899";

/* How many digits a number has; 1 for zero. */
static int count_digits(uint64_t value)
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
    int guess = bits * 1233 >> 12; /* the digits of two to the `bits`, less one: right, or one too few */
    return guess + (value >= tens[guess]);
}

/* Writes the last `count` digits of a number. */
static void put_digits(char *out, uint64_t value, int count)
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

/* Writes `count` digits as printf's %g does.  `exponent` is the power of ten of the first digit. */
static size_t put_decimal(char *out, uint64_t digits, int count, int exponent)
{
    char text[20];
    char *at = out;
    int precision = count;
    for (int i = count; i-- > 0; digits /= 10)
        text[i] = (char)('0' + digits % 10);
    while (count > 1 && text[count - 1] == '0')
        count--;
    if (exponent < -4 || exponent >= precision) {
        *at++ = text[0];
        if (count > 1)
            *at++ = '.';
        memcpy(at, text + 1, (size_t)count - 1);
        at += count - 1;
        *at++ = 'e';
        *at++ = exponent < 0 ? '-' : '+';
        exponent = abs(exponent);
        if (exponent >= 100)
            *at++ = (char)('0' + exponent / 100);
        *at++ = (char)('0' + exponent / 10 % 10);
        *at++ = (char)('0' + exponent % 10);
    } else if (exponent < 0) {
        /* NOLINTNEXTLINE(bugprone-not-null-terminated-result) */
        memcpy(at, "0.0000", 6);
        at += 1 - exponent;
        memcpy(at, text, (size_t)count);
        at += count;
    } else {
        for (int i = 0; i < count || i <= exponent; i++) {
            if (i == exponent + 1)
                *at++ = '.';
            *at++ = (char)(i < count ? text[i] : '0');
        }
        if (count <= exponent + 1) {
            *at++ = '.';
            *at++ = '0';
        }
    }
    return (size_t)(at - out);
}

/*
 * Replaces the locale's decimal separator, which may be several bytes, by a point.  True if there
 * is one.
 */
static bool set_point(char *text)
{
    char *point = text + strspn(text, "-0123456789");
    if (!*point || *point == 'e')
        return false;
    char *rest = point + strcspn(point, "0123456789");
    *point = '.';
    memmove(point + 1, rest, strlen(rest) + 1);
    return true;
}

/* Writes any finite value, by libc. */
static size_t write_any(char *out, double value)
{
    bool point = false;
    for (int count = 15; count <= 17; count++) {
        double again = 0;
        snprintf(out, NUMBER_TEXT, "%.*g", count, value);
        point = set_point(out);
        if (number_read(out, out + strlen(out), &again) && again == value)
            break;
    }
    if (!point && !strchr(out, 'e'))
        /* NOLINTNEXTLINE(clang-analyzer-security.insecureAPI.strcpy) */
        strcat(out, ".0");
    return strlen(out);
}

size_t number_write(char *out, double value)
{
    if (value == 0) {
        /* NOLINTNEXTLINE(bugprone-not-null-terminated-result) */
        memcpy(out, signbit(value) ? "-0.0" : "0.0", 4);
        return signbit(value) ? 4 : 3;
    }
    double size = fabs(value);
    if (size < 1e15 && size == floor(size)) {
        char text[20];
        int count = 0;
        char *at = out;
        for (uint64_t left = (uint64_t)size; left; left /= 10)
            text[count++] = (char)('0' + left % 10);
        if (value < 0)
            *at++ = '-';
        while (count)
            *at++ = text[--count];
        /* NOLINTNEXTLINE(bugprone-not-null-terminated-result) */
        memcpy(at, ".0", 2);
        return (size_t)(at + 2 - out);
    }
    for (int count = 15; count <= 17; count++) {
        uint64_t digits;
        int exponent;
        double again;
        if (size < 2.3e-308 || !to_decimal(size, count, &digits, &exponent) ||
            !number_from_decimal(digits, exponent - count + 1, &again))
            break;
        if (again != size)
            continue;
        *out = '-';
        return (value < 0) + put_decimal(out + (value < 0), digits, count, exponent);
    }
    return write_any(out, value);
}
