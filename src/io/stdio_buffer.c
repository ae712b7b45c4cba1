/* The fields of a FILE that this file uses are those of glibc, whose header shows them. */
#include "io/stdio_buffer.h"

#include <errno.h>
#include <sched.h>
#include <stdio_ext.h>
#include <string.h>
#include <wchar.h>

enum { LOCK_TRIES = 100 };

FILE *stdio_file(int descriptor)
{
    return descriptor == 0 ? stdin : descriptor == 1 ? stdout : stderr;
}

bool stdio_uses(FILE *file, int descriptor)
{
    return file && fileno(file) == descriptor;
}

/* A thread that only prints gives the lock back soon. */
static bool lock(FILE *file)
{
    for (int i = 0; i < LOCK_TRIES; i++) {
        if (ftrylockfile(file) == 0)
            return true;
        sched_yield();
    }
    return false;
}

static bool is_wide(FILE *file)
{
    return fwide(file, 0) > 0; /* its buffer has no bytes, but characters */
}

static size_t read_ahead(const FILE *file)
{
    return (size_t)(file->_IO_read_end - file->_IO_read_ptr);
}

size_t stdio_held(FILE *file)
{
    if (is_wide(file) || !lock(file))
        return 0;
    size_t held = __fpending(file) + (__fwriting(file) ? 0 : read_ahead(file));
    funlockfile(file);
    return held;
}

bool stdio_lock_output(FILE *file, struct iovec *bytes)
{
    if (is_wide(file) || !lock(file))
        return false;
    *bytes = (struct iovec){ .iov_base = file->_IO_write_base, .iov_len = __fpending(file) };
    if (!bytes->iov_len)
        funlockfile(file);
    return bytes->iov_len;
}

void stdio_unlock_output(FILE *file, size_t written)
{
    size_t left = __fpending(file) - written;
    memmove(file->_IO_write_base, file->_IO_write_base + written, left);
    file->_IO_write_ptr = file->_IO_write_base + left;
    funlockfile(file);
}

ssize_t stdio_write(FILE *file, const struct iovec *parts, int count)
{
    size_t written = 0;
    errno = EIO;
    for (int i = 0; i < count; i++) {
        size_t now = fwrite(parts[i].iov_base, 1, parts[i].iov_len, file);
        written += now;
        if (now < parts[i].iov_len)
            break;
    }
    return fflush(file) || !written ? -errno : (ssize_t)written;
}

int stdio_flush(FILE *file)
{
    if (!lock(file))
        return 0;
    int error = __fpending(file) && fflush_unlocked(file) ? -errno : 0;
    funlockfile(file);
    return error;
}

size_t stdio_take_input(FILE *file, void *buffer, size_t size)
{
    if (is_wide(file) || !lock(file))
        return 0;
    size_t held = __fwriting(file) ? 0 : read_ahead(file);
    size_t taken = held ? fread_unlocked(buffer, 1, held < size ? held : size, file) : 0;
    funlockfile(file);
    return taken;
}
