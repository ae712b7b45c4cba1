/*
 * The items of a pattern that stand for one character: a literal, a dot, a class such as %a, a set in brackets.  An item is
 * given by where it begins in the pattern and where what follows it begins; it is well-formed.  Classes are those of the locale.
 *
 * Loops over a subject look at nothing from their limit on.
 */
#ifndef ORR_LUA_PATTERN_CHARSET_H
#define ORR_LUA_PATTERN_CHARSET_H

#include <ctype.h>
#include <stdbool.h>
#include <stdint.h>

/* What a character of a pattern may begin. */
enum charset_kind {
    LITERAL,
    ANY,
    SET,
    ESCAPE,
    CAPTURE_BEGIN,
    CAPTURE_END,
    DOLLAR,
};

extern const uint8_t charset_kinds[256];

/* Repetitions that accept nothing, too. */
static inline bool is_optional(uint8_t c)
{
    return c == '*' || c == '?' || c == '-';
}

/* What `%z` was for, before patterns could contain a 0. */
#define is_nul(c) ((c) == 0)

/* Every class: its letter, that of its complement, and its test. */
#define CLASSES(X) \
    X('a', 'A', isalpha) \
    X('c', 'C', iscntrl) \
    X('d', 'D', isdigit) \
    X('g', 'G', isgraph) \
    X('l', 'L', islower) \
    X('p', 'P', ispunct) \
    X('s', 'S', isspace) \
    X('u', 'U', isupper) \
    X('w', 'W', isalnum) \
    X('x', 'X', isxdigit) \
    X('z', 'Z', is_nul)

static inline bool class_has(uint8_t c, uint8_t letter)
{
    switch (letter) {
#define X(in, out, test) \
    case in: \
        return test(c); \
    case out: \
        return !test(c);
        CLASSES(X)
#undef X
    default:
        return c == letter;
    }
}

/* From behind the bracket that opens a set, to the one that closes it. */
bool set_has(uint8_t c, const uint8_t *p, const uint8_t *close);

/* Whether an item stands for a character. */
static inline bool item_is(uint8_t c, const uint8_t *item, const uint8_t *item_end)
{
    switch (charset_kinds[*item]) {
    case ANY:
        return true;
    case ESCAPE:
        return class_has(c, item[1]);
    case SET:
        return set_has(c, item + 1, item_end - 1);
    default:
        return c == *item;
    }
}

/* The first from `s` on that an item does not stand for; or the limit. */
const uint8_t *item_span(const uint8_t *item, const uint8_t *item_end, const uint8_t *s, const uint8_t *limit);

/* The first from `s` on that an item does stand for; or the limit. */
const uint8_t *item_seek(const uint8_t *item, const uint8_t *item_end, const uint8_t *s, const uint8_t *limit);

/* The first from `s` on that is this one; or the limit. */
const uint8_t *char_seek(uint8_t c, const uint8_t *s, const uint8_t *limit);

#endif
