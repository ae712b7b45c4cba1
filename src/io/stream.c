/*
 * The life of a stream.
 */
#include "io/stream.h"

int stream_check(const struct orr_stream *stream)
{
    if (!stream)
        return -EINVAL;
    return stream->opened.worker == worker_current ? 0 : -EPERM;
}

void stream_destroy_if_unused(struct orr_stream *stream)
{
    for (enum stream_slot slot = 0; slot < SLOTS; slot++)
        if (stream->waits[slot])
            return;
    if (!stream->freed)
        return;
    if (stream->kind->drop)
        stream->kind->drop(stream);
    opened_free(&stream->opened);
}

static void close_stream(struct orr_stream *stream)
{
    if (stream->closed)
        return;
    stream->closed = true;
    stream->wanted = stream->fatal = 0;
    stream->kind->close(stream);
    input_drop(&stream->input, &stream->opened);
    for (enum stream_slot slot = 0; slot < SLOTS; slot++)
        if (stream->waits[slot] && stream->waits[slot]->state == WAIT_WAITING)
            wait_grant(stream->waits[slot]);
}

static bool stream_info(const struct opened *opened, struct orr_open_info *info)
{
    const struct orr_stream *stream = container_of(opened, struct orr_stream, opened);
    info->kind = stream->kind->name;
    info->stream = stream->kind->read || stream->kind->write ? (struct orr_stream *)stream : NULL;
    info->object = (void *)stream;
    return !stream->closed;
}

static void stream_end(struct opened *opened)
{
    struct orr_stream *stream = container_of(opened, struct orr_stream, opened);
    close_stream(stream);
    stream->freed = true;
    stream_destroy_if_unused(stream);
}

static const struct opened_kind opened_stream = { .info = stream_info, .end = stream_end };

int stream_make(const struct orr_stream_kind *kind, const struct orr_open *open, struct orr_stream **out)
{
    struct orr_stream *stream;
    int error = opened_new(sizeof *stream + kind->size, &opened_stream, open, &stream);
    if (error)
        return error;
    stream->kind = kind;
    *out = stream;
    return 0;
}

int orr_stream_new(const struct orr_stream_kind *kind, const struct orr_open *open, struct orr_stream **out)
{
    if (!kind || !out || !kind->close || !kind->want || (!kind->read && !kind->write))
        return -EINVAL;
    return stream_make(kind, open, out);
}

void *orr_stream_data(const struct orr_stream *stream)
{
    return stream ? (void *)stream->data : NULL;
}

const struct orr_stream_kind *orr_stream_kind(const struct orr_stream *stream)
{
    return stream ? stream->kind : NULL;
}

bool orr_stream_is_open(const struct orr_stream *stream)
{
    return stream && !stream->closed;
}

int orr_stream_close(struct orr_stream *stream)
{
    int error = stream_check(stream);
    if (!error)
        close_stream(stream);
    return error;
}

int orr_stream_free(struct orr_stream *stream)
{
    if (!stream)
        return 0;
    int error = stream_check(stream);
    if (!error)
        stream_end(&stream->opened);
    return error;
}

/* --- Ends and settings ------------------------------------------------------------------------ */

int orr_stream_describe(const struct orr_stream *stream, enum orr_end end, char *text, size_t size)
{
    int error = stream_check(stream);
    if (error || !text || !size)
        return error ? error : -EINVAL;
    text[0] = '\0';
    if (stream->closed)
        return -EBADF;
    return stream->kind->describe ? stream->kind->describe(stream, end, text, size) : -ENOTSUP;
}

int orr_stream_set(struct orr_stream *stream, enum orr_setting setting, int64_t value)
{
    int error = stream_check(stream);
    if (error)
        return error;
    if (stream->closed)
        return -EBADF;
    return stream->kind->set ? stream->kind->set(stream, setting, value) : -ENOTSUP;
}
