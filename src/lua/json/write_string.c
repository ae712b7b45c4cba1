#include "lua/json/write_string.h"

#include "lua/json/utf8.h"
#include "lua/json/write_bytes.h"

#include <errno.h>
#include <stdio.h>

enum {
    PIECE = 4096,      /* bytes of a string written at once */
    ESCAPED = 6,       /* bytes that a byte of a string may become */
    ROOM = 32,         /* for quotes, and for stores that are longer than their bytes */
    BYTES_A_STEP = 32, /* of a string */
};

static inline unsigned char *escape(unsigned char *out, unsigned char c)
{
    static const char hex[] = "0123456789abcdef";
    static const char letters[256] = {
        ['"'] = '"', ['\\'] = '\\', ['\b'] = 'b', ['\f'] = 'f', ['\n'] = 'n', ['\r'] = 'r', ['\t'] = 't'
    };
    out[0] = '\\';
    if (letters[c]) {
        out[1] = (unsigned char)letters[c];
        return out + 2;
    }
    /* NOLINTNEXTLINE(bugprone-not-null-terminated-result) */
    memcpy(out + 1, "u00", 3);
    out[4] = (unsigned char)hex[c >> 4];
    out[5] = (unsigned char)hex[c & 15];
    return out + 6;
}

/*
 * Copies plain bytes from `*at`, before `end`, and moves both.  May store up to 15 bytes more than
 * it copies.
 */
static inline unsigned char *copy_plain(unsigned char *out, const unsigned char **at, const unsigned char *end)
{
    const unsigned char *from = *at;
    size_t plain;
    while (end - from >= 16) {
        memcpy(out, from, 16);
        plain = scan_plain16(from);
        from += plain;
        out += plain;
        if (plain < 16) {
            *at = from;
            return out;
        }
    }
    if (end - from >= 8) {
        memcpy(out, from, 8);
        plain = scan_plain8(from);
        from += plain;
        out += plain;
        if (plain < 8) {
            *at = from;
            return out;
        }
    }
    plain = scan_copy_few(out, from, (size_t)(end - from));
    *at = from + plain;
    return out + plain;
}

/*
 * Copies characters that are not ASCII.  Answers NULL for a byte that is not UTF-8: `*at` is its
 * place.
 */
static inline unsigned char *copy_characters(unsigned char *out, const unsigned char **at, const unsigned char *stop,
                                             const unsigned char *end)
{
    const unsigned char *from = *at;
    for (; from < stop && *from >= 0x80; from = *at) {
        size_t size = utf8_character(from, end);
        if (!size)
            return NULL;
        memcpy(out, from, size);
        out += size;
        *at = from + size;
    }
    return out;
}

/*
 * Copies a piece of a string, escaped, from `*at` to `stop`, or a few bytes beyond, if a character
 * ends there.  Answers NULL for a byte that is not UTF-8: `*at` is its place.
 */
static inline unsigned char *copy_escaped(unsigned char *out, const unsigned char **at, const unsigned char *stop,
                                          const unsigned char *end)
{
    for (;;) {
        out = copy_plain(out, at, stop);
        if (*at >= stop)
            return out;
        if (**at < 0x80) {
            out = escape(out, *(*at)++);
        } else {
            out = copy_characters(out, at, stop, end);
            if (!out)
                return NULL;
        }
        if (*at >= stop)
            return out;
    }
}

static int refuse_byte(struct json_writer *w, size_t offset)
{
    snprintf(w->refused, sizeof w->refused, "a string that is not UTF-8 (byte %zu) cannot be written as JSON",
             offset + 1);
    w->reason = w->refused;
    return -EINVAL;
}

int json_string_put_piece(struct json_writer *w)
{
    const unsigned char *start = (const unsigned char *)w->text;
    const unsigned char *end = start + w->text_size, *at = start + w->text_at;
    const unsigned char *stop = w->text_size - w->text_at > PIECE ? at + PIECE : end;
    int error = json_bytes_room(w, ESCAPED * (size_t)(stop - at) + ROOM);
    if (error)
        return error;
    w->steps -= (int)((stop - at) / BYTES_A_STEP);
    unsigned char *out = copy_escaped(w->at, &at, stop, end);
    if (!out)
        return refuse_byte(w, (size_t)(at - start));
    w->text_at = (size_t)(at - start);
    if (at == end) {
        *out++ = '"';
        w->string = 0;
    }
    w->at = out;
    return 0;
}

/* Begins a string that is written in pieces. */
static int put_long(struct json_writer *w, int index, const char *text, size_t size)
{
    int error = json_bytes_room(w, 1);
    if (error)
        return error;
    *w->at++ = '"';
    w->text = text;
    w->text_size = size;
    w->text_at = 0;
    w->string = index;
    return json_string_put_piece(w);
}

int json_string_put(struct json_writer *w, int index)
{
    size_t size;
    const char *text = lua_tolstring(w->L, index, &size);
    if (size > PIECE)
        return put_long(w, index, text, size);
    int error = json_bytes_room(w, ESCAPED * size + ROOM);
    if (error)
        return error;
    unsigned char *out = w->at;
    *out++ = '"';
    if (size <= 16 && scan_copy_short(out, text, size)) {
        out += size;
    } else {
        const unsigned char *at = (const unsigned char *)text, *end = at + size;
        out = copy_escaped(out, &at, end, end);
        if (!out)
            return refuse_byte(w, (size_t)((const char *)at - text));
        w->steps -= (int)(size / BYTES_A_STEP);
    }
    *out++ = '"';
    w->at = out;
    return 0;
}
