/*
 * The end of the text that a writer writes.  `at` is where the next byte goes, and up to `limit`
 * there is room.  The message learns the size of the text only now and then (json_bytes_settle()).
 *
 * Who writes first makes room for all bytes of a piece, and then stores them without another look.
 */
#ifndef ORR_LUA_JSON_WRITE_BYTES_H
#define ORR_LUA_JSON_WRITE_BYTES_H

#include "lua/json/writer.h"

#include <string.h>

/* Stores in the message how long the text is. */
static inline void json_bytes_settle(struct json_writer *w)
{
    if (w->at)
        w->out->size = (size_t)(w->at - w->out->bytes);
}

/* json_bytes_room() when there is no room. */
int json_bytes_grow(struct json_writer *w, size_t size);

/* Refuses a text that is too long. */
int json_bytes_refuse(struct json_writer *w);

/* Makes room for more bytes.  -ENOMEM, -E2BIG. */
static inline int json_bytes_room(struct json_writer *w, size_t size)
{
    return (size_t)(w->limit - w->at) >= size ? 0 : json_bytes_grow(w, size);
}

/* Appends bytes for which there is room. */
static inline void json_bytes_put(struct json_writer *w, const char *bytes, size_t size)
{
    memcpy(w->at, bytes, size);
    w->at += size;
}

#endif
