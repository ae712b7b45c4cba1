#include "io/socket_path.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { FOLDER_FLAGS = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC };

/* Opens a folder in a folder, which is closed. */
static int step_into(int folder, const char *part, size_t length)
{
    char name[sizeof((struct sockaddr_un *)0)->sun_path];
    int fd = -ENAMETOOLONG;
    if (length < sizeof name) {
        memcpy(name, part, length);
        name[length] = '\0';
        fd = openat(folder, name, FOLDER_FLAGS);
        if (fd < 0)
            fd = errno == ENOTDIR || errno == ELOOP ? -EACCES : -errno;
    }
    close(folder);
    return fd;
}

int socket_path_open_folder(const char *path, const char **name)
{
    int folder = open("/", FOLDER_FLAGS);
    *name = path;
    if (folder < 0)
        return -errno;
    const char *part = path + 1;
    for (const char *slash; folder >= 0 && (slash = strchr(part, '/')); part = slash + 1)
        folder = step_into(folder, part, (size_t)(slash - part));
    *name = part;
    return folder;
}

/* A descriptor that was just opened, if it is a socket; else closes it. */
static int check_socket(int fd)
{
    struct stat status;
    int error = fstat(fd, &status) < 0 ? -errno : 0;
    if (!error && !S_ISSOCK(status.st_mode))
        error = S_ISLNK(status.st_mode) ? -EACCES : -ECONNREFUSED;
    if (!error)
        return fd;
    close(fd);
    return error;
}

int socket_path_open(const char *path)
{
    const char *name;
    int folder = socket_path_open_folder(path, &name);
    if (folder < 0)
        return folder;
    int fd = openat(folder, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    int error = fd < 0 ? -errno : 0;
    close(folder);
    return error ? error : check_socket(fd);
}
