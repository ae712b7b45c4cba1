/*
 * Copies one stream to another.  What is on its way is always in a place where it is not lost: the
 * input of the source, from which it is consumed only as far as the target has taken it.
 *
 * Between two descriptors the bytes go through a pipe and stay in the kernel.  When the copy ends
 * early, what the pipe still holds goes back into the input of the source.
 *
 * A copy has two waits.  `wait` is for input, in the source's slot for reading, or for room, in the
 * target's slot for writing.  `hold` keeps the other slot meanwhile, so that nobody else reads or
 * writes there; it is granted only if that stream is closed.
 */
#include "io/copy.h"

#include "io/descriptor.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

enum {
    COPY_MOST = 64 * 1024, /* bytes on their way */
    SPLICE_MOST = 256 * 1024,
};

enum copy_state {
    COPY_NEW,
    COPY_PLAIN,
    COPY_SPLICED, /* `pipe` is open */
};

static struct orr_copy *copy_of(const struct orr_wait *wait)
{
    return container_of(wait, struct orr_copy, wait);
}

/* --- The pipe --------------------------------------------------------------------------------- */

/*
 * Whether the kernel can move bytes of this stream to or from a pipe without blocking.  Not where
 * the descriptor may be in blocking mode, or is a file, which can wait for the disk.
 */
static bool can_splice(const struct orr_stream *stream)
{
    return descriptor_is_behind(stream) && stream->kind->read && descriptor_of(stream)->mode <= DESCRIPTOR_OWN &&
           !descriptor_of(stream)->foreign && !descriptor_is_behind_c(descriptor_of(stream));
}

static void start(struct orr_copy *copy, struct orr_stream *from, struct orr_stream *to)
{
    copy->from = from;
    copy->to = to;
    copy->bytes = 0;
    copy->piped = 0;
    copy->state = COPY_PLAIN;
    if (!can_splice(from) || !can_splice(to) || pipe2(copy->pipe, O_NONBLOCK | O_CLOEXEC) < 0)
        return;
    copy->state = COPY_SPLICED;
    int room = fcntl(copy->pipe[1], F_SETPIPE_SZ, SPLICE_MOST);
    copy->room = room > 0 ? (size_t)room : COPY_MOST;
}

/* Puts what the pipe holds back into the input of the source.  If there is no memory for it, the
 * source is broken: its reader would miss bytes without knowing. */
static void empty_pipe(struct orr_copy *copy)
{
    char bytes[4096];
    while (copy->piped) {
        ssize_t count = read(copy->pipe[0], bytes, sizeof bytes);
        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0)
            break;
        copy->piped -= (size_t)count;
        if (!copy->from->closed && !copy->from->read_error)
            copy->from->read_error = (int16_t)input_append(&copy->from->input, &copy->from->opened, bytes,
                                                           (size_t)count);
    }
}

/* The copy is over.  It may be used again. */
static void stop(struct orr_copy *copy)
{
    if (copy->state == COPY_SPLICED) {
        empty_pipe(copy);
        close(copy->pipe[0]);
        close(copy->pipe[1]);
    }
    copy->state = COPY_NEW;
}

/* Moves bytes between a descriptor and the pipe: how many, 0 at the end, -EAGAIN, or an error. */
static ssize_t move(int from, int to, size_t bytes)
{
    ssize_t moved;
    do
        moved = splice(from, NULL, to, NULL, bytes, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
    while (moved < 0 && errno == EINTR);
    return moved < 0 ? -errno : moved;
}

/* The same, to where the reader may be gone. */
static ssize_t move_out(int from, int to, size_t bytes)
{
    struct pipe_guard guard;
    pipe_guard_begin(&guard);
    ssize_t moved = move(from, to, bytes);
    pipe_guard_end(&guard, true); /* also if some bytes went out before the peer was found gone */
    return moved;
}

/* The kernel cannot splice these two after all. */
static int fall_back(struct orr_copy *copy)
{
    stop(copy);
    copy->state = COPY_PLAIN;
    return 0;
}

/* --- Steps ------------------------------------------------------------------------------------ */

/* A step answers 0 if it has moved something, or is waiting for one of these. */
enum {
    NEEDS_INPUT = 1,
    NEEDS_ROOM,
    AT_END,
};

/* Writes from the input of the source to the target. */
static int hand_over(struct orr_copy *copy)
{
    struct input *input = &copy->from->input;
    struct iovec part = { .iov_base = input->bytes + input->start, .iov_len = input->length };
    ssize_t sent = stream_try_write(copy->to, &part, 1);
    if (sent == -EAGAIN)
        return NEEDS_ROOM;
    if (sent < 0)
        return (int)sent;
    copy->bytes += (uint64_t)sent;
    orr_stream_consume(copy->from, (size_t)sent);
    return 0;
}

static int plain_step(struct orr_copy *copy)
{
    if (copy->from->input.length)
        return hand_over(copy);
    int error = stream_try_fill(copy->from, 1, COPY_MOST);
    if (error != -ENODATA)
        return error == -EAGAIN ? NEEDS_INPUT : error;
    error = stream_try_flush(copy->to);
    return error == -EAGAIN ? NEEDS_ROOM : error ? error : AT_END;
}

/* Keeps an error of a stream, and answers it. */
static int failed(struct orr_stream *stream, int16_t *kept, int error)
{
    stream_keep_error(stream, kept, error);
    return error;
}

/* From the pipe to the target. */
static int splice_out(struct orr_copy *copy)
{
    struct descriptor *to = descriptor_of(copy->to);
    int error = copy->to->write_error ? copy->to->write_error : copy->to->shut ? -EPIPE : 0;
    if (error)
        return error;
    ssize_t moved = to->watch.ready & POLLOUT ? move_out(copy->pipe[0], to->watch.fd, copy->piped) : -EAGAIN;
    if (moved == -EAGAIN) {
        reactor_watch_spent(&to->watch, POLLOUT);
        return NEEDS_ROOM;
    }
    if (moved == -EINVAL)
        return fall_back(copy);
    if (moved < 0)
        return failed(copy->to, &copy->to->write_error, (int)moved);
    copy->piped -= (size_t)moved;
    copy->bytes += (uint64_t)moved;
    return 0;
}

/* From the source to the pipe. */
static int splice_in(struct orr_copy *copy)
{
    struct descriptor *from = descriptor_of(copy->from);
    if (copy->from->read_error || copy->from->ended)
        return copy->from->ended ? AT_END : copy->from->read_error;
    ssize_t moved = from->watch.ready & POLLIN ? move(from->watch.fd, copy->pipe[1], copy->room) : -EAGAIN;
    if (moved == -EAGAIN) {
        reactor_watch_spent(&from->watch, POLLIN);
        return NEEDS_INPUT;
    }
    if (moved == -EINVAL)
        return fall_back(copy);
    if (moved == 0)
        stream_keep_end(copy->from);
    if (moved <= 0)
        return moved ? failed(copy->from, &copy->from->read_error, (int)moved) : AT_END;
    copy->piped += (size_t)moved;
    spree_spend(copy->from->opened.worker, (size_t)moved);
    return 0;
}

/* What was read ahead goes first. */
static int step(struct orr_copy *copy)
{
    if (copy->state != COPY_SPLICED || copy->from->input.length)
        return plain_step(copy);
    return copy->piped ? splice_out(copy) : splice_in(copy);
}

/* --- Waiting ---------------------------------------------------------------------------------- */

static void copy_withdraw(struct orr_wait *wait, bool granted)
{
    stop(copy_of(wait));
    stream_withdraw(wait, granted);
}

static void describe_input(const struct orr_wait *wait, char *text, size_t size)
{
    stream_describe_wait(wait->source, "a copy from", text, size);
}

static void describe_room(const struct orr_wait *wait, char *text, size_t size)
{
    stream_describe_wait(wait->source, "a copy to", text, size);
}

static const struct orr_wait_kind input_kind = {
    .name = "a copy",
    .withdraw = copy_withdraw,
    .describe = describe_input,
    .ends_by_itself = true,
};

static const struct orr_wait_kind room_kind = {
    .name = "a copy",
    .withdraw = copy_withdraw,
    .describe = describe_room,
    .ends_by_itself = true,
};

/* Nobody may use the other stream before the copy has put back what is on its way, or has ended. */
static void keep_holding(struct orr_wait *wait)
{
    (void)wait;
}

static const struct orr_wait_kind hold_kind = {
    .name = "a copy",
    .withdraw = stream_withdraw,
    .ends_by_itself = true,
    .interrupt = keep_holding,
};

/* Keeps the slot of the other stream while the copy waits. */
static int hold(struct orr_task *task, struct orr_copy *copy)
{
    bool for_room = copy->wait.kind == &room_kind;
    struct orr_stream *other = for_room ? copy->from : copy->to;
    other->waits[for_room ? SLOT_READ : SLOT_WRITE] = &copy->hold;
    copy->hold.value = 0;
    return wait_begin(task, &copy->hold, other, &hold_kind);
}

static int check(const struct orr_copy *copy, const struct orr_stream *from, const struct orr_stream *to)
{
    if (from->opened.worker != worker_current || to->opened.worker != worker_current)
        return -EPERM;
    if (copy->state != COPY_NEW && (copy->from != from || copy->to != to))
        return -EBUSY;
    if (from->closed || to->closed || !from->kind->read || !to->kind->write)
        return -EBADF;
    return from->waits[SLOT_READ] || to->waits[SLOT_WRITE] ? -EBUSY : 0;
}

static int finish(struct orr_task *task, struct orr_copy *copy, int answer)
{
    if (answer == -EAGAIN)
        return hold(task, copy);
    stop(copy);
    return answer;
}

/* Others run before the copy begins.  It has its slot for reading, and takes that for writing. */
static int begin_late(struct orr_task *task, struct orr_copy *copy, struct orr_stream *from, struct orr_stream *to)
{
    int error = to->opened.worker != from->opened.worker ? -EPERM
                : to->closed                             ? -EBADF
                : to->waits[SLOT_WRITE]                  ? -EBUSY
                                                         : 0;
    if (error) {
        orr_wait_withdraw(&copy->wait);
        return error;
    }
    start(copy, from, to);
    return hold(task, copy);
}

/*
 * A stream was closed while the copy waited for the other.  The wait goes first: it puts back what
 * is on its way, and the hold may be all that keeps the source.
 */
static int give_up(struct orr_copy *copy)
{
    orr_wait_withdraw(&copy->wait);
    orr_wait_withdraw(&copy->hold);
    return -EBADF;
}

int orr_stream_copy(struct orr_task *task, struct orr_copy *copy, struct orr_stream *from, struct orr_stream *to)
{
    if (!task || !copy || !from || !to)
        return -EINVAL;
    struct orr_wait *wait = &copy->wait;
    bool for_room = wait->state != WAIT_IDLE && wait->kind == &room_kind;
    struct attempt reading = { task, wait, from, SLOT_READ, &input_kind, NULL };
    struct attempt writing = { task, wait, to, SLOT_WRITE, &room_kind, NULL };
    if (copy->hold.state == WAIT_GRANTED && wait->state != WAIT_IDLE && wait_allowed(task))
        return give_up(copy);
    bool fresh = wait->state == WAIT_IDLE;
    int answer = attempt_begin(for_room ? &writing : &reading);
    if (answer == -EAGAIN)
        return fresh ? begin_late(task, copy, from, to) : answer;
    if (answer < 0)
        stop(copy);
    orr_wait_withdraw(&copy->hold);
    if (answer < 0)
        return answer;
    answer = check(copy, from, to);
    if (answer) {
        stop(copy);
        return attempt_end(&reading, answer);
    }
    if (copy->state == COPY_NEW)
        start(copy, from, to);
    do
        answer = spree_is_over(from->opened.worker) ? attempt_yield(&reading) : step(copy);
    while (!answer);
    if (answer == NEEDS_INPUT)
        answer = attempt_wait(&reading, ORR_READABLE);
    else if (answer == NEEDS_ROOM)
        answer = attempt_wait(&writing, ORR_WRITABLE);
    return finish(task, copy, answer == AT_END ? 0 : answer);
}

const struct orr_stream *copy_culprit(const struct orr_stream *from, const struct orr_stream *to, int error)
{
    if (error == -EBADF)
        return to->closed || !to->kind->write ? to : from;
    if (error == to->write_error || (error == -EPIPE && to->shut))
        return to;
    return error == from->read_error ? from : NULL;
}
