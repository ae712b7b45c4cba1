/*
 * A model of the tree of tasks, for the test that compares the library with it.  The test tells the
 * model every action.  The model says what each wait must return, which failure is told to whom,
 * and what is left when a task is done.  It is slow, and it recurses.
 *
 * No function tells three things, so the model reads them from the library's memory: the state of a
 * wait, whether a scope is in use, and whether its deadline has cancelled it.
 */
#ifndef ORR_TESTS_TREE_MODEL_H
#define ORR_TESTS_TREE_MODEL_H

#include "harness.h"

#include <errno.h>

enum {
    SCOPES = 3,    /* nested scopes of a task */
    WAIT_FREE = 0, /* states of a struct orr_wait */
    WAIT_WAITS = 1,
    WAIT_HAS = 2,
    CANCELLED = 32, /* a flag of a struct orr_nest */
};

struct node;

struct failures {
    struct node *first, *last;
};

/* A nest holds children: a task has one, and so has each of its scopes. */
struct nest {
    struct node *owner, *first, *last;
    struct failures fresh; /* failures that no task was told of */
    bool shield, supervise, move_on, cancelled, expired;
    /*
     * `over`: the body leaves it, and its children are cancelled; `cut`: because of something
     * outside.
     */
    bool over, cut;
    int error; /* the error with which it is left */
    /* Of the scope, 0 once it is left: another scope may use the same memory later. */
    uint64_t serial;
    struct orr_scope scope;
};

struct value {
    bool given;
    unsigned drops;
};

enum action { NOTHING, SLEEP, EVENT, SEMAPHORE, QUEUE_GET, QUEUE_PUT, AWAIT_TASK, LEAVE };

struct node {
    /* Its own address as text: the name of the library's task leads back to the node. */
    char name[20];
    struct orr_task *task;
    bool held; /* the test holds a reference */

    struct nest *parent; /* NULL without a parent, and when it is done */
    struct node *prev, *next;
    struct nest own, scopes[SCOPES];
    unsigned depth, nested, children;

    enum action pending;
    struct orr_wait wait;
    int source;
    struct node *other;
    struct node *watchers, *next_watcher; /* tasks that await this one; the next in that list */
    unsigned budget;
    int permit; /* the semaphore whose permit it holds, -1 for none */
    int last;   /* what its last wait returned */
    /* The order in which it was cancelled while it waited; 0 once it has been polled. */
    uint64_t order;

    bool over, done, settled, failed, by_child, cut;
    int error; /* the error of its body, or the one it was completed with */
    struct value body, outside, *value;
    struct failures seen; /* failures that the body was told of, or got beside an error */
    struct node *next_failure;
    struct nest *kept;  /* where its failure is kept, or will be if no awaiting task looks at it */
    uint64_t serial;    /* the serial of that nest */
    uint64_t failed_as; /* the order of failing */
    uint64_t failed_at; /* by the runtime's clock */

    bool claimed, looked, told, absorbed;
    unsigned sunk;
};

/* Clears the model. */
void model_reset(void);

/* The nests of a task, from the outside in: 0 is its own. */
struct nest *model_nest(struct node *node, unsigned index);
struct nest *model_innermost(struct node *node);

/* A new task, or a task without a parent if that is NULL; and a task that is detached. */
void model_spawn(struct node *node, struct node *parent, bool supervise);
void model_detach(struct node *node);

/*
 * Enters a scope, which is the innermost nest from now on.  If there are too many deadlines, the
 * scope gets none.
 */
struct nest *model_enter(struct node *node, struct orr_scope_options *options);

/* Whether the next wait must return -ECANCELED. */
bool model_cancelled(struct node *node);

void model_cancel(struct node *node);
void model_cancel_scope(struct node *node, unsigned index, bool expired);

/* The library cancels scopes at their deadlines.  Every function of the test calls this first. */
void model_hear_of_deadlines(void);

/* The first failure that the next wait must tell, NULL for none; and that failure has been told. */
struct node *model_news(struct node *node);
struct node *model_told(struct node *node);

/* The body has ended with `error`; the task is done. */
void model_body_over(struct node *node);
void model_done(struct node *node);

/* The task whose result a done task has; and whether its body failed with another error later. */
const struct node *model_origin(const struct node *node);
bool model_own_error(const struct node *node);

/* Another task takes a failure that the parent was not told of.  False if the parent was told. */
bool model_take(struct node *child);

/* A task that was about to look at a failure will not do it. */
void model_unclaim(struct node *node);

/* A body leaves a scope that has children: checks for cancellations and failures so far. */
void model_look_at_children(struct node *node);

/* What leaving a scope must return, after the scope is gone; and what follows from that. */
int model_verdict(struct node *node, struct nest *nest);
void model_left(struct node *node, struct nest *nest, int answer);

#endif
