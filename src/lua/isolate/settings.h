/*
 * The settings of an isolate: what the host has chosen and granted.  They never change once made,
 * and isolates on several threads may share them.  The isolates of a worker's jobs have settings
 * made from those of the isolate that made the worker.
 *
 * Shared by references.  Any thread.
 */
#ifndef ORR_LUA_ISOLATE_SETTINGS_H
#define ORR_LUA_ISOLATE_SETTINGS_H

#include "base/alloc.h"
#include "base/log.h"
#include "lua/isolate/limits.h"

#include <stdatomic.h>

struct lua_State;
struct orr_isolate;
struct orr_runtime;
struct quota;
struct roots;
struct settings;

/*
 * How an isolate of the library's own is opened and freed.  The host layer gives these functions,
 * so that layers below it can make isolates.  Both are called on the thread that runs the isolate's
 * worker.
 */
struct isolate_maker {
    /* Opens a state.  The caller keeps its reference to the settings.  -ENOMEM. */
    int (*open)(struct orr_runtime *rt, struct settings *settings, struct lua_State **out);

    /* Frees an isolate that open() made.  It must have no tasks and no Lua running. */
    void (*free)(struct orr_isolate *iso);
};

struct settings {
    _Atomic unsigned references;
    struct alloc alloc;
    const struct isolate_maker *maker; /* for isolates of jobs */
    struct limits limits;
    unsigned modules;        /* of the API: see capability.h */
    unsigned worker_modules; /* the same, of the workers that its scripts make */
    char *mount;             /* NULL for none */
    struct roots *roots;     /* that untrusted scripts require from; NULL for none */
    struct quota *
        /*
         * Of memory, for its isolate, the jobs of its workers, and what they send: a reference;
         * NULL for none
         */
        quota;
    bool for_jobs; /* of a worker's, in which jobs run */
    orr_lua_prepare_fn *prepare;
    void *prepare_data;
    /* Whose workers' they are: a reference; NULL for those of the host's own isolates */
    struct settings *host;
};

/* Negative errno, and a line to the log for what is wrong with the options, which may be NULL. */
int settings_new(const struct orr_lua_options *options, const struct isolate_maker *maker, const struct alloc *alloc,
                 const struct log *log, struct settings **out);

/*
 * Those of the workers that an isolate's scripts make.  `memory`: their limit, if it is smaller; 0
 * for none of their own.  -ENOMEM.
 */
int settings_for_jobs(struct settings *host, size_t memory, struct settings **out);

struct settings *settings_ref(struct settings *settings);
void settings_unref(struct settings *settings);

#endif
