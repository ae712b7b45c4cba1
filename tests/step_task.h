/*
 * A step task is a task of the test whose body is a C function.  Each poll calls the function
 * again; `step` says where it goes on.  So a test reads as the list of things that its tasks do,
 * one after the other, on the virtual clock.
 */
#ifndef ORR_TESTS_STEP_TASK_H
#define ORR_TESTS_STEP_TASK_H

#include "alarm.h"
#include "harness.h"

#include <errno.h>

struct step_task;

/*
 * -EAGAIN: the body waits, call it again at the next poll.  0: success.  Any other value: failure.
 */
typedef int step_fn(struct orr_task *task, struct step_task *self);

enum { STEP_TASK_CHILDREN = 8 };

struct step_task {
    const char *name;
    step_fn *body;
    int step;
    struct orr_wait wait, wait2;
    struct orr_scope scope, scope2;
    struct orr_runtime *rt;
    struct orr_task *task; /* the test owns this reference */
    struct step_task *children[STEP_TASK_CHILDREN];
    struct step_task *other;
    void *data;
    uint64_t ended_at; /* the runtime's time when the body ended; 0 before */
    uint64_t done_at;  /* the runtime's time when the task and its children were done */
    int error;         /* what the body returned */
    int caught;        /* free for the body's own use */
    unsigned polls;
};

/* Notes are what the tasks of a test recorded, in order: words separated by spaces. */
void note(const char *format, ...) __attribute__((format(printf, 1, 2)));
const char *notes(void);
void notes_clear(void);

/*
 * Spawns the task and keeps a reference in `task`.  Called inside a task, it spawns a child; `what`
 * may ask for a detached one.  Called outside, it spawns a task without a parent.
 */
void step_task_start(struct orr_runtime *rt, struct step_task *self);
void step_task_start_with(struct orr_runtime *rt, struct step_task *self, struct orr_spawn what);

/* Spawns all children of the task: NULL ends the list. */
void step_task_start_children(struct step_task *self);

/* Gives up the test's reference to each child. */
void step_task_unref_children(struct step_task *self);

/* STEP_TASKS_UNREF(&a, &b): gives up the test's references to these tasks. */
void step_tasks_unref(struct step_task **tasks);
#define STEP_TASKS_UNREF(...) step_tasks_unref((struct step_task *[]){ __VA_ARGS__, NULL })

/*
 * The fixture: a runtime with one worker on a virtual clock, which the test's thread has entered.
 * fixture_open() clears the notes.  fixture_run() runs everything to its end and enters again.
 */
struct orr_runtime *fixture_open(void);
void fixture_run(struct orr_runtime *rt);
void fixture_close(struct orr_runtime *rt);

/* Milliseconds of the runtime's clock since fixture_open(). */
unsigned long long fixture_ms(struct orr_runtime *rt);

/* Adds the note "name:error@ms"; returns `error`. */
int note_end(const struct step_task *self, int error);

/* --- Bodies that many tests use --------------------------------------------------------------- */

/* Ends at the first poll. */
step_fn do_nothing;

/* Sleeps for `data` ms, then adds the note "name:error@ms". */
step_fn sleep_for;

/* Sleeps for `data` ms, then fails with -EIO. */
step_fn fail_after;

/* Starts its children, adds the note "name:done" and ends. */
step_fn start_children;

/* Starts its children, sleeps for 100 ms, then adds the note "name:error@ms". */
step_fn start_and_sleep;

/* Sleeps for a second.  When it is cancelled, it cleans up inside a shield for 30 ms. */
step_fn clean_up;

/* --- Writing a body --------------------------------------------------------------------------- */

/*
 * `error = AWAIT(call)`: returns -EAGAIN from the body until the wait is over, then yields the
 * wait's result.
 */
#define AWAIT(call) \
    __extension__({ \
        int answer_ = (call); \
        if (answer_ == -EAGAIN) \
            return -EAGAIN; \
        answer_; \
    })

/*
 * A body with several waits: STEPS(self) { ... STEP(self, 1) ... STEP(self, 2) ... }.  A poll goes
 * on at the last STEP.
 */
#define STEPS(self) \
    switch ((self)->step) \
    case 0:
#define STEP(self, n) \
    (self)->step = (n); \
    /* fall through */ \
    case n:

#endif
