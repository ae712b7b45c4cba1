#include "lua/isolate/settings.h"

#include "exec/extend.h"
#include "lua/isolate/api_modules.h"
#include "lua/isolate/grants.h"
#include "lua/isolate/quota.h"
#include "lua/isolate/roots.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* The host's name for the isolate, or else its number; NULL if memory runs out. */
static char *choose_name(struct orr_runtime *rt, const char *name)
{
    char number[32];
    snprintf(number, sizeof number, "isolate %u", name ? 0 : runtime_new_number(rt));
    return alloc_copy(&rt->alloc, name ? name : number);
}

int settings_new(struct orr_runtime *rt, const struct orr_lua_options *options, const struct isolate_maker *maker,
                 struct settings **out)
{
    static const struct orr_lua_options none;
    options = options ? options : &none;
    const struct alloc *alloc = &rt->alloc;
    struct log log = log_for(&rt->log, options->name);
    struct limits limits;
    int error = limits_choose(&limits, options, &log);
    if (error)
        return error;
    struct settings *settings = alloc_zeroed(alloc, sizeof *settings);
    if (!settings)
        return -ENOMEM;
    settings->references = 1;
    settings->alloc = *alloc;
    settings->maker = maker;
    settings->limits = limits;
    settings->modules = api_modules_mask(options->modules, API_MODULES_ALL);
    if (options->profile == ORR_LUA_UNTRUSTED)
        settings->modules &= api_modules_for_untrusted(grants_have_network(options->grants));
    settings->worker_modules = api_modules_mask(options->worker_modules, API_MODULES_OF_JOBS) & settings->modules;
    settings->prepare = options->worker_prepare;
    settings->prepare_data = options->worker_data;
    settings->named = options->name && *options->name;
    settings->name = choose_name(rt, options->name);
    if (options->mount)
        settings->mount = alloc_copy(alloc, options->mount);
    error = !settings->name || (options->mount && !settings->mount) ? -ENOMEM : 0;
    if (!error && limits.memory && !(settings->quota = quota_new(alloc, limits.memory)))
        error = -ENOMEM;
    if (!error && limits.profile == ORR_LUA_UNTRUSTED)
        error = roots_open(options->roots, alloc, &log, &settings->roots);
    if (!error)
        error = grants_new(options, alloc, &log, &settings->grants);
    if (error)
        settings_unref(settings);
    else
        *out = settings;
    return error;
}

/*
 * Copies the settings without notices: a job's deadline is its timeout, and its failures are its
 * outcome, so the host is told nothing besides.
 */
int settings_for_jobs(struct settings *host, size_t memory, struct settings **out)
{
    struct settings *settings = alloc_zeroed(&host->alloc, sizeof *settings);
    if (!settings)
        return -ENOMEM;
    settings->references = 1;
    settings->alloc = host->alloc;
    settings->maker = host->maker;
    settings->limits = host->limits;
    settings->limits.notice = NULL;
    settings->limits.slow_call_ns = 0; /* a job may block: its thread is there for that */
    if (settings->limits.mode == ORR_LUA_OFF)
        settings->limits.mode = ORR_LUA_SIGNAL; /* otherwise nothing could stop a job */
    settings->limits.memory_soft = 0;
    settings->limits.testing = false; /* what a job makes is no part of a test */
    if (memory && (!settings->limits.memory || memory < settings->limits.memory))
        settings->limits.memory = memory;
    settings->modules = host->worker_modules;
    settings->roots = host->roots;
    settings->grants = host->grants;
    settings->name = host->name;
    settings->named = host->named;
    settings->mount = host->mount;
    settings->prepare = host->prepare;
    settings->prepare_data = host->prepare_data;
    settings->quota = quota_ref(host->quota);
    settings->for_jobs = true;
    settings->host = settings_ref(host);
    *out = settings;
    return 0;
}

struct settings *settings_ref(struct settings *settings)
{
    atomic_fetch_add_explicit(&settings->references, 1, memory_order_relaxed);
    return settings;
}

static void free_text(const struct alloc *alloc, char *text)
{
    if (text)
        alloc_free(alloc, text, strlen(text) + 1);
}

void settings_unref(struct settings *settings)
{
    /* Release and acquire: every use of the settings happens before they are freed. */
    if (!settings || atomic_fetch_sub_explicit(&settings->references, 1, memory_order_acq_rel) != 1)
        return;
    struct alloc alloc = settings->alloc;
    quota_unref(settings->quota);
    if (settings->host) {
        settings_unref(settings->host);
    } else {
        roots_close(settings->roots, &alloc);
        grants_free(settings->grants, &alloc);
        free_text(&alloc, settings->name);
        free_text(&alloc, settings->mount);
    }
    alloc_free(&alloc, settings, sizeof *settings);
}
