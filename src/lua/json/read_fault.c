#include "lua/json/read_fault.h"

#include <string.h>

enum { NEAR = 20 }; /* bytes of the text that an error shows */

/* How many characters begin in these bytes. */
static int characters(const char *at, const char *end)
{
    enum { BLOCK = 240 }; /* a byte can count them, so the compiler can take many bytes at once */
    int count = 0;
    while (at < end) {
        const char *stop = end - at > BLOCK ? at + BLOCK : end;
        unsigned char in_block = 0;
        for (; at < stop; at++)
            in_block = (unsigned char)(in_block + (((unsigned char)*at & 0xc0) != 0x80));
        count += in_block;
    }
    return count;
}

void json_fault_count(struct json_reader *r, const char *at)
{
    const char *line;
    if (at <= r->counted)
        return;
    while ((line = memchr(r->counted, '\n', (size_t)(at - r->counted)))) {
        r->lines++;
        r->columns = 0;
        r->counted = line + 1;
    }
    r->columns += characters(r->counted, at);
    r->counted = at;
}

int json_fault_at(struct json_reader *r, const char *at, const char *what)
{
    json_fault_count(r, at);
    int line = r->lines + 1, column = r->columns + 1;
    char near[NEAR + 1];
    size_t size = 0;
    for (; size < NEAR && at + size < r->end && (unsigned char)at[size] >= ' '; size++)
        near[size] = at[size];
    /* A character is not cut. */
    while (size && at + size < r->end && ((unsigned char)at[size] & 0xc0) == 0x80)
        size--;
    near[size] = '\0';
    if (at >= r->end)
        return luaL_error(r->L, "line %d, column %d: %s at the end of the text", line, column, what);
    if (!size)
        return luaL_error(r->L, "line %d, column %d: %s", line, column, what);
    return luaL_error(r->L, "line %d, column %d: %s near '%s'", line, column, what, near);
}

int json_fault(struct json_reader *r, const char *what)
{
    return json_fault_at(r, r->at, what);
}
