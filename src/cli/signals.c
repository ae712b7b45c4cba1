#include "cli/signals.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const int caught[] = { SIGINT, SIGTERM, SIGQUIT, SIGWINCH, SIGCONT };

/* The first ones are for all programs. */
enum { CAUGHT = sizeof caught / sizeof *caught, ENDING = 3 };

static _Atomic(struct orr_runtime *) runtime; /* lock-free, as a handler needs it */
static _Atomic bool waiting[CAUGHT];          /* signals that have come and were not taken yet */
static bool handled[CAUGHT];

static _Atomic unsigned last_resort_ms;
static _Atomic bool at_prompt;
static _Atomic int last_signal; /* the signal that ends the process; 0 for none */
static _Atomic int last_status; /* the exit status if no signal ends it */

/* Calls only what a handler may call. */
static void write_text(const char *text)
{
    size_t left = strlen(text);
    while (left > 0) {
        ssize_t written = write(STDERR_FILENO, text, left);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return;
        text += written;
        left -= (size_t)written;
    }
}

static void write_line(void *data, const char *text)
{
    (void)data;
    write_text("  ");
    write_text(text);
    write_text("\n");
}

void signals_show_tree(void)
{
    write_text("orrery: the tasks:\n");
    if (orr_tree_print(NULL, write_line, NULL) <= 0)
        write_line(NULL, "none");
}

_Noreturn void signals_die(int number)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, number);
    signal(number, SIG_DFL);
    raise(number);
    sigprocmask(SIG_UNBLOCK, &set, NULL); /* its handler may be running */
    _exit(128 + number);
}

/* --- The last resort -------------------------------------------------------------------------- */

/*
 * Ends the process when everything else has failed: a C function does not return, so none of our
 * code runs.
 */
static void on_last_resort(int number)
{
    (void)number;
    write_text("orrery: a C function did not return within the grace period: the process is ended by force\n");
    int signal = atomic_load(&last_signal);
    if (signal)
        signals_die(signal);
    _exit(atomic_load(&last_status));
}

/* Calls only what a handler may call.  The first call counts. */
static void begin_last_resort(void)
{
    static _Atomic bool begun;
    unsigned ms = atomic_load(&last_resort_ms);
    if (!ms || atomic_exchange(&begun, true))
        return;
    struct sigaction action = { .sa_handler = on_last_resort };
    struct itimerval when = { .it_value = { .tv_sec = ms / 1000, .tv_usec = (suseconds_t)(ms % 1000) * 1000 } };
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &when, NULL);
}

void signals_set_last_resort(unsigned ms)
{
    atomic_store(&last_resort_ms, ms);
}

void signals_begin_last_resort(int status)
{
    atomic_store(&last_status, status);
    begin_last_resort();
}

void signals_at_prompt(bool is)
{
    atomic_store(&at_prompt, is);
}

/* --- Catching --------------------------------------------------------------------------------- */

/* timeout(1) and others signal a process and then its group: that counts as one signal. */
static bool repeats_the_last(void)
{
    enum { ONE_WISH_MS = 20 };
    static _Atomic long long last;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    long long ms = (long long)now.tv_sec * 1000 + now.tv_nsec / 1000000;
    return ms - atomic_exchange(&last, ms) < ONE_WISH_MS;
}

static void on_signal(int number)
{
    int saved = errno;
    for (int i = 0; i < CAUGHT; i++) {
        if (caught[i] != number || (number == SIGTERM && repeats_the_last()))
            continue;
        if (number == SIGTERM || (number == SIGINT && !atomic_load(&at_prompt))) {
            atomic_store(&last_signal, number);
            begin_last_resort();
        }
        if (!atomic_exchange(&waiting[i], true) || i >= ENDING)
            continue;
        if (number != SIGQUIT)
            /* If showing the tree fails, another signal ends the process. */
            signal(number, SIG_DFL);
        signals_show_tree();
        if (number != SIGQUIT)
            signals_die(number);
    }
    orr_runtime_interrupt(atomic_load(&runtime));
    errno = saved;
}

static void handle(int first, int end, int flags)
{
    struct sigaction action = { .sa_handler = on_signal, .sa_flags = flags }, before;
    for (int i = first; i < end; i++) {
        sigaction(caught[i], NULL, &before);
        handled[i] = before.sa_handler != SIG_IGN;
        if (handled[i])
            sigaction(caught[i], &action, NULL);
    }
}

void signals_catch(struct orr_runtime *rt)
{
    atomic_store(&runtime, rt);
    handle(0, ENDING, 0); /* no SA_RESTART: a blocking read must return */
}

void signals_catch_terminal(void)
{
    handle(ENDING, CAUGHT, SA_RESTART);
}

void signals_release(void)
{
    for (int i = 0; i < CAUGHT; i++)
        if (handled[i])
            signal(caught[i], SIG_DFL);
    setitimer(ITIMER_REAL, &(struct itimerval){ 0 }, NULL);
    atomic_store(&runtime, NULL);
}

int signals_take(void)
{
    for (int i = 0; i < CAUGHT; i++)
        if (atomic_exchange(&waiting[i], false))
            return caught[i];
    return 0;
}
