/*
 * The loss of a stream's peer: for tasks that wait for it, and for tasks that are cancelled by it.
 *
 * A stream names the task that depends on it by a waker, so it holds no reference: the end of the
 * task needs no word to the stream.  The task is cancelled once, and then it is forgotten.
 *
 * All of it belongs to the worker's owner.
 */
#include "io/stream.h"

static bool are_of_loss(unsigned events)
{
    return events && !(events & ~(unsigned)(ORR_RESET | ORR_ENDED));
}

/* Whether earlier operations have found one of these events. */
static bool is_lost(const struct orr_stream *stream, unsigned events)
{
    bool broken = stream->read_error || (stream->write_error && !stream->broken);
    return (broken && events & ORR_RESET) || (stream->ended && events & ORR_ENDED);
}

/* --- Waiting for it --------------------------------------------------------------------------- */

static void describe_loss(const struct orr_wait *wait, char *text, size_t size)
{
    stream_describe_wait(wait->source, "the loss of", text, size);
}

static const struct orr_wait_kind loss_kind = {
    .name = "the loss of a peer",
    .withdraw = stream_withdraw,
    .describe = describe_loss,
    .ends_by_itself = true,
};

int orr_stream_await_loss(struct orr_task *task, struct orr_wait *wait, struct orr_stream *stream, unsigned events)
{
    if (!are_of_loss(events))
        return -EINVAL;
    struct attempt attempt = { task, wait, stream, SLOT_LOSS, &loss_kind, NULL };
    int answer = attempt_begin(&attempt);
    if (answer <= 0)
        return answer < 0 ? answer : attempt_end(&attempt, 0);
    return attempt_end(&attempt, is_lost(stream, events) ? 0 : attempt_wait(&attempt, events));
}

/* --- Being cancelled by it -------------------------------------------------------------------- */

int orr_stream_cancel_on_loss(struct orr_stream *stream, struct orr_task *task, unsigned events)
{
    if (!stream || (task && !are_of_loss(events)))
        return -EINVAL;
    if (stream->opened.worker != worker_current || (task && task->worker != worker_current))
        return -EPERM;
    if (stream->closed)
        return -EBADF;
    stream->dependent = orr_task_waker(task);
    stream->fatal = task ? (uint8_t)events : 0;
    if (task && is_lost(stream, events))
        stream_lost(stream, stream->read_error || stream->write_error ? ORR_RESET : ORR_ENDED);
    int error = stream_tell_kind(stream);
    if (error)
        stream->fatal = 0;
    return error;
}
