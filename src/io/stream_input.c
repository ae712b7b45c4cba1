/*
 * Reading from a stream: straight into the reader's memory, or into the stream's own buffer.
 */
#include "io/stream.h"

#include <string.h>

void stream_keep_error(struct orr_stream *stream, int16_t *kept, int error)
{
    *kept = (int16_t)error;
    stream_ready(stream, ORR_RESET);
}

void stream_keep_end(struct orr_stream *stream)
{
    stream->ended = true;
    stream_ready(stream, ORR_ENDED);
}

/* Reads from the kind: bytes, 0 at the end, -EAGAIN, or an error.  The end and errors are kept. */
ssize_t stream_try_read(struct orr_stream *stream, void *buffer, size_t size)
{
    if (!stream->kind->read)
        return -EBADF;
    if (stream->read_error)
        return stream->read_error;
    if (stream->ended)
        return 0;
    struct iovec part = { .iov_base = buffer, .iov_len = size < STREAM_AT_ONCE ? size : STREAM_AT_ONCE };
    ssize_t count = stream->kind->read(stream, &part, 1);
    if (count == 0) {
        stream_keep_end(stream);
    } else if (count < 0 && count != -EAGAIN) {
        stream_keep_error(stream, &stream->read_error, (int)count);
    } else if (count > 0) {
        spree_spend(stream->opened.worker, (size_t)count);
    }
    return count;
}

int stream_try_fill(struct orr_stream *stream, size_t least, size_t most)
{
    struct input *input = &stream->input;
    if (!stream->kind->read)
        return -EBADF;
    int error = stream->read_error || stream->ended ? 0 : input_reserve(&stream->input, &stream->opened, least, most);
    if (error)
        return error;
    size_t room = input->capacity - input->length, wanted = most - input->length;
    ssize_t count = stream_try_read(stream, input->bytes + input->length, room < wanted ? room : wanted);
    if (count > 0)
        input->length += (size_t)count;
    input_settle(&stream->input, &stream->opened);
    return count > 0 ? 0 : count ? (int)count : -ENODATA;
}

static void describe_read(const struct orr_wait *wait, char *text, size_t size)
{
    stream_describe_wait(wait->source, "a read from", text, size);
}

static const struct orr_wait_kind read_kind = {
    .name = "a read",
    .withdraw = stream_withdraw,
    .describe = describe_read,
    .ends_by_itself = true,
};

int orr_stream_consume(struct orr_stream *stream, size_t bytes)
{
    int error = stream_check(stream);
    if (error)
        return error;
    if (bytes > stream->input.length)
        return -EINVAL;
    stream->input.start += bytes;
    stream->input.length -= bytes;
    input_settle(&stream->input, &stream->opened);
    return 0;
}

size_t orr_stream_peek(const struct orr_stream *stream, const void **bytes)
{
    bool usable = !stream_check(stream);
    if (bytes)
        *bytes = usable && stream->input.length ? stream->input.bytes + stream->input.start : NULL;
    return usable ? stream->input.length : 0;
}

int orr_stream_read(struct orr_task *task, struct orr_wait *wait, struct orr_stream *stream, void *buffer, size_t size,
                    size_t *got)
{
    if (!buffer || !size || !got)
        return -EINVAL;
    *got = 0;
    struct attempt attempt = { task, wait, stream, SLOT_READ, &read_kind, NULL };
    int answer = attempt_begin(&attempt);
    if (answer < 0)
        return answer;
    if (stream->input.length) {
        *got = size < stream->input.length ? size : stream->input.length;
        memcpy(buffer, stream->input.bytes + stream->input.start, *got);
        orr_stream_consume(stream, *got);
        spree_spend(stream->opened.worker, *got);
        return attempt_end(&attempt, 0);
    }
    ssize_t count = stream_try_read(stream, buffer, size);
    if (count == -EAGAIN)
        return attempt_end(&attempt, attempt_wait(&attempt, ORR_READABLE));
    if (count > 0)
        *got = (size_t)count;
    return attempt_end(&attempt, count < 0 ? (int)count : 0);
}

int orr_stream_fill(struct orr_task *task, struct orr_wait *wait, struct orr_stream *stream, size_t least, size_t most)
{
    if (!least || least > most)
        return -EINVAL;
    struct attempt attempt = { task, wait, stream, SLOT_READ, &read_kind, NULL };
    int answer = attempt_begin(&attempt);
    if (answer < 0)
        return answer;
    answer = 0;
    while (!answer && stream->input.length < least)
        answer = spree_is_over(stream->opened.worker) ? attempt_yield(&attempt) : stream_try_fill(stream, least, most);
    if (answer == -EAGAIN && wait->state == WAIT_IDLE)
        answer = attempt_wait(&attempt, ORR_READABLE);
    return attempt_end(&attempt, answer);
}
