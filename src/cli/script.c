/*
 * Runs a script as the top-level task: LUA_INIT, then -e, -l and -W in their order, then the
 * script.  All of them run in one task, so each of them may wait and owns what it starts.  One C
 * function calls them one by one, and is at the bottom of the stack, as in `lua`: programs look for
 * their own name there.
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
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct invocation {
    const struct options *options;
    int argc;
    char **argv;
    const char *script; /* NULL for none */
    bool prompt;        /* open a prompt afterwards */
    /* The next step: 0 is LUA_INIT, then those of the options, then the script. */
    int next;
};

/* --- The steps -------------------------------------------------------------------------------- */

/* Pushes the chunk of LUA_INIT; returns false if there is none. */
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

/* -l name, -l global=module; for "name-version", the global is the name. [module] */
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

/* A function of its own, so that it can be called like the others. */
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

/* Pushes the script and its arguments; returns how many arguments there are. */
static int push_script(lua_State *L, const struct invocation *invocation)
{
    int count = invocation->argc - invocation->options->script - 1;
    chunk_push_file(L, invocation->script);
    lua_replace(L, 1); /* replaces what it was loaded from */
    lua_settop(L, 1);
    luaL_checkstack(L, count > 0 ? count : 0, "too many arguments for the script");
    for (int i = invocation->options->script + 1; i < invocation->argc; i++)
        lua_pushstring(L, invocation->argv[i]);
    return count > 0 ? count : 0;
}

/* Returns the next step with its arguments; nothing after the last. */
static int next_step(lua_State *L)
{
    struct invocation *invocation = lua_touserdata(L, lua_upvalueindex(1));
    int last = invocation->options->step_count + 1;
    while (invocation->next <= last) {
        int step = invocation->next++;
        if (step == last) {
            return invocation->script ? 1 + push_script(L, invocation) : 0;
        } else if (step > 0) {
            push_step(L, &invocation->options->steps[step - 1]);
            return 1;
        } else if (push_init(L, invocation->options)) {
            return 1;
        }
    }
    return 0;
}

/* --- The task --------------------------------------------------------------------------------- */

/* Pushes the folder of a script: that of the file itself, if the path is a link. */
static const char *push_folder(lua_State *L, const char *script)
{
    struct stat about;
    char real[PATH_MAX];
    bool link = !lstat(script, &about) && S_ISLNK(about.st_mode) && realpath(script, real);
    const char *path = link ? real : script;
    const char *slash = strrchr(path, '/');
    if (slash)
        lua_pushlstring(L, path, slash == path ? 1 : (size_t)(slash - path));
    else
        lua_pushliteral(L, ".");
    return lua_tostring(L, -1);
}

/*
 * Adds templates to a field of `package`: after the installed modules, so that a script may have
 * the name of one; and before the current folder, which may hold anything.
 */
static void add_templates(lua_State *L, const char *field, const char *templates)
{
    if (lua_getglobal(L, LUA_LOADLIBNAME) == LUA_TTABLE && lua_getfield(L, -1, field) == LUA_TSTRING) {
        const char *path = lua_tostring(L, -1);
        const char *current = !strncmp(path, "./?", 3) ? path : strstr(path, ";./?");
        current = current ? current + (*current == ';') : NULL;
        if (!*path) {
            lua_pushstring(L, templates);
        } else if (!current) {
            lua_pushfstring(L, "%s;%s", path, templates);
        } else {
            lua_pushlstring(L, path, (size_t)(current - path));
            lua_pushfstring(L, "%s%s;%s", lua_tostring(L, -1), templates, current);
            lua_remove(L, -2);
        }
        lua_setfield(L, -3, field);
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
}

/*
 * Lets `require` find modules beside the script, wherever the program was started.  An untrusted
 * script has no `package`, only the folders of --root.
 */
static void require_beside(lua_State *L, const struct invocation *invocation)
{
    const char *script = invocation->script;
    if (!script || !strcmp(script, "-") || invocation->options->lua.profile != ORR_LUA_TRUSTED)
        return;
    const char *folder = push_folder(L, script);
    if (!strpbrk(folder, ";?")) { /* these have a meaning in templates */
        add_templates(L, "path", lua_pushfstring(L, "%s/?.lua;%s/?/init.lua", folder, folder));
        add_templates(L, "cpath", lua_pushfstring(L, "%s/?.so", folder));
        lua_pop(L, 2);
    }
    lua_pop(L, 1);
}

/*
 * Sets `arg` as `lua` does: the script at 0, its arguments above, what was before it below; without
 * a script, the program at 0.
 */
static int prepare(lua_State *L)
{
    struct invocation *invocation = lua_touserdata(L, 1);
    int zero = invocation->options->script < invocation->argc ? invocation->options->script : 0;
    lua_createtable(L, invocation->argc - zero - 1, zero + 1);
    for (int i = 0; i < invocation->argc; i++) {
        lua_pushstring(L, invocation->argv[i]);
        lua_rawseti(L, -2, i - zero);
    }
    lua_setglobal(L, "arg");
    require_beside(L, invocation);
    lua_pushlightuserdata(L, invocation);
    lua_pushcclosure(L, next_step, 1);
    return 1;
}

static int start(struct program *program, struct invocation *invocation, struct orr_task **task)
{
    lua_State *L = program->L;
    lua_pushcfunction(L, prepare);
    lua_pushlightuserdata(L, invocation);
    if (lua_pcall(L, 1, 1, 0) != LUA_OK) {
        report_line("%s", lua_tostring(L, -1));
        lua_pop(L, 1);
        return -ENOMEM;
    }
    const char *name = !invocation->script                    ? "(command line)"
                       : strcmp(invocation->script, "-") != 0 ? invocation->script
                                                              : "stdin";
    return script_start_steps(L, name, task);
}

/* The task of the script, and its result. */
struct main {
    struct program *program;
    struct orr_observer observer;
    bool done;
    int status;
};

/* Reports how the script failed.  A script that was told to end, and did, has not failed. */
static int conclude(const struct program *program, struct orr_task *task)
{
    const struct orr_result *result = orr_task_result(task);
    bool ended = result->error == -ECANCELED || result->error == -ETIME;
    if (result->error)
        unhandled_report_all(isolate_find(program->L)); /* earlier failures come first */
    if (ended && program->failure)                      /* it failed while it cleaned up */
        report_text(program->L, program->failure);
    if (!result->error || (program->ending && result->error == -ECANCELED))
        return program->failure && result->error ? EXIT_FAILURE : 0;
    if (program->signal && result->error == -ETIME)
        report_line("the script was interrupted while it ran without waiting, and was ended by force:");
    report_task(program->L, task);
    return EXIT_FAILURE;
}

/*
 * We report how the script ended, while its state exists.  A prompt does not wait for what the
 * script has left behind.
 */
static void on_script_done(struct orr_task *task, void *data)
{
    struct main *main = data;
    struct program *program = main->program;
    main->done = true;
    main->status = conclude(program, task);
    program->script_failed |= main->status != 0;
    if (program->until || program->script_failed)
        orr_runtime_interrupt(program->rt);
}

static int run(struct program *program, struct invocation *invocation)
{
    struct orr_task *task;
    if (start(program, invocation, &task))
        return EXIT_FAILURE;
    struct main main = { .program = program, .observer = { .done = on_script_done, .data = &main } };
    program->until = invocation->prompt ? task : NULL;
    orr_runtime_enter(program->rt);
    orr_task_observe(task, &main.observer);
    if (!invocation->prompt)
        program_watch(program, task);
    orr_runtime_leave(program->rt);
    int error = program_run(program);
    if (error && error != -EDEADLK && error != -ECANCELED) /* the log has reported a deadlock */
        report_line("%s", strerror(-error));
    orr_runtime_enter(program->rt);
    if (program->L)
        body_unwatch(isolate_find(program->L), &program->body);
    orr_task_unobserve(&main.observer);
    program->until = NULL;
    program->script_failed = false; /* a prompt goes on after a script that has failed */
    orr_task_unref(task);
    orr_runtime_leave(program->rt);
    return main.status || (error && error != -ECANCELED) || !main.done;
}

/* --- The command ------------------------------------------------------------------------------ */

/*
 * The runtime's descriptors must not become what a script takes for its input or output.  A path
 * cannot be read or written, and is closed in the programs that a script starts: so a standard
 * descriptor that was closed still looks closed.
 */
static void hold_standard_descriptors(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/", O_PATH | O_CLOEXEC) < 0)
            return;
}

/* Runs the script, if there is one, and then the prompt, if it was asked for. */
static int run_invocation(struct invocation *invocation)
{
    struct program program;
    struct input input = { 0 };
    report_open(invocation->options->colour);
    hold_standard_descriptors();
    if (invocation->prompt) {
        input_open(&input, session_complete, &program);
        screen_open(&input);
    }
    int status = program_open(&program, invocation->options);
    if (!status) {
        status = run(&program, invocation);
        if (invocation->prompt && !program.ending)
            status = repl_run(&program, &input);
        input_close(&input);
        status = program_close(&program, status);
    }
    screen_close();
    return status;
}

/*
 * Chooses what to do if the command line does not say: a prompt on a terminal, else standard input.
 */
static void choose_invocation(struct invocation *invocation, const struct options *options)
{
    bool nothing = !options->step_count && !options->version && options->script == invocation->argc;
    if (options->script < invocation->argc)
        invocation->script = invocation->argv[options->script];
    else if (nothing && !isatty(STDIN_FILENO))
        invocation->script = "-";
    invocation->prompt = options->interactive || (nothing && !invocation->script);
}

static int start_job(int argc, char **argv, int first, bool prompt)
{
    struct options options;
    struct invocation invocation = { .options = &options, .argc = argc, .argv = argv };
    int status = options_parse(argc, argv, first, &options);
    if (status < 0) {
        if (prompt)
            invocation.prompt = true;
        else
            choose_invocation(&invocation, &options);
        if (options.version || (invocation.prompt && isatty(STDIN_FILENO)))
            printf("orrery %s  (%s)\n", orr_version(), LUA_RELEASE);
        bool anything = invocation.script || invocation.prompt || options.step_count;
        status = anything ? run_invocation(&invocation) : 0;
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
