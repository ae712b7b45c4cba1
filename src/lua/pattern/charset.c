#include "lua/pattern/charset.h"

#include <string.h>

const uint8_t charset_kinds[256] = {
    ['.'] = ANY, ['['] = SET, ['%'] = ESCAPE, ['('] = CAPTURE_BEGIN, [')'] = CAPTURE_END, ['$'] = DOLLAR,
};

bool set_has(uint8_t c, const uint8_t *p, const uint8_t *close)
{
    bool inside = *p != '^';
    p += !inside;
    while (p < close) {
        if (*p == '%') {
            if (class_has(c, p[1]))
                return inside;
            p += 2;
        } else if (p[1] == '-' && p + 2 < close) {
            if (p[0] <= c && c <= p[2])
                return inside;
            p += 3;
        } else if (*p++ == c) {
            return inside;
        }
    }
    return !inside;
}

/* The first character from `s` on that is not in a class; or the limit. */
static const uint8_t *class_span(uint8_t letter, const uint8_t *s, const uint8_t *limit)
{
    switch (letter) {
#define X(in, out, test) \
    case in: \
        while (s < limit && test(*s)) \
            s++; \
        return s; \
    case out: \
        while (s < limit && !test(*s)) \
            s++; \
        return s;
        CLASSES(X)
#undef X
    default:
        while (s < limit && *s == letter)
            s++;
        return s;
    }
}

const uint8_t *item_span(const uint8_t *item, const uint8_t *item_end, const uint8_t *s, const uint8_t *limit)
{
    switch (charset_kinds[*item]) {
    case ANY:
        return limit;
    case ESCAPE:
        return class_span(item[1], s, limit);
    case SET:
        while (s < limit && set_has(*s, item + 1, item_end - 1))
            s++;
        return s;
    default:
        while (s < limit && *s == *item)
            s++;
        return s;
    }
}

const uint8_t *char_seek(uint8_t c, const uint8_t *s, const uint8_t *limit)
{
    const uint8_t *found = memchr(s, c, (size_t)(limit - s));
    return found ? found : limit;
}

const uint8_t *item_seek(const uint8_t *item, const uint8_t *item_end, const uint8_t *s, const uint8_t *limit)
{
    switch (charset_kinds[*item]) {
    case ANY:
        return s;
    case ESCAPE:
        switch (item[1]) {
#define X(in, out, test) \
    case in: \
    case out:
            CLASSES(X)
#undef X
            return class_span(item[1] ^ ('a' ^ 'A'), s, limit);
        default:
            return char_seek(item[1], s, limit);
        }
    case SET:
        while (s < limit && !set_has(*s, item + 1, item_end - 1))
            s++;
        return s;
    default:
        return char_seek(*item, s, limit);
    }
}
