/*
 * Writing to a stream, and the end of the output.
 */
#include "io/stream.h"

#include "exec/scope.h"

#include <limits.h>
#include <string.h>

ssize_t stream_try_write(struct orr_stream *stream, const struct iovec *parts, int count)
{
    if (!stream->kind->write)
        return -EBADF;
    if (stream->write_error)
        return stream->write_error;
    if (stream->shut)
        return -EPIPE;
    ssize_t sent = stream->kind->write(stream, parts, count);
    if (sent > 0)
        spree_spend(stream->opened.worker, (size_t)sent);
    else if (sent == 0)
        sent = -EAGAIN;
    else if (sent != -EAGAIN)
        stream_keep_error(stream, &stream->write_error, (int)sent);
    return sent;
}

int stream_try_flush(struct orr_stream *stream)
{
    int answer = stream->kind->flush && !stream->write_error ? stream->kind->flush(stream) : stream->write_error;
    if (answer && answer != -EAGAIN)
        stream_keep_error(stream, &stream->write_error, answer);
    return answer;
}

enum { WINDOW_PARTS = 64 };

/* A place in the parts of a write: all before `part` has gone out, and `offset` bytes of that. */
struct cursor {
    const struct iovec *parts;
    int count, part;
    size_t offset;
};

static void cursor_advance(struct cursor *at, size_t bytes)
{
    at->offset += bytes;
    while (at->part < at->count && at->offset >= at->parts[at->part].iov_len)
        at->offset -= at->parts[at->part++].iov_len;
}

/* What comes next, as much as goes out at once.  0 at the end. */
static int window(const struct cursor *at, struct iovec *out)
{
    size_t room = STREAM_AT_ONCE, skip = at->offset;
    int used = 0;
    for (int i = at->part; i < at->count && used < WINDOW_PARTS && room; i++) {
        size_t length = at->parts[i].iov_len - skip;
        length = length < room ? length : room;
        if (length)
            out[used++] = (struct iovec){ .iov_base = (char *)at->parts[i].iov_base + skip, .iov_len = length };
        room -= length;
        skip = 0;
    }
    return used;
}

/* Nobody will finish the write under way: what went out of it is a part that nothing may follow. */
static void give_up_write(struct orr_stream *stream)
{
    if (!stream->sent || stream->write_error)
        return;
    stream->broken = true;
    stream->write_error = -ECONNABORTED;
}

/* The count stays in the wait: when the task hears of the interruption, the stream may be gone. */
static void write_withdraw(struct orr_wait *wait, bool granted)
{
    struct orr_stream *stream = wait->source;
    give_up_write(stream);
    wait->value = stream->sent;
    stream_withdraw(wait, granted);
}

static void describe_write(const struct orr_wait *wait, char *text, size_t size)
{
    stream_describe_wait(wait->source, "a write to", text, size);
}

static const struct orr_wait_kind write_kind = {
    .name = "a write",
    .withdraw = write_withdraw,
    .describe = describe_write,
    .ends_by_itself = true,
};

/* All parts were taken: waits until the kind knows that they have gone out. */
static int flush(struct attempt *attempt)
{
    int answer = stream_try_flush(attempt->stream);
    return answer == -EAGAIN ? attempt_wait(attempt, ORR_WRITABLE) : answer;
}

/*
 * Writes until all is out.  0, -EAGAIN (and the wait has begun), or an error.  The parts are walked
 * over once a call, however many calls of the kind that makes.
 */
static int write_on(struct attempt *attempt, const struct iovec *parts, int count)
{
    struct orr_stream *stream = attempt->stream;
    struct cursor at = { .parts = parts, .count = count };
    struct iovec now[WINDOW_PARTS];
    cursor_advance(&at, stream->sent);
    for (;;) {
        int used = window(&at, now);
        if (!used)
            return flush(attempt);
        if (spree_is_over(stream->opened.worker))
            return attempt_yield(attempt);
        ssize_t sent = stream_try_write(stream, now, used);
        if (sent == -EAGAIN)
            return attempt_wait(attempt, ORR_WRITABLE);
        if (sent < 0)
            return (int)sent;
        stream->sent += (size_t)sent;
        cursor_advance(&at, (size_t)sent);
    }
}

static bool parts_are_sound(const struct iovec *parts, int count)
{
    size_t total = 0;
    for (int i = 0; i < count; i++) {
        if ((!parts[i].iov_base && parts[i].iov_len) || parts[i].iov_len > SSIZE_MAX - total)
            return false;
        total += parts[i].iov_len;
    }
    return true;
}

/* What a write finds before it begins: 0, or why there can be none. */
static int check_output(const struct orr_stream *stream)
{
    if (!stream->kind->write)
        return -EBADF;
    return stream->write_error ? stream->write_error : stream->shut ? -EPIPE : 0;
}

/* How many bytes had gone out when a write on this stream was withdrawn from the wait. */
static size_t interrupted_at(const struct orr_wait *wait, const struct orr_stream *stream)
{
    return wait->kind == &write_kind && wait->source == stream ? wait->value : 0;
}

int orr_stream_write(struct orr_task *task, struct orr_wait *wait, struct orr_stream *stream, const struct iovec *parts,
                     int count, size_t *written)
{
    if (!wait)
        return -EINVAL;
    bool fresh = wait->state == WAIT_IDLE;
    if (written)
        *written = !fresh && wait->source == stream && wait->kind == &write_kind ? stream->sent : 0;
    if (count < 0 || (count && !parts) || (fresh && !parts_are_sound(parts, count)))
        return -EINVAL;
    struct attempt attempt = { task, wait, stream, SLOT_WRITE, &write_kind, NULL };
    int answer = attempt_begin(&attempt);
    if (fresh && written && answer == -ECANCELED)
        *written = interrupted_at(wait, stream);
    if (answer < 0 && answer != -EAGAIN)
        return answer;
    if (fresh && !check_output(stream))
        stream->sent = 0;
    if (answer == -EAGAIN)
        return answer;
    int error = check_output(stream);
    if (error)
        return attempt_end(&attempt, error);
    answer = write_on(&attempt, parts, count);
    if (answer == -ECANCELED || answer == -ECHILD)
        give_up_write(stream);
    if (written)
        *written = stream->sent;
    if (answer != -EAGAIN)
        wait->value = 0;
    if (!answer)
        stream->sent = 0;
    return attempt_end(&attempt, answer);
}

size_t orr_stream_written(const struct orr_stream *stream)
{
    return stream && stream->broken ? stream->sent : 0;
}

static void describe_shutdown(const struct orr_wait *wait, char *text, size_t size)
{
    stream_describe_wait(wait->source, "a shutdown of", text, size);
}

static const struct orr_wait_kind shutdown_kind = {
    .name = "a shutdown",
    .withdraw = stream_withdraw,
    .describe = describe_shutdown,
    .ends_by_itself = true,
};

int orr_stream_shutdown(struct orr_task *task, struct orr_wait *wait, struct orr_stream *stream)
{
    struct attempt attempt = { task, wait, stream, SLOT_WRITE, &shutdown_kind, NULL };
    int answer = attempt_begin(&attempt);
    if (answer < 0)
        return answer;
    int error = check_output(stream);
    if (stream->shut || error)
        return attempt_end(&attempt, stream->shut ? 0 : error);
    if (!stream->kind->shutdown)
        return attempt_end(&attempt, -ENOTSUP);
    answer = stream->kind->shutdown(stream);
    if (answer == -EAGAIN)
        return attempt_end(&attempt, attempt_wait(&attempt, ORR_WRITABLE));
    stream->shut = !answer;
    if (answer && answer != -ENOTSUP)
        stream_keep_error(stream, &stream->write_error, answer);
    return attempt_end(&attempt, answer);
}

static void describe_finish(const struct orr_wait *wait, char *text, size_t size)
{
    stream_describe_wait(wait->source, "the end of", text, size);
}

static const struct orr_wait_kind finish_kind = {
    .name = "the end of a stream",
    .withdraw = stream_withdraw,
    .describe = describe_finish,
    .ends_by_itself = true,
};

/* Ends the output, unless that was done, or cannot be done any more. */
static int end_output(struct orr_stream *stream)
{
    if (stream->shut || stream->write_error || !stream->kind->write)
        return 0;
    int answer = stream->kind->shutdown ? stream->kind->shutdown(stream) : -ENOTSUP;
    stream->shut = !answer;
    return answer;
}

/* Drops input until the end: 0 then, -EAGAIN (and the wait has begun), or an error. */
static int drop_input(struct attempt *attempt)
{
    struct orr_stream *stream = attempt->stream;
    char dropped[8192];
    ssize_t count;
    input_drop(&stream->input, &stream->opened);
    do {
        if (spree_is_over(stream->opened.worker))
            return attempt_yield(attempt);
        count = stream_try_read(stream, dropped, sizeof dropped);
    } while (count > 0);
    return count == -EAGAIN ? attempt_wait(attempt, ORR_READABLE) : (int)count;
}

int orr_stream_finish(struct orr_task *task, struct orr_wait *wait, struct orr_stream *stream)
{
    struct attempt attempt = { task, wait, stream, SLOT_READ, &finish_kind, NULL };
    int answer = attempt_begin(&attempt);
    if (answer < 0)
        return answer;
    if (stream->waits[SLOT_WRITE])
        return attempt_end(&attempt, -EBUSY);
    answer = end_output(stream);
    if (answer == -EAGAIN)
        return attempt_end(&attempt, attempt_wait(&attempt, ORR_WRITABLE));
    return attempt_end(&attempt, answer ? answer : drop_input(&attempt));
}
