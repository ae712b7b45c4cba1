#include "lua/isolate/api_modules.h"

#include "base/log.h"

#include <errno.h>
#include <string.h>

#define KNOWN "async, eventloop, events, fs, json, loop, net, runtime, schedule, stdio, values, worker"

/*
 * The fields of the module `orrery`, the module name that a host lists for each field, and whether
 * jobs have the field by default.
 */
static const struct {
    const char *field, *module;
    bool of_jobs;
} fields[] = {
    { "async", "async", true },       { "eventloop", "eventloop", true },
    { "events", "events", false },    { "fs", "fs", false },
    { "json", "json", true },         { "loop", "loop", true },
    { "net", "net", false },          { "runtime", "runtime", true },
    { "stdin", "stdio", false },      { "stdout", "stdio", false },
    { "stderr", "stdio", false },

    { "schedule", "schedule", true }, { "schedule_wrap", "schedule", true },
    { "values", "values", true },     { "worker", "worker", false },
};

enum { FIELDS = sizeof fields / sizeof *fields };

static bool is_known(const char *name)
{
    for (int i = 0; i < FIELDS; i++)
        if (!strcmp(fields[i].module, name))
            return true;
    return false;
}

bool api_modules_has_field(const char *name)
{
    for (int i = 0; i < FIELDS; i++)
        if (!strcmp(fields[i].field, name))
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

static int refuse(const struct log *log, const char *name, bool known)
{
    if (known && !strcmp(name, "net"))
        log_line(log, ORR_LOG_ERROR,
                 "option modules has \"net\", which untrusted isolates have only with the option "
                 "grants, for the network");
    else if (known)
        log_line(log, ORR_LOG_ERROR, "option modules has \"%s\", which only trusted isolates can have", name);
    else
        log_line(log, ORR_LOG_ERROR, "option modules has \"%s\", expected some of " KNOWN, name);
    return -EINVAL;
}

int api_modules_check(const char *const *modules, unsigned allowed, const struct log *log)
{
    for (; modules && *modules; modules++) {
        const char *const one[] = { *modules, NULL };
        bool known = is_known(*modules);
        if (!known || api_modules_mask(one, 0) & ~allowed)
            return refuse(log, *modules, known);
    }
    return 0;
}

unsigned api_modules_mask(const char *const *modules, unsigned usual)
{
    unsigned mask = 0;
    for (int i = 0; i < FIELDS; i++) {
        bool usually = usual == API_MODULES_ALL || fields[i].of_jobs;
        if (modules ? is_listed(modules, fields[i].module) : usually)
            mask |= 1U << i;
    }
    return mask;
}

unsigned api_modules_for_untrusted(bool network)
{
    static const char *const withheld[] = { "fs", "stdio", "net", NULL }, *const always[] = { "fs", "stdio", NULL };
    return ~api_modules_mask(network ? always : withheld, 0);
}

bool api_modules_has(unsigned modules, const char *field)
{
    for (int i = 0; i < FIELDS; i++)
        if (modules & 1U << i && !strcmp(fields[i].field, field))
            return true;
    return false;
}

bool api_modules_beyond_jobs(unsigned modules)
{
    return modules & ~api_modules_mask(NULL, API_MODULES_OF_JOBS);
}

void api_modules_withhold(lua_State *L, unsigned modules)
{
    for (int i = 0; i < FIELDS; i++) {
        if (modules & 1U << i)
            continue;
        lua_pushnil(L);
        lua_setfield(L, -2, fields[i].field);
    }
}
