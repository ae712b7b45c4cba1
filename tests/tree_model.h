/*
 * A model of the tree of tasks, for the test that compares it with the library: told of every act, it says what each
 * wait has to answer, which failure is told to whom, and what is left when a task is done.  It is slow, recurses, and
 * looks at the library's memory for three things only that no function tells: the state of a wait, whether a scope is
 * in use, and whether its deadline has cancelled it.
 */
#ifndef ORR_TESTS_TREE_MODEL_H
#define ORR_TESTS_TREE_MODEL_H

#include "harness.h"

#include <errno.h>

enum {
    SCOPES = 3,    /* of a task, one inside the other */
    WAIT_FREE = 0, /* the states of a struct orr_wait */
    WAIT_WAITS = 1,
    WAIT_HAS = 2,
    CANCELLED = 32, /* among the flags of a struct orr_nest */
};

struct node;

struct failures {
    struct node *first, *last;
};

/* What children hang in: of a task, or of a scope in it. */
struct nest {
    struct node *owner, *first, *last;
    struct failures fresh; /* nobody has been told */
    bool shield, supervise, move_on, cancelled, expired;
    bool over, cut;  /* it is being left, and its children are cancelled; from outside */
    int error;       /* with which it is being left */
    uint64_t serial; /* of the scope, 0 once it is left: another may have the same memory later */
    struct orr_scope scope;
};

struct value {
    bool given;
    unsigned drops;
};

enum act { NOTHING, SLEEP, EVENT, SEMAPHORE, QUEUE_GET, QUEUE_PUT, AWAIT_TASK, LEAVE };

struct node {
    char name[20]; /* its own address, in words: the library's name for the task leads back here */
    struct orr_task *task;
    bool held; /* a reference is */

    struct nest *parent; /* NULL at the top, and when it is done */
    struct node *prev, *next;
    struct nest own, scopes[SCOPES];
    unsigned depth, nested, children;

    enum act pending;
    struct orr_wait wait;
    int source;
    struct node *other;
    struct node *watchers, *next_watcher; /* those who wait for this one, and those beside this one */
    unsigned budget;
    int permit;     /* of which semaphore, -1 for none */
    int last;       /* what its last wait answered */
    uint64_t order; /* in which it was cancelled while it waited; 0 once it has been polled */

    bool over, done, settled, failed, by_child, cut;
    int error; /* its body's, or what it was settled with */
    struct value body, outside, *value;
    struct failures seen; /* the parent was told of them, or got them beside an error */
    struct node *next_failure;
    struct nest *kept;  /* where its failure was put, or will be if none of those who wait for it looks */
    uint64_t serial;    /* of that nest */
    uint64_t failed_as; /* the order of failing */
    uint64_t failed_at; /* by the runtime's clock */

    bool claimed, looked, told, absorbed;
    unsigned sunk;
};

/* Forgets everything. */
void model_reset(void);

/* The nests of a task, from the outside in: 0 is its own. */
struct nest *model_nest(struct node *node, unsigned index);
struct nest *model_innermost(struct node *node);

/* A new task; `parent` is NULL at the top.  One that is nobody's child any more. */
void model_spawn(struct node *node, struct node *parent, bool supervise);
void model_detach(struct node *node);

/* Its innermost nest from now on.  There may be too many deadlines: then this one is taken back. */
struct nest *model_enter(struct node *node, struct orr_scope_options *options);

/* Whether the next wait has to say so. */
bool model_cancelled(struct node *node);

void model_cancel(struct node *node);
void model_cancel_scope(struct node *node, unsigned index, bool expired);

/* Deadlines come from the library, between two functions of the test: to be called first in each. */
void model_hear_of_deadlines(void);

/* The first of the failures that the next wait has to tell of; NULL if there is none.  It has been told. */
struct node *model_news(struct node *node);
struct node *model_told(struct node *node);

/* The body is over, with `error`; the task is done. */
void model_body_over(struct node *node);
void model_done(struct node *node);

/* Whose result a done task has; and whether its body had another error after that. */
const struct node *model_origin(const struct node *node);
bool model_own_error(const struct node *node);

/* A failure that the parent was not told of is not its affair any more.  False if it has become so. */
bool model_take(struct node *child);

/* One of those who were to look at a failure will not. */
void model_unclaim(struct node *node);

/* A body that leaves a scope, and finds children in it, looks at what has happened meanwhile. */
void model_look_at_children(struct node *node);

/* What leaving a scope has to answer, when the task has one less already; and what comes of it. */
int model_verdict(struct node *node, struct nest *nest);
void model_left(struct node *node, struct nest *nest, int answer);

#endif
