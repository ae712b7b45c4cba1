/*
 * The tree of tasks for people to read: as data, as text, and in the log when tasks refuse to end.
 */
#include "exec/tree.h"

#include "base/text.h"
#include "exec/runtime.h"
#include "exec/scope.h"
#include "exec/wait.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static enum orr_task_state state_of(const struct orr_task *task)
{
    if (task->life == TASK_ENDING)
        return task->children ? ORR_TASK_JOINING : ORR_TASK_ENDING;
    if (task->running)
        return ORR_TASK_RUNNING;
    return task->queued || task->interrupted ? ORR_TASK_READY : ORR_TASK_WAITING;
}

static bool is_shielded(const struct orr_task *task)
{
    for (const struct orr_scope *scope = task->scope; scope; scope = scope->outer)
        if (scope->nest.flags & NEST_SHIELD)
            return true;
    return false;
}

enum { WAIT_TEXT = 192 }; /* room for what a task waits for */

/* What a task waits for; `text` has room for a description, and must live as long as the answer. */
static const char *describe_wait(const struct orr_wait *wait, char text[WAIT_TEXT])
{
    if (!wait->kind->describe)
        return wait->kind->name;
    wait->kind->describe(wait, text, WAIT_TEXT);
    return text;
}

static struct orr_task_info describe(struct orr_task *task, unsigned depth, char text[WAIT_TEXT])
{
    struct orr_task_info info = {
        .task = task,
        .name = task->name,
        .depth = depth,
        .children = task->children,
        .state = state_of(task),
        .cancelled = orr_task_cancelled(task),
        .shielded = is_shielded(task),
    };
    const struct orr_wait *wait = wait_first(task);
    if (wait && info.state != ORR_TASK_RUNNING) {
        info.waits_for = describe_wait(wait, text);
        info.since = wait_since(wait);
    } else if (task->ios && task->life == TASK_LIVE) {
        info.waits_for = "I/O";
    }
    return info;
}

/* The depth of a task that comes after `before`, which is `depth` deep. */
static unsigned depth_after(const struct orr_task *before, unsigned depth, const struct orr_task *task)
{
    const struct orr_task *parent = nest_task(task->parent);
    if (parent == before)
        return depth + 1;
    for (; nest_task(before->parent) != parent; before = nest_task(before->parent))
        depth--;
    return depth;
}

int orr_tree_visit(struct orr_task *top, void (*each)(void *data, const struct orr_task_info *info), void *data)
{
    struct worker *worker = worker_current;
    if (!worker || (top && top->worker != worker))
        return -EPERM;
    if (!each)
        return -EINVAL;
    int count = 0;
    unsigned depth = 0;
    struct orr_task *before = NULL;
    struct orr_nest *nest = top ? &top->own : &worker->top;
    bool gone = top && top->life != TASK_LIVE && top->life != TASK_ENDING;
    struct orr_task *task = gone ? NULL : top ? top : scope_walk_first(nest, false);
    while (task) {
        depth = before ? depth_after(before, depth, task) : 0;
        char text[WAIT_TEXT];
        struct orr_task_info info = describe(task, depth, text);
        each(data, &info);
        count++;
        before = task;
        task = task == top ? scope_walk_first(nest, false) : scope_walk_next(nest, task, true, false);
    }
    return count;
}

void tree_awaited(struct orr_task *task, task_each_fn *each, void *data)
{
    bool more = true;
    if (task->life == TASK_ENDING)
        for (struct orr_nest *nest = &task->own; nest && more; nest = nest_inner(nest))
            more = scope_each_child(nest, each, data);
    for (struct orr_link *link = task->waits; link && more; link = ring_next(task->waits, link)) {
        const struct orr_wait *wait = container_of(link, struct orr_wait, in_owner);
        if (wait->state == WAIT_WAITING && wait->kind->awaited)
            more = wait->kind->awaited(wait, each, data);
    }
}

/* --- As text ---------------------------------------------------------------------------------- */

enum { DEEPEST = 24 }; /* deeper levels are shown by a number, not by indentation */

struct picture {
    void (*line)(void *data, const char *text);
    void *data;
    uint64_t now;
};

static const char *state_name(enum orr_task_state state)
{
    static const char *const names[] = { "running", "ready", "waiting", "waiting for its children", "ending its I/O" };
    return names[state];
}

/* Appends to a line; dots at its end stand for what does not fit. */
static void __attribute__((format(printf, 3, 4))) add(char *line, size_t size, const char *format, ...)
{
    size_t length = strlen(line);
    va_list args;
    va_start(args, format);
    int wanted = vsnprintf(line + length, size - length, format, args);
    va_end(args);
    if (length + (size_t)wanted >= size)
        memcpy(line + size - sizeof "...", "...", sizeof "...");
}

static void draw(void *data, const struct orr_task_info *info)
{
    const struct picture *picture = data;
    char line[320] = "";
    unsigned indent = info->depth < DEEPEST ? info->depth : DEEPEST;
    add(line, sizeof line, "%*s", (int)(2 * indent), "");
    if (info->depth > DEEPEST)
        add(line, sizeof line, "[%u] ", info->depth);
    add(line, sizeof line, "%s: %s", info->name ? info->name : "(unnamed)", state_name(info->state));
    if (info->state == ORR_TASK_WAITING && info->waits_for)
        add(line, sizeof line, " for %s", info->waits_for);
    if (info->state == ORR_TASK_WAITING && info->since) {
        char since[TEXT_DURATION_ROOM];
        text_duration(since, picture->now > info->since ? picture->now - info->since : 0);
        add(line, sizeof line, ", %s", since);
    }
    if (info->cancelled)
        add(line, sizeof line, ", cancelled (%s)", info->cancelled);
    else if (info->shielded)
        add(line, sizeof line, ", shielded");
    picture->line(picture->data, line);
}

static uint64_t picture_time(void)
{
    uint64_t now = timers_now(worker_current->timers);
    return now < worker_current->now ? worker_current->now : now;
}

int orr_tree_print(struct orr_task *top, void (*line)(void *data, const char *text), void *data)
{
    if (!worker_current)
        return -EPERM;
    if (!line)
        return -EINVAL;
    struct picture picture = { .line = line, .data = data, .now = picture_time() };
    return orr_tree_visit(top, draw, &picture);
}

enum { LOGGED_MAX = 64 }; /* lines of a tree in the log, at most */

struct excerpt {
    struct log log; /* of the isolate whose task is drawn, or of the worker */
    struct picture picture;
    int lines;
};

static void log_tree_line(void *data, const char *text)
{
    const struct excerpt *excerpt = data;
    log_text(&excerpt->log, ORR_LOG_WARNING, "  ", text);
}

static void log_task(void *data, const struct orr_task_info *info)
{
    struct excerpt *excerpt = data;
    if (excerpt->lines++ >= LOGGED_MAX)
        return;
    excerpt->log = log_for(&info->task->worker->log, info->task->share->name);
    draw(&excerpt->picture, info);
}

void tree_log(struct worker *worker)
{
    struct excerpt excerpt = { .picture = { .line = log_tree_line } };
    if (!worker_current)
        return;
    excerpt.picture.data = &excerpt;
    excerpt.picture.now = picture_time();
    int tasks = orr_tree_visit(NULL, log_task, &excerpt);
    if (tasks > LOGGED_MAX)
        log_line(&worker->log, ORR_LOG_WARNING, "  and %d more", tasks - LOGGED_MAX);
}
