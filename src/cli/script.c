/*
 * Runs a script as the top-level task: LUA_INIT, then what -e, -l and -W say, in their order, then the script, all in one task, so that
 * each of them may wait, and what they start is theirs.  One C function calls them one by one, and is at the bottom of the stack, as it
 * is in `lua`: programs look for their own name there.
 */
#include "cli/chunk.h"
#include "cli/commands.h"
#include "cli/input.h"
#include "cli/program.h"
#include "cli/repl.h"
#include "cli/report.h"
#include "cli/screen.h"
#include "cli/session.h"
#include "lua/host/start.h"
#include "lua/task/task.h"
#include "lua/task/unhandled.h"

#include <lauxlib.h>
#include <lua.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct job {
    const struct options *options;
    int argc;
    char **argv;
    const char *script; /* NULL for none */
    bool prompt;        /* afterwards */
    int next;           /* step: 0 is LUA_INIT, then those of the options, then the script */
};

/* --- The steps ------------------------------------------------------------------------------------------------------------ */

/* Pushes what LUA_INIT has; false if it has nothing. */
static bool push_init(lua_State *L, const struct options *options)
{
    static const char *const names[] = { "LUA_INIT_5_4", "LUA_INIT" };
    const char *init = NULL;
    unsigned which = 0;
    for (; which < 2 && !init && !options->ignore_environment; which++)
        init = getenv(names[which]);
    if (!init)
        return false;
    if (*init == '@')
        chunk_push_file(L, init + 1);
    else
        chunk_push_text(L, init, lua_pushfstring(L, "=%s", names[which - 1]));
    return true;
}

/* -l name, -l global=module; of "name-version", the global is the name.  [module] */
static int set_global(lua_State *L, const char *text)
{
    const char *equals = strchr(text, '=');
    size_t length = equals ? (size_t)(equals - text) : strcspn(text, "-");
    lua_pushlstring(L, text, length);
    lua_pushvalue(L, -2);
    lua_pushglobaltable(L);
    lua_insert(L, -3);
    lua_settable(L, -3);
    return 0;
}

/* [text] */
static int push_module(lua_State *L, int status, lua_KContext context)
{
    (void)status;
    return set_global(L, (const char *)context);
}

/* As a function of its own, so that it can be called like the others. */
static int require_module(lua_State *L)
{
    const char *text = lua_touserdata(L, lua_upvalueindex(1));
    const char *equals = strchr(text, '=');
    lua_getglobal(L, "require");
    lua_pushstring(L, equals ? equals + 1 : text);
    lua_callk(L, 1, 1, (lua_KContext)text, push_module);
    return push_module(L, LUA_OK, (lua_KContext)text);
}

static int warn_on(lua_State *L)
{
    lua_warning(L, "@on", 0);
    return 0;
}

static void push_step(lua_State *L, const struct step *step)
{
    switch (step->kind) {
    case STEP_CODE:
        chunk_push_text(L, step->text, "=(command line)");
        return;
    case STEP_MODULE:
        lua_pushlightuserdata(L, (void *)step->text);
        lua_pushcclosure(L, require_module, 1);
        return;
    case STEP_WARN:
        lua_pushcfunction(L, warn_on);
        return;
    }
}

/* The script and its arguments; answers how many those are. */
static int push_script(lua_State *L, const struct job *job)
{
    int count = job->argc - job->options->script - 1;
    chunk_push_file(L, job->script);
    lua_replace(L, 1); /* in the place of what it was loaded from */
    lua_settop(L, 1);
    luaL_checkstack(L, count > 0 ? count : 0, "too many arguments for the script");
    for (int i = job->options->script + 1; i < job->argc; i++)
        lua_pushstring(L, job->argv[i]);
    return count > 0 ? count : 0;
}

/* Answers the next step, with its arguments; nothing when all have been answered. */
static int next_step(lua_State *L)
{
    struct job *job = lua_touserdata(L, lua_upvalueindex(1));
    int last = job->options->step_count + 1;
    while (job->next <= last) {
        int step = job->next++;
        if (step == last) {
            return job->script ? 1 + push_script(L, job) : 0;
        } else if (step > 0) {
            push_step(L, &job->options->steps[step - 1]);
            return 1;
        } else if (push_init(L, job->options)) {
            return 1;
        }
    }
    return 0;
}

/* --- The task -------------------------------------------------------------------------------------------------------------- */

/* As `lua` has it: the script at 0, its arguments above, what was before it below; without a script, the program at 0. */
static int prepare(lua_State *L)
{
    struct job *job = lua_touserdata(L, 1);
    int zero = job->options->script < job->argc ? job->options->script : 0;
    lua_createtable(L, job->argc - zero - 1, zero + 1);
    for (int i = 0; i < job->argc; i++) {
        lua_pushstring(L, job->argv[i]);
        lua_rawseti(L, -2, i - zero);
    }
    lua_setglobal(L, "arg");
    lua_pushlightuserdata(L, job);
    lua_pushcclosure(L, next_step, 1);
    return 1;
}

static int start(struct program *program, struct job *job, struct orr_task **task)
{
    lua_State *L = program->L;
    lua_pushcfunction(L, prepare);
    lua_pushlightuserdata(L, job);
    if (lua_pcall(L, 1, 1, 0) != LUA_OK) {
        report_line("%s", lua_tostring(L, -1));
        lua_pop(L, 1);
        return -ENOMEM;
    }
    const char *name = !job->script ? "(command line)" : strcmp(job->script, "-") != 0 ? job->script : "stdin";
    return script_start_steps(L, name, task);
}

/* The task of the script, and what it has come to. */
struct main {
    struct program *program;
    struct orr_observer observer;
    bool done;
    int status;
};

/* Says how it failed; a script that was told to end, and did, has not. */
static int conclude(const struct program *program, struct orr_task *task)
{
    const struct orr_result *result = orr_task_result(task);
    bool ended = result->error == -ECANCELED || result->error == -ETIME;
    if (result->error)
        unhandled_report_all(isolate_find(program->L)); /* what has failed before it */
    if (ended && program->failure)                      /* while it cleaned up after that */
        report_text(program->L, program->failure);
    if (!result->error || (program->ending && result->error == -ECANCELED))
        return program->failure && result->error ? EXIT_FAILURE : 0;
    if (program->signal && result->error == -ETIME)
        report_line("interrupted while it ran without waiting, and ended by force:");
    report_task(program->L, task);
    return EXIT_FAILURE;
}

/* The script's own end is ours to report, while its state is there.  A prompt does not wait for what the script has left behind. */
static void seen(struct orr_task *task, void *data)
{
    struct main *main = data;
    struct program *program = main->program;
    main->done = true;
    main->status = conclude(program, task);
    program->over |= main->status != 0;
    if (program->until || program->over)
        orr_runtime_interrupt(program->rt);
}

static int run(struct program *program, struct job *job)
{
    struct orr_task *task;
    if (start(program, job, &task))
        return EXIT_FAILURE;
    struct main main = { .program = program, .observer = { .done = seen, .data = &main } };
    program->until = job->prompt ? task : NULL;
    orr_runtime_enter(program->rt);
    orr_task_observe(task, &main.observer);
    if (!job->prompt)
        program_watch(program, task);
    orr_runtime_leave(program->rt);
    int error = program_run(program);
    if (error && error != -EDEADLK && error != -ECANCELED) /* of a deadlock the log has told */
        report_line("%s", strerror(-error));
    orr_runtime_enter(program->rt);
    if (program->L)
        body_unwatch(isolate_find(program->L), &program->body);
    orr_task_unobserve(&main.observer);
    program->until = NULL;
    program->over = false; /* a prompt goes on after a script that has failed */
    orr_task_unref(task);
    orr_runtime_leave(program->rt);
    return main.status || (error && error != -ECANCELED) || !main.done;
}

/* --- The command ------------------------------------------------------------------------------------------------------------ */

/* Descriptors of the runtime's must not become what a script takes for its input or output. */
static void hold_standard_descriptors(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDONLY) < 0)
            return;
}

/* The script, if there is something to run, and then the prompt, if that was asked for. */
static int run_job(struct job *job)
{
    struct program program;
    struct input input = { 0 };
    report_open(job->options->colour);
    hold_standard_descriptors();
    if (job->prompt) {
        input_open(&input, session_complete, &program);
        screen_open(&input);
    }
    int status = program_open(&program, job->options);
    if (!status) {
        status = run(&program, job);
        if (job->prompt && !program.ending)
            status = repl_run(&program, &input);
        input_close(&input);
        status = program_close(&program, status);
    }
    screen_close();
    return status;
}

/* What there is to do, if nothing is said: on a terminal, a prompt; else, what is piped in. */
static void choose_job(struct job *job, const struct options *options)
{
    bool nothing = !options->step_count && !options->version && options->script == job->argc;
    if (options->script < job->argc)
        job->script = job->argv[options->script];
    else if (nothing && !isatty(STDIN_FILENO))
        job->script = "-";
    job->prompt = options->interactive || (nothing && !job->script);
}

static int start_job(int argc, char **argv, int first, bool prompt)
{
    struct options options;
    struct job job = { .options = &options, .argc = argc, .argv = argv };
    int status = options_parse(argc, argv, first, &options);
    if (status < 0) {
        if (prompt)
            job.prompt = true;
        else
            choose_job(&job, &options);
        if (options.version || (job.prompt && isatty(STDIN_FILENO)))
            printf("orrery %s  (%s)\n", orr_version(), LUA_RELEASE);
        bool anything = job.script || job.prompt || options.step_count;
        status = anything ? run_job(&job) : 0;
    }
    options_free(&options);
    return status;
}

int script_main(int argc, char **argv)
{
    return start_job(argc, argv, 1, false);
}

int repl_main(int argc, char **argv)
{
    return start_job(argc, argv, 2, true);
}
