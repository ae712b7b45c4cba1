/*
 * The settings of an isolate: what the host has chosen and granted.  They never change once made,
 * and isolates on several threads may share them.  The isolates that run a worker's jobs have
 * settings made from those of the isolate that made the worker.  Settings are shared by references.
 * Any thread may call these functions.
 */
#ifndef ORR_LUA_ISOLATE_SETTINGS_H
#define ORR_LUA_ISOLATE_SETTINGS_H

#include "base/alloc.h"
#include "base/log.h"
#include "lua/isolate/limits.h"

#include <stdatomic.h>

struct lua_State;
struct orr_isolate;
struct grants;
struct orr_runtime;
struct quota;
struct roots;
struct settings;

/*
 * How the library opens and frees its own isolates.  The host layer provides these functions, so
 * that layers below it can make isolates.  Both are called on the thread that runs the isolate's
 * worker.
 */
struct isolate_maker {
    /* Opens a state.  The caller keeps its reference to the settings.  Returns 0 or -ENOMEM. */
    int (*open)(struct orr_runtime *rt, struct settings *settings, struct lua_State **out);

    /* Frees an isolate that open() made.  It must have no tasks and no Lua running. */
    void (*free)(struct orr_isolate *iso);
};

struct settings {
    _Atomic unsigned references;
    struct alloc alloc;
    const struct isolate_maker *maker; /* makes the isolates of jobs */
    struct limits limits;
    unsigned modules;        /* set of the API's modules that scripts have: see api_modules.h */
    unsigned worker_modules; /* set of the API's modules that jobs of its workers have */
    char *name;              /* of the isolate, in the log and in reports */
    bool named;              /* the host has chosen the name, and not "" */
    char *mount;             /* name of the global that holds the library; NULL for none */
    struct roots *roots;     /* folders that untrusted scripts require from; NULL for none */
    struct grants *grants;   /* what untrusted scripts may reach; NULL for nothing */
    /*
     * The memory quota of the isolate, the jobs of its workers, and what they send.  A reference;
     * NULL for none
     */
    struct quota *quota;
    bool for_jobs; /* the isolate runs a worker's jobs */
    orr_lua_prepare_fn *prepare;
    void *prepare_data;
    /* The settings that these were made from, if for jobs: a reference; NULL otherwise */
    struct settings *host;
};

/*
 * Makes settings for an isolate of a runtime.  Returns a negative errno, and logs what is wrong
 * with the options.  `options` may be NULL.
 */
int settings_new(struct orr_runtime *rt, const struct orr_lua_options *options, const struct isolate_maker *maker,
                 struct settings **out);

/*
 * Makes settings for the jobs of the workers that an isolate's scripts make.  `memory` lowers the
 * memory limit of one job; 0 keeps that of `host`.  Returns 0 or -ENOMEM.
 */
int settings_for_jobs(struct settings *host, size_t memory, struct settings **out);

struct settings *settings_ref(struct settings *settings);
void settings_unref(struct settings *settings);

#endif
