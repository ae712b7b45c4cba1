#include "exec/turn.h"

#include "base/clock.h"
#include "base/cpu.h"
#include "exec/poll.h"
#include "exec/shuffle.h"
#include "exec/virtual.h"

#include <string.h>
#include <time.h>

/* --- What came from outside ------------------------------------------------------------------- */

void worker_open_letters(struct worker *worker, unsigned count)
{
    while (worker->letters && count--) {
        struct mail *mail = (struct mail *)worker->letters; /* its first member */
        worker->letters = worker->letters->next;
        mail->arrive(worker, mail);
    }
}

void worker_take_wakes(struct worker *worker)
{
    for (uint32_t next = waker_table_take(worker->table); next;) {
        uint32_t index = next - 1;
        /* Before another thread may push the slot again. */
        next = waker_table_slot(worker->table, index)->next;
        task_notified(worker, index);
    }
}

int worker_collect_io(struct worker *worker, uint64_t timeout_ns)
{
    int error = reactor_wait(worker->reactor, timeout_ns);
    struct orr_io *io;
    while ((io = reactor_next_done(worker->reactor)))
        task_io_done(worker, io);
    return error;
}

static void collect_or_complain(struct worker *worker, uint64_t timeout_ns)
{
    int error = worker_collect_io(worker, timeout_ns);
    if (error)
        log_line(&worker->log, ORR_LOG_ERROR, "worker %u cannot wait for I/O: %s", worker->number, strerror(-error));
}

/* Fires due timers.  A worker without timers does not read the clock. */
static void fire_timers(struct worker *worker)
{
    struct timer_shard *shard = worker->shard;
    shard_receive(shard);
    if (!shard->wheel.count)
        return;
    uint64_t now = timers_now(worker->timers);
    worker->now = now;
    shard_publish(shard, now, true);
    atomic_store_explicit(&shard->load, shard->wheel.count, memory_order_relaxed);
    shard_fire(shard, now, SHARD_FIRES, NULL);
}

struct pass {
    uint64_t end;    /* end of the turn, by the machine's clock; ORR_NEVER */
    uint64_t began;  /* when this pass first looked at the clock; 0 before */
    int64_t charged; /* nanoseconds charged to all shares together */
    int polls, dead;
    bool time_left; /* the turn has time left */
    bool again;     /* more turns may follow in this pass */
    /* The pass ends early, so that the worker looks around, and there is more to do. */
    bool cut;
};

/* Whether shares are charged for time, not for polls. */
static bool is_timed(const struct worker *worker)
{
    return !worker->shuffle && worker->timers->clock == ORR_CLOCK_MONOTONIC;
}

/* If polls are long, looks at the clock come after fewer of them. */
static void adapt_looks(struct worker *worker, uint64_t now)
{
    enum { LOOKS_PER_SHARE = 4 };
    /* Since the last look. */
    uint64_t polls = counter_read(&worker->counters.polls) - worker->look.polls;
    uint64_t each = (now - worker->look.at) / (polls ? polls : 1) + 1;
    uint64_t every = SHARE_NS / LOOKS_PER_SHARE / each;
    uint64_t most = 2 * worker->look.every < POLLS_PER_LOOK ? 2 * worker->look.every : POLLS_PER_LOOK;
    worker->look.every = every < 1 ? 1 : every < most ? (unsigned)every : (unsigned)most;
}

/* Whether the time service says that a timer is due, or the watch has ticked: time has passed. */
static inline bool is_told_to_look(const struct worker *worker)
{
    return atomic_load_explicit(&worker->shard->late, memory_order_relaxed) ||
           worker->look.ticks != worker->watch->ticks;
}

/* Looks at the clock in the middle of a pass: fires due timers, and ends the pass if it is long. */
static __attribute__((noinline)) void look(struct worker *worker, struct pass *pass)
{
    struct timer_shard *shard = worker->shard;
    bool late = atomic_load_explicit(&shard->late, memory_order_relaxed);
    if (late)
        atomic_store_explicit(&shard->late, false, memory_order_relaxed);
    worker->look.ticks = worker->watch->ticks;
    uint64_t now = timers_now(worker->timers);
    worker->now = now;
    if (worker->shares.timed) {
        adapt_looks(worker, now);
        pass->cut |= pass->began && now - pass->began >= (uint64_t)SHARE_NS;
        worker->look.at = now;
        worker->look.polls = counter_read(&worker->counters.polls);
    }
    pass->began = pass->began ? pass->began : now + !now;
    if (late || shard_next(shard) <= now)
        fire_timers(worker);
    worker->look.in = worker->look.every;
}

/* Looks at the clock if enough polls were made since the last look, or the worker is told to. */
static inline void look_if_needed(struct worker *worker, struct pass *pass)
{
    bool told = is_told_to_look(worker);
    if (worker->look.in && !told)
        return;
    if (told || worker->shard->wheel.count || worker->look.every < POLLS_PER_LOOK)
        look(worker, pass);
    else
        worker->look.in = POLLS_PER_LOOK;
}

/*
 * The part of `elapsed` in which the thread ran.  Time for which the kernel gave the core to others
 * does not count; short stretches are not measured.
 */
static int64_t on_core(struct worker *worker, int64_t elapsed)
{
    struct timespec cpu;
    if (elapsed < SHARE_NS / 4 || clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu))
        return elapsed;
    uint64_t now = (uint64_t)cpu.tv_sec * 1000000000 + (uint64_t)cpu.tv_nsec;
    /* At least what this stretch has used, if the thread is the same as at the mark. */
    uint64_t used = now - worker->look.cpu_mark;
    worker->look.cpu_mark = now;
    return used < (uint64_t)elapsed ? (int64_t)used : elapsed;
}

/* Charges a share for its polls, if other shares wait meanwhile. */
static void charge(struct worker *worker, struct pass *pass, struct share *share, int64_t cost, uint64_t now)
{
    struct shares *shares = &worker->shares;
    if (share_has_rivals(shares, share)) {
        if (shares->timed) {
            now = now ? now : clock_now();
            cost = on_core(worker, (int64_t)(now - shares->mark));
            shares->mark = now;
        } else {
            shares->mark += (uint64_t)cost;
        }
        pass->charged += cost;
        pass->cut |= pass->charged >= SHARE_NS;
        share_charge(share, cost);
    }
    share_unlist_empty(shares, share);
}

/*
 * Takes the next late task.  It may use up its time slice again: that is measured from the start of
 * its poll.
 */
static struct orr_task *next_late(struct worker *worker, struct share *share)
{
    share->late_owed = false;
    share->late_pass = worker->shares.passes;
    share->waited = 0;
    worker->late_polls++;
    watch_renew(worker->watch);
    return share_pop_late(&worker->shares, share);
}

/*
 * Takes the next interrupted task; NULL if there is none, or if a ready task is to be polled first.
 */
static struct orr_task *next_interrupted(const struct worker *worker, struct share *share)
{
    if (!share->interrupted.first) {
        share->interrupted.polls_left = 0;
        return NULL;
    }
    if (!share->interrupted.polls_left)
        share->interrupted.polls_left = TURN_POLLS + 2 * counter_read(&worker->tasks.live);
    else if (!--share->interrupted.polls_left && share->ready.first)
        return NULL;
    return share_pop_interrupted(share);
}

/* Polls one task of the share; false if the share has nothing more to do in this pass. */
static bool poll_share(struct worker *worker, struct pass *pass, struct share *share)
{
    bool may_be_late = share->late.first && share->late_pass != worker->shares.passes;
    bool owed = may_be_late && share->late_owed;
    bool late = owed || (may_be_late && share->waited >= TURN_POLLS);
    struct orr_task *task = next_interrupted(worker, share);
    bool interrupted = task;
    if (!task && !late)
        task = worker->shuffle ? shuffle_pop(worker, &share->ready) : queue_pop(&share->ready);
    if (!task && !may_be_late)
        return false;
    late = !task;
    task = late ? next_late(worker, share) : task;
    struct share_visit visit = { share, worker->shares.visits };
    worker->shares.visits = &visit;
    bool ran = (interrupted ? task_run_interrupted : task_run)(worker, task);
    worker->shares.visits = visit.outer;
    if (!ran) {
        share->late_pass -= late && visit.share; /* the next late task may run in this pass */
        pass->dead++;
        return true;
    }
    pass->polls += !late;
    uint64_t now = pass->end == ORR_NEVER ? 0 : clock_now();
    pass->time_left = owed || !now || now < pass->end;
    if (visit.share) {
        share->waited += !late;
        charge(worker, pass, share, late ? SHARE_NS : SHARE_NS / SHARE_POLLS, now);
    }
    if (!late) {
        worker->look.in--;
        look_if_needed(worker, pass);
    }
    return true;
}

static bool may_go_on(const struct pass *pass)
{
    return pass->time_left && !pass->cut && pass->polls < TURN_POLLS && pass->dead < TURN_DEAD;
}

/*
 * Nothing is ready in the only share that had anything to do.  Begins the next turn here and now
 * with the share's deferred tasks, and with the timers that were due when the clock was last read,
 * if a turn would find nothing else to do: nothing has come from outside, and no I/O is in flight.
 * look() reads the clock after as many polls as in one long pass.  So a lone task that yields again
 * and again, or a timer that starts itself again and again, holds up I/O, timers and other threads
 * no longer than many ready tasks do.
 */
static bool turn_at_once(struct worker *worker, const struct pass *pass, struct share *share, orr_timer_fn *only)
{
    struct shares *shares = &worker->shares;
    bool due = shard_next(worker->shard) <= worker->now;
    if (!pass->again || (!due && !shares->deferring) || (shares->deferring && shares->deferring != share) ||
        share->next_deferring || shares->late || !shares->timed || worker->letters || worker->shard->letters ||
        worker_has_news(worker) || reactor_in_flight(worker->reactor))
        return false;
    counter_add(&worker->counters.turns, 1);
    shares_end(shares);
    if (due)
        shard_fire(worker->shard, worker->now, SHARD_FIRES, only);
    return true;
}

/* What poll_some() does, for a task that begins a turn inside its poll. */
struct stretch {
    struct pass *pass;
    struct share *share;
    const struct orr_task *task; /* that is being polled */
    unsigned left;               /* polls, with that one, until something else must be done */
};

/* Whether something came up that the pass has to deal with before the next poll. */
static inline bool is_disturbed(const struct worker *worker)
{
    return worker->shares.changed || is_told_to_look(worker);
}

/*
 * Polls ready tasks of the only share that has any, until something else must be done.  Answers how
 * many of `left` it has not polled.
 */
static __attribute__((noinline)) unsigned poll_some(struct worker *worker, struct pass *pass, struct share *share,
                                                    unsigned left)
{
    struct stretch *outer = worker->stretch;
    struct stretch stretch = { .pass = pass, .share = share, .left = left };
    worker->stretch = &stretch;
    while (share->ready.first || (turn_at_once(worker, pass, share, NULL) && share->ready.first)) {
        struct orr_task *task = queue_pop(&share->ready);
        stretch.task = task;
        if (__builtin_expect(!task_run(worker, task), 0)) {
            if (++pass->dead == TURN_DEAD)
                break;
            continue;
        }
        if (!--stretch.left || is_disturbed(worker))
            break;
    }
    worker->stretch = outer;
    return stretch.left;
}

/* Polls the quiet tasks at the head of the run queue, inside the poll of another. */
static void poll_quiet(struct worker *worker, struct stretch *stretch, orr_poll_fn *quiet)
{
    struct queue *ready = &stretch->share->ready;
    while (stretch->left > 1 && ready->first && ready->first->poll == quiet) {
        if (task_run(worker, queue_pop(ready)))
            stretch->left--;
        else
            stretch->pass->dead++;
    }
}

void worker_turn_inside(struct worker *worker, const struct orr_task *task, const struct quiet *quiet)
{
    struct stretch *stretch = worker->stretch;
    if (!stretch || stretch->task != task || worker->polling != task || stretch->left < 2 || is_disturbed(worker) ||
        stretch->share->ready.first || !turn_at_once(worker, stretch->pass, stretch->share, quiet->fire))
        return;
    stretch->left--; /* the poll goes on as if it was another */
    counter_add(&worker->counters.polls, 1);
    poll_quiet(worker, stretch, quiet->poll);
}

/*
 * Polls one ready task of the only share that has any, where the turn has an end or tasks are taken
 * at random.  Answers how many of `left` it has not polled.
 */
static unsigned poll_one(struct worker *worker, struct pass *pass, struct share *share, unsigned left)
{
    struct orr_task *task = worker->shuffle ? shuffle_pop(worker, &share->ready) : queue_pop(&share->ready);
    if (!task_run(worker, task)) {
        pass->dead++;
        return left;
    }
    pass->time_left = pass->end == ORR_NEVER || clock_now() < pass->end;
    return left - 1;
}

/*
 * Polls the ready tasks of the only share that has any, until another has: the usual case, with
 * nothing to measure.
 */
static void poll_alone(struct worker *worker, struct pass *pass, struct share *share)
{
    struct shares *shares = &worker->shares;
    struct share_visit visit = { share, shares->visits };
    int before = pass->polls;
    shares->visits = &visit;
    shares->changed = false;
    while (may_go_on(pass) && !shares->changed &&
           (share->ready.first || (turn_at_once(worker, pass, share, NULL) && share->ready.first))) {
        bool one = pass->end != ORR_NEVER || worker->shuffle;
        unsigned left = (unsigned)(TURN_POLLS - pass->polls);
        left = worker->look.in < left ? worker->look.in : left;
        unsigned polls = left - (one ? poll_one : poll_some)(worker, pass, share, left);
        pass->polls += (int)polls;
        worker->look.in -= polls;
        look_if_needed(worker, pass);
    }
    shares->visits = visit.outer;
    shares->changed = true; /* for a pass around this one */
    int64_t cost = (pass->polls - before) * (SHARE_NS / SHARE_POLLS);
    if (!visit.share)
        return;
    share->waited += (unsigned)(pass->polls - before);
    if (share_has_rivals(shares, share))
        charge(worker, pass, share, 0, 0); /* since the other share came */
    if (!shares->timed)
        shares->mark += (uint64_t)cost;
}

/* Polls what is ready, and fires timers that become due meanwhile. */
static void poll_shares(struct worker *worker, struct pass *pass)
{
    struct shares *shares = &worker->shares;
    struct share *share;
    shares->passes++;
    if (shares->first && shares->first->next && shares->timed)
        shares->mark = clock_now();
    while (may_go_on(pass) && (share = shares_next(shares))) {
        bool alone = !share->next && share->ready.first && !share->interrupted.first;
        if (alone && !(share->late.first && (share->late_owed || share->waited >= TURN_POLLS))) {
            poll_alone(worker, pass, share);
            continue;
        }
        if (poll_share(worker, pass, share))
            continue;
        share_unlist_empty(shares, share);
        if (!share->listed)
            continue;
        /* The rest of its tasks waits for the next pass. */
        pass->cut = share_has_rivals(shares, share);
        break;
    }
    share = shares->first;
    if (share)
        share_unlist_empty(shares, share);
    if (share && share->listed && !share->next)
        share->late_owed = share->late.first && (!pass->time_left || pass->polls >= TURN_POLLS);
    shares_end(shares);
}

/*
 * One pass.  True if it was cut short, and there is more to do.  With `again`, more turns may
 * follow in the same pass.
 */
static bool pass(struct worker *worker, uint64_t end, bool again)
{
    collect_or_complain(worker, 0);
    worker_take_wakes(worker);
    if (!worker->letters)
        worker->letters = mailbox_take(&worker->table->mailbox);
    worker_open_letters(worker, TURN_LETTERS);
    if (!worker_busy(worker))
        virtual_jump(worker);
    fire_timers(worker);
    struct pass pass = { .end = end, .time_left = true, .again = again };
    poll_shares(worker, &pass);
    shard_scrub(worker->shard);
    return pass.cut && worker->shares.first;
}

static void turn(struct worker *worker, uint64_t budget_ns, bool again)
{
    uint64_t began = budget_ns == ORR_NEVER ? 0 : clock_now();
    uint64_t end = budget_ns == ORR_NEVER ? ORR_NEVER : clock_after(began, budget_ns);
    uint64_t outer_began = worker->watch->turn_began, outer_end = worker->watch->turn_end;
    worker->watch->turn_began = began;
    worker->watch->turn_end = end == ORR_NEVER ? WATCH_NO_END : end;
    enum { TURNS_PER_READING = 16 };
    if (counter_read(&worker->counters.turns) >= worker->look.at_turn) {
        worker->look.at_turn = counter_read(&worker->counters.turns) + TURNS_PER_READING;
        worker->now = timers_now(worker->timers);
        watch_visit(worker->watch); /* a task may have replaced the signal's handler */
    }
    counter_add(&worker->counters.turns, 1);
    worker->late_polls = 0;
    worker->shares.timed = is_timed(worker);
    bool cut;
    do
        cut = pass(worker, end, again);
    while (end != ORR_NEVER && (cut || worker->shares.late) && clock_now() < end);
    worker->watch->turn_began = outer_began;
    worker->watch->turn_end = outer_end;
    if (atomic_load_explicit(&worker->shard->turning, memory_order_relaxed))
        atomic_store_explicit(&worker->shard->turning, false, memory_order_relaxed);
}

void worker_turn(struct worker *worker, uint64_t budget_ns)
{
    turn(worker, budget_ns, false);
}

void worker_turns(struct worker *worker)
{
    turn(worker, ORR_NEVER, true);
}

bool worker_idle(struct worker *worker, uint64_t until)
{
    struct watch *watch = worker->watch;
    uint64_t began = watch->turn_began, end = watch->turn_end;
    bool more = false;
    watch->turn_began = clock_now(); /* idle work has as long as this, as tasks have in a turn */
    watch->turn_end = until;
    for (struct idle_work *work = worker->idle.first, *next; work; work = next) {
        next = work->next;
        more |= work->work(work, until);
    }
    watch->turn_began = began;
    watch->turn_end = end;
    return more;
}

uint64_t worker_deadline(struct worker *worker)
{
    if (worker_busy(worker) || worker_has_news(worker) || virtual_can_jump(worker))
        return 0;
    uint64_t next = shard_next(worker->shard);
    return next != ORR_NEVER && next <= timers_now(worker->timers) ? 0 : next;
}

/* Looks for news for a short time.  True if something arrived. */
static bool look_for_news(struct worker *worker)
{
    uint64_t end = clock_after(clock_now(), worker->spin.ns);
    do {
        for (int i = 0; i < 64; i++) {
            if (worker_has_news(worker))
                return true;
            cpu_relax();
        }
    } while (clock_now() < end);
    return false;
}

static bool spin(struct worker *worker)
{
    if (!spin_is_worth_it(&worker->spin, reactor_in_flight(worker->reactor)))
        return false;
    bool found = look_for_news(worker);
    spin_over(&worker->spin, !found);
    return found;
}

/*
 * How long to sleep until the next deadline; ORR_NEVER if there is none, or if the clock is not the
 * machine's.
 */
static uint64_t time_to_sleep(struct worker *worker)
{
    uint64_t next = shard_next(worker->shard);
    if (next == ORR_NEVER)
        return ORR_NEVER;
    uint64_t now = timers_now(worker->timers);
    if (next <= now)
        return 0;
    return worker->timers->clock == ORR_CLOCK_MONOTONIC ? next - now : ORR_NEVER;
}

static void block(struct worker *worker, bool io, uint64_t timeout_ns)
{
    counter_add(&worker->counters.sleeps, 1);
    uint64_t start = clock_now();
    virtual_falls_asleep(worker, io);
    if (io)
        collect_or_complain(worker, timeout_ns);
    else
        bell_wait(&worker->table->bell, timeout_ns);
    virtual_wakes_up(worker, io);
    spin_slept(&worker->spin, clock_now() - start);
    worker->now = timers_now(worker->timers);
}

void worker_sleep(struct worker *worker, uint64_t longest_ns)
{
    uint64_t timeout = time_to_sleep(worker);
    timeout = timeout < longest_ns ? timeout : longest_ns;
    if (!timeout || spin(worker))
        return;
    shard_publish(worker->shard, atomic_load_explicit(&worker->shard->now, memory_order_relaxed), false);
    struct bell *bell = &worker->table->bell;
    bool io = reactor_in_flight(worker->reactor);
    bell_listen(bell, io ? BELL_EVENTFD : BELL_FUTEX);
    if (!worker_has_news(worker))
        block(worker, io, timeout);
    bell_ignore(bell);
}

void worker_park(struct worker *worker, bool watched)
{
    struct bell *bell = &worker->table->bell;
    int error = reactor_submit(worker->reactor);
    if (error)
        log_line(&worker->log, ORR_LOG_ERROR, "worker %u cannot start I/O: %s", worker->number, strerror(-error));
    shard_publish(worker->shard, atomic_load_explicit(&worker->shard->now, memory_order_relaxed), false);
    if (!watched)
        return;
    bell_listen(bell, BELL_EVENTFD);
    uint64_t next = worker_deadline(worker);
    if (next == 0) {
        bell_ignore(bell);
        bell_write(bell);
    } else if (worker->timers->clock == ORR_CLOCK_MONOTONIC) {
        error = reactor_show_deadline(worker->reactor, next);
        if (error)
            log_line(&worker->log, ORR_LOG_ERROR, "worker %u cannot show its deadline: %s", worker->number,
                     strerror(-error));
    }
}
