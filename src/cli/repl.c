/*
 * The prompt: a C task of the runtime.  It waits for standard input, starts each line as a task of
 * its own, waits for that, shows the result, and asks again.  Everything else in the runtime goes
 * on in between.
 *
 * Ctrl-C discards what was typed, or ends the tasks of the running line, which have the grace
 * period to clean up; a second one does not wait for that.  For this purpose each line has its own
 * number, as scripts have (lua/task/script.h).
 */
#include "cli/repl.h"

#include "base/nearest.h"
#include "cli/input.h"
#include "cli/report.h"
#include "cli/screen.h"
#include "cli/session.h"
#include "cli/signals.h"
#include "lua/task/task.h"
#include "lua/task/unhandled.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BUSY_NS UINT64_C(100000000) /* how long a cancelled line may run without waiting */

struct repl {
    struct program *program;
    struct input *input;
    char *pending;                /* lines that are not complete yet; NULL for none */
    struct orr_task *line;        /* the line that runs; NULL for none */
    struct orr_observer observer; /* of that line: we report how it ends */
    bool interrupted;             /* the line was cancelled */
    struct shutdown shutdown;     /* of a cancelled line */
    struct orr_waker ender;       /* the task that does the shutdown */
    unsigned number;
    char name[32];
    struct orr_wait wait;
    struct orr_io io;
    bool waiting; /* for input */
};

/* --- Commands --------------------------------------------------------------------------------- */

static void print_task(void *data, const char *text)
{
    (void)data;
    if (strncmp(text, "prompt:", 7) != 0)
        puts(text);
}

static void show_tasks(struct repl *repl)
{
    (void)repl;
    if (orr_tree_print(NULL, print_task, NULL) <= 1)
        puts("no tasks");
}

static void show_timers(struct repl *repl)
{
    session_print_timers(repl->program);
}

static void show_help(struct repl *repl)
{
    session_print_help(repl->program);
}

static void leave(struct repl *repl)
{
    repl->program->exiting = true;
    repl->program->interrupted = NULL;
    signals_at_prompt(false);
    orr_runtime_interrupt(repl->program->rt);
}

static const struct {
    const char *name;
    void (*run)(struct repl *repl);
} commands[] = {
    { ".exit", leave },
    { ".help", show_help },
    { ".tasks", show_tasks },
    { ".timers", show_timers },
};

enum { COMMANDS = sizeof commands / sizeof *commands };

/* Returns true if the line is a command, known or not: no Lua begins with a dot and a letter. */
static bool run_command(struct repl *repl, const char *line)
{
    char word[32];
    if (sscanf(line, " %31s", word) != 1 || word[0] != '.' || !strchr("abcdefghijklmnopqrstuvwxyz", word[1] | 0x20))
        return false;
    const char *names[COMMANDS];
    for (int i = 0; i < COMMANDS; i++) {
        names[i] = commands[i].name;
        if (!strcmp(word, commands[i].name)) {
            commands[i].run(repl);
            return true;
        }
    }
    const char *near = nearest(word, names, COMMANDS);
    report_line("unknown command '%s'; %s%s%s", word, near ? "did you mean '" : "see .help", near ? near : "",
                near ? "'?" : "");
    return true;
}

/* --- Lines ------------------------------------------------------------------------------------ */

static void ask(struct repl *repl)
{
    screen_fresh_line();
    input_begin(repl->input, repl->pending ? ">> " : "> ");
}

/* Adds a line to the incomplete ones; returns false without memory. */
static bool append(struct repl *repl, const char *line)
{
    size_t before = repl->pending ? strlen(repl->pending) : 0;
    char *text = realloc(repl->pending, before + strlen(line) + 2);
    if (!text)
        return false;
    sprintf(text + before, "%s%s", before ? "\n" : "", line);
    repl->pending = text;
    return true;
}

static void forget_pending(struct repl *repl)
{
    free(repl->pending);
    repl->pending = NULL;
}

static void seen(struct orr_task *task, void *data)
{
    (void)task;
    (void)data;
}

static void take_line(struct repl *repl, const char *line)
{
    input_remember(repl->input, line);
    if (!repl->pending && (run_command(repl, line) || !line[strspn(line, " \t\r")]))
        return;
    if (!append(repl, line)) {
        report_line("not enough memory for this line");
        return;
    }
    snprintf(repl->name, sizeof repl->name, "line %u", ++repl->number);
    repl->interrupted = false;
    enum session_answer answer = session_start(repl->program, repl->pending, repl->name, &repl->line);
    if (answer == SESSION_STARTED) {
        repl->observer = (struct orr_observer){ .done = seen };
        orr_task_observe(repl->line, &repl->observer);
    }
    if (answer == SESSION_INCOMPLETE && !repl->input->end)
        repl->number--;
    else
        forget_pending(repl);
}

static void finish_line(struct repl *repl)
{
    const struct orr_result *result = orr_task_result(repl->line);
    if (result->error && repl->program->L)
        unhandled_report_all(isolate_find(repl->program->L)); /* earlier failures come first */
    bool ended = result->error == -ECANCELED || result->error == -ETIME;
    if (repl->interrupted && ended)
        report_line("interrupted");
    else if (result->error)
        report_task(repl->program->L, repl->line);
    orr_task_unref(repl->line);
    repl->line = NULL;
}

static void bound(void *data, const struct orr_task_info *info)
{
    (void)data;
    orr_lua_set_deadline(info->task, BUSY_NS);
}

static enum orr_poll end_line(struct orr_task *task, void *data)
{
    struct repl *repl = data;
    if (!shutdown_poll(&repl->shutdown, task))
        return ORR_PENDING;
    shutdown_end(&repl->shutdown);
    return ORR_DONE;
}

/*
 * Ends all tasks that the line has started.  If those of an earlier line are still being ended,
 * ends the line itself.
 */
static void start_line_shutdown(struct repl *repl)
{
    struct orr_isolate *iso = isolate_find(repl->program->L);
    const struct ltask *line = ltask_of(repl->line);
    struct orr_spawn what = {
        .poll = end_line, .data = repl, .name = "ending a line", .detached = true, .waker = &repl->ender
    };
    orr_tree_visit(repl->line, bound, NULL);
    orr_task_cancel(repl->line, "interrupted");
    if (line && !repl->shutdown.phase && !orr_spawn(repl->program->rt, &what))
        shutdown_begin(&repl->shutdown, iso, line->script, worker_grace_ns(iso->worker));
}

static void stop_waiting_for_line(struct repl *repl)
{
    if (repl->shutdown.phase)
        shutdown_force(&repl->shutdown);
    orr_waker_wake(repl->ender);
    orr_task_drop(orr_task_waker(repl->line));
}

static bool on_interrupt(void *data)
{
    struct repl *repl = data;
    if (repl->line && repl->interrupted) {
        stop_waiting_for_line(repl);
    } else if (repl->line) {
        repl->interrupted = true;
        start_line_shutdown(repl);
    } else {
        input_stop(repl->input);
        forget_pending(repl);
        puts("");
        ask(repl);
    }
    return true;
}

static void on_terminal_changed(void *data)
{
    struct repl *repl = data;
    input_renew(repl->input);
}

/* --- The task --------------------------------------------------------------------------------- */

/* Returns 0 when there is something to read; else as any wait. */
static int await_input(struct repl *repl, struct orr_task *task)
{
    if (input_waiting(repl->input) || repl->input->end)
        return 0;
    int error = repl->waiting ? 0 : orr_io_wait(task, &repl->io, STDIN_FILENO, POLLIN);
    if (error)
        return error;
    repl->waiting = true;
    error = orr_io_await(task, &repl->io);
    if (error != -EAGAIN)
        repl->waiting = false;
    return error;
}

static int step(struct repl *repl, struct orr_task *task)
{
    if (repl->line) {
        int error = orr_task_await(task, &repl->wait, repl->line);
        if (error)
            return error;
        finish_line(repl);
    }
    if (repl->program->exiting)
        return -ESHUTDOWN;
    if (!repl->input->prompt && !input_waiting(repl->input))
        ask(repl);
    int error = await_input(repl, task);
    if (error)
        return error;
    const char *line = input_read(repl->input);
    if (line) {
        take_line(repl, line);
    } else if (repl->input->end) {
        input_stop(repl->input);
        if (repl->input->terminal)
            puts("");
        leave(repl);
    }
    return 0;
}

static enum orr_poll poll_prompt(struct orr_task *task, void *data)
{
    struct repl *repl = data;
    int error;
    do
        error = step(repl, task);
    while (!error);
    if (error == -EAGAIN)
        return ORR_PENDING;
    input_stop(repl->input);
    return error == -ESHUTDOWN ? ORR_DONE : orr_task_fail(task, error);
}

int repl_run(struct program *program, struct input *input)
{
    struct repl repl = { .program = program, .input = input };
    if (session_open(program, report_coloured(STDOUT_FILENO)))
        return EXIT_FAILURE;
    program->interrupted = on_interrupt;
    signals_at_prompt(true);
    program->terminal_changed = on_terminal_changed;
    program->hook_data = &repl;
    if (input->terminal)
        signals_catch_terminal();
    report_through(input->terminal ? screen_complain : NULL);
    int error = orr_spawn(program->rt, &(struct orr_spawn){ .poll = poll_prompt, .data = &repl, .name = "prompt" });
    if (!error)
        error = program_run(program);
    program->interrupted = NULL;
    program->terminal_changed = NULL;
    if (program->L) {
        orr_runtime_enter(program->rt);
        if (repl.shutdown.phase) {
            orr_task_drop(repl.ender);
            shutdown_end(&repl.shutdown);
        }
        orr_runtime_leave(program->rt);
    }
    if (repl.line) {
        orr_runtime_enter(program->rt);
        orr_task_unobserve(&repl.observer);
        orr_task_unref(repl.line);
        orr_runtime_leave(program->rt);
    }
    forget_pending(&repl);
    input_stop(input);
    report_through(NULL);
    return error ? EXIT_FAILURE : EXIT_SUCCESS;
}
