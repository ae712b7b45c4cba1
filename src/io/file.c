/*
 * The kinds of streams that are opened by name: "file", "directory", "fifo" and "device".
 *
 * A file has one position, where the next byte is read or written.  At most one read and one write
 * are under way, each a work with a buffer of its own.
 *
 *   - A read begins when a task waits for input.  It fills a buffer, from which `read` copies.  The
 *     position moves when bytes are copied, so a cancelled read has consumed nothing.  Bytes that
 *     the stream has read ahead (its own buffer) lie behind the position.
 *   - A write begins when `write` takes bytes, which count as gone out from then on.  It goes on
 *     unseen when the stream is closed.  `flush` gives its error to the task that writes.
 *
 * A FIFO begins as not ready for reading: a read would find an end while nobody has opened it for
 * writing, and the kernel says when there is something to read.
 */
#include "io/file.h"

#include "io/descriptor.h"
#include "io/file_work.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>

enum {
    READ_FIRST = 32 * 1024, /* bytes of the first read of a file */
    READ_MOST = 256 * 1024,
    WRITE_MOST = 256 * 1024,
};

/* What all kinds here have. */
struct named {
    char *path; /* on the worker's allocator and the stream's account; may be NULL */
    size_t path_size;
};

struct file {
    struct named named;
    struct open_file *handle; /* NULL once it is closed */
    uint64_t position;
    size_t read_size;              /* of the last read */
    size_t taken;                  /* bytes of `reading` that were copied */
    bool at_end;                   /* the last read found the end behind its bytes */
    struct orr_file_work *reading; /* under way, or with bytes left */
    struct orr_file_work *writing; /* under way, or with an answer that nobody has looked at */
};

/* A descriptor that was opened by name.  Its struct comes first, as descriptor_of() wants it. */
struct named_descriptor {
    struct descriptor descriptor;
    struct named named;
};

static struct file *file_of(const struct orr_stream *stream)
{
    return (struct file *)stream->data;
}

static const struct orr_open *open_of(const struct orr_stream *stream, struct orr_open *open)
{
    *open = (struct orr_open){ .account = stream->opened.open.account, .label = stream->opened.open.label };
    return open;
}

static void start_over(struct orr_file_work **work)
{
    orr_file_work_free(*work);
    *work = NULL;
}

/* --- Reading ---------------------------------------------------------------------------------- */

static void has_read(struct orr_file_work *work, void *stream)
{
    (void)work;
    stream_ready(stream, ORR_READABLE);
}

static int begin_read(struct orr_stream *stream)
{
    struct file *self = file_of(stream);
    struct orr_open open;
    self->read_size = self->read_size ? READ_MOST : READ_FIRST;
    const struct orr_file_request request = {
        .call = ORR_FILE_READ,
        .file = stream,
        .offset = self->position,
        .size = self->read_size,
    };
    int error = file_work_start(&request, self->handle, NULL, open_of(stream, &open), &self->reading);
    if (error)
        return error;
    self->taken = 0;
    self->reading->notify = has_read;
    self->reading->data = stream;
    return 0;
}

static ssize_t file_read(struct orr_stream *stream, const struct iovec *parts, int count)
{
    (void)count;
    struct file *self = file_of(stream);
    const struct orr_file_answer *answer = orr_file_answer(self->reading);
    if (!answer)
        return self->at_end ? 0 : -EAGAIN;
    ssize_t result = (ssize_t)answer->result;
    size_t there = result > 0 ? (size_t)result - self->taken : 0;
    size_t taken = there < parts->iov_len ? there : parts->iov_len;
    if (taken)
        memcpy(parts->iov_base, (const char *)answer->bytes + self->taken, taken);
    self->taken += taken;
    self->position += taken;
    if (taken == there) {
        self->at_end = result >= 0 && (size_t)result < self->read_size;
        start_over(&self->reading);
    }
    return result < 0 ? result : (ssize_t)taken;
}

/* --- Writing ---------------------------------------------------------------------------------- */

static void has_written(struct orr_file_work *work, void *stream)
{
    (void)work;
    stream_ready(stream, ORR_WRITABLE);
}

/* Joins the first bytes of the parts. */
static size_t gather(char *bytes, size_t room, const struct iovec *parts, int count)
{
    size_t used = 0;
    for (int i = 0; i < count && used < room; i++) {
        size_t length = parts[i].iov_len < room - used ? parts[i].iov_len : room - used;
        memcpy(bytes + used, parts[i].iov_base, length);
        used += length;
    }
    return used;
}

/* Drops what was read ahead: the position is behind what the reader has got. */
static void settle_position(struct orr_stream *stream)
{
    struct file *self = file_of(stream);
    size_t ahead = stream->input.length;
    self->position -= ahead;
    if (ahead)
        orr_stream_consume(stream, ahead);
    start_over(&self->reading);
    self->at_end = stream->ended = false;
}

static int begin_write(struct orr_stream *stream, const void *bytes, size_t size)
{
    struct file *self = file_of(stream);
    struct orr_open open;
    const struct orr_file_request request = {
        .call = ORR_FILE_WRITE,
        .file = stream,
        .offset = self->position,
        .bytes = bytes,
        .size = size,
    };
    int error = file_work_start(&request, self->handle, NULL, open_of(stream, &open), &self->writing);
    if (error)
        return error;
    self->writing->notify = has_written;
    self->writing->data = stream;
    self->position += size;
    return 0;
}

static int file_flush(struct orr_stream *stream)
{
    struct file *self = file_of(stream);
    if (!self->writing)
        return 0;
    const struct orr_file_answer *answer = orr_file_answer(self->writing);
    if (!answer)
        return -EAGAIN;
    int error = answer->result < 0 ? (int)answer->result : 0;
    if (error) { /* the bytes after those that were written did not go out */
        uint64_t lost = file_work_call(self->writing)->size - answer->moved;
        self->position -= lost;
        stream->sent -= lost < stream->sent ? (size_t)lost : stream->sent;
    }
    start_over(&self->writing);
    return error;
}

static ssize_t file_write(struct orr_stream *stream, const struct iovec *parts, int count)
{
    int error = file_flush(stream);
    if (error)
        return error;
    if (!stream->waits[SLOT_READ])
        settle_position(stream);
    if (parts->iov_len >= WRITE_MOST || count == 1) {
        size_t size = parts->iov_len < WRITE_MOST ? parts->iov_len : WRITE_MOST;
        error = begin_write(stream, parts->iov_base, size);
        return error ? error : (ssize_t)size;
    }
    struct worker *worker = stream->opened.worker;
    char *bytes = alloc_new(&worker->alloc, WRITE_MOST);
    if (!bytes)
        return -ENOMEM;
    size_t size = gather(bytes, WRITE_MOST, parts, count);
    error = begin_write(stream, bytes, size);
    alloc_free(&worker->alloc, bytes, WRITE_MOST);
    return error ? error : (ssize_t)size;
}

/* --- The kind --------------------------------------------------------------------------------- */

/*
 * A read that nobody waits for any more is given up: by the time of the next one, the file may have
 * changed.
 */
static int file_want(struct orr_stream *stream, unsigned events)
{
    struct file *self = file_of(stream);
    if (self->reading && !self->reading->over && !(events & ORR_READABLE))
        start_over(&self->reading);
    if (events & ORR_READABLE && !self->reading)
        return begin_read(stream);
    bool may_write = events & ORR_WRITABLE && (!self->writing || self->writing->over);
    unsigned there = (events & ORR_READABLE && self->reading->over ? ORR_READABLE : 0u) |
                     (may_write ? ORR_WRITABLE : 0u);
    if (there)
        stream_ready(stream, there);
    return 0;
}

static void file_close(struct orr_stream *stream)
{
    struct file *self = file_of(stream);
    start_over(&self->reading);
    if (self->writing)
        file_work_leave(self->writing);
    self->writing = NULL;
    open_file_unref(self->handle);
    self->handle = NULL;
}

static int describe_path(const struct named *named, enum orr_end end, char *text, size_t size)
{
    if (end != ORR_PEER || !named->path)
        return -ENOTSUP;
    int length = snprintf(text, size, "%s", named->path);
    return length < 0 ? -EINVAL : (size_t)length < size ? length : (int)size - 1;
}

static int file_describe(const struct orr_stream *stream, enum orr_end end, char *text, size_t size)
{
    return describe_path(&file_of(stream)->named, end, text, size);
}

static int descriptor_describe(const struct orr_stream *stream, enum orr_end end, char *text, size_t size)
{
    return describe_path(&((const struct named_descriptor *)stream->data)->named, end, text, size);
}

static void drop_name(const struct orr_stream *stream, struct named *named)
{
    account_uncharge(stream->opened.open.account, named->path_size);
    alloc_free(&stream->opened.worker->alloc, named->path, named->path_size);
}

static void file_drop(struct orr_stream *stream)
{
    drop_name(stream, &file_of(stream)->named);
}

static void descriptor_drop(struct orr_stream *stream)
{
    drop_name(stream, &((struct named_descriptor *)stream->data)->named);
}

#define FILE_KIND(text, reader, writer) \
    { \
        .name = (text), .size = sizeof(struct file), .read = (reader), .write = (writer), .flush = file_flush, \
        .want = file_want, .close = file_close, .describe = file_describe, .drop = file_drop \
    }

#define DEVICE_KIND(text, reader, writer) \
    { \
        .name = (text), .size = sizeof(struct named_descriptor), .read = (reader), .write = (writer), \
        .want = descriptor_want, .close = descriptor_close, .describe = descriptor_describe, .drop = descriptor_drop \
    }

/* By access mode: O_RDONLY, O_WRONLY, O_RDWR. */
static const struct orr_stream_kind file_kinds[] = {
    FILE_KIND("file", file_read, NULL),
    FILE_KIND("file", NULL, file_write),
    FILE_KIND("file", file_read, file_write),
};

static const struct orr_stream_kind fifo_kinds[] = {
    DEVICE_KIND("fifo", descriptor_read, NULL),
    DEVICE_KIND("fifo", NULL, descriptor_write),
    DEVICE_KIND("fifo", descriptor_read, descriptor_write),
};

static const struct orr_stream_kind device_kinds[] = {
    DEVICE_KIND("device", descriptor_read, NULL),
    DEVICE_KIND("device", NULL, descriptor_write),
    DEVICE_KIND("device", descriptor_read, descriptor_write),
};

static const struct orr_stream_kind directory_kind = FILE_KIND("directory", NULL, NULL);

static bool is_on_disk(const struct orr_stream *stream)
{
    return stream && stream->kind->close == file_close;
}

struct open_file *open_file_of(const struct orr_stream *stream)
{
    return is_on_disk(stream) ? file_of(stream)->handle : NULL;
}

/* --- Opening ---------------------------------------------------------------------------------- */

static const struct orr_stream_kind *kind_of(const struct file_call *call)
{
    int access = call->flags & O_ACCMODE;
    switch (call->answer.stat.type) {
    case ORR_TYPE_REGULAR:
    case ORR_TYPE_BLOCK:
        return &file_kinds[access];
    case ORR_TYPE_DIRECTORY:
        return &directory_kind;
    case ORR_TYPE_FIFO:
        return &fifo_kinds[access];
    default:
        return &device_kinds[access];
    }
}

static int keep_path(struct orr_stream *stream, struct named *named, const char *path)
{
    size_t size = strlen(path) + 1;
    int error = account_charge(stream->opened.open.account, size);
    if (error)
        return error;
    named->path = alloc_copy(&stream->opened.worker->alloc, path);
    named->path_size = named->path ? size : 0;
    if (!named->path)
        account_uncharge(stream->opened.open.account, size);
    return named->path ? 0 : -ENOMEM;
}

/* Gives a new stream its path and its descriptor. */
static int adopt(struct orr_stream *stream, struct file_call *call)
{
    bool disk = is_on_disk(stream);
    struct named *named = disk ? &file_of(stream)->named : &((struct named_descriptor *)stream->data)->named;
    int error = keep_path(stream, named, call->path.text);
    if (error)
        return error;
    if (disk) {
        file_of(stream)->handle = open_file_new(call->fd);
        if (!file_of(stream)->handle) {
            drop_name(stream, named);
            return -ENOMEM;
        }
    } else {
        descriptor_init(stream, call->fd, DESCRIPTOR_OWN);
        if (call->answer.stat.type == ORR_TYPE_FIFO)
            reactor_watch_spent(&descriptor_of(stream)->watch, POLLIN);
    }
    call->fd = -1;
    return 0;
}

int orr_file_take(struct orr_file_work *work, const struct orr_open *open, struct orr_stream **out)
{
    const struct orr_file_answer *answer = orr_file_answer(work);
    if (!work || !out)
        return -EINVAL;
    if (work->opened.worker != worker_current)
        return -EPERM;
    if (!answer || answer->result < 0 || file_work_call(work)->kind != ORR_FILE_OPEN)
        return -ENXIO;
    struct file_call *call = file_work_call(work);
    if (call->fd < 0)
        return -EALREADY;
    struct orr_stream *stream;
    int error = stream_make(kind_of(call), open, &stream);
    if (error)
        return error;
    error = adopt(stream, call);
    if (error) {
        opened_free(&stream->opened);
        return error;
    }
    *out = stream;
    return 0;
}

/* --- Operations on open files ----------------------------------------------------------------- */

/* What a request names: a file on disk that is open here.  `optional`: or none. */
static int find_handle(const struct orr_stream *stream, struct open_file **handle)
{
    *handle = NULL;
    if (!stream)
        return 0;
    if (stream->opened.worker != worker_current)
        return -EPERM;
    if (stream->closed)
        return -EBADF;
    *handle = open_file_of(stream);
    return *handle ? 0 : -EINVAL;
}

int orr_file_start(const struct orr_file_request *request, const struct orr_open *open, struct orr_file_work **work)
{
    struct open_file *file, *other;
    int error = request && work ? find_handle(request->file, &file) : -EINVAL;
    if (!error)
        error = find_handle(request->other, &other);
    return error ? error : file_work_start(request, file, other, open, work);
}

static int check(const struct orr_stream *stream)
{
    if (!stream)
        return -EINVAL;
    if (stream->opened.worker != worker_current)
        return -EPERM;
    if (!is_on_disk(stream) || stream->kind == &directory_kind)
        return -ESPIPE;
    return stream->closed ? -EBADF : 0;
}

int orr_file_tell(const struct orr_stream *stream, uint64_t *position)
{
    int error = position ? check(stream) : -EINVAL;
    if (!error)
        *position = file_of(stream)->position - stream->input.length;
    return error;
}

int orr_file_seek(struct orr_stream *stream, uint64_t position)
{
    int error = position <= INT64_MAX ? check(stream) : -EINVAL;
    if (error)
        return error;
    if (stream->waits[SLOT_READ] || stream->waits[SLOT_WRITE])
        return -EBUSY;
    settle_position(stream);
    file_of(stream)->position = position;
    return 0;
}

int orr_file_descriptor(const struct orr_stream *stream)
{
    if (!stream)
        return -EINVAL;
    if (stream->opened.worker != worker_current)
        return -EPERM;
    if (!is_on_disk(stream))
        return -ESPIPE;
    return stream->closed ? -EBADF : file_of(stream)->handle->fd;
}

const char *orr_file_path(const struct orr_stream *stream)
{
    if (!stream)
        return NULL;
    if (is_on_disk(stream))
        return file_of(stream)->named.path;
    return stream->kind->drop == descriptor_drop ? ((const struct named_descriptor *)stream->data)->named.path : NULL;
}
