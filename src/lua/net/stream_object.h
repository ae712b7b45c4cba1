/*
 * A stream of a script: a userdata of the class STREAM_CLASS that owns one stream of the core.
 *
 * The stream is closed by close(), `<close>` or the collector, and with its script.  Its memory
 * stays until the userdata is collected, or the isolate ends.
 *
 * The isolate's worker's thread.
 */
#ifndef ORR_LUA_NET_STREAM_OBJECT_H
#define ORR_LUA_NET_STREAM_OBJECT_H

#include "lua/api/open_objects.h"
#include "lua/net/io_error.h"

#define STREAM_CLASS "orrery.stream"

struct stream_object {
    struct open_object object;
    struct orr_stream *stream; /* NULL until it is opened, and when the isolate has ended */
};

/* Pushes an object without a stream.  May raise, so call it before the stream is opened. */
struct stream_object *stream_object_new(lua_State *L);

/* The object has its stream now. */
void stream_object_opened(struct stream_object *self, struct orr_stream *stream);

/* The object at an index; raises if it is no stream. */
struct stream_object *stream_object_check(lua_State *L, int index);

/*
 * The end of an operation `name` of a stream ("stream:read") that has failed: nil and an error, or
 * an error that is raised.  `message` may be NULL.
 */
int stream_fail(lua_State *L, struct ltask *task, const struct stream_object *self, const char *name, int error,
                const char *message);

/* Closes the stream; again does nothing. */
void stream_object_close(struct stream_object *self);

/* Writes what the stream is: "tcp 127.0.0.1:80". */
void stream_object_describe(const struct stream_object *self, char *text, size_t size);

/* The finalizer. */
int stream_object_gc(lua_State *L);

#endif
