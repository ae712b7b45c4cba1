/*
 * Random trees of tasks, compared with a model.  Tasks do at random everything that tasks can do to
 * each other, on the virtual clock.  The model is told of every action.  It says what each wait
 * must return, which failure is told to whom, and what is left when a task is done.  It shares
 * nothing with the library except what a user can see.
 *
 * ORR_TEST_SEED chooses another sequence of actions.
 */
#include "alarm.h"
#include "tree_model.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    NODES = 6000,      /* tasks in the largest trees, one tree in LARGE_EVERY */
    LARGE_EVERY = 100, /* the others have about NODES / SMALLER tasks */
    SMALLER = 10,
    TREES = 3000,
    PERMITS = 3,      /* of each semaphore */
    STIRS_MAX = 2000, /* without a new task, until the tree is closed as it is */
    SOURCES = 4,      /* events, and as many semaphores and queues */
    DEPTH = 60,       /* the model recurses; test_depth.c checks that the library does not */
};

static struct {
    struct orr_runtime *rt;
    uint64_t random, order, polled_order;
    struct node *nodes[NODES];
    struct node *claimed;         /* the last task that failed while another awaited it */
    unsigned nodes_max, live_max; /* tasks of this tree, and alive at once */
    unsigned made, live;
    uint64_t steps;
    struct orr_event *events[SOURCES];
    struct orr_semaphore *semaphores[SOURCES];
    struct orr_queue *queues[SOURCES];
    uint64_t put, got;
    unsigned made_before, stirs_since_made;
    bool closing; /* the tree is large enough: every task ends soon */
} w;

static uint64_t pick(uint64_t below)
{
    return (random_bits(&w.random) >> 11) % below;
}

static bool one_in(unsigned n)
{
    return pick(n) == 0;
}

static void drop_value(void *data)
{
    struct value *value = data;
    assert_int_equal(value->drops++, 0);
}

/* --- Results of tasks ------------------------------------------------------------------------- */

struct listing {
    struct node *origins[512];
    unsigned count;
};

static void list_add(struct listing *list, struct node *node)
{
    if (list->count < LENGTH(list->origins))
        list->origins[list->count++] = node;
}

static void list_expected(struct listing *list, struct node *node, bool afterwards)
{
    if (afterwards ? model_own_error(node) : node->failed && !node->by_child)
        list_add(list, node);
    for (struct node *child = node->seen.first; child; child = child->next_failure)
        list_expected(list, child, afterwards);
}

static struct node *node_named(const char *name)
{
    void *node;
    assert_int_equal(sscanf(name, "%p", &node), 1);
    return node;
}

static void list_shown(void *data, struct orr_task *task, const struct orr_result *result)
{
    struct node *node = node_named(orr_task_name(task));
    assert_int_equal(result->error, node->error);
    list_add(data, node);
}

/* Every error of a done task can be reached, the first one first. */
static void check_errors(struct orr_task *task, struct node *node)
{
    struct listing expected = { .count = 0 }, shown = { .count = 0 };
    list_expected(&expected, node, false);
    list_expected(&expected, node, true);
    orr_task_errors(task, list_shown, &shown);
    assert_int_equal(shown.count, expected.count);
    assert_memory_equal(shown.origins, expected.origins, shown.count * sizeof *shown.origins);
}

/* The task's destructor: runs once, after its children's; the failure is already on its way. */
static void node_done(void *data)
{
    struct node *node = data;
    model_hear_of_deadlines();
    assert_true(node->over);
    assert_false(node->done);
    assert_int_equal(node->children, 0);
    w.live--;
    model_done(node);
    if (node->claimed)
        w.claimed = node;
    assert_ptr_equal(orr_task_cause(node->task), node->by_child ? node->seen.first->task : NULL);
    check_errors(node->task, node);
    assert_true(orr_task_done(node->task));
}

static void reach_sink(void *data, struct orr_task *task)
{
    (void)data;
    struct node *node = node_named(orr_task_name(task));
    assert_true(node->done);
    assert_false(node->told || node->absorbed || node->looked || node->sunk);
    assert_true(node->failed || node->seen.first);
    node->sunk++;
    check_errors(task, node);
}

static void look(struct node *node)
{
    model_take(node);
    node->looked = true;
    const struct orr_result *result = orr_task_result(node->task);
    assert_non_null(result);
    assert_int_equal(result->error, model_origin(node)->error);
    assert_ptr_equal(result->value, model_origin(node)->value);
}

/* --- Actions ---------------------------------------------------------------------------------- */

static enum orr_poll node_poll(struct orr_task *task, void *data);

static bool is_valid(const struct node *node)
{
    return !node->done || node->held;
}

/* One of the tasks that were spawned lately; it may be the caller itself. */
static struct node *pick_node(void)
{
    unsigned recent = w.made < w.live_max ? w.made : w.live_max;
    return w.nodes[w.made - 1 - pick(recent)];
}

/* Spawns a child of `parent`; NULL makes a task without a parent. */
static void spawn(struct node *parent)
{
    if (w.closing || w.made == w.nodes_max || w.live >= w.live_max || (parent && parent->depth >= DEPTH))
        return;
    struct node *node = calloc(1, sizeof *node);
    assert_non_null(node);
    snprintf(node->name, sizeof node->name, "%p", (void *)node);
    bool supervise = one_in(6);
    struct orr_spawn what = {
        .poll = node_poll,
        .data = node,
        .drop = node_done,
        .name = node->name,
        .parent = parent ? parent->task : NULL,
        .task = &node->task,
        .detached = !parent,
        .supervise = supervise,
    };
    assert_int_equal(orr_spawn(w.rt, &what), 0);
    model_spawn(node, parent, supervise);
    node->budget = 1 + (unsigned)pick(16);
    node->permit = -1;
    w.nodes[w.made++] = node;
    w.live++;
    node->held = !one_in(3);
    if (!node->held)
        orr_task_unref(node->task); /* the tree holds a reference of its own */
}

struct snapshot {
    struct node *nodes[NODES];
    bool waiting[NODES];
    unsigned count, checked;
};

static struct snapshot snapshot;

static void snapshot_add(void *data, const struct orr_task_info *info)
{
    struct snapshot *into = data;
    struct node *node = node_named(info->name);
    assert_int_equal(info->children, node->children);
    assert_int_equal(info->state == ORR_TASK_JOINING, node->over);
    into->waiting[into->count] = info->state == ORR_TASK_WAITING && !model_cancelled(node);
    into->nodes[into->count++] = node;
}

/* Parents come before children, and outer scopes before inner ones. */
static void check_walk(struct node *node)
{
    assert_ptr_equal(snapshot.nodes[snapshot.checked++], node);
    for (unsigned i = 0; i <= node->nested; i++)
        for (struct node *child = model_nest(node, i)->first; child; child = child->next)
            check_walk(child);
}

static void before_cancelling(struct node *node)
{
    snapshot.count = snapshot.checked = 0;
    assert_true(orr_tree_visit(node->task, snapshot_add, &snapshot) > 0);
    check_walk(node);
    assert_int_equal(snapshot.checked, snapshot.count);
}

/* The cancellation has interrupted exactly the tasks it reached; they are polled in this order. */
static void after_cancelling(void)
{
    for (unsigned i = 0; i < snapshot.count; i++) {
        struct node *node = snapshot.nodes[i];
        assert_int_equal(!!orr_task_cancelled(node->task), model_cancelled(node));
        if (!model_cancelled(node) || node->over || node->pending == LEAVE)
            continue;
        assert_int_not_equal(node->wait.state, WAIT_WAITS);
        if (snapshot.waiting[i])
            node->order = ++w.order;
    }
}

static void cancel(struct node *node)
{
    if (!is_valid(node))
        return;
    if (node->done) {
        assert_int_equal(orr_task_cancel(node->task, "at random"), -ESRCH);
        return;
    }
    before_cancelling(node);
    model_cancel(node);
    assert_int_equal(orr_task_cancel(node->task, "at random"), 0);
    after_cancelling();
}

static void complete(struct node *node)
{
    if (!is_valid(node) || node->outside.given)
        return;
    int error = one_in(2) ? -EREMOTEIO : 0;
    struct orr_result result = { .error = error, .value = &node->outside, .drop = drop_value };
    if (node->done || node->settled || node->failed) {
        assert_int_equal(orr_task_complete(node->task, result), -EALREADY);
        return;
    }
    before_cancelling(node);
    node->outside.given = node->settled = true;
    node->value = &node->outside;
    node->error = error;
    node->failed = node->over && error;
    model_cancel(node);
    assert_int_equal(orr_task_complete(node->task, result), 0);
    after_cancelling();
}

static void detach(struct node *node)
{
    if (!is_valid(node))
        return;
    if (node->done) {
        assert_int_equal(orr_task_detach(node->task), model_take(node) ? 0 : -ESRCH);
        return;
    }
    model_detach(node);
    assert_int_equal(orr_task_detach(node->task), 0);
}

static void watch(struct node *node)
{
    node->next_watcher = node->other->watchers;
    node->other->watchers = node;
}

static void unwatch(struct node *node)
{
    struct node **at = &node->other->watchers;
    while (*at && *at != node)
        at = &(*at)->next_watcher;
    if (*at)
        *at = node->next_watcher;
}

/* Returns what the task holds, and counts grants that it did not pick up. */
static void forget_waits(struct node *node)
{
    if (node->permit >= 0)
        assert_int_equal(orr_semaphore_release(w.semaphores[node->permit]), 0);
    node->permit = -1;
    w.put += node->pending == QUEUE_PUT && node->wait.state == WAIT_HAS;
    if (node->pending == AWAIT_TASK) {
        unwatch(node);
        model_unclaim(node->other);
        orr_task_unref(node->other->task); /* a wait that is in use holds a reference of its own */
    }
    node->pending = NOTHING;
}

/* A task that awaits a failed task and has not been polled since. */
static struct node *claimant(void)
{
    return w.claimed && w.claimed->claimed ? w.claimed->watchers : NULL;
}

static void drop(struct node *node)
{
    if (node->over || node->task == orr_task_current())
        return;
    forget_waits(node);
    node->own.cancelled = true;
    if (!node->settled)
        node->error = -ECANCELED;
    model_body_over(node);
    assert_int_equal(orr_task_drop(orr_task_waker(node->task)), 0);
}

static void give_up_reference(struct node *node)
{
    if (!node->held)
        return;
    if (node->done && one_in(2))
        look(node);
    node->held = false;
    orr_task_unref(node->task);
}

static void enter(struct node *node)
{
    if (node->nested == SCOPES)
        return;
    struct orr_scope_options options = {
        .shield = one_in(3),
        .supervise = one_in(3),
        .move_on = one_in(2),
        .timeout_ns = one_in(3) ? 1 + pick(5 * MS) : 0,
    };
    struct nest *nest = model_enter(node, &options);
    assert_int_equal(orr_scope_enter(node->task, &nest->scope, &options), 0);
}

static void cancel_some_scope(struct node *node)
{
    if (node->over || !node->nested)
        return;
    unsigned index = 1 + (unsigned)pick(node->nested);
    before_cancelling(node);
    model_cancel_scope(node, index, false);
    assert_int_equal(orr_scope_cancel(&model_nest(node, index)->scope, "a scope at random"), 0);
    after_cancelling();
}

/* --- Waits ------------------------------------------------------------------------------------ */

static bool is_above(const struct node *other, const struct node *node)
{
    while (node && node != other)
        node = node->parent ? node->parent->owner : NULL;
    return node;
}

static bool is_shielded(struct node *node)
{
    for (unsigned i = 1; i <= node->nested; i++)
        if (model_nest(node, i)->shield)
            return true;
    return false;
}

static int call_wait(struct node *node)
{
    void *item;
    switch (node->pending) {
    case SLEEP:
        return orr_sleep(node->task, &node->wait, (uint64_t)node->source * MS / 4);
    case EVENT:
        return orr_event_wait(node->task, &node->wait, w.events[node->source]);
    case SEMAPHORE:
        return orr_semaphore_acquire(node->task, &node->wait, w.semaphores[node->source]);
    case QUEUE_GET:
        return orr_queue_get(node->task, &node->wait, w.queues[node->source], &item);
    case QUEUE_PUT:
        return orr_queue_put(node->task, &node->wait, w.queues[node->source], node);
    default:
        return orr_task_await(node->task, &node->wait, node->other->task);
    }
}

/* The wait was granted. */
static void wait_got(struct node *node)
{
    if (node->pending == SEMAPHORE)
        node->permit = node->source;
    else if (node->pending == AWAIT_TASK)
        look(node->other);
    w.got += node->pending == QUEUE_GET;
    w.put += node->pending == QUEUE_PUT;
}

/* Whether it awaits its own child, whose failure it was not told of. */
static bool awaits_failure(const struct node *node)
{
    const struct node *other = node->pending == AWAIT_TASK ? node->other : NULL;
    return other && other->done && other->failed && !other->claimed && !other->told && !other->looked && other->kept &&
           other->kept->owner == node;
}

static void check_wait(struct node *node, uint8_t before, int answer)
{
    if (before == WAIT_HAS && (node->pending != SLEEP || (!model_cancelled(node) && !model_news(node)))) {
        assert_int_equal(answer, 0);
    } else if (model_cancelled(node)) {
        assert_int_equal(answer, -ECANCELED);
    } else if (awaits_failure(node)) {
        assert_int_equal(answer, 0);
    } else if (model_news(node)) {
        assert_int_equal(answer, -ECHILD);
        assert_ptr_equal(orr_task_failed_child(node->task), model_told(node)->task);
    } else if (before == WAIT_WAITS) {
        assert_int_equal(answer, -EAGAIN);
    } else if (node->pending == AWAIT_TASK && !node->other->done && is_above(node->other, node)) {
        assert_int_equal(answer, -EDEADLK);
    } else {
        assert_true(answer == 0 || answer == -EAGAIN);
    }
}

/* Continues the pending wait, or begins it. */
static int go_on_waiting(struct node *node)
{
    uint8_t before = node->wait.state;
    int answer = call_wait(node);
    check_wait(node, before, answer);
    if (node->pending == AWAIT_TASK)
        unwatch(node);
    if (answer == -EAGAIN && node->pending == AWAIT_TASK)
        watch(node);
    if (answer == -EAGAIN)
        return answer;
    if (!answer)
        wait_got(node);
    if (node->pending == AWAIT_TASK)
        orr_task_unref(node->other->task);
    node->pending = NOTHING;
    node->last = answer;
    return 0;
}

static struct node *pick_awaited(struct node *node)
{
    struct nest *nest = model_innermost(node);
    return model_news(node) ? model_news(node)->kept->fresh.last : nest->first && one_in(2) ? nest->last : pick_node();
}

static int begin_waiting(struct node *node)
{
    node->pending = SLEEP + (enum action)pick(is_shielded(node) ? 2 : 6);
    if (model_news(node) && one_in(2))
        node->pending = AWAIT_TASK;
    if (node->pending == SEMAPHORE && node->permit >= 0)
        node->pending = SLEEP; /* a task holds one permit at a time, so there is no deadlock */
    node->source = (int)pick(SOURCES);
    if (node->pending == AWAIT_TASK) {
        node->other = pick_awaited(node);
        if (is_valid(node->other))
            orr_task_ref(node->other->task);
        else
            node->pending = EVENT;
    }
    return go_on_waiting(node);
}

/* --- Leaving ---------------------------------------------------------------------------------- */

static int go_on_leaving(struct node *node)
{
    struct nest *nest = model_innermost(node);
    if (node->wait.state == WAIT_WAITS)
        assert_non_null(nest->first);
    if (nest->first)
        model_look_at_children(node);
    int answer = orr_scope_leave(node->task, &node->wait, &nest->scope, nest->error);
    if (nest->first) {
        assert_int_equal(answer, -EAGAIN);
        return answer;
    }
    node->nested--;
    assert_int_equal(answer, model_verdict(node, nest));
    model_left(node, nest, answer);
    if (answer == -ECHILD)
        assert_ptr_equal(orr_task_failed_child(node->task), node->seen.first ? node->seen.first->task : NULL);
    node->pending = NOTHING;
    node->last = answer;
    return 0;
}

static int begin_leaving(struct node *node)
{
    struct nest *nest = model_innermost(node);
    nest->error = one_in(4) ? -EPROTO : one_in(2) ? node->last : 0;
    if (nest->error == -EDEADLK)
        nest->error = 0;
    node->pending = LEAVE;
    return go_on_leaving(node);
}

/* --- Bodies ----------------------------------------------------------------------------------- */

static int do_something(struct node *node)
{
    switch (pick(20)) {
    case 6: { /* a task that is not a child, or none */
        struct node *other = pick_node();
        spawn(one_in(3) || other->done ? NULL : other);
        return 0;
    }
    case 7:
        if (one_in(20))
            cancel(one_in(4) ? node : pick_node());
        return 0;
    case 8:
        if (one_in(10))
            complete(one_in(8) ? node : pick_node());
        return 0;
    case 9:
        if (one_in(3))
            detach(claimant() ? w.claimed : pick_node());
        return 0;
    case 10:
    case 11:
        enter(node);
        /* Perhaps for a failure in another scope that was at the same address. */
        if (claimant() && one_in(2))
            drop(claimant());
        return 0;
    case 12:
        return node->nested ? begin_leaving(node) : 0;
    case 13:
        if (one_in(6))
            cancel_some_scope(one_in(2) ? node : pick_node());
        else if (one_in(claimant() ? 2 : 10))
            drop(claimant() ? claimant() : pick_node());
        return 0;
    case 14:
        give_up_reference(pick_node());
        return 0;
    case 15:
        if (node->permit >= 0)
            assert_int_equal(orr_semaphore_release(w.semaphores[node->permit]), 0);
        node->permit = -1;
        return 0;
    case 16:
    case 17:
    case 18:
    case 19:
        return begin_waiting(node);
    default:
        spawn(node);
        return 0;
    }
}

static int pick_error(struct node *node)
{
    if (model_cancelled(node) && !one_in(4))
        return -ECANCELED;
    if (node->last == -ECHILD && one_in(2))
        return -ECHILD;
    return one_in(4) ? -EIO : one_in(50) ? -ECANCELED : 0;
}

static enum orr_poll finish(struct node *node)
{
    if (node->permit >= 0)
        assert_int_equal(orr_semaphore_release(w.semaphores[node->permit]), 0);
    node->permit = -1;
    struct orr_result result = { .error = pick_error(node) };
    if (one_in(2)) {
        node->body.given = true;
        result.value = &node->body;
        result.drop = drop_value;
    }
    if (!node->settled) {
        node->error = result.error;
        node->value = result.value;
    }
    orr_task_finish(node->task, result);
    model_body_over(node);
    return ORR_DONE;
}

/* A body goes on until a wait is pending. */
static enum orr_poll node_poll(struct orr_task *task, void *data)
{
    struct node *node = data;
    assert_ptr_equal(task, node->task);
    model_hear_of_deadlines();
    assert_false(node->over);
    assert_int_equal(!!orr_task_cancelled(task), model_cancelled(node));
    /* The task must be told of a failure before any other task goes on. */
    bool overtakes = model_news(node);
    assert_true(!node->order || overtakes || node->order > w.polled_order);
    w.polled_order = node->order && !overtakes ? node->order : w.polled_order;
    node->order = 0;
    int answer = 0;
    if (node->pending)
        answer = node->pending == LEAVE ? go_on_leaving(node) : go_on_waiting(node);
    for (; !answer && node->budget; node->budget--, w.steps++)
        answer = do_something(node);
    while (!answer && node->nested && !one_in(8))
        answer = begin_leaving(node);
    return answer ? ORR_PENDING : finish(node);
}

/* --- The driver ------------------------------------------------------------------------------- */

/* Time may move only after every task that must be told of a failure has been polled. */
static void check_woken(struct node *node)
{
    if (node->over || node->wait.state != WAIT_WAITS || model_cancelled(node))
        return;
    const struct node *news = model_news(node);
    if (news && news->failed_at < orr_runtime_now(w.rt))
        assert_true(node->pending == LEAVE && model_innermost(node)->over);
}

/* No task waits for ever: now and then it makes an item, room in a queue, a wake, or an end. */
static void stir(void)
{
    for (unsigned i = 0; i < w.made; i++)
        check_woken(w.nodes[i]);
    for (unsigned i = 0; i < SOURCES; i++) {
        void *item;
        orr_event_wake(w.events[i], 1 + (unsigned)pick(20));
        if (one_in(10))
            orr_event_set(w.events[i]);
        else
            orr_event_clear(w.events[i]);
        if (one_in(2))
            w.put += !orr_queue_try_put(w.queues[i], &w);
        else
            w.got += !orr_queue_try_get(w.queues[i], &item);
    }
    for (unsigned i = 0; i < 4 && w.live < w.live_max / 2; i++)
        spawn(NULL);
    for (unsigned i = 0; i < w.made && w.closing; i++)
        if (!w.nodes[i]->done && one_in(4))
            cancel(w.nodes[i]);
    /* Tasks may wait for one another's permits: then only their cancellation helps. */
    w.stirs_since_made = w.made == w.made_before ? w.stirs_since_made + 1 : 0;
    w.made_before = w.made;
    w.closing |= w.made == w.nodes_max || w.stirs_since_made > STIRS_MAX;
}

static enum orr_poll janitor_poll(struct orr_task *task, void *data)
{
    struct orr_wait *wait = data;
    model_hear_of_deadlines();
    while (w.live || !w.closing) {
        int answer = orr_sleep(task, wait, MS);
        if (answer == -EAGAIN)
            return ORR_PENDING;
        assert_int_equal(answer, 0);
        stir();
    }
    return ORR_DONE;
}

static void sources_open(void)
{
    for (unsigned i = 0; i < SOURCES; i++) {
        assert_int_equal(orr_event_new(&w.events[i]), 0);
        assert_int_equal(orr_semaphore_new(PERMITS, &w.semaphores[i]), 0);
        assert_int_equal(orr_queue_new(2, NULL, &w.queues[i]), 0);
    }
}

static void sources_close(void)
{
    uint64_t left = 0;
    for (unsigned i = 0; i < SOURCES; i++) {
        left += orr_queue_length(w.queues[i]);
        assert_int_equal(orr_semaphore_free_permits(w.semaphores[i]), PERMITS);
        assert_int_equal(orr_event_free(w.events[i]), 0);
        assert_int_equal(orr_semaphore_free(w.semaphores[i]), 0);
        assert_int_equal(orr_queue_free(w.queues[i]), 0);
    }
    assert_int_equal(w.put, w.got + left);
}

/* Each failure has been delivered exactly once; each value has been dropped. */
static void check_fate(const struct node *node)
{
    assert_true(node->done);
    unsigned delivered = node->told + node->absorbed + node->sunk;
    bool to_tell = node->failed || node->seen.first;
    assert_true(delivered <= 1);
    assert_true(to_tell || !delivered);
    assert_true(delivered || node->looked || !to_tell);
    assert_int_equal(node->body.drops, node->body.given);
    assert_int_equal(node->outside.drops, node->outside.given);
}

/* A quarter of the tasks may be alive at once. */
static void choose_size(bool large)
{
    w.nodes_max = large ? NODES : NODES / SMALLER / 10 + (unsigned)pick(NODES / SMALLER);
    w.live_max = w.nodes_max / 4;
}

static void run_one_tree(uint64_t random, bool large)
{
    uint64_t steps = w.steps;
    memset(&w, 0, sizeof w);
    w.random = random;
    w.steps = steps;
    choose_size(large);
    model_reset();
    w.rt = harness_runtime_with(
        (struct orr_options){ .clock = ORR_CLOCK_VIRTUAL, .alloc = counting_alloc, .sink = reach_sink });
    assert_non_null(w.rt);
    assert_int_equal(orr_runtime_enter(w.rt), 0);
    sources_open();
    struct orr_wait wait = { 0 };
    assert_int_equal(orr_spawn(w.rt, &(struct orr_spawn){ .poll = janitor_poll, .data = &wait }), 0);
    assert_int_equal(orr_runtime_leave(w.rt), 0);
    assert_int_equal(orr_runtime_run(w.rt), 0);
    assert_int_equal(harness_stats(w.rt, 0).tasks_live, 0);
    assert_int_equal(orr_runtime_enter(w.rt), 0);
    for (unsigned i = 0; i < w.made; i++)
        give_up_reference(w.nodes[i]);
    sources_close();
    for (unsigned i = 0; i < w.made; i++) {
        check_fate(w.nodes[i]);
        free(w.nodes[i]);
    }
    assert_int_equal(orr_runtime_leave(w.rt), 0);
    assert_int_equal(orr_runtime_free(w.rt), 0);
    assert_int_equal(allocated_bytes, 0);
}

static void random_trees_behave_as_the_model(void **state)
{
    (void)state;
    uint64_t seed = harness_seed(20240229);
    w.steps = 0;
    for (uint64_t tree = 1; tree <= WORK(TREES); tree++)
        run_one_tree(((seed << 20) + tree) * UINT64_C(0x9e3779b97f4a7c15) | 1, tree % LARGE_EVERY == 1);
    print_message("%d trees, %" PRIu64 " steps\n", WORK(TREES), w.steps);
}

static const struct CMUnitTest tree[] = {
    cmocka_unit_test(random_trees_behave_as_the_model),
};

HARNESS_MAIN(tree)
