#include "lua/capability.h"

#include "base/log.h"

#include <errno.h>
#include <string.h>

#define KNOWN "async, eventloop, events, json, loop, runtime, schedule, values"

/* The fields of the module, and which of those that can be listed each belongs to. */
static const struct {
    const char *field, *module;
} fields[] = {
    { "async", "async" },     { "eventloop", "eventloop" }, { "events", "events" },          { "loop", "loop" },
    { "runtime", "runtime" }, { "schedule", "schedule" },   { "schedule_wrap", "schedule" }, { "json", "json" },
    { "values", "values" },
};

enum { FIELDS = sizeof fields / sizeof *fields };

static bool is_known(const char *name)
{
    for (int i = 0; i < FIELDS; i++)
        if (!strcmp(fields[i].module, name))
            return true;
    return false;
}

static bool is_listed(const char *const *modules, const char *name)
{
    for (; *modules; modules++)
        if (!strcmp(*modules, name))
            return true;
    return false;
}

int capability_check(const char *const *modules, const struct log *log)
{
    for (; modules && *modules; modules++) {
        if (is_known(*modules))
            continue;
        log_line(log, ORR_LOG_ERROR, "option modules has \"%s\", expected some of " KNOWN, *modules);
        return -EINVAL;
    }
    return 0;
}

void capability_withhold(lua_State *L, const char *const *modules)
{
    for (int i = 0; modules && i < FIELDS; i++) {
        if (is_listed(modules, fields[i].module))
            continue;
        lua_pushnil(L);
        lua_setfield(L, -2, fields[i].field);
    }
}
