#include "cli/program.h"

#include "cli/report.h"
#include "cli/signals.h"
#include "cli/stats.h"
#include "cli/warnings.h"
#include "exec/extend.h"
#include "lua/isolate/late.h"
#include "lua/task/cancellation.h"
#include "lua/task/task.h"
#include "lua/task/task_finalizer.h"

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- os.exit ---------------------------------------------------------------------------------- */

static int exit_status(lua_State *L)
{
    if (lua_isboolean(L, 1))
        return lua_toboolean(L, 1) ? EXIT_SUCCESS : EXIT_FAILURE;
    return (int)luaL_optinteger(L, 1, EXIT_SUCCESS);
}

static int exit_over(lua_State *L, int status, lua_KContext context)
{
    (void)status;
    (void)context;
    return luaL_error(L, "closed");
}

/*
 * os.exit([status [, close]]) ends the process at once; with `close`, after everything was
 * cancelled and has cleaned up.  The caller waits for that, and so never continues.  Upvalue: the
 * program.
 */
static int exit_program(lua_State *L)
{
    struct program *program = lua_touserdata(L, lua_upvalueindex(1));
    int status = exit_status(L);
    if (!lua_toboolean(L, 2))
        exit(status);
    program->exiting = true;
    program->exit_status = status;
    orr_runtime_interrupt(program->rt);
    late_need_api(L);
    late_push_origin(L);
    lua_getfield(L, -1, "async");
    lua_getfield(L, -1, "sleep");
    lua_pushnumber(L, 1e12);
    lua_callk(L, 1, 0, 0, exit_over);
    return exit_over(L, LUA_OK, 0);
}

/* [program] */
static int prepare_trusted(lua_State *L)
{
    const struct program *program = lua_touserdata(L, 1);
    lua_getglobal(L, LUA_OSLIBNAME);
    lua_pushvalue(L, 1);
    lua_pushcclosure(L, exit_program, 1);
    lua_setfield(L, -2, "exit");
    if (!program->options->ignore_environment)
        return 0;
    lua_getglobal(L, LUA_LOADLIBNAME);
    lua_pushliteral(L, LUA_PATH_DEFAULT);
    lua_setfield(L, -2, "path");
    lua_pushliteral(L, LUA_CPATH_DEFAULT);
    lua_setfield(L, -2, "cpath");
    return 0;
}

/* --- Deadlocks -------------------------------------------------------------------------------- */

/* Shows a task that waits: what for, and where. */
static void show_waiting(void *data, const struct orr_task_info *info)
{
    char place[96] = "";
    const struct ltask *task = ltask_of(info->task);
    const char *waits_for = info->waits_for  ? info->waits_for
                            : info->children ? "its children"
                                             : "nothing that the runtime knows of";
    (void)data;
    if (task)
        cancellation_find_place(task->suspended, place, sizeof place);
    report_line("%*s%s waits for %s%s", 2 * (int)(info->depth < 20 ? info->depth : 20) + 2, "",
                info->name ? info->name : "(unnamed)", waits_for, place);
}

/* Called when tasks wait and nothing can wake them.  The run ends with -EDEADLK. */
static void on_deadlock(void *data)
{
    (void)data;
    report_line("deadlock: nothing can wake the tasks below; no task is ready, no timer is set, and no I/O is in "
                "flight");
    orr_tree_visit(NULL, show_waiting, NULL);
}

/* --- Life ------------------------------------------------------------------------------------- */

static void on_failure(void *data, struct orr_task *task)
{
    struct program *program = data;
    program->failed = true;
    if (program->L)
        report_task(program->L, task);
}

/*
 * A script that was ended runs no more Lua: its tasks would wait for ever, so everything ends.  Of
 * the other notices, those that nobody else receives go to the log.
 */
static void on_notice(void *data, lua_State *L, enum orr_lua_notice kind, const char *text)
{
    struct program *program = data;
    (void)L;
    if (kind != ORR_LUA_TIMED_OUT && kind != ORR_LUA_COUNTED)
        report_line("%s", text);
    if (kind != ORR_LUA_ENDED)
        return;
    program->failed = program->script_failed = true;
    orr_runtime_interrupt(program->rt);
}

static int prepare(struct program *program)
{
    lua_State *L = program->L;
    if (program->options->lua.profile != ORR_LUA_TRUSTED)
        return 0;
    warnings_open(L);
    lua_pushcfunction(L, prepare_trusted);
    lua_pushlightuserdata(L, program);
    if (lua_pcall(L, 1, 0, 0) == LUA_OK)
        return 0;
    report_line("%s", lua_tostring(L, -1));
    lua_pop(L, 1);
    return 1;
}

int program_open(struct program *program, const struct options *options)
{
    *program = (struct program){ .options = options };
    struct orr_options runtime = options->runtime;
    runtime.sink = on_failure;
    runtime.sink_data = program;
    runtime.deadlock = on_deadlock;
    program->rt = orr_runtime_new(&runtime);
    if (!program->rt)
        return 1; /* the log has the reason */
    runtime_is_alone(program->rt);
    struct orr_lua_options lua = options->lua;
    lua.name = ""; /* there is only one */
    lua.notice = on_notice;
    lua.notice_data = program;
    /* The report of a failure has the tasks that it went through. */
    lua.timeouts_as_failures = true;
    int error = orr_lua_new(program->rt, &lua, &program->L);
    if (!error && !prepare(program)) {
        signals_set_last_resort(runtime.grace_ms + LAST_RESORT_MS);
        signals_catch(program->rt);
        return 0;
    }
    if (error)
        report_line("cannot create a Lua state: %s", strerror(-error));
    else
        orr_lua_close(program->L);
    orr_runtime_free(program->rt);
    return 1;
}

/* --- Ending ----------------------------------------------------------------------------------- */

static void isolate_closed(void *data)
{
    struct program *program = data;
    program->L = NULL;
    orr_runtime_interrupt(program->rt);
}

struct cancelling {
    const char *reason;
};

/* Cancels the prompt, and C tasks of modules; Lua tasks get the reason, too. */
static void cancel_top(void *data, const struct orr_task_info *info)
{
    const struct cancelling *cancelling = data;
    if (!info->depth)
        task_cancel(info->task, cancelling->reason);
}

/* Begins to end everything; later turns do it.  Inside the runtime. */
static void start_shutdown(struct program *program, const char *reason)
{
    struct orr_isolate *iso = isolate_find(program->L);
    struct cancelling cancelling = { .reason = reason };
    program->ending = true;
    orr_timer_free(program->failure_timer);
    program->failure_timer = NULL;
    if (program->options->stats)
        stats_print(program->rt, program->L);
    signals_begin_last_resort(program->exiting ? program->exit_status : EXIT_FAILURE);
    orr_tree_visit(NULL, cancel_top, &cancelling);
    iso->on_closed.call = isolate_closed;
    iso->on_closed.data = program;
    if (isolate_close_soon(iso))
        orr_runtime_stop(program->rt); /* no memory: program_close() closes it */
}

static void script_failed(void *data)
{
    struct program *program = data;
    program->script_failed = true;
    orr_runtime_interrupt(program->rt);
}

static void cleanup_took_too_long(struct orr_timer *timer, void *data, int status)
{
    (void)timer;
    if (!status)
        script_failed(data);
}

/*
 * The script has raised an error and closes its variables: that is cleanup, and has the grace
 * period.
 */
static void script_fails(void *data)
{
    struct program *program = data;
    struct orr_timer_options options = { .fire = cleanup_took_too_long, .data = program };
    const struct trace *trace = task_finalizer_trace(program->body.body);
    program->failure = trace ? strdup(trace->text) : NULL;
    if (!orr_timer_new(program->rt, &options, &program->failure_timer))
        orr_timer_start(program->failure_timer, program->options->runtime.grace_ms * UINT64_C(1000000), 0);
}

void program_watch(struct program *program, struct orr_task *script)
{
    program->body = (struct body_watch){ .failing = script_fails, .failed = script_failed, .data = program };
    body_watch(&program->body, ltask_of(script));
}

/* Handles a signal.  Inside the runtime. */
static void handle_signal(struct program *program, int number)
{
    if (number == SIGQUIT)
        signals_show_tree();
    if (number == SIGQUIT || number == SIGWINCH || number == SIGCONT) {
        if (program->terminal_changed)
            program->terminal_changed(program->hook_data);
    } else if (number == SIGINT && program->interrupted && program->interrupted(program->hook_data)) {
        return;
    } else if (program->ending) {
        fflush(stdout);
        signals_show_tree();
        signals_die(number);
    } else {
        program->signal = number;
        start_shutdown(program, number == SIGINT ? "interrupted" : "terminated");
    }
}

/* Called when the run was interrupted.  Returns false if the run is over. */
static bool handle_interrupt(struct program *program)
{
    int number;
    orr_runtime_enter(program->rt);
    while ((number = signals_take()))
        handle_signal(program, number);
    if (program->exiting && !program->ending)
        start_shutdown(program, "exit");
    if (program->script_failed && !program->ending && !program->until)
        start_shutdown(program, "the script has failed");
    bool done = program->until && orr_task_done(program->until);
    orr_runtime_leave(program->rt);
    return program->ending ? program->L != NULL : !done;
}

int program_run(struct program *program)
{
    int error;
    while ((error = orr_runtime_run(program->rt)) == -EINTR)
        if (!handle_interrupt(program))
            return 0;
    return error;
}

/* Reports output that cannot be written. */
static int flush_output(int status)
{
    if (!fflush(stdout) && !ferror(stdout))
        return status;
    report_line("cannot write to standard output: %s", strerror(errno));
    return status ? status : EXIT_FAILURE;
}

int program_close(struct program *program, int status)
{
    if (program->L) {
        if (program->options->stats && !program->ending)
            stats_print(program->rt, program->L);
        signals_begin_last_resort(status);
        orr_lua_close(program->L);
        program->L = NULL;
    }
    orr_timer_free(program->failure_timer);
    orr_runtime_free(program->rt);
    free(program->failure);
    signals_release();
    if (program->exiting)
        status = program->exit_status;
    else if (!status && program->failed)
        status = EXIT_FAILURE;
    status = flush_output(status);
    report_close();
    if (program->signal)
        signals_die(program->signal);
    return status;
}
