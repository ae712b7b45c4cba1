/*
 * I/O as tasks see it.  An operation belongs to the task that started it: it is on the task's list while it
 * is in flight, its end wakes the task, and the task's end cancels it (see task_end() in task.c).
 */
#include "base/list.h"
#include "exec/worker.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>

static bool in_flight(const struct orr_io *io)
{
    return io->state == IO_IN_FLIGHT || io->state == IO_FINISHED;
}

static int start(struct orr_task *task, struct orr_io *io, enum io_kind kind)
{
    struct worker *worker = task->worker;
    if (worker != worker_current)
        return -EPERM;
    if (task->life != TASK_LIVE)
        return -ESRCH;
    io->kind = kind;
    io->task = task;
    int error = reactor_start(worker->reactor, io);
    if (!error)
        list_append(&task->ios, &io->in_task);
    return error;
}

int orr_io_wait(struct orr_task *task, struct orr_io *io, int fd, unsigned events)
{
    if (!task || !io || !events || events & ~(unsigned)(POLLIN | POLLOUT | POLLPRI | POLLRDHUP))
        return -EINVAL;
    if (in_flight(io))
        return -EBUSY;
    io->fd = fd;
    io->events = events;
    return start(task, io, IO_WAIT);
}

static int start_transfer(struct orr_task *task, struct orr_io *io, enum io_kind kind, int fd, void *buffer,
                          size_t length)
{
    if (!task || !io || (!buffer && length) || length > INT_MAX)
        return -EINVAL;
    if (in_flight(io))
        return -EBUSY;
    io->fd = fd;
    io->buffer = buffer;
    io->length = length;
    return start(task, io, kind);
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
    if (!in_flight(io))
        return -EALREADY;
    struct worker *worker = io->task->worker;
    if (worker != worker_current)
        return -EPERM;
    reactor_cancel(worker->reactor, io);
    return 0;
}

bool orr_io_done(const struct orr_io *io)
{
    return io && io->state == IO_DONE;
}
