/*
 * The sleep and wake protocol of src/exec/waker_table.h and src/base/bell.h, in the memory model of
 * x86.
 *
 * What it states
 *
 * Producers change a task's condition C and wake the task, a few times each, from their own
 * threads. The owner polls the tasks that were woken, and sleeps when there are none: on the bell's
 * futex, or on its eventfd when I/O is in flight.  In every order of events:
 *
 *   - no wake is lost: when the owner sleeps for good, each task has read C since C last changed;
 *   - a waker makes a system call only if the owner listens, and each time at most one waker does;
 *   - a slot is in the inbox at most once;
 *   - only the sleeper can be stuck (spin's invalid end states).
 *
 * Each of these flags removes one part of the protocol, and then a wake is lost:
 *
 *   NO_RECHECK         the owner does not look at the inbox again once it listens
 *   NO_SLEEPER_FENCE   no fence between the owner's store to the mode and its look at the inbox
 *   NO_PRODUCER_FENCE  no fence between a producer's push and its look at the mode
 *   PLAIN_CLEAR        the owner clears *notified* by a plain store before it polls
 *   PLAIN_COALESCE     a producer that loads *notified* and finds it set does nothing more
 *
 * With PLAIN_RING a producer clears the mode by a plain store.  That loses wakes, and makes system
 * calls that the owner has not asked for.
 *
 * NO_PRODUCER_FENCE makes the push a plain store.  On x86 every atomic push is a fence as well.  On
 * other machines a compare-and-swap that only releases need not be one, and may be seen late.  The
 * plain store is late in the same way, and as good as atomic here: while a push to a slot is under
 * way, *notified* keeps all other threads from pushing there.
 *
 * HOST removes nothing.  It replaces a worker's thread by another owner: a host that has the
 * runtime's descriptor in its own event loop, and asks for a turn when it is readable.
 *
 * `check` shows all this, and that the search has reached every line.
 *
 * Store buffers
 *
 * The memory is x86-TSO.  A thread's plain stores go into its own buffer, first in, first out.  The
 * process `buffer` moves them to memory one by one, at any time.  A load finds the newest store to
 * its location in the thread's own buffer, or else the value in memory.  A locked instruction waits
 * until the buffer is empty, then reads and writes memory in one step.  Everything else is in
 * program order, as on the machine.  A system call is no fence.  An assertion shows that buffers of
 * DEPTH are deep enough, so the bound hides nothing.
 *
 * What is left out
 *
 * C is a number that only increases.  The model knows only whether it has changed, in memory, since
 * the task last looked.  The inbox has a bit for each slot, because the order of slots does not
 * matter here.  The owner reads all bits at once, because they are one word.  A compare-and-swap
 * loop is one step, because a failed try changes nothing.  The eventfd is the edge that its last
 * write left, because nothing reads it.  No task ends, so there are no generations.  Threads that
 * fill the mailbox or set `nudged` ring the bell as wakers do, and the owner looks at both where it
 * looks at the inbox; its reaction to a nudge is not modelled.  Wakes on the owner's thread touch
 * nothing that is shared.
 *
 * Where to find it in the code
 *
 *   wake              waker_table_wake, in src/exec/waker_table.c
 *   push              inbox_push
 *   ring              bell_ring and bell_wake, in src/base/bell.h and bell.c
 *   collect           collect_or_complain in worker_turn, in src/exec/turn.c
 *   take              worker_take_wakes, waker_table_take
 *   acknowledge       slot_acknowledge, as called by task_poll, in src/exec/poll.c
 *   look              the call of the task's own function in task_poll
 *   listen, ignore    bell_listen, bell_ignore
 *   has_news          worker_has_news
 *   the owner's end   worker_sleep and bell_wait; with HOST, worker_park and the host until its
 *                     next turn
 *
 * What waker_table.h calls `listening` is a mode other than AWAKE.
 */

#define PRODUCERS 2
#define ROUNDS    2 /* of change and wake, for each producer */
#define TASKS     2
#define DEPTH     4

/* The bell's modes. */
#define AWAKE   0
#define FUTEX   1
#define EVENTFD 2

/* Memory, by location; all zero at first. */
#define CHANGED(task)  (task) /* C has changed since the task looked */
#define NOTIFIED(task) (TASKS + (task))
#define INBOX(task)    (2 * TASKS + (task)) /* the task's slot is in it */
#define MODE           (3 * TASKS)
#define LOCATIONS      (3 * TASKS + 1)
byte memory[LOCATIONS];

/* State of the kernel. */
bit edge;     /* of the eventfd, not yet taken by a wait */
bit in_futex; /* the owner is in the futex's queue */

/* System calls that will come: the owner listens, or a waker has cleared the mode to call. */
byte asked_for;

/* Threads have the numbers of their processes: the owner is 0, the producers follow. */
#define THREADS (PRODUCERS + 1)
#define me      _pid

/* Store buffers, oldest entry first.  An entry is four times the location, plus the value. */
byte entries[THREADS * DEPTH];
byte used[THREADS];
#define ENTRY(thread, n) entries[(thread) * DEPTH + (n)]

#define write_memory(thread, location, value) \
    asked_for = asked_for + (thread == 0 && location == MODE -> (value != AWAKE) - (memory[MODE] != AWAKE) : 0); \
    memory[location] = value

inline store(location, value)
{
    d_step {
#ifdef NO_SLEEPER_FENCE
        used[me] < DEPTH; /* without a fence for many turns, a full buffer blocks */
#else
        assert(used[me] < DEPTH);
#endif
        ENTRY(me, used[me]) = 4 * (location) + value;
        used[me]++
    }
}

inline load(location, into)
{
    d_step {
        into = memory[location];
        n = 0;
        do
        :: n < used[me] ->
            if
            :: ENTRY(me, n) / 4 == location -> into = ENTRY(me, n) % 4
            :: else
            fi;
            n++
        :: else -> break
        od;
        n = 0
    }
}

/* A locked instruction waits for this. */
#define drained (used[me] == 0)

inline exchange(location, value, old)
{
    d_step {
        drained;
        old = memory[location];
        write_memory(me, location, value)
    }
}

/* A load; the owner's buffer never holds anything for the inbox. */
#define inbox_empty (!memory[INBOX(0)] && !memory[INBOX(1)])

inline collect()
{
#ifdef HOST
    edge = 0
#else
    /* A turn that asks the kernel takes the edge; not every turn does. */
    if
    :: edge = 0
    :: skip
    fi
#endif
}

inline take()
{
    if
    :: inbox_empty
    :: else ->
        d_step {
            drained;
            ready[0] = ready[0] || memory[INBOX(0)];
            ready[1] = ready[1] || memory[INBOX(1)];
            memory[INBOX(0)] = 0;
            memory[INBOX(1)] = 0
        }
    fi
}

inline acknowledge(task)
{
#ifdef PLAIN_CLEAR
    store(NOTIFIED(task), 0)
#else
    exchange(NOTIFIED(task), 0, old)
#endif
}

inline look(task)
{
    memory[CHANGED(task)] = 0
}

inline listen(mode)
{
#ifdef NO_SLEEPER_FENCE
    store(MODE, mode)
#else
    exchange(MODE, mode, old)
#endif
}

inline ignore()
{
    store(MODE, AWAKE)
}

/* Clears what is not read again, so that states do not differ by it. */
inline forget(one, other)
{
    d_step {
        one = 0;
        other = 0
    }
}

#define busy (ready[0] || ready[1])

#ifdef NO_RECHECK
#define has_news false
#else
#define has_news (!inbox_empty)
#endif

/* `timeout` is true when no other process can do anything: no store is under way, either. */
active proctype owner()
{
    bit ready[TASKS], wake_lost;
    byte mode, old, n;

turn:
    collect();
    take();
    do
    :: ready[0] -> ready[0] = 0; acknowledge(0); look(0)
    :: ready[1] -> ready[1] = 0; acknowledge(1); look(1)
    :: busy -> break /* a turn polls a limited number */
    :: !busy -> break
    od;
#ifdef HOST
    listen(EVENTFD);
    if
    :: busy || has_news -> ignore(); edge = 1
    :: else
    fi;
    if
    :: edge
    :: timeout -> goto asleep
    fi;
#else
    if
    :: busy -> goto turn
    :: else
    fi;
    if
    :: mode = FUTEX
    :: mode = EVENTFD
    fi;
    listen(mode);
    if
    :: has_news
    :: else ->
        if
        :: mode == FUTEX ->
            atomic {
                load(MODE, old);
                in_futex = (old == FUTEX)
            }
            if
            :: !in_futex
            :: timeout -> goto asleep
            fi
        :: mode == EVENTFD ->
            if
            :: edge -> edge = 0
            :: timeout -> goto asleep
            fi
        fi
    fi;
#endif
    ignore();
    forget(mode, old);
    goto turn;

asleep:
    wake_lost = memory[CHANGED(0)] || memory[CHANGED(1)];
    assert(!wake_lost)
}

inline push(task)
{
#ifdef NO_PRODUCER_FENCE
    store(INBOX(task), 1)
#else
    exchange(INBOX(task), 1, already_there);
    assert(!already_there)
#endif
}

inline call()
{
    d_step {
        assert(asked_for > 0);
        asked_for--;
        if
        :: old == FUTEX -> in_futex = 0
        :: old == EVENTFD -> edge = 1
        fi
    }
}

inline ring()
{
    load(MODE, old);
    if
    :: old == AWAKE
    :: else ->
#ifdef PLAIN_RING
        store(MODE, AWAKE);
#else
        exchange(MODE, AWAKE, old);
#endif
        if
        :: old == AWAKE
        :: else -> call()
        fi
    fi
}

inline wake(task)
{
#ifdef PLAIN_COALESCE
    load(NOTIFIED(task), old);
    if
    :: old
    :: else -> exchange(NOTIFIED(task), 1, old)
    fi;
#else
    exchange(NOTIFIED(task), 1, old);
#endif
    if
    :: old
    :: else -> push(task); ring()
    fi
}

active [PRODUCERS] proctype producer()
{
    byte round, old, n;
    bit task, already_there;

    do
    :: round < ROUNDS ->
        round++;
        if
        :: task = 0
        :: task = 1
        fi;
        store(CHANGED(task), 1);
        wake(task);
        forget(task, old)
    :: else -> break
    od
}

#define whose (_pid - THREADS)

active [THREADS] proctype buffer()
{
    byte n;

end:
    do
    :: d_step {
           used[whose] > 0;
           write_memory(whose, ENTRY(whose, 0) / 4, ENTRY(whose, 0) % 4);
           used[whose]--;
           n = 0;
           do
           :: n < used[whose] -> ENTRY(whose, n) = ENTRY(whose, n + 1); n++
           :: else -> break
           od;
           ENTRY(whose, n) = 0;
           n = 0
       }
    od
}

/* Other things may end a wait, such as I/O or a signal. */
active proctype kernel()
{
    if
    :: edge = 1
#ifndef HOST
    :: in_futex -> in_futex = 0
#endif
    :: skip
    fi
}
