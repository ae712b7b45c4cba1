/*
 * I/O of tasks.  An operation belongs to the task that started it.  It is on the task's list while
 * it is in flight, its end wakes the task, and the end or cancellation of the task cancels it.
 */
#include "base/ring.h"
#include "exec/await.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>

static bool in_flight(const struct orr_io *io)
{
    return io->state == IO_IN_FLIGHT || io->state == IO_FINISHED;
}

/*
 * Whether the task may start this now.  Checks the thread first: fields of another thread's task
 * must not be read.
 */
static int check(const struct orr_task *task, const struct orr_io *io)
{
    if (!task || !io)
        return -EINVAL;
    if (task->worker != worker_current)
        return -EPERM;
    if (in_flight(io))
        return -EBUSY;
    if (task->life != TASK_LIVE)
        return -ESRCH;
    return task->cancelled ? -ECANCELED : 0;
}

static int start(struct orr_task *task, struct orr_io *io, enum io_kind kind, int fd)
{
    io->kind = kind;
    io->fd = fd;
    io->task = task;
    int error = reactor_start(task->worker->reactor, io);
    if (!error)
        ring_append(&task->ios, &io->in_task);
    return error;
}

int orr_io_wait(struct orr_task *task, struct orr_io *io, int fd, unsigned events)
{
    if (!events || events & ~(unsigned)(POLLIN | POLLOUT | POLLPRI | POLLRDHUP))
        return -EINVAL;
    int error = check(task, io);
    if (error)
        return error;
    io->events = events;
    return start(task, io, IO_WAIT, fd);
}

static int start_transfer(struct orr_task *task, struct orr_io *io, enum io_kind kind, int fd, void *buffer,
                          size_t length)
{
    if ((!buffer && length) || length > INT_MAX)
        return -EINVAL;
    int error = check(task, io);
    if (error)
        return error;
    io->buffer = buffer;
    io->length = length;
    return start(task, io, kind, fd);
}

int orr_io_read(struct orr_task *task, struct orr_io *io, int fd, void *buffer, size_t length)
{
    return start_transfer(task, io, IO_READ, fd, buffer, length);
}

int orr_io_write(struct orr_task *task, struct orr_io *io, int fd, const void *buffer, size_t length)
{
    return start_transfer(task, io, IO_WRITE, fd, (void *)buffer, length);
}

int orr_io_cancel(struct orr_io *io)
{
    if (!io)
        return -EINVAL;
    if (!io->task)
        return -EALREADY;
    struct worker *worker = io->task->worker;
    if (worker != worker_current)
        return in_flight(io) ? -EPERM : -EALREADY;
    if (!in_flight(io))
        return -EALREADY;
    reactor_cancel(worker->reactor, io);
    return 0;
}

int orr_io_await(struct orr_task *task, struct orr_io *io)
{
    if (!task || !io)
        return -EINVAL;
    if (!wait_allowed(task))
        return -EPERM;
    if (io->task != task)
        return -EALREADY;
    if (io->state == IO_DONE && (io->result != -ECANCELED || !(task->cancelled || task->child_failed)))
        return 0;
    if (!task->cancelled && !task->child_failed)
        return -EAGAIN;
    if (io->state == IO_DONE)
        return wait_interruption(task);
    reactor_cancel(task->worker->reactor, io);
    return -EAGAIN;
}

bool orr_io_done(const struct orr_io *io)
{
    return io && io->state == IO_DONE;
}
