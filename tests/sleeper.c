/*
 * A C library for scripts.  Its functions sleep in system calls, and say whether they were
 * interrupted.
 */
#include <lauxlib.h>
#include <lua.h>

#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <time.h>
#include <unistd.h>

enum { LENGTH_MS = 50 };

static int by_poll(void)
{
    return poll(NULL, 0, LENGTH_MS);
}

static int by_select(void)
{
    return select(0, NULL, NULL, NULL, &(struct timeval){ .tv_usec = LENGTH_MS * 1000L });
}

static int by_nanosleep(void)
{
    return nanosleep(&(struct timespec){ .tv_nsec = LENGTH_MS * 1000000L }, NULL);
}

static int by_epoll(void)
{
    int fd = epoll_create1(EPOLL_CLOEXEC);
    int answer = epoll_wait(fd, &(struct epoll_event){ 0 }, 1, LENGTH_MS);
    int error = errno;
    close(fd);
    errno = error;
    return answer;
}

static int (*const ways[])(void) = { by_poll, by_select, by_nanosleep, by_epoll };

/* doze(...): returns how many of the calls were interrupted. */
static int doze(lua_State *L)
{
    lua_Integer interrupted = 0;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        interrupted += ways[i]() < 0 && errno == EINTR;
    lua_pushinteger(L, interrupted);
    return 1;
}

__attribute__((visibility("default"))) int luaopen_sleeper(lua_State *L);

int luaopen_sleeper(lua_State *L)
{
    lua_pushcfunction(L, doze);
    return 1;
}
