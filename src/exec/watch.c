#include "exec/watch.h"

#include "base/clock.h"
#include "base/log.h"
#include "exec/signal_stack.h"
#include "exec/waker_table.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

/* Nanoseconds that a slice gets even in a turn without time, so that something gets done. */
enum { SHORTEST = 50000 };

static_assert(SENTINEL_UNSET == ORR_NEVER, "what the sentinel writes into fires_at");

static struct watch watches[WAKER_TABLES];

_Thread_local uint64_t watch_thread_number __attribute__((tls_model("initial-exec")));

uint64_t watch_thread(void)
{
    static _Atomic uint64_t last;
    if (!watch_thread_number)
        watch_thread_number = 1 + atomic_fetch_add_explicit(&last, 1, memory_order_relaxed);
    return watch_thread_number;
}

/* --- The timer -------------------------------------------------------------------------------- */

/* From now on slices are not interrupted.  Async-signal-safe. */
static void fail(struct watch *watch, const char *call, int error)
{
    watch->thread = WATCH_NO_THREAD;
    watch->fires_at = ORR_NEVER;
    watch->ticks_apart = 0;
    watch->failed_call = call;
    watch->error = error;
}

/* Sets the kernel's timer: for `value`, and every `apart` from then on.  Async-signal-safe. */
static bool set_kernel_timer(struct watch *watch, int flags, uint64_t value, uint64_t apart)
{
    struct itimerspec when = { .it_value = clock_timespec(value), .it_interval = clock_timespec(apart) };
    watch->ticks_apart = apart;
    if (!timer_settime(watch->timer, flags, &when, NULL))
        return true;
    fail(watch, "timer_settime", errno);
    return false;
}

/* Sets the timer, to fire once.  Async-signal-safe. */
static bool set_timer(struct watch *watch, uint64_t after)
{
    if (!watch->careful)
        return set_kernel_timer(watch, 0, after, 0);
    int error = sentinel_set(&watch->ward, after);
    if (error)
        fail(watch, "timerfd_settime", -error);
    return !error;
}

/* Begins to tick, at a multiple of the period that is one or two periods away. */
static void start_ticking(struct watch *watch, uint64_t now)
{
    uint64_t period = watch->period;
    watch->ticks_at = (now / period + 2) * period;
    set_kernel_timer(watch, TIMER_ABSTIME, watch->ticks_at, period);
}

static void stop_ticking(struct watch *watch)
{
    set_kernel_timer(watch, 0, 0, 0);
}

/* In a tick: finds out when the next one comes, as the kernel does. */
static void count_tick(struct watch *watch, uint64_t now)
{
    if (now >= watch->ticks_at)
        watch->ticks_at += ((now - watch->ticks_at) / watch->ticks_apart + 1) * watch->ticks_apart;
}

/* Whether the next tick comes when a timer should that is set for `after`. */
static bool tick_is_right(const struct watch *watch, uint64_t now, uint64_t after)
{
    uint64_t period = watch->period;
    return watch->ticks_apart == period && after == period && watch->ticks_at <= watch->turn_end &&
           watch->ticks_at >= now + period - period / 8;
}

/*
 * Sets the timer for the slice under way, or takes the next tick for it.  A tick may come between
 * any two lines.  If that is before `set_in` is written, the tick sees to this slice itself; but it
 * may also have stopped the ticking, and then the timer is set after all.  Async-signal-safe.
 */
static bool set(struct watch *watch, uint64_t now, uint64_t after)
{
    bool ticks = tick_is_right(watch, now, after);
    uint64_t fires_at = ticks ? watch->ticks_at : clock_after(now, after);
    if (fires_at > watch->turn_end)
        fires_at = watch->turn_end > now + SHORTEST ? watch->turn_end : now + SHORTEST;
    watch->fires_at = fires_at;
    atomic_signal_fence(memory_order_seq_cst);
    watch->set_in = watch->slice;
    watch->set_at = now;
    watch->repeats_after = 0;
    atomic_signal_fence(memory_order_seq_cst);
    return (ticks && watch->ticks_apart) || set_timer(watch, fires_at - now);
}

/*
 * Calls `over`, and has it called again while the slice goes on.  The timer does not count as set
 * meanwhile: the next slice, or one inside this, sets it for itself, and the time of this slice's
 * first interruption stays known.  Async-signal-safe.
 */
static void tell(struct watch *watch, void *data, uint64_t now)
{
    bool first = !watch->repeats_after;
    uint64_t after = first ? watch->period : 2 * watch->repeats_after;
    uint64_t longest = WATCH_REPEAT_MAX * watch->period;
    watch->repeats_after = after < longest ? after : longest;
    watch->over(data);
    if (!first || watch->careful || watch->turn_end != WATCH_NO_END)
        set_timer(watch, watch->repeats_after);
    else if (watch->ticks_apart != watch->period)
        start_ticking(watch, now);
}

/* --- The handler ------------------------------------------------------------------------------ */

static pthread_mutex_t handlers_lock = PTHREAD_MUTEX_INITIALIZER;

/* The handlers before ours, by signal.  Written before ours is installed. */
static struct sigaction before[_NSIG];
static bool installed[_NSIG];

/* A handler that was installed after ours may pass the signal on to us in turn. */
static _Thread_local volatile bool passing_on __attribute__((tls_model("initial-exec")));

static void pass_on(int number, siginfo_t *info, void *context)
{
    const struct sigaction *old = &before[number];
    if (passing_on)
        return;
    passing_on = true;
    if (old->sa_flags & SA_SIGINFO)
        old->sa_sigaction(number, info, context);
    else if (old->sa_handler != SIG_DFL && old->sa_handler != SIG_IGN)
        old->sa_handler(number);
    passing_on = false;
}

/* The watch that a signal is for; NULL for a signal that is not ours. */
static struct watch *watch_of(const siginfo_t *info)
{
    const char *value = info->si_value.sival_ptr;
    struct watch *watch = NULL;
    if (info->si_code == SI_TIMER)
        watch = (struct watch *)value;
    else if (info->si_code == SI_QUEUE && info->si_pid == getpid() && value)
        watch = (struct watch *)(value - offsetof(struct watch, ward));
    return watch >= watches && watch < watches + WAKER_TABLES ? watch : NULL;
}

/*
 * Whether the sentinel decided to send this signal just before the timer was set for another slice,
 * whose own signal comes later.
 */
static bool is_early(const struct watch *watch)
{
    return watch->careful && watch->fires_at != ORR_NEVER && clock_now() < watch->fires_at;
}

static void handle(int number, siginfo_t *info, void *context)
{
    struct watch *watch = watch_of(info);
    if (!watch) {
        pass_on(number, info, context);
        return;
    }
    if (watch->thread != watch_thread_number || is_early(watch))
        return; /* the worker has gone to another thread, and has a timer there */
    int error = errno;
    watch->fires_at = ORR_NEVER;
    watch->ticks++;
    void *data = watch_data(watch);
    if (data) {
        uint64_t now = clock_now();
        if (watch->ticks_apart)
            count_tick(watch, now);
        if (watch->slice == watch->set_in || now >= watch->turn_end)
            tell(watch, data, now);
        else if (!set(watch, now, watch->period))
            watch->over(data); /* early: no later signal will come */
    } else if (watch->ticks_apart) {
        stop_ticking(watch);
    }
    errno = error;
}

static bool is_ours(int number)
{
    struct sigaction action;
    return !sigaction(number, NULL, &action) && action.sa_flags & SA_SIGINFO && action.sa_sigaction == handle;
}

/* Under the lock. */
static int install_locked(int number, const struct log *log)
{
    struct sigaction ours = { .sa_sigaction = handle, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART };
    sigfillset(&ours.sa_mask); /* no other handler interrupts ours */
    if (is_ours(number))
        return 0;
    if (sigaction(number, NULL, &before[number]) || sigaction(number, &ours, NULL))
        return errno;
    if (installed[number])
        log_line(log, ORR_LOG_WARNING,
                 "another handler was installed for signal %d, which interrupts Lua; it now comes after ours", number);
    installed[number] = true;
    return 0;
}

/* Installs our handler, unless it is there.  An errno, or 0. */
static int install(int number, const struct log *log)
{
    if (is_ours(number))
        return 0;
    pthread_mutex_lock(&handlers_lock);
    int error = install_locked(number, log);
    pthread_mutex_unlock(&handlers_lock);
    return error;
}

/* Unblocks the signal in the calling thread.  An errno, or 0. */
static int unblock(int number)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, number);
    return pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

/* Whether the signal reaches our handler; true if that cannot be found out. */
static bool is_blocked(int number)
{
    sigset_t set;
    return pthread_sigmask(SIG_BLOCK, NULL, &set) || sigismember(&set, number);
}

/* The number of the kernel's tick, which costs less than the time. */
static uint64_t tick(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* Not in the handler. */
static void complain(struct watch *watch)
{
    if (watch->told && !strcmp(watch->told, watch->failed_call))
        return;
    watch->told = watch->failed_call;
    log_line(watch->log, ORR_LOG_ERROR,
             "Lua cannot be interrupted by a timer, and its instructions are counted instead: %s: %s",
             watch->failed_call, strerror(watch->error));
}

static void stop_being_careful(struct watch *watch)
{
    if (watch->careful)
        sentinel_close(&watch->ward);
    watch->careful = false;
}

/*
 * Makes a timer that is directed at the calling thread.  False, with the reason kept, if there is
 * none.
 */
static bool create(struct watch *watch)
{
    if (watch->careful) {
        sentinel_move(&watch->ward);
        return true;
    }
    if (watch->created && timer_delete(watch->timer)) {
        fail(watch, "timer_delete", errno);
        return false;
    }
    watch->created = false;
    struct sigevent event = {
        .sigev_notify = SIGEV_THREAD_ID,
        .sigev_signo = watch->signal,
        .sigev_value.sival_ptr = watch,
        ._sigev_un._tid = gettid(),
    };
    if (timer_create(CLOCK_MONOTONIC, &event, &watch->timer)) {
        fail(watch, "timer_create", errno);
        return false;
    }
    watch->created = true;
    return true;
}

/* A signal on its way finds no thread of its own. */
void watch_move(struct watch *watch)
{
    uint64_t now = watch->failed_call ? tick() : 0;
    uint64_t thread = watch_thread();
    watch->thread = WATCH_NO_THREAD;
    watch->fires_at = ORR_NEVER;
    watch->ticks_apart = 0; /* the timer is deleted */
    if (watch->failed_call && watch->failed_at == now && watch->failed_thread == thread)
        return;
    signal_stack_ensure();
    if (create(watch)) {
        watch->failed_call = NULL; /* unless setting the timer fails */
        watch->thread = thread;
        return;
    }
    watch->failed_at = tick();
    watch->failed_thread = thread;
    complain(watch);
}

/*
 * Deletes the thread's own timer: if it is set, or its signal is on its way, that would come too
 * early for what is set here.
 */
void watch_be_careful(struct watch *watch)
{
    if (watch->careful)
        return;
    int error = sentinel_open(&watch->ward, watch->signal, &watch->data, &watch->fires_at);
    if (error) {
        log_line(watch->log, ORR_LOG_WARNING,
                 "the signal that interrupts Lua cannot be kept from threads that sleep, and system calls of C "
                 "libraries may answer EINTR: %s",
                 strerror(-error));
        return;
    }
    if (watch->created && !timer_delete(watch->timer))
        watch->created = false;
    watch->careful = true;
    watch_move(watch);
    if (watch_data(watch))
        watch_set(watch, watch->period);
}

void watch_set(struct watch *watch, uint64_t longest_ns)
{
    watch->visits_apart = watch->visits_left = 1;
    if (watch_failed(watch))
        return;
    int error;
    if ((error = install(watch->signal, watch->log)))
        fail(watch, "sigaction", error);
    else if ((error = unblock(watch->signal)))
        fail(watch, "pthread_sigmask", error);
    else if (set(watch, clock_now(), longest_ns))
        return;
    watch->failed_at = tick();
    watch->failed_thread = watch_thread();
    complain(watch);
}

void watch_return(struct watch *watch)
{
    if (watch->fires_at != ORR_NEVER && (!is_ours(watch->signal) || is_blocked(watch->signal)))
        watch->fires_at = ORR_NEVER;
}

void watch_visit(struct watch *watch)
{
    if (watch->fires_at == ORR_NEVER)
        return; /* setting the timer checks the handler, too */
    uint64_t now = tick();
    if (now == watch->looked_at)
        return;
    watch->looked_at = now;
    watch_return(watch);
}

void watch_visit_in_turn(struct watch *watch)
{
    uint64_t last = watch->looked_at;
    watch_visit(watch);
    bool same_tick = watch->looked_at == last && watch->fires_at != ORR_NEVER;
    if (!same_tick)
        watch->visits_apart = 1;
    else if (watch->visits_apart < WATCH_VISITS_MAX)
        watch->visits_apart *= 2;
    watch->visits_left = watch->visits_apart;
}

/* --- Life ------------------------------------------------------------------------------------- */

struct watch *watch_open(unsigned table, int signal, const struct log *log)
{
    struct watch *watch = &watches[table];
    watch_set_data(watch, NULL);
    watch->thread = WATCH_NO_THREAD;
    watch->fires_at = ORR_NEVER;
    watch->turn_end = WATCH_NO_END;
    watch->ticks_apart = 0;
    watch->visits_apart = watch->visits_left = 1;
    watch->signal = signal ? signal : SIGRTMIN + 4;
    watch->created = watch->careful = false;
    watch->failed_call = watch->told = NULL;
    watch->log = log;
    return watch;
}

void watch_close(struct watch *watch)
{
    if (watch->created && timer_delete(watch->timer))
        log_line(watch->log, ORR_LOG_WARNING, "a timer is left behind: timer_delete: %s", strerror(errno));
    watch->created = false;
    stop_being_careful(watch);
    watch->thread = WATCH_NO_THREAD;
    watch_set_data(watch, NULL);
}
