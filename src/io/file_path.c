#include "io/file_path.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { RACES_MAX = 64 }; /* tries, while others move what the path leads through */

int file_path_init(struct file_path *self, const struct orr_path *path, char *text)
{
    self->directory = AT_FDCWD;
    self->beneath = path->beneath;
    self->text = text;
    memcpy(text, path->text, strlen(path->text) + 1);
    if (!path->at && !path->beneath)
        return 0;
    self->directory = path->directory == AT_FDCWD ? AT_FDCWD : fcntl(path->directory, F_DUPFD_CLOEXEC, 3);
    if (self->directory != -1)
        return 0;
    self->directory = AT_FDCWD;
    return -errno;
}

void file_path_end(struct file_path *self)
{
    if (self->text && self->directory != AT_FDCWD)
        close(self->directory);
    self->text = NULL;
}

static int open_beneath(int directory, const char *path, int flags, unsigned mode)
{
    struct open_how how = {
        .flags = (unsigned)flags,
        .mode = flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE ? mode : 0,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS,
    };
    long fd = -1;
    errno = EAGAIN;
    for (int tries = 0; fd < 0 && (errno == EAGAIN || errno == EINTR) && tries < RACES_MAX; tries++)
        fd = syscall(SYS_openat2, directory, path, &how, sizeof how);
    return fd < 0 ? -errno : (int)fd;
}

int file_path_open(const struct file_path *path, int flags, unsigned mode)
{
    if (path->beneath)
        return open_beneath(path->directory, path->text, flags, mode);
    int fd;
    do
        fd = openat(path->directory, path->text, flags, mode);
    while (fd < 0 && errno == EINTR);
    return fd < 0 ? -errno : fd;
}

/* Cuts the last component off.  -EXDEV for "..", which is not beneath its parent. */
static int cut(char *text, const char **parent, const char **name)
{
    size_t length = strlen(text);
    while (length > 1 && text[length - 1] == '/')
        text[--length] = '\0';
    char *slash = strrchr(text, '/');
    *name = slash ? slash + 1 : text;
    *parent = slash ? text : ".";
    if (slash == text || !strcmp(*name, ".."))
        return -EXDEV;
    if (slash)
        *slash = '\0';
    return length ? 0 : -ENOENT;
}

int file_place_find(struct file_path *path, struct file_place *place)
{
    *place = (struct file_place){ .directory = path->directory, .name = path->text, .parent = -1 };
    if (!path->beneath)
        return 0;
    const char *parent;
    int error = cut(path->text, &parent, &place->name);
    if (error)
        return error;
    int fd = open_beneath(path->directory, parent, O_PATH | O_DIRECTORY | O_CLOEXEC, 0);
    if (fd < 0)
        return fd;
    place->directory = place->parent = fd;
    return 0;
}

void file_place_end(struct file_place *place)
{
    if (place->parent >= 0)
        close(place->parent);
}
