/*
 * The items of a pattern that match one character: a literal, a dot, a class such as %a, a set in
 * brackets.  An item is given by its beginning and its end in the pattern, and is well-formed. 
 * Classes are those of the locale.
 *
 * Loops over a subject end at their limit.  Any thread.
 */
#ifndef ORR_LUA_PATTERN_CHARSET_H
#define ORR_LUA_PATTERN_CHARSET_H

#include <ctype.h>
#include <stdbool.h>
#include <stdint.h>

/* The item that a character of a pattern begins. */
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

/* Whether a repetition accepts no characters, too. */
static inline bool is_optional(uint8_t c)
{
    return c == '*' || c == '?' || c == '-';
}

/* The class %z, of older versions of Lua. */
#define is_nul(c) ((c) == 0)

/* Every class: its letter, the letter of its complement, and its test. */
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

/*
 * Whether a set has a character.  `p` is after its opening bracket, `close` is its closing bracket.
 */
bool set_has(uint8_t c, const uint8_t *p, const uint8_t *close);

/* Whether an item matches a character. */
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

/* The first character from `s` on that an item does not match; or the limit. */
const uint8_t *item_span(const uint8_t *item, const uint8_t *item_end, const uint8_t *s, const uint8_t *limit);

/* The first character from `s` on that an item matches; or the limit. */
const uint8_t *item_seek(const uint8_t *item, const uint8_t *item_end, const uint8_t *s, const uint8_t *limit);

/* The first `c` from `s` on; or the limit. */
const uint8_t *char_seek(uint8_t c, const uint8_t *s, const uint8_t *limit);

#endif
