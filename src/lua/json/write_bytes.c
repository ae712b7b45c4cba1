#include "lua/json/write_bytes.h"

#include <errno.h>
#include <stdio.h>

int json_bytes_refuse(struct json_writer *w)
{
    snprintf(w->refused, sizeof w->refused, "the text is longer than strings may be (%zu bytes)", w->longest);
    w->reason = w->refused;
    return -E2BIG;
}

/*
 * Once the text may become too long, `limit` leaves room only for what was asked: so the next call
 * comes here, and the text is refused before it is much too long.
 */
int json_bytes_grow(struct json_writer *w, size_t size)
{
    struct message *out = w->out;
    json_bytes_settle(w);
    if (out->size > w->longest)
        return json_bytes_refuse(w);
    int error = out->capacity - out->size >= size ? 0 : message_grow(out, size);
    if (error)
        return error;
    size_t limit = out->capacity < w->longest ? out->capacity : w->longest;
    if (limit < out->size + size)
        limit = out->size + size;
    w->at = out->bytes + out->size;
    w->limit = out->bytes + limit;
    return 0;
}
