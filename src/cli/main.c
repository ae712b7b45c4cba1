/* The program: runs a Lua file as the top-level task of a runtime of its own. */
#include "cli/test.h"

#include <orrery.h>

#include <lauxlib.h>
#include <lua.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const char usage[] =
    "usage: orrery [options] script.lua [arguments]\n"
    "       orrery info\n"
    "\n"
    "Runs a script as a task.  Ends when the script and all tasks that it has started are done: with 0, or\n"
    "with 1 and a report on stderr if it failed.\n"
    "\n"
    "options:\n"
    "  --mount NAME   have the API as a global of this name, besides require \"orrery\"\n"
    "  --reactor R    auto, uring or epoll\n"
    "  --virtual      run on a virtual clock, on which waiting takes no time\n"
    "  --version      print the version\n"
    "  --help         print this\n"
    "\n"
    "info tells what this machine offers.\n";

struct arguments {
    struct orr_options runtime;
    struct orr_lua_options lua;
    int script; /* its index in argv; argc if there is none */
};

static int refuse(const char *what, const char *value)
{
    fprintf(stderr, "orrery: %s%s%s\n%s", what, value ? " " : "", value ? value : "", usage);
    return 2;
}

static bool parse_reactor(const char *name, enum orr_reactor *reactor)
{
    for (int kind = ORR_REACTOR_AUTO; kind <= ORR_REACTOR_EPOLL; kind++) {
        *reactor = (enum orr_reactor)kind;
        if (name && !strcmp(orr_reactor_name(*reactor), name))
            return true;
    }
    return false;
}

/* 0 to go on; else the exit status. */
static int parse(int argc, char **argv, struct arguments *arguments)
{
    int i = 1;
    for (; i < argc && argv[i][0] == '-' && argv[i][1]; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (!strcmp(argv[i], "--")) {
            i++;
            break;
        } else if (!strcmp(argv[i], "--mount")) {
            if (!value)
                return refuse("--mount needs a name", NULL);
            arguments->lua.mount = argv[++i];
        } else if (!strcmp(argv[i], "--reactor")) {
            if (!parse_reactor(value, &arguments->runtime.reactor))
                return refuse("--reactor needs auto, uring or epoll, not", value ? value : "nothing");
            i++;
        } else if (!strcmp(argv[i], "--virtual")) {
            arguments->runtime.clock = ORR_CLOCK_VIRTUAL;
        } else {
            return refuse("unknown option", argv[i]);
        }
    }
    arguments->script = i;
    return i < argc ? 0 : refuse("no script given", NULL);
}

/* --- What this machine offers ------------------------------------------------------------------------------- */

static void ignore_log(void *data, enum orr_log level, const char *message)
{
    (void)data;
    (void)level;
    (void)message;
}

static int print_info(void)
{
    printf("orrery %s\n", orr_version());
    printf("lua    %s\n", LUA_RELEASE);
    for (int kind = ORR_REACTOR_URING; kind <= ORR_REACTOR_EPOLL; kind++) {
        enum orr_reactor reactor = (enum orr_reactor)kind;
        struct orr_runtime *rt = orr_runtime_new(&(struct orr_options){ .reactor = reactor, .log = ignore_log });
        printf("%-6s %s\n", orr_reactor_name(reactor), rt ? "available" : strerror(errno));
        orr_runtime_free(rt);
    }
    return 0;
}

/* --- Running a script ------------------------------------------------------------------------------------------ */

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

int main(int argc, char **argv)
{
    if (argc < 2)
        return refuse("no script given", NULL);
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")) {
        fputs(usage, stdout);
        return 0;
    }
    if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-v")) {
        printf("orrery %s\n", orr_version());
        return 0;
    }
    if (!strcmp(argv[1], "test"))
        return test_main(argc, argv);
    if (!strcmp(argv[1], "info") && argc == 2)
        return print_info();
    struct arguments arguments = { .lua.profile = ORR_LUA_TRUSTED };
    for (int entry = 0; entry < ORR_LUA_ENTRIES; entry++)
        arguments.lua.deadline_ns[entry] = ORR_NEVER;
    int status = parse(argc, argv, &arguments);
    return status ? status : run_script(argc, argv, &arguments);
}
