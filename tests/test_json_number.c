/*
 * Floats as JSON text: what was written is read as the same float, bit for bit, here and by libc.
 * No text has more digits than it needs.  What is read is what libc's strtod() reads.
 */
#include "lua/json/number.h"

#include "harness.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t random_state;

/* ORR_TEST_SCALE makes the tests longer. */
static int repeats(int count)
{
    const char *scale = getenv("ORR_TEST_SCALE");
    if (!random_state)
        random_state = harness_seed(1);
    return WORK(count) * (scale ? atoi(scale) : 1);
}

static uint64_t next_random(void)
{
    return random_bits(&random_state);
}

static uint64_t bits_of(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static double float_of(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* The next larger and smaller float, of one above zero. */
static double above(double value)
{
    return float_of(bits_of(value) + 1);
}

static double below(double value)
{
    return float_of(bits_of(value) - 1);
}

/* How many digits a number has, without zeros at either end. */
static int significant(const char *text)
{
    int count = 0, zeros = 0;
    for (; *text && *text != 'e'; text++) {
        if (*text < '0' || *text > '9')
            continue;
        zeros = *text == '0' ? zeros + 1 : 0;
        count += count > 0 || *text != '0';
    }
    return count > zeros ? count - zeros : 1;
}

/* Writes the nearest number of so many digits.  Whether it is read as the same float. */
static bool is_enough(double value, int digits, char *text)
{
    snprintf(text, NUMBER_TEXT, "%.*e", digits - 1, value);
    return strtod(text, NULL) == value;
}

/* Whether the digits of two texts differ; both have equally many. */
static bool number_differs(const char *a, const char *b)
{
    a += strspn(a, "-0.");
    b += strspn(b, "-0.");
    for (;; a++, b++) {
        a += strspn(a, ".");
        b += strspn(b, ".");
        if (*a != *b)
            return !(strspn(a, "0.") == strcspn(a, "e") && strspn(b, "0.") == strcspn(b, "e"));
        if (!*a || *a == 'e')
            return false;
    }
}

static void check_float(double value)
{
    char text[NUMBER_TEXT + 1], other[NUMBER_TEXT];
    memset(text, 'x', sizeof text);
    size_t size = number_write(text, value);
    assert_true(size <= NUMBER_TEXT);
    text[size] = '\0';
    double again = 0;
    assert_true(number_read(text, text + size, &again));
    if (bits_of(again) != bits_of(value) || bits_of(strtod(text, NULL)) != bits_of(value))
        fail_msg("%a is written as %s, and read as %a, by libc as %a", value, text, again, strtod(text, NULL));
    assert_true(strpbrk(text, ".e") != NULL); /* it does not look like an integer */
    int digits = significant(text);
    if (digits > 1 && is_enough(value, digits - 1, other))
        fail_msg("%a is written as %s, but %s is enough", value, text, other);
    if (is_enough(value, digits, other) && number_differs(text, other))
        fail_msg("%a is written as %s, but %s is nearer", value, text, other);
}

static void check_text(const char *text)
{
    double value = 0, expected = strtod(text, NULL);
    bool read = number_read(text, text + strlen(text), &value);
    if (read != (bool)isfinite(expected) || (read && bits_of(value) != bits_of(expected)))
        fail_msg("%s is read as %a, by libc as %a", text, value, expected);
}

static void random_floats_are_written_short_and_read_again(void **state)
{
    (void)state;
    for (int i = 0; i < repeats(200000); i++) {
        double value = float_of(next_random());
        if (isfinite(value))
            check_float(value);
    }
}

static void random_floats_of_everyday_size_are_written_short_and_read_again(void **state)
{
    (void)state;
    for (int i = 0; i < repeats(50000); i++) {
        check_float((double)(int64_t)next_random() / 1e13);
        check_float((double)(next_random() % 10000000) / 100);
        check_float((double)(next_random() >> 11) / 9007199254740992.0);
        check_float((double)(next_random() >> next_random() % 64));
    }
}

static void floats_at_all_boundaries_are_written_short_and_read_again(void **state)
{
    (void)state;
    for (uint64_t exponent = 0; exponent < 0x7ff; exponent++) {
        for (uint64_t near = 0; near < 5; near++) {
            check_float(float_of((exponent << 52) + near));
            check_float(float_of((exponent << 52) + (UINT64_C(1) << 51) + near));
            check_float(float_of(((exponent + 1) << 52) - 1 - near));
        }
    }
    for (int power = -323; power <= 308; power++) {
        char text[16];
        snprintf(text, sizeof text, "1e%d", power);
        double value = strtod(text, NULL);
        check_float(value);
        check_float(-below(value));
        check_float(above(value));
    }
    for (int bit = 0; bit < 52; bit++)
        check_float(float_of(UINT64_C(1) << bit)); /* below the smallest normal float */
    check_float(0.0);
    check_float(-0.0);
}

static void random_texts_are_read_as_libc_reads_them(void **state)
{
    (void)state;
    for (int i = 0; i < repeats(300000); i++) {
        char text[64];
        int size = 0, digits = 1 + (int)(next_random() % 24);
        int point = (int)(next_random() % 26);
        size += snprintf(text, sizeof text, "%s", next_random() % 2 ? "-" : "");
        for (int d = 0; d < digits; d++) {
            text[size++] = (char)('0' + next_random() % 10);
            if (d == point && d + 1 < digits)
                text[size++] = '.';
        }
        text[size] = '\0';
        if (next_random() % 4)
            snprintf(text + size, sizeof text - (size_t)size, "e%d", (int)(next_random() % 700) - 350);
        check_text(text);
    }
}

/* A number halfway between two floats, and those next to it. */
static void ties_are_read_as_libc_reads_them(void **state)
{
    (void)state;
    for (int i = 0; i < repeats(20000); i++) {
        char text[1200];
        double value = float_of(next_random() & ~(UINT64_C(1) << 63));
        double next = above(value);
        if (!isfinite(value) || !isfinite(next))
            continue;
        long double middle = ((long double)value + (long double)next) / 2;
        snprintf(text, sizeof text, "%.*Le", i % 2 ? 18 + (int)(next_random() % 12) : 780, middle);
        check_text(text);
    }
    static const char *const known[] = { "9007199254740993",
                                         "9007199254740993.0000000000000000000000001",
                                         "9007199254740992.99999999",
                                         "0.500000000000000166533453693773481063544750213623046875",
                                         "2.4703282292062327e-324",
                                         "2.4703282292062328e-324",
                                         "1.7976931348623158e308",
                                         "1.7976931348623159e308",
                                         "2.2250738585072011e-308",
                                         "2.2250738585072014e-308",
                                         "1e-400",
                                         "1e400",
                                         "0e999999",
                                         "1e23",
                                         "8.5e22",
                                         "123456789012345678901234567890e-30" };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        check_text(known[i]);
}

static void integers_are_written_as_printf_does(void **state)
{
    (void)state;
    for (int i = 0; i < repeats(200000); i++) {
        uint64_t value = next_random() >> next_random() % 64;
        char text[24] = "", expected[24];
        text[number_write_unsigned(text, value)] = '\0';
        snprintf(expected, sizeof expected, "%llu", (unsigned long long)value);
        assert_string_equal(text, expected);
    }
    uint64_t power = 1;
    for (int digits = 1; digits <= 20; digits++, power *= 10) {
        char text[24];
        assert_int_equal(number_write_unsigned(text, power), digits);
        assert_int_equal(number_write_unsigned(text, power - 1), digits > 1 ? digits - 1 : 1);
    }
    char text[24];
    assert_int_equal(number_write_unsigned(text, UINT64_MAX), 20);
}

static const struct CMUnitTest json_number[] = {
    cmocka_unit_test(random_floats_are_written_short_and_read_again),
    cmocka_unit_test(random_floats_of_everyday_size_are_written_short_and_read_again),
    cmocka_unit_test(floats_at_all_boundaries_are_written_short_and_read_again),
    cmocka_unit_test(random_texts_are_read_as_libc_reads_them),
    cmocka_unit_test(ties_are_read_as_libc_reads_them),
    cmocka_unit_test(integers_are_written_as_printf_does),
};

HARNESS_MAIN(json_number)
