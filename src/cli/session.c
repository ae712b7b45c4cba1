#include "cli/session.h"

#include "cli/duration.h"
#include "cli/report.h"
#include "lua/task/task.h"

#include <lauxlib.h>
#include <lua.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern const char orrery_cli_pretty[];
extern const char orrery_cli_prompt[];

static const char functions; /* its address is the registry key of prompt.lua's table */

#define LONGEST_NS UINT64_C(200000000) /* the longest time for a completion */

/* --- Opening ---------------------------------------------------------------------------------- */

static int push_chunk(lua_State *L, const char *text, const char *name)
{
    return orr_lua_load(L, &(struct orr_lua_source){ .text = text, .name = name });
}

/* Pushes the API: from where `require` finds it, or from the sandbox. */
static void push_api(lua_State *L)
{
    lua_getglobal(L, "require");
    lua_pushliteral(L, "orrery");
    lua_call(L, 1, 1);
}

/* [coloured] [pretty.lua] [prompt.lua] */
static int open_protected(lua_State *L)
{
    lua_pushvalue(L, 2);
    lua_pushcfunction(L, duration_text);
    lua_call(L, 1, 1);
    lua_replace(L, 2);
    lua_pushvalue(L, 2);
    lua_pushvalue(L, 1);
    lua_pushcfunction(L, duration_text);
    lua_call(L, 3, 1);
    lua_pushvalue(L, -1);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &functions);
    lua_getfield(L, -1, "provide");
    push_api(L);
    lua_call(L, 1, 0);
    return 0;
}

int session_open(struct program *program, bool coloured)
{
    lua_State *L = program->L;
    lua_pushcfunction(L, open_protected);
    lua_pushboolean(L, coloured);
    if (push_chunk(L, orrery_cli_pretty, "=orrery/pretty.lua") ||
        push_chunk(L, orrery_cli_prompt, "=orrery/prompt.lua") || orr_lua_call(L, 3, 0, ORR_NEVER)) {
        report_line("cannot open the prompt: %s", lua_isstring(L, -1) ? lua_tostring(L, -1) : "not enough memory");
        lua_settop(L, 0);
        return 1;
    }
    return 0;
}

static void push_function(lua_State *L, const char *name)
{
    lua_rawgetp(L, LUA_REGISTRYINDEX, &functions);
    lua_getfield(L, -1, name);
    lua_remove(L, -2);
}

/* --- Lines ------------------------------------------------------------------------------------ */

enum { AT_ONCE = 64 };

struct brood {
    struct orr_task *children[AT_ONCE];
    int count;
};

static void add_child(void *data, const struct orr_task_info *info)
{
    struct brood *brood = data;
    if (info->depth == 1 && brood->count < AT_ONCE)
        brood->children[brood->count++] = orr_task_ref(info->task);
}

static void detach_children(void)
{
    struct brood brood;
    do {
        brood.count = 0;
        orr_tree_visit(orr_task_current(), add_child, &brood);
        for (int i = 0; i < brood.count; i++) {
            orr_task_detach(brood.children[i]);
            orr_task_unref(brood.children[i]);
        }
    } while (brood.count == AT_ONCE);
}

static int shown(lua_State *L, int status, lua_KContext context)
{
    (void)L;
    (void)status;
    (void)context;
    return 0;
}

/* [results...] */
static int line_over(lua_State *L, int status, lua_KContext context)
{
    int results = lua_gettop(L);
    (void)status;
    (void)context;
    detach_children();
    if (!results)
        return 0;
    luaL_checkstack(L, 4, "too many results to print");
    push_function(L, "show");
    lua_insert(L, 1);
    lua_callk(L, results, 0, 0, shown);
    return 0;
}

/* The body of the task.  Upvalue: the chunk. */
static int run_line(lua_State *L)
{
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_callk(L, 0, LUA_MULTRET, 0, line_over);
    return line_over(L, LUA_OK, 0);
}

static bool ends_with(const char *text, const char *tail)
{
    size_t length = strlen(text), of_tail = strlen(tail);
    return length >= of_tail && !strcmp(text + length - of_tail, tail);
}

/*
 * Whether more lines can complete the text.  A string in quotes ends with its line, unless that
 * ends with a backslash, or with \z.
 */
static bool ends_too_early(const char *message, const char *text)
{
    if (ends_with(message, "unfinished string near <eof>"))
        return ends_with(text, "\\") || ends_with(text, "\\z");
    return ends_with(message, "<eof>");
}

/* Skips a first equals sign, which asks for the value of an expression, as in Lua 5.1. */
static const char *skip_equals(const char *text)
{
    const char *sign = text + strspn(text, " \t");
    return sign[0] == '=' && sign[1] != '=' ? sign + 1 : text;
}

/* Compiles the line as an expression if it is one, else as statements. */
static enum session_answer push_line(lua_State *L, const char *text)
{
    char *expression;
    const char *given = text;
    int error = -ENOMEM;
    text = skip_equals(text);
    if (asprintf(&expression, "return %s", text) >= 0) {
        error = push_chunk(L, expression, "=stdin");
        free(expression);
    }
    if (!error)
        return SESSION_STARTED;
    if (error == -EPROTO && text == given) {
        lua_pop(L, 1);
        error = push_chunk(L, text, "=stdin");
    }
    if (!error)
        return SESSION_STARTED;
    if (error != -EPROTO) {
        report_line("%s", strerror(-error));
        return SESSION_REFUSED;
    }
    bool incomplete = ends_too_early(lua_tostring(L, -1), text);
    if (!incomplete)
        report_text(L, lua_tostring(L, -1));
    lua_pop(L, 1);
    return incomplete ? SESSION_INCOMPLETE : SESSION_REFUSED;
}

static int wrap_line(lua_State *L)
{
    lua_pushcclosure(L, run_line, 1);
    return 1;
}

enum session_answer session_start(struct program *program, const char *text, const char *name, struct orr_task **task)
{
    lua_State *L = program->L;
    enum session_answer answer = push_line(L, text);
    if (answer != SESSION_STARTED)
        return answer;
    lua_pushcfunction(L, wrap_line);
    lua_insert(L, -2);
    if (lua_pcall(L, 1, 1, 0) == LUA_OK && !orr_lua_start(L, 0, name, task)) {
        ltask_of(*task)->script = script_new_number(&isolate_find(L)->scripts);
        return SESSION_STARTED;
    }
    lua_settop(L, 0);
    report_line("not enough memory to run this line");
    return SESSION_REFUSED;
}

/* --- Other calls into Lua --------------------------------------------------------------------- */

char *session_complete(void *data, const char *text, size_t length)
{
    struct program *program = data;
    lua_State *L = program->L;
    char *found = NULL;
    int top = lua_gettop(L);
    push_function(L, "complete");
    lua_pushlstring(L, text, length);
    if (!orr_lua_call(L, 1, 1, LONGEST_NS) && lua_isstring(L, -1))
        found = strdup(lua_tostring(L, -1));
    lua_settop(L, top);
    return found;
}

void session_print_help(struct program *program)
{
    lua_State *L = program->L;
    push_function(L, "help");
    const char *text = lua_tostring(L, -1);
    printf("%s\n", text ? text : "");
    lua_pop(L, 1);
}

/* Active timers are anchored in the registry. */
static int collect_timers(lua_State *L)
{
    lua_Integer count = 0;
    lua_newtable(L);
    for (lua_pushnil(L); lua_next(L, LUA_REGISTRYINDEX); lua_pop(L, 1)) {
        if (!lua_istable(L, -1))
            continue;
        for (lua_pushnil(L); lua_next(L, -2);) {
            if (lua_type(L, -2) == LUA_TNUMBER && luaL_testudata(L, -1, "orrery.timer"))
                lua_rawseti(L, 1, ++count);
            else
                lua_pop(L, 1);
        }
    }
    return 1;
}

void session_print_timers(struct program *program)
{
    lua_State *L = program->L;
    int top = lua_gettop(L);
    push_function(L, "timers");
    lua_pushcfunction(L, collect_timers);
    int error = lua_pcall(L, 0, 1, 0) == LUA_OK ? orr_lua_call(L, 1, 0, LONGEST_NS) : -ENOMEM;
    if (error == -EBUSY)
        report_line("cannot show the timers while a task is suspended in the middle of a slice; try again");
    else if (error)
        report_line("cannot show the timers: %s", strerror(-error));
    lua_settop(L, top);
}
