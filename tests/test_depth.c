/*
 * Trees of tasks that are very deep or very wide.  Depth must cost no stack: the runtime runs on a
 * stack with room for a few hundred frames.  Width must cost nothing per sibling: the number of
 * polls of each child is the same, however many children there are.
 */
#include "alarm.h"
#include "harness.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    CHAIN = 100000,
    NESTED = 10000,
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    STACK = 512 * 1024, /* sanitizers make frames larger */
#else
    STACK = 64 * 1024,
#endif
};

/* --- A small stack ---------------------------------------------------------------------------- */

struct drive {
    struct orr_runtime *rt;
    int (*fn)(struct orr_runtime *rt);
    int answer;
};

static void drive(void *data)
{
    struct drive *drive = data;
    drive->answer = drive->fn(drive->rt);
}

static int on_a_small_stack(struct orr_runtime *rt, int (*fn)(struct orr_runtime *rt))
{
    struct drive what = { .rt = rt, .fn = fn };
    harness_on_stack(STACK, drive, &what);
    return what.answer;
}

/* --- A chain ---------------------------------------------------------------------------------- */

struct chain;

struct link {
    struct chain *chain;
    struct orr_wait wait;
    int answer;
    bool begun;
};

/*
 * A hundred thousand tasks, each the child of the one before.  The driver's thread asserts nothing.
 */
struct chain {
    struct orr_runtime *rt;
    struct link *links;
    unsigned begun, dropped, out_of_order, last_dropped;
    int error;    /* the error of the last task */
    bool joining; /* all tasks but the last end their body at once, and join */
    bool endless; /* the last task waits for ever */
    void (*at_end)(struct chain *chain);
    struct orr_task *top;
    unsigned seen, sunk, cause_length;
    int sunk_error;
};

static enum orr_poll link_poll(struct orr_task *task, void *data);

static void link_drop(void *data)
{
    struct link *link = data;
    struct chain *chain = link->chain;
    unsigned index = (unsigned)(link - chain->links);
    chain->out_of_order += index + 1 != chain->last_dropped;
    chain->last_dropped = index;
    chain->dropped++;
}

static int link_spawn(struct chain *chain, unsigned index)
{
    struct link *link = &chain->links[index];
    link->chain = chain;
    return orr_spawn(
        chain->rt,
        &(struct orr_spawn){
            .poll = link_poll, .data = link, .drop = link_drop, .name = "link", .task = index ? NULL : &chain->top });
}

static enum orr_poll link_poll(struct orr_task *task, void *data)
{
    struct link *link = data;
    struct chain *chain = link->chain;
    unsigned index = (unsigned)(link - chain->links);
    if (!link->begun) {
        link->begun = true;
        chain->begun++;
        if (index + 1 < CHAIN && link_spawn(chain, index + 1))
            return ORR_DONE;
        if (index + 1 < CHAIN && chain->joining)
            return ORR_DONE;
        if (index + 1 == CHAIN && chain->at_end)
            chain->at_end(chain);
        if (index + 1 == CHAIN && !chain->endless)
            return orr_task_fail(task, chain->error);
    }
    link->answer = orr_sleep(task, &link->wait, HOUR);
    return link->answer == -EAGAIN ? ORR_PENDING : orr_task_fail(task, link->answer);
}

static void chain_sink(void *data, struct orr_task *task)
{
    struct chain *chain = data;
    chain->sunk++;
    chain->sunk_error = orr_task_result(task)->error;
    for (struct orr_task *at = task; at; at = orr_task_cause(at))
        chain->cause_length++;
}

static void chain_open(struct chain *chain, bool log)
{
    chain->links = calloc(CHAIN, sizeof *chain->links);
    assert_non_null(chain->links);
    chain->last_dropped = CHAIN;
    chain->rt = harness_runtime_with(
        (struct orr_options){ .clock = ORR_CLOCK_VIRTUAL, .sink = log ? NULL : chain_sink, .sink_data = chain });
    assert_non_null(chain->rt);
    assert_int_equal(orr_runtime_enter(chain->rt), 0);
    assert_int_equal(link_spawn(chain, 0), 0);
    assert_int_equal(orr_runtime_leave(chain->rt), 0);
}

static int give_up_top(struct orr_runtime *rt, struct chain *chain)
{
    int error = orr_runtime_enter(rt);
    if (error)
        return error;
    orr_task_unref(chain->top);
    return orr_runtime_leave(rt);
}

static void chain_close(struct chain *chain)
{
    assert_int_equal(on_a_small_stack(chain->rt, orr_runtime_free), 0);
    assert_int_equal(chain->begun, CHAIN);
    assert_int_equal(chain->dropped, CHAIN);
    assert_int_equal(chain->out_of_order, 0);
    free(chain->links);
}

static void check_answers(const struct chain *chain, unsigned count, int answer)
{
    for (unsigned i = 0; i < count; i++)
        assert_int_equal(chain->links[i].answer, answer);
}

static void deep_chain_completes_from_the_leaf_up(void **state)
{
    (void)state;
    struct chain chain = { .joining = true };
    chain_open(&chain, false);
    assert_int_equal(on_a_small_stack(chain.rt, orr_runtime_run), 0);
    assert_int_equal(harness_stats(chain.rt, 0).polls, CHAIN);
    assert_int_equal(give_up_top(chain.rt, &chain), 0);
    assert_int_equal(chain.sunk, 0);
    chain_close(&chain);
}

static void cancel_top(struct chain *chain)
{
    orr_task_cancel(chain->top, "from the bottom");
}

static void deep_chain_is_cancelled_in_one_go(void **state)
{
    (void)state;
    struct chain chain = { .endless = true, .at_end = cancel_top };
    chain_open(&chain, false);
    assert_int_equal(on_a_small_stack(chain.rt, orr_runtime_run), 0);
    check_answers(&chain, CHAIN, -ECANCELED);
    assert_true(harness_stats(chain.rt, 0).polls <= 2 * CHAIN);
    assert_int_equal(give_up_top(chain.rt, &chain), 0);
    assert_int_equal(chain.sunk, 0);
    chain_close(&chain);
}

static void failure_at_the_bottom_of_a_deep_chain_reaches_the_top_through_joining_tasks(void **state)
{
    (void)state;
    struct chain chain = { .joining = true, .error = -EIO };
    chain_open(&chain, false);
    assert_int_equal(on_a_small_stack(chain.rt, orr_runtime_run), 0);
    assert_int_equal(harness_stats(chain.rt, 0).polls, CHAIN);
    assert_int_equal(give_up_top(chain.rt, &chain), 0);
    assert_int_equal(chain.sunk, 1);
    assert_int_equal(chain.sunk_error, -EIO);
    assert_int_equal(chain.cause_length, CHAIN);
    chain_close(&chain);
}

static void failure_at_the_bottom_of_a_deep_chain_is_told_to_each_waiting_task(void **state)
{
    (void)state;
    struct chain chain = { .error = -EIO };
    chain_open(&chain, false);
    assert_int_equal(on_a_small_stack(chain.rt, orr_runtime_run), 0);
    check_answers(&chain, CHAIN - 1, -ECHILD);
    assert_true(harness_stats(chain.rt, 0).polls <= 2 * CHAIN);
    assert_int_equal(give_up_top(chain.rt, &chain), 0);
    assert_int_equal(chain.sunk, 1);
    assert_int_equal(chain.cause_length, CHAIN);
    chain_close(&chain);
}

static void log_shows_a_deep_chain_in_one_line(void **state)
{
    (void)state;
    struct chain chain = { .joining = true, .error = -EIO };
    chain_open(&chain, true);
    assert_int_equal(on_a_small_stack(chain.rt, orr_runtime_run), 0);
    assert_int_equal(give_up_top(chain.rt, &chain), 0);
    assert_int_equal(harness_log_lines(), 1);
    assert_non_null(strstr(harness_log(), "99988 more"));
    assert_non_null(strstr(harness_log(), strerror(EIO)));
    chain_close(&chain);
}

static int turn_for_a_while(struct orr_runtime *rt)
{
    int more = 1;
    for (unsigned i = 0; i < 2 * CHAIN && more > 0 && harness_stats(rt, 0).polls < CHAIN; i++)
        more = orr_runtime_turn(rt, ORR_NEVER);
    return more;
}

static void deep_chain_of_living_tasks_is_shut_down(void **state)
{
    (void)state;
    struct chain chain = { .endless = true };
    chain_open(&chain, false);
    assert_true(on_a_small_stack(chain.rt, turn_for_a_while) >= 0);
    assert_int_equal(chain.begun, CHAIN);
    assert_int_equal(chain.dropped, 0);
    chain_close(&chain);
    assert_int_equal(chain.sunk, 0);
}

static enum orr_poll deaf_poll(struct orr_task *task, void *data)
{
    struct link *link = data;
    struct chain *chain = link->chain;
    unsigned index = (unsigned)(link - chain->links);
    (void)task;
    if (link->begun)
        return ORR_PENDING;
    link->begun = true;
    chain->begun++;
    if (index + 1 == CHAIN)
        return ORR_PENDING;
    link[1].chain = chain;
    orr_spawn(chain->rt, &(struct orr_spawn){ .poll = deaf_poll, .data = link + 1, .drop = link_drop });
    return ORR_PENDING;
}

/*
 * The tasks ignore their cancellation.  Bodies are dropped parents first, tasks end children first.
 */
static void deep_chain_of_tasks_that_ignore_cancellation_is_dropped(void **state)
{
    (void)state;
    struct chain chain = { .endless = true };
    chain.links = calloc(CHAIN, sizeof *chain.links);
    assert_non_null(chain.links);
    chain.last_dropped = CHAIN;
    chain.links[0].chain = &chain;
    chain.rt = harness_runtime_with((struct orr_options){ .clock = ORR_CLOCK_VIRTUAL, .grace_ms = 1 });
    assert_int_equal(
        orr_spawn(chain.rt, &(struct orr_spawn){ .poll = deaf_poll, .data = chain.links, .drop = link_drop }), 0);
    assert_true(on_a_small_stack(chain.rt, turn_for_a_while) >= 0);
    chain_close(&chain);
}

/* --- Visiting and printing a chain ------------------------------------------------------------ */

struct view {
    unsigned count, deepest, wrong, longest, deep_lines;
    int answer;
};

static struct view visited, printed;

static void see(void *data, const struct orr_task_info *info)
{
    struct view *view = data;
    view->wrong += info->depth != view->count;
    view->wrong += info->children != (view->count + 1 < CHAIN);
    view->deepest = info->depth;
    view->count++;
}

static void see_line(void *data, const char *text)
{
    struct view *view = data;
    unsigned length = (unsigned)strlen(text);
    view->longest = length > view->longest ? length : view->longest;
    view->deep_lines += strstr(text, "[99999] link: running") != NULL;
    view->count++;
}

static void look_around(struct chain *chain)
{
    visited.answer = orr_tree_visit(NULL, see, &visited);
    printed.answer = orr_tree_print(chain->top, see_line, &printed);
}

static void deep_chain_is_visited_and_printed(void **state)
{
    (void)state;
    visited = printed = (struct view){ 0 };
    struct chain chain = { .joining = true, .at_end = look_around };
    chain_open(&chain, false);
    assert_int_equal(on_a_small_stack(chain.rt, orr_runtime_run), 0);
    assert_int_equal(visited.answer, CHAIN);
    assert_int_equal(visited.count, CHAIN);
    assert_int_equal(visited.deepest, CHAIN - 1);
    assert_int_equal(visited.wrong, 0);
    assert_int_equal(printed.answer, CHAIN);
    assert_int_equal(printed.count, CHAIN);
    assert_int_equal(printed.deep_lines, 1);
    assert_true(printed.longest < 200);
    assert_int_equal(give_up_top(chain.rt, &chain), 0);
    chain_close(&chain);
}

/* --- Many children ---------------------------------------------------------------------------- */

struct family;

struct child {
    struct family *family;
    struct orr_wait wait;
};

/* A parent with many children, in a scope or not, that end in one of several ways. */
struct family {
    unsigned size, dropped, told, drops_out_of_order;
    bool scope, supervise, cancel;
    int error; /* the error of each child */
    unsigned step;
    int left_with;
    struct orr_wait wait;
    struct orr_scope block;
    struct child *children;
    uint64_t polls;
};

static enum orr_poll child_poll(struct orr_task *task, void *data)
{
    struct child *child = data;
    int error = orr_sleep(task, &child->wait, child->family->cancel ? HOUR : MS);
    if (error == -EAGAIN)
        return ORR_PENDING;
    return orr_task_fail(task, child->family->error ? child->family->error : error);
}

static void child_drop(void *data)
{
    struct child *child = data;
    struct family *family = child->family;
    family->drops_out_of_order += child != &family->children[family->dropped];
    family->dropped++;
}

static int leave_family(struct orr_task *task, struct family *family)
{
    if (!family->scope)
        return 0;
    family->left_with = orr_scope_leave(task, &family->wait, &family->block, 0);
    return family->left_with;
}

static void begin_family(struct orr_task *task, struct family *family)
{
    if (family->scope)
        orr_scope_enter(task, &family->block, &(struct orr_scope_options){ .supervise = family->supervise });
    for (unsigned i = 0; i < family->size; i++) {
        family->children[i].family = family;
        orr_spawn(orr_task_runtime(task),
                  &(struct orr_spawn){ .poll = child_poll, .data = &family->children[i], .drop = child_drop });
    }
}

static enum orr_poll parent_poll(struct orr_task *task, void *data)
{
    struct family *family = data;
    if (!family->step++) {
        begin_family(task, family);
        return orr_task_yield(task); /* lets all children begin to sleep */
    }
    if (family->cancel && family->step == 2)
        family->scope ? orr_scope_cancel(&family->block, "enough") : orr_task_cancel(task, "enough");
    return leave_family(task, family) == -EAGAIN ? ORR_PENDING : ORR_DONE;
}

static void forget_failure(void *data, struct orr_task *task)
{
    (void)data;
    (void)task;
}

/* Returns the number of polls, without those of the parent. */
static uint64_t raise_family(struct family family, unsigned size)
{
    family.size = size;
    family.children = calloc(size, sizeof *family.children);
    assert_non_null(family.children);
    struct orr_runtime *rt = harness_runtime_with(
        (struct orr_options){ .clock = ORR_CLOCK_VIRTUAL, .sink = forget_failure });
    assert_non_null(rt);
    assert_int_equal(
        orr_spawn(rt, &(struct orr_spawn){ .poll = parent_poll, .data = &family, .supervise = family.supervise }), 0);
    assert_int_equal(orr_runtime_run(rt), 0);
    assert_int_equal(family.dropped, size);
    assert_int_equal(family.drops_out_of_order, 0);
    uint64_t polls = harness_stats(rt, 0).polls - family.step;
    assert_int_equal(orr_runtime_free(rt), 0);
    free(family.children);
    return polls;
}

static void each_of_many_children_is_polled_as_often_as_each_of_few(void **state)
{
    (void)state;
    static const struct family families[] = {
        { .size = 0 },
        { .error = -EIO, .supervise = true },
        { .error = -EIO },
        { .cancel = true },
        { .cancel = true, .error = -EIO },
        { .scope = true },
        { .scope = true, .error = -EIO, .supervise = true },
        { .scope = true, .error = -EIO },
        { .scope = true, .cancel = true },
        { .scope = true, .cancel = true, .error = -EIO },
    };
    for (size_t i = 0; i < LENGTH(families); i++) {
        assert_int_equal(raise_family(families[i], 10), 20);
        assert_int_equal(raise_family(families[i], 10000), 20000);
    }
}

/* --- Nested scopes ---------------------------------------------------------------------------- */

struct nesting {
    struct orr_scope *scopes;
    unsigned entered, left, wrong;
    int error; /* goes from scope to scope, outwards */
    struct orr_wait wait;
    struct child *children;
    struct family family;
};

static enum orr_poll nest_poll(struct orr_task *task, void *data)
{
    struct nesting *nesting = data;
    for (; nesting->entered < NESTED; nesting->entered++) {
        unsigned i = nesting->entered;
        nesting->wrong += orr_scope_enter(task, &nesting->scopes[i], NULL) != 0;
        nesting->children[i].family = &nesting->family;
        orr_spawn(orr_task_runtime(task), &(struct orr_spawn){ .poll = child_poll, .data = &nesting->children[i] });
        if (i + 1 == NESTED)
            nesting->wrong += orr_scope_cancel(&nesting->scopes[0], "all of them") != 0;
    }
    while (nesting->left < NESTED) {
        unsigned inner = NESTED - 1 - nesting->left;
        int answer = orr_scope_leave(task, &nesting->wait, &nesting->scopes[inner], nesting->error);
        if (answer == -EAGAIN)
            return ORR_PENDING;
        nesting->wrong += answer != (inner ? -ECANCELED : 0);
        nesting->error = answer;
        nesting->left++;
    }
    return ORR_DONE;
}

static void many_scopes_nest_in_one_task(void **state)
{
    (void)state;
    struct nesting nesting = { .family.cancel = true };
    nesting.scopes = calloc(NESTED, sizeof *nesting.scopes);
    nesting.children = calloc(NESTED, sizeof *nesting.children);
    assert_non_null(nesting.scopes);
    assert_non_null(nesting.children);
    struct orr_runtime *rt = harness_runtime_with((struct orr_options){ .clock = ORR_CLOCK_VIRTUAL });
    assert_int_equal(orr_spawn(rt, &(struct orr_spawn){ .poll = nest_poll, .data = &nesting }), 0);
    assert_int_equal(on_a_small_stack(rt, orr_runtime_run), 0);
    assert_int_equal(nesting.left, NESTED);
    assert_int_equal(nesting.wrong, 0);
    assert_int_equal(orr_runtime_free(rt), 0);
    free(nesting.scopes);
    free(nesting.children);
}

static const struct CMUnitTest depth[] = {
    cmocka_unit_test(deep_chain_completes_from_the_leaf_up),
    cmocka_unit_test(deep_chain_is_cancelled_in_one_go),
    cmocka_unit_test(failure_at_the_bottom_of_a_deep_chain_reaches_the_top_through_joining_tasks),
    cmocka_unit_test(failure_at_the_bottom_of_a_deep_chain_is_told_to_each_waiting_task),
    cmocka_unit_test(log_shows_a_deep_chain_in_one_line),
    cmocka_unit_test(deep_chain_of_living_tasks_is_shut_down),
    cmocka_unit_test(deep_chain_of_tasks_that_ignore_cancellation_is_dropped),
    cmocka_unit_test(deep_chain_is_visited_and_printed),
    cmocka_unit_test(each_of_many_children_is_polled_as_often_as_each_of_few),
    cmocka_unit_test(many_scopes_nest_in_one_task),
};

HARNESS_MAIN(depth)
