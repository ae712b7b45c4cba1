/*
 * A stream that the host implements: text that arrives in pieces, one every 10 ms, as from a slow
 * device.  The task that reads it uses the same functions as for a socket.
 *
 * A kind answers -EAGAIN while it has nothing.  Then the library calls `want`, and the kind says
 * when another try is due.  Here a timer does; in a host it may be any event of its own loop.
 */
#include <orrery.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define MILLISECONDS UINT64_C(1000000)

/* --- The stream ------------------------------------------------------------------------------- */

struct teletype {
    const char *text; /* what is still to come */
    bool arrived;     /* the next piece is here */
    struct orr_timer *timer;
};

enum { PIECE = 8 }; /* bytes that arrive at a time */

static void piece_arrives(struct orr_timer *timer, void *data, int status)
{
    (void)timer;
    struct orr_stream *stream = data;
    if (status)
        return; /* the runtime has ended */
    ((struct teletype *)orr_stream_data(stream))->arrived = true;
    orr_stream_ready(stream, ORR_READABLE);
}

static ssize_t teletype_read(struct orr_stream *stream, const struct iovec *parts, int count)
{
    struct teletype *self = orr_stream_data(stream);
    (void)count; /* there is at least one part, and one is enough */
    size_t length = strlen(self->text);
    if (length == 0)
        return 0; /* the end */
    if (!self->arrived)
        return -EAGAIN;
    length = length < PIECE ? length : PIECE;
    length = length < parts->iov_len ? length : parts->iov_len;
    memcpy(parts->iov_base, self->text, length);
    self->text += length;
    self->arrived = false;
    return (ssize_t)length;
}

/* Nothing happens while nobody wants to read: the timer runs only for a task that waits. */
static int teletype_want(struct orr_stream *stream, unsigned events)
{
    struct teletype *self = orr_stream_data(stream);
    if (events & (ORR_RESET | ORR_ENDED))
        return -ENOTSUP; /* it cannot tell */
    if (events & ORR_READABLE)
        return orr_timer_start(self->timer, 10 * MILLISECONDS, 0);
    orr_timer_cancel(self->timer);
    return 0;
}

static void teletype_close(struct orr_stream *stream)
{
    struct teletype *self = orr_stream_data(stream);
    orr_timer_free(self->timer);
}

static const struct orr_stream_kind teletype_kind = {
    .name = "teletype",
    .size = sizeof(struct teletype),
    .read = teletype_read,
    .want = teletype_want,
    .close = teletype_close,
};

static int teletype_open(struct orr_runtime *rt, const char *text, struct orr_stream **stream)
{
    int error = orr_stream_new(&teletype_kind, NULL, stream);
    if (error)
        return error;
    struct teletype *self = orr_stream_data(*stream);
    struct orr_timer_options options = { .fire = piece_arrives, .data = *stream, .local = true };
    self->text = text;
    error = orr_timer_new(rt, &options, &self->timer);
    if (error)
        orr_stream_free(*stream);
    return error;
}

/* --- A task that reads lines from it ---------------------------------------------------------- */

struct reader {
    struct orr_stream *stream;
    struct orr_wait wait;
    size_t looked; /* bytes in the stream's buffer that hold no end of line */
    int lines, error;
};

/* Prints the first `length` bytes of the stream's buffer and removes them, with `ending` more. */
static void take_line(struct reader *self, size_t length, size_t ending)
{
    const void *bytes;
    orr_stream_peek(self->stream, &bytes);
    printf("line %d: %.*s\n", ++self->lines, (int)length, (const char *)bytes);
    orr_stream_consume(self->stream, length + ending);
    self->looked = 0;
}

static enum orr_poll read_lines(struct orr_task *task, void *data)
{
    struct reader *self = data;
    for (;;) {
        self->error = orr_stream_fill(task, &self->wait, self->stream, self->looked + 1, 4096);
        if (self->error == -EAGAIN)
            return ORR_PENDING;
        const void *bytes;
        size_t length = orr_stream_peek(self->stream, &bytes);
        if (self->error == -ENODATA && length)
            take_line(self, length, 0); /* the last line has no end */
        if (self->error)
            return ORR_DONE;
        const char *end = memchr(bytes, '\n', length);
        if (end)
            take_line(self, (size_t)(end - (const char *)bytes), 1);
        else
            self->looked = length;
    }
}

int main(void)
{
    struct orr_runtime *rt = orr_runtime_new(NULL);
    if (!rt) {
        perror("orr_runtime_new");
        return 1;
    }
    struct reader reader = { 0 };
    orr_runtime_enter(rt);
    int error = teletype_open(rt, "The quick brown fox\njumps over\nthe lazy dog", &reader.stream);
    orr_runtime_leave(rt);
    if (!error)
        error = orr_spawn(rt, &(struct orr_spawn){ .poll = read_lines, .data = &reader });
    if (!error)
        error = orr_runtime_run(rt);
    orr_runtime_enter(rt);
    orr_stream_free(reader.stream);
    orr_runtime_leave(rt);
    orr_runtime_free(rt);
    if (error)
        fprintf(stderr, "stream: %s\n", strerror(-error));
    return error || reader.error != -ENODATA || reader.lines != 3;
}
