/* Runs a Lua file as the top-level task of a runtime of its own. */
#include "cli/commands.h"
#include "cli/options.h"

#include <lauxlib.h>
#include <lua.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* A failure that no task was left to be told of. */
static void report(void *data, struct orr_task *task)
{
    lua_State *L = *(lua_State **)data;
    if (L && !orr_lua_push_report(L, task)) {
        fprintf(stderr, "orrery: %s\n", lua_tostring(L, -1));
        lua_pop(L, 1);
    }
}

static void set_arguments(lua_State *L, int argc, char **argv, int script)
{
    lua_createtable(L, argc - script - 1, script + 1);
    for (int i = 0; i < argc; i++) {
        lua_pushstring(L, argv[i]);
        lua_rawseti(L, -2, i - script);
    }
    lua_setglobal(L, "arg");
}

/* Loads the script and its arguments onto the stack. */
static int load(lua_State *L, int argc, char **argv, int script)
{
    const char *name = argv[script];
    if (luaL_loadfile(L, strcmp(name, "-") != 0 ? name : NULL) != LUA_OK) {
        fprintf(stderr, "orrery: %s\n", lua_tostring(L, -1));
        return -EINVAL;
    }
    if (!lua_checkstack(L, argc))
        return -ENOMEM;
    for (int i = script + 1; i < argc; i++)
        lua_pushstring(L, argv[i]);
    return 0;
}

/* The script's own end is ours to report. */
static void seen(struct orr_task *task, void *data)
{
    (void)task;
    (void)data;
}

/* Runs until all is done; answers the exit status. */
static int run(struct orr_runtime *rt, lua_State *L, int argc, char **argv, int script)
{
    struct orr_task *task;
    set_arguments(L, argc, argv, script);
    const char *name = strcmp(argv[script], "-") != 0 ? argv[script] : "stdin";
    if (load(L, argc, argv, script) || orr_lua_start(L, argc - script - 1, name, &task))
        return 1;
    struct orr_observer observer = { .done = seen };
    orr_runtime_enter(rt);
    orr_task_observe(task, &observer);
    orr_runtime_leave(rt);
    int error = orr_runtime_run(rt);
    orr_runtime_enter(rt);
    orr_task_unobserve(&observer);
    const struct orr_result *result = orr_task_result(task);
    int status = !result || result->error;
    if (error)
        fprintf(stderr, "orrery: %s\n", strerror(-error));
    else if (status)
        report(&L, task);
    orr_task_unref(task);
    orr_runtime_leave(rt);
    return status;
}

static int run_script(int argc, char **argv, struct arguments *arguments)
{
    lua_State *L = NULL;
    arguments->runtime.sink = report;
    arguments->runtime.sink_data = &L;
    struct orr_runtime *rt = orr_runtime_new(&arguments->runtime);
    if (!rt)
        return 1;
    int status = 1;
    int error = orr_lua_new(rt, &arguments->lua, &L);
    if (error) {
        fprintf(stderr, "orrery: no Lua state: %s\n", strerror(-error));
    } else {
        status = run(rt, L, argc, argv, arguments->script);
        orr_lua_close(L);
        L = NULL;
    }
    orr_runtime_free(rt);
    return status;
}

int script_main(int argc, char **argv)
{
    struct arguments arguments = { 0 };
    int status = options_parse(argc, argv, &arguments);
    return status >= 0 ? status : run_script(argc, argv, &arguments);
}
