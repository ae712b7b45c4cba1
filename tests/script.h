/*
 * Tasks that act out a script: a function is called on each poll with the step it is at, and says how to go on.  So a test
 * reads as what its tasks do, one after the other, on the virtual clock.
 */
#ifndef ORR_TESTS_SCRIPT_H
#define ORR_TESTS_SCRIPT_H

#include "alarm.h"
#include "harness.h"

#include <errno.h>

struct actor;

/* Called until it answers anything but -EAGAIN; 0 is success, all else is a failure. */
typedef int actor_fn(struct orr_task *task, struct actor *self);

enum { ACTOR_CHILDREN = 8 };

struct actor {
    const char *name;
    actor_fn *act;
    int step;
    struct orr_wait wait, wait2;
    struct orr_scope scope, scope2;
    struct orr_runtime *rt;
    struct orr_task *task; /* a reference, held until the test gives it up */
    struct actor *children[ACTOR_CHILDREN];
    struct actor *other;
    void *extra;
    uint64_t ended_at; /* by the runtime's clock, when the body ended; 0 before */
    uint64_t done_at;  /* when the task was done, children included */
    int error;         /* what the body answered */
    int caught;        /* for the script's own use */
    unsigned polls;
};

/* What has happened, in order: a word for each note. */
void note(const char *format, ...) __attribute__((format(printf, 1, 2)));
const char *notes(void);
void notes_clear(void);

/* Inside a task: a child of it, or one that is detached.  Outside: a task at the top.  Holds a reference. */
void actor_start(struct orr_runtime *rt, struct actor *actor);
void actor_start_with(struct orr_runtime *rt, struct actor *actor, struct orr_spawn what);

/* A virtual runtime, entered; and out of it, everything run to its end. */
struct orr_runtime *stage_open(void);
void stage_run(struct orr_runtime *rt);
void stage_close(struct orr_runtime *rt);

/* Milliseconds of the stage's clock since it was opened. */
unsigned long long stage_ms(struct orr_runtime *rt);

/* Stock: sleeps for `extra` ms and notes "name:answer@ms"; the same, then fails with -EIO; does nothing. */
actor_fn sleep_for, fail_after, do_sum;

/* Starts its children, and is done, noting "name:done"; or sleeps for 100 ms and notes as above. */
actor_fn start_children, start_and_sleep;

/* Sleeps; when it is cancelled, cleans up behind a shield, for 30 ms. */
actor_fn clean_up;

/* `error = AWAIT(...)`: goes on in the same step at the next poll until the wait is over. */
#define AWAIT(call) \
    __extension__({ \
        int answer_ = (call); \
        if (answer_ == -EAGAIN) \
            return -EAGAIN; \
        answer_; \
    })

/* Waits in a script of several: STEP(n) begins where the next poll goes on. */
#define SCRIPT(self) \
    switch ((self)->step) \
    case 0:
#define STEP(self, n) \
    (self)->step = (n); \
    /* fall through */ \
    case n:

#endif
