#include "lua/isolate/roots.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct roots {
    unsigned count;
    int folders[];
};

static size_t size_of(unsigned count)
{
    return sizeof(struct roots) + count * sizeof(int);
}

int roots_open(const char *const *folders, const struct alloc *alloc, const struct log *log, struct roots **roots_out)
{
    unsigned count = 0;
    while (folders && folders[count])
        count++;
    *roots_out = NULL;
    if (!count)
        return 0;
    struct roots *roots = alloc_zeroed(alloc, size_of(count));
    if (!roots)
        return -ENOMEM;
    for (unsigned i = 0; i < count; i++)
        roots->folders[i] = -1;
    roots->count = count;
    for (unsigned i = 0; i < count; i++) {
        roots->folders[i] = open(folders[i], O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (roots->folders[i] < 0) {
            int error = -errno;
            log_line(log, ORR_LOG_ERROR, "option roots: %s: %s", folders[i], strerror(-error));
            roots_close(roots, alloc);
            return error;
        }
    }
    *roots_out = roots;
    return 0;
}

void roots_close(struct roots *roots, const struct alloc *alloc)
{
    if (!roots)
        return;
    for (unsigned i = 0; i < roots->count; i++)
        if (roots->folders[i] >= 0)
            close(roots->folders[i]);
    alloc_free(alloc, roots, size_of(roots->count));
}

unsigned roots_count(const struct roots *roots)
{
    return roots ? roots->count : 0;
}

/*
 * Returns a descriptor that was just opened, if it is a regular file.  Otherwise closes it, and
 * returns a negative errno.
 */
static int check_regular(int fd)
{
    struct stat status;
    int error = fstat(fd, &status) ? -errno : 0;
    if (!error && !S_ISREG(status.st_mode))
        error = S_ISDIR(status.st_mode) ? -EISDIR : -EINVAL;
    if (!error)
        return fd;
    close(fd);
    return error;
}

/*
 * Opens the first component of a path, which has `length` bytes.  `last`: it is also the last one.
 */
static int open_component(int folder, const char *path, size_t length, bool last)
{
    char component[NAME_MAX + 1];
    if (length >= sizeof component)
        return -ENAMETOOLONG;
    memcpy(component, path, length);
    component[length] = '\0';
    int flags = last ? O_RDONLY | O_NONBLOCK : O_PATH | O_DIRECTORY;
    int fd = openat(folder, component, flags | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

int roots_open_file(const struct roots *roots, unsigned which, const char *path)
{
    int folder = roots->folders[which];
    int fd = -ENOENT;
    for (bool last = false; !last; path++) {
        size_t length = strcspn(path, "/");
        last = !path[length];
        fd = open_component(folder, path, length, last);
        if (folder != roots->folders[which])
            close(folder);
        if (fd < 0)
            return fd;
        folder = fd;
        path += length;
    }
    return check_regular(fd);
}

int roots_open_any(const char *path)
{
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    return fd < 0 ? -errno : check_regular(fd);
}
