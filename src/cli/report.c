#include "cli/report.h"

#include "base/nearest.h"
#include "cli/names.h"

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

extern const char orrery_cli_report[];
extern const size_t orrery_cli_report_size;

static enum colour wanted;
static void (*write_elsewhere)(const char *text);
/* A state with report.lua's function on its stack; NULL before the first report. */
static lua_State *formatter;

void report_open(enum colour colour)
{
    wanted = colour;
}

void report_close(void)
{
    if (formatter)
        lua_close(formatter);
    formatter = NULL;
}

bool report_coloured(int fd)
{
    const char *no = getenv("NO_COLOR"), *terminal = getenv("TERM");
    if (wanted != COLOUR_AUTO)
        return wanted == COLOUR_ALWAYS;
    return !(no && *no) && terminal && strcmp(terminal, "dumb") != 0 && isatty(fd);
}

void report_through(void (*write)(const char *text))
{
    write_elsewhere = write;
}

/* Writes after everything that the script has printed. */
static void put(const char *text)
{
    if (write_elsewhere) {
        write_elsewhere(text);
        return;
    }
    fflush(stdout);
    fputs(text, stderr);
    fflush(stderr);
}

void report_line(const char *format, ...)
{
    char text[1024] = "orrery: ";
    size_t length = strlen(text);
    va_list args;
    va_start(args, format);
    vsnprintf(text + length, sizeof text - length - 1, format, args);
    va_end(args);
    length = strlen(text);
    text[length] = '\n';
    text[length + 1] = '\0';
    put(text);
}

/* --- For report.lua --------------------------------------------------------------------------- */

/* Reads a line of a regular file; other files can be read only once. */
static int line_of(lua_State *L)
{
    const char *path = luaL_checkstring(L, 1);
    lua_Integer number = luaL_checkinteger(L, 2);
    struct stat about;
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return 0;
    FILE *file = !fstat(fd, &about) && S_ISREG(about.st_mode) ? fdopen(fd, "r") : NULL;
    if (!file) {
        close(fd);
        return 0;
    }
    char *line = NULL;
    size_t size = 0;
    ssize_t length = -1;
    for (lua_Integer at = 0; at < number && (length = getline(&line, &size, file)) >= 0;)
        at++;
    fclose(file);
    if (length > 0 && line[length - 1] == '\n')
        length--;
    if (length >= 0)
        /* Without memory the line leaks, and the report is plain. */
        lua_pushlstring(L, line, (size_t)length);
    free(line);
    return length >= 0;
}

/* [word] [list of names] */
static int nearest_of(lua_State *L)
{
    const char *word = luaL_checkstring(L, 1);
    lua_Unsigned count = lua_rawlen(L, 2);
    const char **names = lua_newuserdatauv(L, (count + 1) * sizeof *names, 0);
    for (lua_Unsigned i = 0; i < count; i++) {
        lua_rawgeti(L, 2, (lua_Integer)i + 1);
        names[i] = lua_tostring(L, -1); /* the list keeps the text */
        lua_pop(L, 1);
    }
    lua_pushstring(L, nearest(word, names, count));
    return 1;
}

static int open_formatter(lua_State *L)
{
    luaL_openlibs(L);
    if (luaL_loadbufferx(L, orrery_cli_report, orrery_cli_report_size, "=orrery/report.lua", "t") != LUA_OK)
        return lua_error(L);
    lua_newtable(L);
    lua_pushcfunction(L, line_of);
    lua_setfield(L, -2, "line_of");
    lua_pushcfunction(L, nearest_of);
    lua_setfield(L, -2, "nearest");
    lua_call(L, 1, 1);
    return 1;
}

static lua_State *find_formatter(void)
{
    if (formatter)
        return formatter;
    lua_State *L = luaL_newstate();
    if (!L)
        return NULL;
    lua_pushcfunction(L, open_formatter);
    if (lua_pcall(L, 0, 1, 0) != LUA_OK) {
        lua_close(L);
        return NULL;
    }
    formatter = L;
    return L;
}

void report_text(lua_State *script, const char *text)
{
    lua_State *L = find_formatter();
    if (!L) {
        report_line("%s", text);
        return;
    }
    lua_pushvalue(L, 1);
    lua_pushstring(L, text);
    lua_pushboolean(L, report_coloured(STDERR_FILENO));
    names_push(script, L);
    if (lua_pcall(L, 3, 1, 0) == LUA_OK && lua_isstring(L, -1))
        put(lua_tostring(L, -1));
    else
        report_line("%s", text);
    lua_settop(L, 1);
}

void report_task(lua_State *L, struct orr_task *task)
{
    const struct orr_result *result;
    if (L && !orr_lua_push_report(L, task)) {
        report_text(L, lua_tostring(L, -1));
        lua_pop(L, 1);
    } else if ((result = orr_task_result(task))) {
        report_line("%s", result->message ? result->message : strerror(-result->error));
    }
}
