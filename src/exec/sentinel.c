#include "exec/sentinel.h"

#include "base/barrier.h"
#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

enum {
    PAUSE_FIRST = 50000, /* nanoseconds between looks at a thread that sleeps */
    PAUSE_LAST = 1000000,
    TOO_LATE = 50000, /* after a look, its finding is too old */
    /*
     * A thread that goes from one sleep to the next runs for less than RUN_LEAST, or for less than
     * one RUN_SHARE-th of the time.
     */
    RUN_LEAST = 30000,
    RUN_SHARE = 16,
    EVENTS = 16,
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pid_t process;   /* the process that has the sentinel: a child of fork(2) has none */
static int timers = -1; /* its epoll, on the timers of all wards */

/* --- Looking ---------------------------------------------------------------------------------- */

/* Opens the kernel's file about a thread, unless it is open already. */
static int state_file(struct sentinel_ward *ward, pid_t thread)
{
    char path[64];
    if (ward->state_of == thread)
        return ward->state;
    if (ward->state_of)
        close(ward->state);
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)thread);
    ward->state = open(path, O_RDONLY | O_CLOEXEC);
    ward->state_of = ward->state < 0 ? 0 : thread;
    return ward->state;
}

/*
 * The file reads "123 (a name) S 1 ...": R is a thread that runs, or would run if it had a
 * processor.  A thread that nothing is known of counts as awake.
 */
static bool is_awake(struct sentinel_ward *ward, pid_t thread)
{
    char text[64]; /* a name has 15 bytes */
    int fd = state_file(ward, thread);
    ssize_t size = fd < 0 ? -1 : pread(fd, text, sizeof text, 0);
    const char *name_end = size > 0 ? memrchr(text, ')', (size_t)size) : NULL;
    return !name_end || name_end + 2 >= text + size || name_end[2] == 'R';
}

/* The CPU time of a thread so far; 0 if it cannot be known. */
static uint64_t read_clock(int clock)
{
    struct timespec time;
    return clock_gettime(clock, &time) ? 0 : (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

/*
 * Whether the thread runs, and will for some time: it is awake, was at the last look, and got
 * something done meanwhile.  One that has just woken up may be about to sleep again.
 */
static bool runs(struct sentinel_ward *ward, pid_t thread, uint64_t now)
{
    uint64_t cpu = read_clock(atomic_load_explicit(&ward->clock, memory_order_relaxed));
    uint64_t passed = now - ward->seen_at, least = passed / RUN_SHARE;
    bool was_awake = ward->awake;
    ward->awake = is_awake(ward, thread);
    if (ward->awake && was_awake && cpu - ward->seen_cpu >= (least > RUN_LEAST ? least : RUN_LEAST))
        return true;
    if (!was_awake || passed > (uint64_t)PAUSE_LAST * RUN_SHARE) {
        ward->seen_at = now;
        ward->seen_cpu = cpu;
    }
    return ward->awake && !cpu;
}

/* Sends the signal.  False if it must be tried again: too many signals are pending. */
static bool send(const struct sentinel_ward *ward, pid_t thread)
{
    siginfo_t info;
    memset(&info, 0, sizeof info);
    info.si_signo = ward->signal;
    info.si_code = SI_QUEUE;
    info.si_pid = getpid();
    info.si_uid = getuid();
    info.si_value.sival_ptr = (void *)(uintptr_t)ward;
    return !syscall(SYS_rt_tgsigqueueinfo, getpid(), thread, ward->signal, &info) || errno != EAGAIN;
}

/*
 * For a thread that is not busy: whether it will set the timer again when it is.  If not, it has
 * just become busy, and counts on the signal.
 */
static bool is_let_go(const struct sentinel_ward *ward)
{
    if (!barrier_is_possible())
        return false; /* a thread that is not busy gets the signal, too */
    atomic_store_explicit(ward->set, SENTINEL_UNSET, memory_order_relaxed);
    if (!barrier_in_all_threads())
        return false;
    return !atomic_load_explicit(ward->busy, memory_order_relaxed) ||
           atomic_load_explicit(ward->set, memory_order_relaxed) != SENTINEL_UNSET;
}

/*
 * Looks at one ward; true if there is nothing more to look for.  A thread that is gone gets no
 * signal, and needs none.
 */
static bool look(struct sentinel_ward *ward, uint64_t now)
{
    pid_t thread = atomic_load_explicit(&ward->thread, memory_order_relaxed);
    if (!thread)
        return true;
    bool busy = atomic_load_explicit(ward->busy, memory_order_relaxed);
    if (!busy && is_let_go(ward))
        return true;
    bool is_time = (!busy && !barrier_is_possible()) || runs(ward, thread, now);
    if (is_time && clock_now() - now < TOO_LATE && send(ward, thread))
        return true;
    ward->pause = !ward->pause || is_time ? PAUSE_FIRST : ward->pause < PAUSE_LAST / 2 ? 2 * ward->pause : PAUSE_LAST;
    ward->look_at = is_time ? 0 : now + ward->pause;
    return false;
}

/* Looks at all wards whose time it is; answers when the next look is due. */
static uint64_t look_at_all(struct sentinel_ward **wards)
{
    uint64_t next = UINT64_MAX;
    for (struct sentinel_ward **at = wards, *ward; (ward = *at);) {
        uint64_t now = clock_now();
        if (ward->look_at <= now && look(ward, now)) {
            *at = ward->next;
            ward->looking = false;
            continue;
        }
        next = ward->look_at < next ? ward->look_at : next;
        at = &ward->next;
    }
    return next;
}

static void add_due(struct sentinel_ward **wards, const struct epoll_event *events, int count)
{
    for (int i = 0; i < count; i++) {
        struct sentinel_ward *ward = events[i].data.ptr;
        ward->pause = ward->look_at = 0;
        ward->awake = false;
        if (ward->looking)
            continue;
        ward->looking = true;
        ward->next = *wards;
        *wards = ward;
    }
}

static void wait_until(int fd, uint64_t next)
{
    uint64_t now = clock_now(), left = next > now ? next - now : 0;
    struct timespec time = { (time_t)(left / 1000000000), (long)(left % 1000000000) };
    ppoll(&(struct pollfd){ .fd = fd, .events = POLLIN }, 1, next == UINT64_MAX ? NULL : &time, NULL);
}

static void *stand_guard(void *data)
{
    int fd = (int)(intptr_t)data;
    struct sentinel_ward *wards = NULL;
    prctl(PR_SET_NAME, "orr-sentinel");
    barrier_is_possible(); /* which takes its time now, not at the first look */
    prctl(PR_SET_TIMERSLACK, 1);
    for (;;) {
        struct epoll_event events[EVENTS];
        wait_until(fd, look_at_all(&wards));
        add_due(&wards, events, epoll_wait(fd, events, EVENTS, 0));
    }
    return NULL;
}

/* --- Starting --------------------------------------------------------------------------------- */

/* Under the lock.  Negative errno. */
static int start(int fd)
{
    pthread_attr_t attributes;
    sigset_t all, before;
    pthread_t thread;
    int error = pthread_attr_init(&attributes);
    if (error)
        return -error;
    sigfillset(&all);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(&thread, &attributes, stand_guard, (void *)(intptr_t)fd);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return -error;
}

/* Under the lock: the epoll of a sentinel that runs.  Negative errno. */
static int find_timers(void)
{
    if (process == getpid())
        return timers;
    int fd = epoll_create1(EPOLL_CLOEXEC);
    if (fd < 0)
        return -errno;
    int error = start(fd);
    if (error) {
        close(fd);
        return error;
    }
    process = getpid();
    return timers = fd;
}

int sentinel_open(struct sentinel_ward *ward, int signal, _Atomic(void *) volatile *busy,
                  _Atomic(uint64_t) volatile *set)
{
    int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (fd < 0)
        return -errno;
    /* The sentinel may be looking at a ward that is used again. */
    if (ward->signal != signal || ward->busy != busy) {
        ward->signal = signal;
        ward->busy = busy;
        ward->set = set;
    }
    pthread_mutex_lock(&lock);
    int error = find_timers();
    struct epoll_event event = { .events = EPOLLIN | EPOLLET, .data.ptr = ward };
    if (error >= 0)
        error = epoll_ctl(error, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
    pthread_mutex_unlock(&lock);
    if (error) {
        close(fd);
        return error;
    }
    ward->timer = fd;
    return 0;
}

void sentinel_close(struct sentinel_ward *ward)
{
    atomic_store_explicit(&ward->thread, 0, memory_order_relaxed);
    close(ward->timer); /* which takes it out of the epoll */
    ward->timer = -1;
}

void sentinel_move(struct sentinel_ward *ward)
{
    /* The sentinel's own clock, if the thread's cannot be had. */
    clockid_t clock = CLOCK_THREAD_CPUTIME_ID;
    pthread_getcpuclockid(pthread_self(), &clock);
    atomic_store_explicit(&ward->clock, clock, memory_order_relaxed);
    atomic_store_explicit(&ward->thread, gettid(), memory_order_relaxed);
}

int sentinel_set(struct sentinel_ward *ward, uint64_t after)
{
    struct itimerspec when = { .it_value = { .tv_sec = (time_t)(after / 1000000000),
                                             .tv_nsec = (long)(after % 1000000000) } };
    return timerfd_settime(ward->timer, 0, &when, NULL) ? -errno : 0;
}
