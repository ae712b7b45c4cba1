#include "lua/net/stream_object.h"

#include "base/list.h"
#include "lua/api/primitive.h"
#include "lua/net/address_argument.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* --- The life of an object -------------------------------------------------------------------- */

static struct stream_object *stream_of(const struct open_object *object)
{
    return container_of(object, struct stream_object, object);
}

static void describe(const struct open_object *object, char *text, size_t size)
{
    const struct orr_stream *stream = stream_of(object)->stream;
    int length = snprintf(text, size, "%s ", orr_stream_kind(stream)->name);
    bool fits = length > 0 && (size_t)length < size;
    bool known = fits && orr_stream_describe(stream, ORR_PEER, text + length, size - (size_t)length) > 0;
    if (!known || !strcmp(text + length, "unix:")) /* an end without a name */
        text[fits ? length - 1 : 0] = '\0';
}

static void close_stream(struct open_object *object)
{
    orr_stream_close(stream_of(object)->stream);
    open_object_closed(object);
}

static void free_stream(struct open_object *object)
{
    orr_stream_free(stream_of(object)->stream);
    stream_of(object)->stream = NULL;
}

static const struct open_class of_streams = {
    .kind = "stream", .describe = describe, .close = close_stream, .free = free_stream
};

struct stream_object *stream_object_new(lua_State *L)
{
    struct stream_object *self = primitive_new(L, STREAM_CLASS, sizeof *self, 0);
    open_object_init(&self->object, isolate_of(L), &of_streams, L);
    return self;
}

void stream_object_opened(struct stream_object *self, struct orr_stream *stream)
{
    self->stream = stream;
    open_object_opened(&self->object);
}

struct stream_object *stream_object_check(lua_State *L, int index)
{
    return isolate_check(L, index, OBJECT_STREAM, STREAM_CLASS);
}

void stream_object_close(struct stream_object *self)
{
    if (self->stream && !isolate_visit(self->object.iso)) {
        close_stream(&self->object);
        isolate_leave(self->object.iso);
    }
}

int stream_object_gc(lua_State *L)
{
    struct stream_object *self = lua_touserdata(L, 1);
    return open_object_finalize(L, STREAM_CLASS, &self->object);
}

void stream_object_describe(const struct stream_object *self, char *text, size_t size)
{
    describe(&self->object, text, size);
}

/* --- Failures --------------------------------------------------------------------------------- */

int stream_fail(lua_State *L, struct ltask *task, const struct stream_object *self, const char *name, int error,
                const char *message)
{
    bool reads = strstr(name, "read");
    if (error == -EBUSY)
        return argument_raise(L, "%s: another task %s this stream; one task reads and one writes at a time", name,
                              reads ? "reads from" : "writes to");
    bool one_way = error == -EBADF && orr_stream_is_open(self->stream);
    char peer[ORR_ADDRESS_TEXT];
    const char *path = orr_file_path(self->stream);
    bool known = !path && orr_stream_describe(self->stream, ORR_PEER, peer, sizeof peer) > 0 &&
                 strcmp(peer, "unix:") != 0;
    struct io_failure failure = {
        .error = self->stream ? error : -EBADF,
        .operation = strchr(name, ':') + 1,
        .address = known ? peer : NULL,
        .path = path,
        .message = one_way ? reads ? "the stream has no input" : "the stream has no output" : message,
        .code = one_way ? "EBADF" : NULL,
        .written = error == -ECONNABORTED ? orr_stream_written(self->stream) : 0,
    };
    return io_error_end(L, task, &failure);
}
