#include "io/stream.h"

#include "exec/scope.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

enum {
    BUFFER_FIRST = 16 * 1024,  /* bytes of a new input buffer, if so many are asked for */
    AT_ONCE_MAX = 256 * 1024,  /* bytes in one call of a kind: a call must not take long */
    SPREE_MAX = 1024 * 1024,   /* cost of what may end at once in one poll */
    OPERATION_COST = 16 * 1024 /* of an operation, besides its bytes */
};

/* --- Sprees ----------------------------------------------------------------------------------- */

void spree_spend(struct worker *worker, size_t bytes)
{
    uint64_t poll = counter_read(&worker->counters.polls);
    if (worker->spree.poll != poll)
        worker->spree = (struct spree){ .poll = poll };
    worker->spree.cost += OPERATION_COST + bytes;
}

bool spree_is_over(const struct worker *worker)
{
    return worker->spree.cost >= SPREE_MAX && worker->spree.poll == counter_read(&worker->counters.polls);
}

/* --- The life of a stream --------------------------------------------------------------------- */

static void input_free(struct orr_stream *stream);

static void destroy_if_unused(struct orr_stream *stream)
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
    input_free(stream);
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
    destroy_if_unused(stream);
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

/* 0 if the stream may be used on this thread. */
static int check(const struct orr_stream *stream)
{
    if (!stream)
        return -EINVAL;
    return stream->opened.worker == worker_current ? 0 : -EPERM;
}

int orr_stream_close(struct orr_stream *stream)
{
    int error = check(stream);
    if (!error)
        close_stream(stream);
    return error;
}

int orr_stream_free(struct orr_stream *stream)
{
    if (!stream)
        return 0;
    int error = check(stream);
    if (!error)
        stream_end(&stream->opened);
    return error;
}

/* --- Waiting ---------------------------------------------------------------------------------- */

int stream_tell_kind(struct orr_stream *stream)
{
    unsigned events = stream->fatal;
    for (enum stream_slot slot = 0; slot < SLOTS; slot++)
        if (stream->waits[slot] && stream->waits[slot]->state == WAIT_WAITING)
            events |= (unsigned)stream->waits[slot]->value;
    if (stream->closed || events == stream->wanted)
        return 0;
    stream->wanted = (uint8_t)events;
    return stream->kind->want(stream, events);
}

void stream_lost(struct orr_stream *stream, unsigned events)
{
    struct orr_task *task = tasks_find(&stream->opened.worker->tasks, stream->dependent);
    stream->fatal = 0;
    if (task)
        scope_cancel(&task->own,
                     events & ORR_RESET ? "the peer has reset the connection" : "the peer has ended its output");
}

void stream_ready(struct orr_stream *stream, unsigned events)
{
    stream->wanted &= (uint8_t)~events;
    /* First of all: a task that is cancelled has nothing granted any more. */
    if (stream->fatal & events)
        stream_lost(stream, events);
    for (enum stream_slot slot = 0; slot < SLOTS; slot++) {
        struct orr_wait *wait = stream->waits[slot];
        if (wait && wait->state == WAIT_WAITING && wait->value & events)
            wait_grant(wait);
    }
}

void orr_stream_ready(struct orr_stream *stream, unsigned events)
{
    if (!check(stream))
        stream_ready(stream, events);
}

void stream_withdraw(struct orr_wait *wait, bool granted)
{
    struct orr_stream *stream = wait->source;
    for (enum stream_slot slot = 0; slot < SLOTS; slot++)
        if (stream->waits[slot] == wait)
            stream->waits[slot] = NULL;
    if (!granted)
        stream_tell_kind(stream);
    destroy_if_unused(stream);
}

void stream_describe_wait(const struct orr_stream *stream, const char *doing, char *text, size_t size)
{
    char address[ORR_ADDRESS_TEXT];
    int length = orr_stream_describe(stream, ORR_PEER, address, sizeof address);
    bool named = length > 0 && strcmp(address, "unix:") != 0;
    snprintf(text, size, "%s %s%s%s", doing, stream->kind->name, named ? " " : "", named ? address : "");
}

int attempt_begin(struct attempt *attempt)
{
    struct orr_wait *wait = attempt->wait;
    struct orr_stream *stream = attempt->stream;
    if (!attempt->task || !wait || !stream)
        return -EINVAL;
    attempt->group = wait->grouped ? wait->owner : NULL;
    /* Up to here the stream is only a number: once its wait was withdrawn, it may be gone. */
    int answer = wait_poll(attempt->task, wait, stream, attempt->kind);
    if (answer == 0) {
        stream->waits[attempt->slot] = NULL;
        return stream->closed ? attempt_end(attempt, -EBADF) : 0;
    }
    if (answer != 1)
        return answer;
    if (stream->opened.worker != attempt->task->worker)
        return wait_refuse(wait, -EPERM);
    if (stream->closed)
        return wait_refuse(wait, -EBADF);
    if (stream->waits[attempt->slot])
        return wait_refuse(wait, -EBUSY);
    return spree_is_over(stream->opened.worker) ? attempt_yield(attempt) : 1;
}

/* Puts the wait into its slot, and back into its group. */
static int enter_slot(struct attempt *attempt, unsigned events)
{
    struct orr_wait *wait = attempt->wait;
    int interruption = wait_interruption(attempt->task);
    if (interruption)
        return wait_refuse(wait, interruption);
    wait->value = events;
    wait->grouped = attempt->group;
    wait->owner = attempt->group ? (void *)attempt->group : attempt->task;
    attempt->stream->waits[attempt->slot] = wait;
    return wait_begin(attempt->task, wait, attempt->stream, attempt->kind);
}

int attempt_wait(struct attempt *attempt, unsigned events)
{
    int answer = enter_slot(attempt, events);
    if (answer != -EAGAIN)
        return answer;
    int error = stream_tell_kind(attempt->stream);
    if (!error)
        return -EAGAIN;
    attempt->stream->waits[attempt->slot] = NULL;
    wait_pick_up(attempt->wait);
    stream_tell_kind(attempt->stream);
    return error;
}

int attempt_yield(struct attempt *attempt)
{
    int answer = enter_slot(attempt, 0);
    if (answer == -EAGAIN)
        wait_grant(attempt->wait);
    return answer;
}

int attempt_end(struct attempt *attempt, int answer)
{
    if (answer != -EAGAIN)
        wait_refuse(attempt->wait, answer);
    destroy_if_unused(attempt->stream);
    return answer;
}

/* --- Input ------------------------------------------------------------------------------------ */

static void input_free(struct orr_stream *stream)
{
    struct input *input = &stream->input;
    if (!input->capacity)
        return;
    alloc_free(&stream->opened.worker->alloc, input->bytes, input->capacity);
    account_uncharge(stream->opened.open.account, input->capacity);
    *input = (struct input){ 0 };
}

static int input_grow(struct orr_stream *stream, size_t capacity)
{
    struct input *input = &stream->input;
    const struct orr_account *account = stream->opened.open.account;
    int error = account_charge(account, capacity - input->capacity);
    if (error)
        return error;
    char *bytes = alloc_resize(&stream->opened.worker->alloc, input->bytes, input->capacity, capacity);
    if (!bytes) {
        account_uncharge(account, capacity - input->capacity);
        return -ENOMEM;
    }
    input->bytes = bytes;
    input->capacity = capacity;
    return 0;
}

/*
 * Makes room, so that the buffer can hold `least` bytes, and one more than it does.  A buffer that
 * is full doubles, up to `most`.
 */
static int input_reserve(struct orr_stream *stream, size_t least, size_t most)
{
    struct input *input = &stream->input;
    if (input->start) {
        memmove(input->bytes, input->bytes + input->start, input->length);
        input->start = 0;
    }
    if (input->capacity >= least && input->length < input->capacity)
        return 0;
    size_t capacity = input->capacity ? 2 * input->capacity : BUFFER_FIRST;
    capacity = capacity < most ? capacity : most;
    return input_grow(stream, capacity < least ? least : capacity);
}

/* A buffer without bytes is given back. */
static void input_settle(struct orr_stream *stream)
{
    if (!stream->input.length)
        input_free(stream);
}

int stream_unread(struct orr_stream *stream, const void *bytes, size_t length)
{
    struct input *input = &stream->input;
    int error = length ? input_reserve(stream, input->length + length, input->length + length) : 0;
    if (error)
        return error;
    if (length)
        memcpy(input->bytes + input->length, bytes, length);
    input->length += length;
    return 0;
}

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
static ssize_t try_read(struct orr_stream *stream, void *buffer, size_t size)
{
    if (!stream->kind->read)
        return -EBADF;
    if (stream->read_error)
        return stream->read_error;
    if (stream->ended)
        return 0;
    struct iovec part = { .iov_base = buffer, .iov_len = size < AT_ONCE_MAX ? size : AT_ONCE_MAX };
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
    int error = stream->read_error || stream->ended ? 0 : input_reserve(stream, least, most);
    if (error)
        return error;
    size_t room = input->capacity - input->length, wanted = most - input->length;
    ssize_t count = try_read(stream, input->bytes + input->length, room < wanted ? room : wanted);
    if (count > 0)
        input->length += (size_t)count;
    input_settle(stream);
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
    int error = check(stream);
    if (error)
        return error;
    if (bytes > stream->input.length)
        return -EINVAL;
    stream->input.start += bytes;
    stream->input.length -= bytes;
    input_settle(stream);
    return 0;
}

size_t orr_stream_peek(const struct orr_stream *stream, const void **bytes)
{
    bool usable = !check(stream);
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
    ssize_t count = try_read(stream, buffer, size);
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

/* --- Output ----------------------------------------------------------------------------------- */

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
    size_t room = AT_ONCE_MAX, skip = at->offset;
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
    bool fresh = !wait || wait->state == WAIT_IDLE;
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
    input_free(stream);
    do {
        if (spree_is_over(stream->opened.worker))
            return attempt_yield(attempt);
        count = try_read(stream, dropped, sizeof dropped);
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

/* --- The rest --------------------------------------------------------------------------------- */

int orr_stream_describe(const struct orr_stream *stream, enum orr_end end, char *text, size_t size)
{
    int error = check(stream);
    if (error || !text || !size)
        return error ? error : -EINVAL;
    text[0] = '\0';
    if (stream->closed)
        return -EBADF;
    return stream->kind->describe ? stream->kind->describe(stream, end, text, size) : -ENOTSUP;
}

int orr_stream_set(struct orr_stream *stream, enum orr_setting setting, int64_t value)
{
    int error = check(stream);
    if (error)
        return error;
    if (stream->closed)
        return -EBADF;
    return stream->kind->set ? stream->kind->set(stream, setting, value) : -ENOTSUP;
}
