#include "cli/process.h"

#include <lauxlib.h>
#include <lua.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int push_failure(lua_State *L, int error)
{
    lua_pushnil(L);
    lua_pushstring(L, strerror(error));
    return 2;
}

/* --- Starting and ending ---------------------------------------------------------------------- */

/* The two pipes of a process: it gets its own ends; ours stay here and do not block. */
struct pipes {
    int records[2], output[2];
};

static void close_both(int *ends)
{
    close(ends[0]);
    close(ends[1]);
}

static int open_pipes(struct pipes *pipes)
{
    if (pipe2(pipes->records, O_CLOEXEC))
        return errno;
    if (pipe2(pipes->output, O_CLOEXEC)) {
        int error = errno;
        close_both(pipes->records);
        return error;
    }
    fcntl(pipes->records[0], F_SETFL, O_NONBLOCK);
    fcntl(pipes->output[0], F_SETFL, O_NONBLOCK);
    return 0;
}

/*
 * The process starts with default signal handling, whatever we have blocked for ourselves.  It has
 * its own process group, so that only we get Ctrl-C, and what it starts can be ended with it.
 */
static int spawn_with(const struct pipes *pipes, char *const *argv, pid_t *pid)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, usual;
    sigemptyset(&none);
    sigemptyset(&usual);
    sigaddset(&usual, SIGINT);
    sigaddset(&usual, SIGTERM);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, pipes->output[1], STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, pipes->output[1], STDERR_FILENO);
    posix_spawn_file_actions_adddup2(&actions, pipes->records[1], PROCESS_RECORDS);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &usual);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
    int error = posix_spawn(pid, "/proc/self/exe", &actions, &attributes, argv, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    return error;
}

/* spawn(words) -> pid, records, output; or nil and the reason */
static int spawn(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    int count = (int)luaL_len(L, 1);
    luaL_checkstack(L, count + 4, "too many words");
    const char **argv = lua_newuserdatauv(L, ((size_t)count + 2) * sizeof *argv, 0);
    argv[0] = "orrery";
    for (int i = 1; i <= count; i++) {
        lua_geti(L, 1, i); /* stays on the stack */
        argv[i] = luaL_checkstring(L, -1);
    }
    argv[count + 1] = NULL;
    struct pipes pipes;
    int error = open_pipes(&pipes);
    if (error)
        return push_failure(L, error);
    pid_t pid;
    error = spawn_with(&pipes, (char *const *)argv, &pid);
    close(pipes.records[1]);
    close(pipes.output[1]);
    if (error) {
        close(pipes.records[0]);
        close(pipes.output[0]);
        return push_failure(L, error);
    }
    lua_pushinteger(L, pid);
    lua_pushinteger(L, pipes.records[0]);
    lua_pushinteger(L, pipes.output[0]);
    return 3;
}

/* kill(pid, "stop") asks it to end; kill(pid, "kill") ends it, with what it has started. */
static int kill_process(lua_State *L)
{
    static const char *const ways[] = { "stop", "kill", NULL };
    pid_t pid = (pid_t)luaL_checkinteger(L, 1);
    if (luaL_checkoption(L, 2, NULL, ways))
        kill(-pid, SIGKILL);
    else
        kill(pid, SIGTERM);
    return 0;
}

/* reap(pid) -> how it ended, and whether well; nil if it has not ended */
static int reap(lua_State *L)
{
    int status;
    pid_t pid = waitpid((pid_t)luaL_checkinteger(L, 1), &status, WNOHANG);
    if (!pid)
        return 0;
    if (pid < 0)
        lua_pushfstring(L, "cannot wait for the process: %s", strerror(errno));
    else if (WIFSIGNALED(status))
        lua_pushfstring(L, "killed by signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
    else
        lua_pushfstring(L, "it exited with status %d", WEXITSTATUS(status));
    lua_pushboolean(L, pid > 0 && WIFEXITED(status) && !WEXITSTATUS(status));
    return 2;
}

/* --- Descriptors ------------------------------------------------------------------------------ */

/* read(fd) -> bytes; "" at the end; nil if there are none yet */
static int read_some(lua_State *L)
{
    enum { AT_ONCE = 65536 };
    luaL_Buffer bytes;
    int fd = (int)luaL_checkinteger(L, 1);
    ssize_t length = read(fd, luaL_buffinitsize(L, &bytes, AT_ONCE), AT_ONCE);
    if (length < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    luaL_pushresultsize(&bytes, length > 0 ? (size_t)length : 0);
    return 1;
}

static int close_descriptor(lua_State *L)
{
    close((int)luaL_checkinteger(L, 1));
    return 0;
}

/*
 * signals() -> a descriptor that is readable when the user asks to end.  From then on these signals
 * do nothing else.
 */
static int signals(lua_State *L)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_BLOCK, &set, NULL);
    int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (fd < 0)
        return luaL_error(L, "signalfd: %s", strerror(errno));
    lua_pushinteger(L, fd);
    return 1;
}

/* read_signal(fd) -> its name */
static int read_signal(lua_State *L)
{
    struct signalfd_siginfo info;
    if (read((int)luaL_checkinteger(L, 1), &info, sizeof info) != sizeof info)
        return 0;
    lua_pushstring(L, info.ssi_signo == SIGINT ? "Ctrl-C" : "SIGTERM");
    return 1;
}

static int is_terminal(lua_State *L)
{
    lua_pushboolean(L, isatty(STDOUT_FILENO));
    return 1;
}

/* --- The rest --------------------------------------------------------------------------------- */

struct directory {
    DIR *dir;
};

static int close_directory(lua_State *L)
{
    struct directory *self = lua_touserdata(L, 1);
    if (self->dir)
        closedir(self->dir);
    self->dir = NULL;
    return 0;
}

/* Pushes an object that is closed even if an error is raised. */
static struct directory *push_directory(lua_State *L)
{
    struct directory *self = lua_newuserdatauv(L, sizeof *self, 0);
    self->dir = NULL;
    lua_createtable(L, 0, 1);
    lua_pushcfunction(L, close_directory);
    lua_setfield(L, -2, "__gc");
    lua_setmetatable(L, -2);
    return self;
}

/* entries(path) -> "file"; "directory" and the names in it; or nil and the reason */
static int entries(lua_State *L)
{
    const char *path = luaL_checkstring(L, 1);
    struct stat info;
    if (stat(path, &info))
        return push_failure(L, errno);
    if (!S_ISDIR(info.st_mode)) {
        lua_pushliteral(L, "file");
        return 1;
    }
    struct directory *self = push_directory(L);
    self->dir = opendir(path);
    if (!self->dir)
        return push_failure(L, errno);
    lua_pushliteral(L, "directory");
    lua_newtable(L);
    int count = 0;
    for (const struct dirent *entry; (entry = readdir(self->dir));) {
        lua_pushstring(L, entry->d_name);
        lua_rawseti(L, -2, ++count);
    }
    closedir(self->dir);
    self->dir = NULL;
    return 2;
}

int process_clock(lua_State *L)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    lua_pushnumber(L, (lua_Number)now.tv_sec * 1e3 + (lua_Number)now.tv_nsec / 1e6);
    return 1;
}

static int processors(lua_State *L)
{
    long count = sysconf(_SC_NPROCESSORS_ONLN);
    lua_pushinteger(L, count > 0 ? count : 1);
    return 1;
}

static int random_number(lua_State *L)
{
    uint64_t number = (uint64_t)time(NULL);
    if (getrandom(&number, sizeof number, 0) != sizeof number)
        number ^= (uint64_t)getpid() << 32;
    lua_pushinteger(L, (lua_Integer)number);
    return 1;
}

int process_push_functions(lua_State *L)
{
    static const luaL_Reg functions[] = {
        { "spawn", spawn },
        { "kill", kill_process },
        { "reap", reap },
        { "read", read_some },
        { "close", close_descriptor },
        { "signals", signals },
        { "read_signal", read_signal },
        { "is_terminal", is_terminal },
        { "entries", entries },
        { "clock", process_clock },
        { "processors", processors },
        { "random", random_number },
        { NULL, NULL },
    };
    luaL_newlib(L, functions);
    return 1;
}
