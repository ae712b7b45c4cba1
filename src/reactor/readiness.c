#include "reactor/readiness.h"

#include <errno.h>
#include <sys/epoll.h>

enum { LASTING = POLLERR | POLLHUP | POLLRDHUP | POLLPRI };

/* Marks the events of watches: no address has this bit. */
static const uint64_t watch_tag = UINT64_C(1) << 63;

static uint64_t tag_of(const struct reactor_watch *watch)
{
    return watch_tag | (uint64_t)(uintptr_t)watch;
}

bool readiness_owns(const struct epoll_event *event)
{
    return event->data.u64 & watch_tag && event->data.u64 != ORR_NEVER; /* that is the bell's tag */
}

static void set_wanted(struct reactor *reactor, struct reactor_watch *watch, unsigned events)
{
    reactor->wanting += (unsigned)!!events - (unsigned)!!watch->wanted;
    watch->wanted = (uint16_t)events;
    if (events)
        reactor->unsubmitted = true; /* the backend may have to poll the set */
}

int reactor_prepare_watches(struct reactor *reactor)
{
    int set = reactor->backend->readiness_fd(reactor);
    return set < 0 ? set : 0;
}

static int register_watch(struct reactor *reactor, struct reactor_watch *watch)
{
    int set = reactor->backend->readiness_fd(reactor);
    if (set < 0)
        return set;
    struct epoll_event event = {
        .events = EPOLLIN | EPOLLOUT | EPOLLPRI | EPOLLRDHUP | EPOLLET,
        .data.u64 = tag_of(watch),
    };
    if (epoll_ctl(set, EPOLL_CTL_ADD, watch->fd, &event) == 0) {
        watch->state = WATCH_REGISTERED;
        return 0;
    }
    if (errno != EPERM)
        return -errno;
    watch->state = WATCH_ALWAYS_READY;
    watch->ready = POLLIN | POLLOUT;
    return 0;
}

int reactor_watch_want(struct reactor *reactor, struct reactor_watch *watch, unsigned events)
{
    int error = events && watch->state == WATCH_NEW ? register_watch(reactor, watch) : 0;
    if (error) {
        set_wanted(reactor, watch, 0);
        return error;
    }
    unsigned there = events & (watch->ready | watch->seen);
    set_wanted(reactor, watch, events & ~there);
    return (int)there;
}

void reactor_watch_close(struct reactor *reactor, struct reactor_watch *watch)
{
    set_wanted(reactor, watch, 0);
    /* The kernel forgets only a file that nobody has open any more, and others may share it. */
    if (watch->state == WATCH_REGISTERED)
        epoll_ctl(reactor->backend->readiness_fd(reactor), EPOLL_CTL_DEL, watch->fd, NULL);
    watch->state = WATCH_NEW;
    for (int i = 0; i < reactor->batch_count; i++)
        if (reactor->batch[i].data.u64 == tag_of(watch))
            reactor->batch[i].data.u64 = ORR_NEVER;
}

static void handle(struct reactor *reactor, struct reactor_watch *watch, unsigned events)
{
    unsigned ready = events & (POLLIN | POLLOUT);
    if (events & (POLLERR | POLLHUP))
        ready = POLLIN | POLLOUT;
    else if (events & (POLLRDHUP | POLLPRI))
        ready |= POLLIN;
    watch->ready |= (uint16_t)ready;
    watch->seen |= (uint16_t)(events & LASTING);
    unsigned due = watch->wanted & (watch->ready | watch->seen);
    if (!due)
        return;
    set_wanted(reactor, watch, watch->wanted & ~due);
    watch->notify(watch, due);
}

void readiness_handle(struct reactor *reactor, struct epoll_event *events, int count)
{
    reactor->batch = events;
    reactor->batch_count = count;
    for (int i = 0; i < count; i++)
        if (readiness_owns(&events[i]))
            handle(reactor, (struct reactor_watch *)(uintptr_t)(events[i].data.u64 & ~watch_tag), events[i].events);
    reactor->batch_count = 0;
}

int readiness_collect(struct reactor *reactor)
{
    struct epoll_event events[READINESS_AT_ONCE];
    int count = epoll_wait(reactor->backend->readiness_fd(reactor), events, READINESS_AT_ONCE, 0);
    if (count < 0)
        return errno == EINTR ? READINESS_AT_ONCE : -errno;
    readiness_handle(reactor, events, count);
    return count;
}
