#include "lua/json/read_string.h"

#include "lua/json/read_fault.h"
#include "lua/json/utf8.h"

#include <assert.h>
#include <string.h>

enum {
    PIECE = 4096,      /* bytes of a string read at once */
    BYTES_A_STEP = 32, /* of a string */
    ROOM = 32,         /* of the buffer for the bytes that one look or escape adds */
    NAMES_PAY = 256,   /* bytes of a text that may repeat its names */
    FIRST_NAME = 2,    /* above `base` */
    SHORT = 16,        /* bytes of a string that one look finds, with its quote */
};

/* --- The buffer ------------------------------------------------------------------------------- */

static char *buffer_of(struct json_reader *r)
{
    return r->buffer ? r->buffer : r->small;
}

/* Answers where more bytes of the buffer begin.  There is room for them. */
static char *buffer_more(struct json_reader *r, size_t size)
{
    if (r->capacity - r->used < size) {
        size_t capacity = 2 * r->capacity > r->used + size ? 2 * r->capacity : r->used + size;
        char *more = lua_newuserdatauv(r->L, capacity, 0);
        memcpy(more, buffer_of(r), r->used);
        lua_replace(r->L, r->base + 1);
        r->buffer = more;
        r->capacity = capacity;
    }
    return buffer_of(r) + r->used;
}

/* --- Escapes ---------------------------------------------------------------------------------- */

/* Reads four hexadecimal digits. */
static unsigned read_hex(struct json_reader *r, const char *at)
{
    unsigned value = 0;
    for (int i = 0; i < 4; i++) {
        char c = (char)(at + i < r->end ? at[i] : '\0');
        unsigned digit = c >= '0' && c <= '9'   ? (unsigned)(c - '0')
                         : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a') + 10
                         : c >= 'A' && c <= 'F' ? (unsigned)(c - 'A') + 10
                                                : 16;
        if (digit == 16)
            json_fault(r, "invalid escape, four hexadecimal digits expected,");
        value = value * 16 + digit;
    }
    return value;
}

static size_t put_utf8(char *out, unsigned c)
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    size_t size = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    static const unsigned char first[] = { 0, 0, 0xc0, 0xe0, 0xf0 };
    for (size_t i = size - 1; i > 0; i--, c >>= 6)
        out[i] = (char)(0x80 | (c & 0x3f));
    out[0] = (char)(first[size] | c);
    return size;
}

/* Reads \uXXXX, or a pair of them, at the reader's place.  Answers how many bytes it wrote. */
static size_t read_unicode(struct json_reader *r, char *out)
{
    unsigned c = read_hex(r, r->at + 2);
    size_t size = 6;
    if (c >= 0xdc00 && c <= 0xdfff)
        json_fault(r, "invalid Unicode escape, the second half of a pair without the first,");
    if (c >= 0xd800 && c <= 0xdbff) {
        if (r->end - r->at < 8 || r->at[6] != '\\' || r->at[7] != 'u')
            json_fault(r, "invalid Unicode escape, the first half of a pair without the second,");
        unsigned low = read_hex(r, r->at + 8);
        if (low < 0xdc00 || low > 0xdfff)
            json_fault(r, "invalid Unicode escape, the first half of a pair without the second,");
        c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
        size = 12;
    }
    r->at += size;
    return put_utf8(out, c);
}

/* Reads the escape at the reader's place.  Answers how many bytes it wrote. */
static inline size_t read_escape(struct json_reader *r, char *out)
{
    static const char meanings[256] = {
        ['"'] = '"', ['\\'] = '\\', ['/'] = '/', ['b'] = '\b', ['f'] = '\f', ['n'] = '\n', ['r'] = '\r', ['t'] = '\t'
    };
    unsigned char c = (unsigned char)(r->end - r->at > 1 ? r->at[1] : '\0');
    if (c == 'u')
        return read_unicode(r, out);
    if (!meanings[c])
        json_fault(r, "invalid escape");
    *out = meanings[c];
    r->at += 2;
    return 1;
}

/* --- Strings ---------------------------------------------------------------------------------- */

static int fault_of_control(struct json_reader *r)
{
    return json_fault(r, *r->at == '\n' ? "a line break in a string" : "a control character in a string");
}

/* Skips characters that are not ASCII, up to `stop` or a little beyond. */
static inline void skip_characters(struct json_reader *r, const char *stop)
{
    const unsigned char *at = (const unsigned char *)r->at, *end = (const unsigned char *)r->end;
    do {
        size_t size = utf8_character(at, end);
        if (!size) {
            r->at = (const char *)at;
            json_fault(r, "a string that is not UTF-8");
        }
        at += size;
    } while (at < (const unsigned char *)stop && *at >= 0x80);
    r->at = (const char *)at;
}

/* Skips plain bytes, up to `stop` or a little beyond. */
static inline void skip_plain(struct json_reader *r, const char *stop)
{
    const char *at = r->at;
    while (at < stop && r->end - at >= 16) {
        size_t plain = scan_plain16(at);
        at += plain;
        if (plain < 16) {
            r->at = at;
            return;
        }
    }
    if (r->end - at >= 8)
        at += scan_plain8(at);
    while (at < stop && (unsigned char)*at >= ' ' && *at != '"' && *at != '\\' && (unsigned char)*at < 0x80)
        at++;
    r->at = at;
}

/* Reads a string that has had no escape so far, until `stop`, its end or an escape. */
static bool read_plain(struct json_reader *r, const char *stop)
{
    while (r->at < stop) {
        skip_plain(r, stop);
        if (r->at >= stop)
            break;
        unsigned char c = (unsigned char)*r->at;
        if (c == '"') {
            lua_pushlstring(r->L, r->string, (size_t)(r->at - r->string));
            r->at++;
            return true;
        }
        if (c == '\\') {
            size_t size = (size_t)(r->at - r->string);
            memcpy(buffer_more(r, size), r->string, size);
            r->used = size;
            r->escaped = true;
            return false;
        }
        if (c < ' ')
            fault_of_control(r);
        if (c >= 0x80)
            skip_characters(r, stop);
    }
    return false;
}

/* Copies characters that are not ASCII, and makes room for more.  Answers where that begins. */
static char *copy_characters(struct json_reader *r, const char *stop, char *out)
{
    const char *from = r->at;
    skip_characters(r, stop);
    r->used = (size_t)(out - buffer_of(r));
    size_t size = (size_t)(r->at - from);
    out = buffer_more(r, size + ROOM);
    memcpy(out, from, size);
    return out + size;
}

/* Reads a string through the buffer, until `stop` or its end. */
static bool read_escaped(struct json_reader *r, const char *stop)
{
    char *out = buffer_more(r, ROOM), *full = buffer_of(r) + r->capacity - ROOM;
    bool over = false;
    while (r->at < stop && !over) {
        if (out > full) {
            r->used = (size_t)(out - buffer_of(r));
            out = buffer_more(r, ROOM);
            full = buffer_of(r) + r->capacity - ROOM;
        }
        if (r->end - r->at >= 16) {
            size_t plain = scan_plain16(r->at);
            memcpy(out, r->at, 16);
            out += plain;
            r->at += plain;
            if (plain == 16)
                continue;
        }
        unsigned char c = (unsigned char)*r->at;
        if (c == '\\') {
            out += read_escape(r, out);
        } else if (c == '"') {
            over = true;
            r->at++;
        } else if (c < ' ') {
            fault_of_control(r);
        } else if (c < 0x80) {
            *out++ = (char)c;
            r->at++;
        } else {
            out = copy_characters(r, stop, out);
            full = buffer_of(r) + r->capacity - ROOM;
        }
    }
    r->used = (size_t)(out - buffer_of(r));
    if (over)
        lua_pushlstring(r->L, buffer_of(r), r->used);
    return over;
}

bool json_string_more(struct json_reader *r)
{
    const char *from = r->at;
    const char *stop = r->end - from > PIECE ? from + PIECE : r->end;
    bool over = !r->escaped && read_plain(r, stop);
    if (!over && r->escaped)
        over = read_escaped(r, stop);
    r->steps -= (int)((r->at - from) / BYTES_A_STEP);
    if (!over && r->at >= r->end)
        json_fault_at(r, r->end, "a string without an end");
    return over;
}

static inline void begin(struct json_reader *r)
{
    r->string = r->at;
    r->used = 0;
    r->escaped = false;
}

bool json_string_begin(struct json_reader *r)
{
    if (r->end - r->at >= SHORT) {
        size_t size = scan_plain16(r->at);
        if (size < SHORT && r->at[size] == '"') {
            lua_pushlstring(r->L, r->at, size);
            r->at += size + 1;
            return true;
        }
    }
    begin(r);
    return json_string_more(r);
}

/* --- Names ------------------------------------------------------------------------------------ */

/* Pushes the name of `size` bytes, fewer than 16, at the reader's place. */
static void push_short_name(struct json_reader *r, size_t size)
{
    /* With the size, the first and the last eight bytes are the whole name. */
    uint64_t first = scan_word8(r->at), last = 0;
    if (size >= 8)
        last = scan_word8(r->at + size - 8);
    else
        first &= (UINT64_C(1) << (8 * size)) - 1;
    uint64_t hash = (first ^ (last << 7 | last >> 57) ^ size) * UINT64_C(0x9e3779b97f4a7c15);
    size_t slot = hash >> 58;
    struct json_name *name = &r->names[slot];
    int index = r->base + FIRST_NAME + (int)slot;
    if (r->name_sizes[slot] == size && name->first == first && name->last == last) {
        lua_pushvalue(r->L, index);
        return;
    }
    lua_pushlstring(r->L, r->at, size);
    lua_copy(r->L, -1, index);
    *name = (struct json_name){ .first = first, .last = last };
    r->name_sizes[slot] = (unsigned char)size;
}

bool json_name_begin(struct json_reader *r)
{
    if (!r->keeps_names || r->end - r->at < SHORT)
        return json_string_begin(r);
    size_t size = scan_plain16(r->at);
    if (size < SHORT && r->at[size] == '"') {
        push_short_name(r, size);
        r->at += size + 1;
        return true;
    }
    begin(r);
    return json_string_more(r);
}

void json_strings_begin(struct json_reader *r)
{
    static_assert(JSON_NAMES == 64, "six bits of a hash are a slot");
    r->buffer = NULL;
    r->capacity = sizeof r->small;
    r->keeps_names = r->end - r->text >= NAMES_PAY;
    if (!r->keeps_names) {
        lua_pushnil(r->L);
        return;
    }
    memset(r->name_sizes, JSON_NO_NAME, sizeof r->name_sizes);
    luaL_checkstack(r->L, JSON_NAMES + 8, "not enough memory");
    lua_settop(r->L, r->base + 1 + JSON_NAMES);
}
