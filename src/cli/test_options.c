#include "cli/test_options.h"

#include <lua.h>

#include <stdlib.h>
#include <string.h>

static bool read_reactor(const char *name, enum orr_reactor *reactor)
{
    for (int kind = ORR_REACTOR_AUTO; kind <= ORR_REACTOR_EPOLL; kind++) {
        *reactor = (enum orr_reactor)kind;
        if (!strcmp(orr_reactor_name(*reactor), name))
            return true;
    }
    return false;
}

/* Returns true if the word is a flag. */
static bool read_flag(struct test_options *self, const char *word)
{
    const struct {
        const char *word;
        bool *flag;
    } flags[] = {
        { "--real-time", &self->real_time },
        { "--list", &self->list },
        { "--shuffle", &self->shuffle },
        { "--shuffle-tasks", &self->shuffle_tasks },
    };
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        if (strcmp(flags[i].word, word) != 0)
            continue;
        *flags[i].flag = true;
        return true;
    }
    return false;
}

static bool read_value(struct test_options *self, const char *word, const char *value)
{
    if (!strcmp(word, "--child"))
        self->file = value;
    else if (!strcmp(word, "--filter"))
        self->filter = value;
    else if (!strcmp(word, "--mount"))
        self->mount = value;
    else if (!strcmp(word, "--seed"))
        self->seed = strtoll(value, NULL, 10);
    else if (!strcmp(word, "--test-limit"))
        self->test_limit = strtoull(value, NULL, 10);
    else if (!strcmp(word, "--file-limit"))
        self->file_limit = strtoull(value, NULL, 10);
    else
        return !strcmp(word, "--reactor") && read_reactor(value, &self->reactor);
    return true;
}

bool test_options_parse(struct test_options *self, int argc, char **argv)
{
    for (int i = 2; i < argc; i++) {
        if (read_flag(self, argv[i]))
            continue;
        if (i + 1 == argc || !read_value(self, argv[i], argv[i + 1]))
            return false;
        i++;
    }
    return self->file;
}

static void set_option(lua_State *L, const char *name, const char *text)
{
    lua_pushstring(L, text);
    lua_setfield(L, -2, name);
}

static void set_number(lua_State *L, const char *name, int64_t number)
{
    lua_pushinteger(L, number);
    lua_setfield(L, -2, name);
}

static void set_flag(lua_State *L, const char *name, bool flag)
{
    lua_pushboolean(L, flag);
    lua_setfield(L, -2, name);
}

void test_options_push(lua_State *L, const struct test_options *self, unsigned grace_ms)
{
    lua_newtable(L);
    set_option(L, "file", self->file);
    set_option(L, "filter", self->filter);
    set_number(L, "seed", self->seed);
    set_flag(L, "list", self->list);
    set_flag(L, "shuffle", self->shuffle);
    set_flag(L, "shuffle_tasks", self->shuffle_tasks);
    lua_newtable(L);
    set_number(L, "test", (int64_t)self->test_limit);
    set_number(L, "file", (int64_t)self->file_limit);
    set_number(L, "grace", grace_ms);
    lua_setfield(L, -2, "limits");
}
