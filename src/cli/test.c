/*
 * `orrery test`: the process that finds the test files and starts a process for each.  A Lua task
 * on the machine's clock does this (lua/cli/test/main.lua); this file starts it.
 */
#include "cli/commands.h"
#include "cli/lua_modules.h"
#include "cli/process.h"
#include "cli/test_file.h"

#include <orrery.h>

#include <lauxlib.h>
#include <lua.h>

#include <stdio.h>
#include <string.h>

/* Keeps the result of `main`: a host cannot read the results of a Lua task. */
static int set_status(lua_State *L)
{
    int *status = lua_touserdata(L, lua_upvalueindex(1));
    *status = (int)luaL_checkinteger(L, 1);
    return 0;
}

/* The body of the task: [C functions] [command line] [set_status] */
static int run_over(lua_State *L, int status, lua_KContext context)
{
    (void)status;
    (void)context;
    lua_pushvalue(L, 3);
    lua_insert(L, -2);
    lua_call(L, 1, 0);
    return 0;
}

static int run(lua_State *L)
{
    lua_getglobal(L, "require");
    lua_pushliteral(L, "orrery.test.main");
    lua_call(L, 1, 1);
    lua_pushvalue(L, 1);
    lua_pushvalue(L, 2);
    lua_callk(L, 2, 1, 0, run_over);
    return run_over(L, LUA_OK, 0);
}

/* [status] [argc] [argv] -> the task's function and arguments */
static int prepare(lua_State *L)
{
    int *status = lua_touserdata(L, 1);
    int argc = (int)lua_tointeger(L, 2);
    char **argv = lua_touserdata(L, 3);
    lua_pushcfunction(L, run);
    process_push_functions(L);
    lua_createtable(L, argc, 0);
    for (int i = 2; i < argc; i++) {
        lua_pushstring(L, argv[i]);
        lua_rawseti(L, -2, i - 1);
    }
    lua_pushlightuserdata(L, status);
    lua_pushcclosure(L, set_status, 1);
    return 4;
}

static int start(lua_State *L, int argc, char **argv, int *status)
{
    lua_pushcfunction(L, prepare);
    lua_pushlightuserdata(L, status);
    lua_pushinteger(L, argc);
    lua_pushlightuserdata(L, argv);
    int error = lua_modules_preload(L) ? LUA_ERRMEM : lua_pcall(L, 3, 4, 0);
    if (error == LUA_OK && !orr_lua_start(L, 3, "orrery test", NULL))
        return 0;
    fprintf(stderr, "orrery test: %s\n", lua_gettop(L) ? lua_tostring(L, -1) : "not enough memory");
    return 1;
}

int test_main(int argc, char **argv)
{
    if (argc > 2 && !strcmp(argv[2], "--child"))
        return test_file_main(argc, argv);
    struct orr_runtime *rt = orr_runtime_new(NULL);
    if (!rt)
        return 1;
    struct orr_lua_options options = { .profile = ORR_LUA_TRUSTED };
    for (int entry = 0; entry < ORR_LUA_ENTRIES; entry++)
        options.deadline_ns[entry] = ORR_NEVER;
    lua_State *L;
    int status = 1; /* unless set_status() changes it */
    int error = orr_lua_new(rt, &options, &L);
    if (error) {
        fprintf(stderr, "orrery test: cannot create a Lua state: %s\n", strerror(-error));
    } else {
        if (!start(L, argc, argv, &status))
            orr_runtime_run(rt);
        orr_lua_close(L);
    }
    orr_runtime_free(rt);
    return status;
}
