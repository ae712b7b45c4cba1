#include "tree_model.h"

#include <string.h>

static struct {
    uint64_t failures, scopes;
    struct nest *armed[100];
    unsigned armed_count;
} model;

void model_reset(void)
{
    memset(&model, 0, sizeof model);
}

/* --- Lists ------------------------------------------------------------------------------------ */

static void failures_add(struct failures *list, struct node *node)
{
    node->next_failure = NULL;
    if (list->first)
        list->last->next_failure = node;
    else
        list->first = node;
    list->last = node;
}

static bool failures_remove(struct failures *list, struct node *node)
{
    struct node *before = NULL;
    for (struct node *at = list->first; at; before = at, at = at->next_failure) {
        if (at != node)
            continue;
        *(before ? &before->next_failure : &list->first) = node->next_failure;
        list->last = list->last == node ? before : list->last;
        return true;
    }
    return false;
}

static void failures_move(struct failures *to, struct failures *from)
{
    for (struct node *at = from->first, *next; at; at = next) {
        next = at->next_failure;
        failures_add(to, at);
    }
    *from = (struct failures){ 0 };
}

static void nest_add(struct nest *nest, struct node *node)
{
    node->parent = nest;
    node->next = NULL;
    node->prev = nest->last;
    *(nest->last ? &nest->last->next : &nest->first) = node;
    nest->last = node;
    nest->owner->children++;
}

static void nest_remove(struct node *node)
{
    struct nest *nest = node->parent;
    *(node->prev ? &node->prev->next : &nest->first) = node->next;
    *(node->next ? &node->next->prev : &nest->last) = node->prev;
    nest->owner->children--;
    node->parent = NULL;
}

struct nest *model_nest(struct node *node, unsigned index)
{
    return index ? &node->scopes[index - 1] : &node->own;
}

struct nest *model_innermost(struct node *node)
{
    return model_nest(node, node->nested);
}

void model_detach(struct node *node)
{
    if (node->parent)
        nest_remove(node);
}

/* --- Cancellation ----------------------------------------------------------------------------- */

/* Whether tasks in this nest are cancelled; a shield hides what is outside of it. */
static bool nest_cancelled(struct node *node, unsigned index)
{
    for (;; index--) {
        struct nest *nest = model_nest(node, index);
        if (nest->cancelled || nest->shield || !index)
            return nest->cancelled;
    }
}

bool model_cancelled(struct node *node)
{
    return nest_cancelled(node, node->nested);
}

static void cancel_below(struct node *node, unsigned from);

static bool is_leaving(const struct node *node)
{
    return !node->over && node->pending == LEAVE && node->wait.state != WAIT_FREE;
}

static bool has_failed(const struct nest *nest)
{
    return nest->error || (nest->fresh.first && !nest->supervise);
}

/* The block has ended, and its children are cancelled. */
static void end_children(struct node *node)
{
    model_innermost(node)->over = true;
    cancel_below(node, node->nested);
}

void model_look_at_children(struct node *node)
{
    struct nest *nest = model_innermost(node);
    bool interrupted = nest->first && (model_cancelled(node) || model_news(node));
    nest->cut |= interrupted && !has_failed(nest);
    if (interrupted || has_failed(nest))
        end_children(node);
}

/* A body that waits for its children is told at once when it becomes cancelled. */
static void cancel_body(struct node *node, bool before)
{
    if (!before && is_leaving(node) && node->wait.state == WAIT_WAITS && model_cancelled(node))
        model_look_at_children(node);
}

void model_cancel(struct node *node)
{
    if (node->own.cancelled)
        return;
    bool before = model_cancelled(node);
    node->own.cancelled = true;
    if (node->over && !node->settled && !node->failed && node->children)
        node->cut = true;
    cancel_body(node, before);
    cancel_below(node, 0);
}

/* Cancels the children of a nest and of the nests inside it, up to a shield. */
static void cancel_below(struct node *node, unsigned from)
{
    for (unsigned i = from; i <= node->nested && (i == from || !model_nest(node, i)->shield); i++)
        for (struct node *child = model_nest(node, i)->first; child; child = child->next)
            model_cancel(child);
}

void model_cancel_scope(struct node *node, unsigned index, bool expired)
{
    struct nest *nest = model_nest(node, index);
    bool before = model_cancelled(node);
    if (is_leaving(node) && index == node->nested && nest->first && !nest->cancelled)
        nest->cut = true;
    nest->expired |= expired && !nest->cancelled;
    nest->cancelled = true;
    cancel_body(node, before);
    cancel_below(node, index);
}

void model_spawn(struct node *node, struct node *parent, bool supervise)
{
    node->own.owner = node;
    node->own.supervise = supervise;
    for (unsigned i = 0; i < SCOPES; i++)
        node->scopes[i].owner = node;
    if (!parent)
        return;
    node->depth = parent->depth + 1;
    node->own.cancelled = model_innermost(parent)->over || model_cancelled(parent);
    nest_add(model_innermost(parent), node);
}

struct nest *model_enter(struct node *node, struct orr_scope_options *options)
{
    struct nest *nest = &node->scopes[node->nested++];
    *nest = (struct nest){
        .owner = node,
        .shield = options->shield,
        .supervise = options->supervise,
        .move_on = options->move_on,
        .serial = ++model.scopes,
    };
    if (model.armed_count == LENGTH(model.armed))
        options->timeout_ns = 0;
    if (options->timeout_ns)
        model.armed[model.armed_count++] = nest;
    return nest;
}

void model_hear_of_deadlines(void)
{
    for (unsigned i = 0; i < model.armed_count;) {
        struct nest *nest = model.armed[i];
        struct node *node = nest->owner;
        if (nest->scope.task && nest->scope.nest.flags & CANCELLED && !nest->cancelled && !node->over)
            model_cancel_scope(node, (unsigned)(nest - node->scopes) + 1, true);
        if (!nest->scope.task || nest->cancelled || node->over)
            model.armed[i] = model.armed[--model.armed_count];
        else
            i++;
    }
}

/* --- Failure ---------------------------------------------------------------------------------- */

struct node *model_news(struct node *node)
{
    struct node *first = NULL;
    for (unsigned i = node->nested;; i--) {
        struct nest *nest = model_nest(node, i);
        struct node *child = nest->supervise ? NULL : nest->fresh.first;
        if (child && (!first || child->failed_as < first->failed_as))
            first = child;
        if (nest->shield || !i)
            return first;
    }
}

static void tell(struct node *child)
{
    assert_false(child->told || child->absorbed || child->looked || child->sunk);
    child->told = true;
}

struct node *model_told(struct node *node)
{
    struct node *child = model_news(node);
    tell(child);
    assert_true(failures_remove(&child->kept->fresh, child));
    node->seen = (struct failures){ 0 };
    failures_add(&node->seen, child);
    return child;
}

static bool may_fail_by_child(const struct node *node)
{
    return !node->failed && !node->settled && !node->cut && node->error != -ECANCELED && !node->own.supervise;
}

static void fail_up(struct node *child, struct nest *nest)
{
    struct node *node = nest->owner;
    child->kept = node->over ? &node->own : nest;
    child->failed_as = model.failures++;
    child->failed_at = orr_runtime_now(orr_task_runtime(child->task));
    failures_add(&child->kept->fresh, child);
    if (node->over && may_fail_by_child(node)) {
        node->failed = node->by_child = node->own.cancelled = true;
        cancel_below(node, 0);
    } else if (is_leaving(node) && nest == model_innermost(node) && !nest->supervise) {
        end_children(node);
    }
}

static void judge(struct node *node)
{
    if (node->settled) {
        node->failed = node->error;
    } else if (node->error == -ECHILD && node->seen.first) {
        node->failed = node->by_child = true;
    } else if (node->error == -ECANCELED && node->own.cancelled) {
        return;
    } else if (node->own.fresh.first && !node->own.supervise) {
        node->seen = (struct failures){ 0 };
        node->failed = node->by_child = true;
    } else {
        node->failed = node->error;
    }
}

/* Moves the failures of scopes that the body has not left to the task, in the order of failing. */
static void gather_failures(struct node *node)
{
    struct failures all = { 0 };
    for (;;) {
        struct node *first = NULL;
        for (unsigned i = 0; i <= node->nested; i++) {
            struct node *child = model_nest(node, i)->fresh.first;
            if (child && (!first || child->failed_as < first->failed_as))
                first = child;
        }
        if (!first)
            break;
        failures_remove(&first->kept->fresh, first);
        first->kept = &node->own;
        failures_add(&all, first);
    }
    node->own.fresh = all;
}

void model_body_over(struct node *node)
{
    node->over = true;
    gather_failures(node);
    judge(node);
    if (node->settled || node->failed || node->error) {
        node->own.cancelled = true;
        cancel_below(node, 0);
    } else {
        node->seen = (struct failures){ 0 };
    }
}

/*
 * Whether a task awaits this one, or was granted the wait and will look: then the parent is not
 * told.
 */
static bool is_awaited(const struct node *node)
{
    for (struct node *at = node->watchers; at; at = at->next_watcher)
        if (at->wait.state != WAIT_FREE)
            return true;
    return false;
}

/* No task will look at the failure, so the parent is told after all. */
void model_unclaim(struct node *node)
{
    if (!node->claimed || is_awaited(node))
        return;
    node->claimed = false;
    if (!node->kept->owner->done)
        fail_up(node, node->kept->serial == node->serial ? node->kept : &node->kept->owner->own);
}

static void conclude(struct node *node)
{
    if (node->cut && !node->failed && !node->settled)
        node->error = -ECANCELED;
    if (node->value && node->cut && !node->failed && !node->settled)
        node->value = NULL;
    failures_move(&node->seen, &node->own.fresh);
    if (node->seen.first && !node->failed && !node->settled && !node->error)
        node->failed = node->by_child = true;
    for (struct node *child = node->seen.first; child; child = child->next_failure)
        if (!child->told)
            child->absorbed = true;
}

void model_done(struct node *node)
{
    struct nest *nest = node->parent;
    node->done = true;
    conclude(node);
    if (!nest)
        return;
    nest_remove(node);
    node->kept = nest;
    node->serial = nest->serial;
    node->claimed = node->failed && is_awaited(node);
    if (node->failed && !node->claimed)
        fail_up(node, nest);
}

bool model_take(struct node *child)
{
    struct nest *nest = child->kept;
    if (child->claimed) {
        child->claimed = false;
        return true;
    }
    if (!nest || nest->owner->done || nest->owner->by_child)
        return false;
    return failures_remove(&nest->fresh, child);
}

/*
 * The first entry of `seen` is the failure that a task failed with; a done task has all of them
 * there.
 */
const struct node *model_origin(const struct node *node)
{
    while (node->by_child)
        node = node->seen.first;
    return node;
}

bool model_own_error(const struct node *node)
{
    return node->by_child && node->error && node->error != -ECHILD;
}

/* Whether a failure outside the scope, which has been left, cut it short. */
static bool is_cut_by_failure(struct node *node, const struct nest *nest)
{
    return nest->cut && !nest->error && !nest->cancelled && !model_cancelled(node);
}

int model_verdict(struct node *node, struct nest *nest)
{
    int error = nest->error;
    if (!error && nest->cut)
        error = -ECANCELED;
    if (error == -ECANCELED && nest->cancelled && !model_cancelled(node))
        error = nest->expired && !nest->move_on ? -ETIMEDOUT : 0;
    if (is_cut_by_failure(node, nest))
        /* Unless another task has taken the failure since. */
        error = model_news(node) ? -ECHILD : 0;
    return !error && nest->fresh.first ? -ECHILD : error;
}

void model_left(struct node *node, struct nest *nest, int answer)
{
    nest->serial = 0;
    if (is_cut_by_failure(node, nest) && model_news(node))
        model_told(node);
    else if (answer == -ECHILD && nest->error != -ECHILD)
        node->seen = (struct failures){ 0 };
    for (struct node *child = nest->fresh.first; child; child = child->next_failure)
        tell(child);
    failures_move(&node->seen, &nest->fresh); /* behind the failures that the body was told of */
}
