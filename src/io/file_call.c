#include "io/file_call.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

enum {
    SIZE_MOST = 1 << 30,
    LINK_ROOM = PATH_MAX,      /* for the target of a symbolic link */
    COPY_AT_ONCE = 128 * 1024, /* where the kernel cannot copy by itself */
};

/* --- Requests --------------------------------------------------------------------------------- */

static bool has_path(const struct orr_file_request *request)
{
    return request->call <= ORR_FILE_READ_LINK && request->call != ORR_FILE_SYMLINK &&
           !(request->call == ORR_FILE_STAT && request->file);
}

static bool has_target(const struct orr_file_request *request)
{
    return request->call == ORR_FILE_RENAME || request->call == ORR_FILE_LINK || request->call == ORR_FILE_SYMLINK;
}

static bool is_sound(const struct orr_file_request *request)
{
    bool gives = request->call == ORR_FILE_WRITE || request->call == ORR_FILE_SYMLINK;
    return (unsigned)request->call <= ORR_FILE_LIST && request->size <= SIZE_MOST &&
           (!has_path(request) || request->path.text) && (!has_target(request) || request->to.text) &&
           (!gives || request->bytes || !request->size) &&
           (has_path(request) || has_target(request) || request->file) &&
           (request->call != ORR_FILE_COPY || request->other) && request->offset <= INT64_MAX;
}

/* The bytes of a buffer that the call needs. */
static size_t buffer_size(const struct orr_file_request *request)
{
    switch (request->call) {
    case ORR_FILE_READ:
    case ORR_FILE_WRITE:
    case ORR_FILE_LIST:
        return request->size;
    case ORR_FILE_SYMLINK:
        return request->size + 1;
    case ORR_FILE_READ_LINK:
        return LINK_ROOM;
    default:
        return 0;
    }
}

ssize_t file_call_room(const struct orr_file_request *request)
{
    if (!is_sound(request))
        return -EINVAL;
    size_t path = has_path(request) ? strlen(request->path.text) + 1 : 0;
    size_t to = has_target(request) ? strlen(request->to.text) + 1 : 0;
    if (path > PATH_MAX || to > PATH_MAX)
        return -ENAMETOOLONG;
    return (ssize_t)(path + to + buffer_size(request));
}

int file_call_init(struct file_call *call, const struct orr_file_request *request, struct open_file *file,
                   struct open_file *other, char *room)
{
    call->kind = request->call;
    call->flags = request->flags;
    call->mode = request->mode;
    call->offset = request->offset;
    call->bytes = room;
    call->size = request->size;
    call->fd = -1;
    if (request->call == ORR_FILE_WRITE || request->call == ORR_FILE_SYMLINK)
        memcpy(room, request->bytes ? request->bytes : "", request->size);
    room += buffer_size(request);
    int error = has_path(request) ? file_path_init(&call->path, &request->path, room) : 0;
    room += has_path(request) ? strlen(room) + 1 : 0;
    if (!error && has_target(request))
        error = file_path_init(&call->to, &request->to, room);
    if (error) {
        file_call_end(call);
        return error;
    }
    call->file = file ? open_file_ref(file) : NULL;
    call->other = other ? open_file_ref(other) : NULL;
    return 0;
}

void file_call_end(struct file_call *call)
{
    file_path_end(&call->path);
    file_path_end(&call->to);
    open_file_unref(call->file);
    open_file_unref(call->other);
    if (call->fd >= 0)
        close(call->fd);
    call->fd = -1;
}

/* --- Names ------------------------------------------------------------------------------------ */

static enum orr_file_type type_of(mode_t mode)
{
    switch (mode & S_IFMT) {
    case S_IFREG:
        return ORR_TYPE_REGULAR;
    case S_IFDIR:
        return ORR_TYPE_DIRECTORY;
    case S_IFLNK:
        return ORR_TYPE_SYMLINK;
    case S_IFIFO:
        return ORR_TYPE_FIFO;
    case S_IFSOCK:
        return ORR_TYPE_SOCKET;
    case S_IFCHR:
        return ORR_TYPE_CHARACTER;
    case S_IFBLK:
        return ORR_TYPE_BLOCK;
    default:
        return ORR_TYPE_UNKNOWN;
    }
}

static int describe(struct file_call *call, int directory, const char *name, int flags)
{
    struct stat found;
    if (fstatat(directory, name, &found, flags) < 0)
        return -errno;
    call->answer.stat = (struct orr_file_stat){
        .type = type_of(found.st_mode),
        .mode = found.st_mode & 07777,
        .uid = found.st_uid,
        .gid = found.st_gid,
        .links = found.st_nlink,
        .inode = found.st_ino,
        .device = found.st_dev,
        .size = (uint64_t)found.st_size,
        .modified_ns = found.st_mtim.tv_sec * 1000000000 + found.st_mtim.tv_nsec,
    };
    return 0;
}

static int run_open(struct file_call *call)
{
    call->fd = file_path_open(&call->path, call->flags | O_NONBLOCK | O_CLOEXEC | O_NOCTTY, call->mode);
    return call->fd < 0 ? call->fd : describe(call, call->fd, "", AT_EMPTY_PATH);
}

static int run_stat(struct file_call *call)
{
    int no_follow = call->flags & AT_SYMLINK_NOFOLLOW;
    if (call->file)
        return describe(call, call->file->fd, "", AT_EMPTY_PATH);
    if (!call->path.beneath)
        return describe(call, call->path.directory, call->path.text, no_follow);
    int fd = file_path_open(&call->path, O_PATH | O_CLOEXEC | (no_follow ? O_NOFOLLOW : 0), 0);
    int error = fd < 0 ? fd : describe(call, fd, "", AT_EMPTY_PATH);
    if (fd >= 0)
        close(fd);
    return error;
}

/* Calls that act on the last component of one path. */
static int act(struct file_call *call, const struct file_place *place)
{
    long done;
    switch (call->kind) {
    case ORR_FILE_MAKE_DIR:
        done = mkdirat(place->directory, place->name, call->mode);
        break;
    case ORR_FILE_REMOVE:
        done = unlinkat(place->directory, place->name, call->flags & AT_REMOVEDIR);
        break;
    case ORR_FILE_SYMLINK:
        call->bytes[call->size] = '\0';
        done = symlinkat(call->bytes, place->directory, place->name);
        break;
    default: /* ORR_FILE_READ_LINK */
        done = readlinkat(place->directory, place->name, call->bytes, LINK_ROOM);
        call->answer.bytes = call->bytes;
    }
    return done < 0 ? -errno : (int)done;
}

static int run_on_name(struct file_call *call)
{
    struct file_place place;
    int error = file_place_find(call->kind == ORR_FILE_SYMLINK ? &call->to : &call->path, &place);
    if (error)
        return error;
    int answer = act(call, &place);
    file_place_end(&place);
    return answer;
}

static int act_on_two(const struct file_call *call, const struct file_place *from, const struct file_place *to)
{
    long done = call->kind == ORR_FILE_LINK ? linkat(from->directory, from->name, to->directory, to->name, 0)
                                            : syscall(SYS_renameat2, from->directory, from->name, to->directory,
                                                      to->name, (unsigned)call->flags);
    return done < 0 ? -errno : 0;
}

static int run_on_two(struct file_call *call)
{
    struct file_place from, to;
    int error = file_place_find(&call->path, &from);
    if (error)
        return error;
    error = file_place_find(&call->to, &to);
    if (!error) {
        error = act_on_two(call, &from, &to);
        file_place_end(&to);
    }
    file_place_end(&from);
    return error;
}

/* --- Open files ------------------------------------------------------------------------------- */

static int64_t run_read(struct file_call *call)
{
    size_t done = 0;
    while (done < call->size) {
        ssize_t count = pread(call->file->fd, call->bytes + done, call->size - done, (off_t)(call->offset + done));
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0 && !done)
            return -errno;
        if (count <= 0)
            break;
        done += (size_t)count;
    }
    call->answer.bytes = call->bytes;
    return (int64_t)done;
}

static int64_t run_write(struct file_call *call)
{
    size_t done = 0;
    while (done < call->size) {
        ssize_t count = pwrite(call->file->fd, call->bytes + done, call->size - done, (off_t)(call->offset + done));
        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0)
            return count ? -errno : -ENOSPC;
        done += (size_t)count;
        call->answer.moved = done;
    }
    return (int64_t)done;
}

static int64_t run_truncate(struct file_call *call)
{
    return ftruncate(call->file->fd, (off_t)call->offset) < 0 ? -errno : 0;
}

static int64_t run_sync(struct file_call *call)
{
    return (call->flags ? fdatasync(call->file->fd) : fsync(call->file->fd)) < 0 ? -errno : 0;
}

static int64_t run_lock(struct file_call *call)
{
    short type = call->flags & LOCK_SH ? F_RDLCK : F_WRLCK;
    if (call->flags & LOCK_UN)
        type = F_UNLCK;
    struct flock lock = { .l_type = type, .l_whence = SEEK_SET };
    if (fcntl(call->file->fd, F_OFD_SETLK, &lock) == 0)
        return 0;
    return errno == EACCES ? -EAGAIN : -errno;
}

/* Copies a piece through memory. */
static int64_t copy_by_hand(struct file_call *call)
{
    char bytes[8192];
    uint64_t done = 0;
    while (done < call->size && done < COPY_AT_ONCE) {
        size_t wanted = call->size - done < sizeof bytes ? call->size - done : sizeof bytes;
        ssize_t count = pread(call->file->fd, bytes, wanted, (off_t)(call->offset + done));
        if (count == 0)
            break;
        ssize_t put = count < 0 ? -1 : pwrite(call->other->fd, bytes, (size_t)count, (off_t)(call->offset + done));
        if (put < 0 && errno != EINTR)
            return -errno;
        done += put > 0 ? (uint64_t)put : 0;
    }
    return (int64_t)done;
}

static int64_t run_copy(struct file_call *call)
{
    int from = call->file->fd, to = call->other->fd;
    struct stat about;
    if (!call->offset && fstat(from, &about) == 0 && about.st_size && ioctl(to, FICLONE, from) == 0)
        return about.st_size;
    off_t at_from = (off_t)call->offset, at_to = (off_t)call->offset;
    ssize_t count;
    do
        count = copy_file_range(from, &at_from, to, &at_to, call->size, 0);
    while (count < 0 && errno == EINTR);
    /* Files of /proc and the like have no size: a copy inside the kernel finds nothing in them. */
    bool cannot = count < 0 && (errno == EXDEV || errno == EINVAL || errno == EOPNOTSUPP || errno == ENOSYS);
    if (count == 0 || cannot)
        return copy_by_hand(call);
    return count < 0 ? -errno : count;
}

static int64_t run_list(struct file_call *call)
{
    long count = syscall(SYS_getdents64, call->file->fd, call->bytes, call->size);
    return count < 0 ? -errno : count;
}

void file_call_run(struct file_call *call)
{
    static int64_t (*const on_files[])(struct file_call *) = {
        [ORR_FILE_READ] = run_read, [ORR_FILE_WRITE] = run_write, [ORR_FILE_TRUNCATE] = run_truncate,
        [ORR_FILE_SYNC] = run_sync, [ORR_FILE_LOCK] = run_lock,   [ORR_FILE_COPY] = run_copy,
        [ORR_FILE_LIST] = run_list,
    };
    static int (*const by_name[])(struct file_call *) = {
        [ORR_FILE_OPEN] = run_open,       [ORR_FILE_STAT] = run_stat,         [ORR_FILE_MAKE_DIR] = run_on_name,
        [ORR_FILE_REMOVE] = run_on_name,  [ORR_FILE_RENAME] = run_on_two,     [ORR_FILE_LINK] = run_on_two,
        [ORR_FILE_SYMLINK] = run_on_name, [ORR_FILE_READ_LINK] = run_on_name,
    };
    bool named = call->kind <= ORR_FILE_READ_LINK;
    call->answer.result = named ? by_name[call->kind](call) : on_files[call->kind](call);
}
