/*
 * Scripts that the host loads and unloads.  A script owns all tasks, timers, handlers and scheduled
 * callbacks that it creates, and those that they create in turn.  Each of them carries the script's
 * number.  Unloading the script cancels its tasks, which may clean up, and removes the rest.
 *
 * By default a script has its own isolate, and unloading closes the isolate.  When a script that
 * shares an isolate is unloaded, none of its code keeps running, but its values live on while other
 * scripts refer to them.
 */
#include "lua/task/script.h"
#include "lua/api/registrations.h"
#include "lua/host/value.h"
#include "lua/isolate.h"
#include "lua/task/body_watch.h"
#include "lua/task/shutdown.h"
#include "lua/task/task.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

struct orr_script {
    struct orr_runtime *rt;
    struct alloc alloc;
    struct orr_script_options options; /* with copies of the host's texts */
    struct orr_isolate *iso;           /* NULL while the script is not loaded */
    uint32_t number;                   /* in its isolate */
    struct script_name name;           /* there, while it is loaded in an isolate that it shares */
    bool again;                        /* reload the script when it has ended */
    bool ending;                       /* the script is being unloaded */
    bool failing;                      /* the body has failed, and the `ender` task is alive */
    bool unload;                       /* unload the script when the `ender` task is done */
    bool begun;                        /* the shutdown has begun */
    int reload_error;                  /* why the last reload failed; 0 if it did not */
    char *why;                         /* why it could not be loaded, for people; NULL for none */
    bool asks_why;                     /* the host asks why, so the log need not say it */
    bool reloading;                    /* inside orr_script_reload(), which returns the error */
    struct body_watch body;            /* used if a failure of the body ends the script */
    struct orr_waker ender;            /* the task that ends the script after its body failed */
    struct orr_wait patience;          /* the wait of the `ender` task until the body is over */
    struct shutdown shutdown;          /* of a script in an isolate that stays open */
};

/* --- Shutdown in an isolate that stays open --------------------------------------------------- */

/* Removes the registrations of a script, and begins to shut down its tasks. */
static void begin_to_end(struct orr_script *script)
{
    registrations_remove(script->iso, script->number);
    script->begun = true;
    shutdown_begin(&script->shutdown, script->iso, script->number, worker_grace_ns(script->iso->worker));
}

/*
 * Ends the shutdown, when no code of the script runs any more.  If the shutdown has been ended
 * already, the host has closed the shared isolate.
 */
static void finish_ending(struct orr_script *script)
{
    script->begun = false;
    if (!shutdown_is_under_way(&script->shutdown)) {
        script->iso = NULL;
        return;
    }
    registrations_remove(script->iso, script->number); /* made by the script's cleanup code */
    open_objects_close(script->iso, script->number);
    shutdown_end(&script->shutdown);
    script_remove_name(&script->iso->scripts, &script->name);
}

/* --- A body that fails ------------------------------------------------------------------------ */

static int end(struct orr_script *script, bool again);

static enum orr_poll end_failed_poll(struct orr_task *task, void *data)
{
    struct orr_script *script = data;
    if (!script->begun) {
        if (script->body.body && orr_sleep(task, &script->patience, worker_grace_ns(script->iso->worker)) == -EAGAIN)
            return ORR_PENDING;
        orr_wait_withdraw(&script->patience);
        begin_to_end(script);
    }
    if (!shutdown_poll(&script->shutdown, task))
        return ORR_PENDING;
    finish_ending(script);
    script->failing = false;
    if (script->unload) {
        script->unload = false;
        end(script, script->again);
    }
    return ORR_DONE;
}

/* Starts the `ender` task.  It cannot end the script here, in the middle of the body's slice. */
static void body_fails(void *data)
{
    struct orr_script *script = data;
    struct orr_spawn what = {
        .poll = end_failed_poll, .data = script, .name = "ending a script", .detached = true, .waker = &script->ender
    };
    if (!script->iso || script->ending || script->iso->closing)
        return;
    int error = orr_spawn(script->rt, &what);
    script->failing = !error;
    if (error)
        log_line(&script->iso->log, ORR_LOG_ERROR, "a script whose body has failed cannot be ended: %s",
                 strerror(-error));
}

static void body_failed(void *data)
{
    struct orr_script *script = data;
    if (script->failing)
        orr_waker_wake(script->ender);
    else
        body_fails(data);
}

/*
 * Drops the `ender` task, because the script is being unloaded, or its isolate closed, which ends
 * the script anyway.  -EBUSY if called inside that task.
 */
static int forget_failure(struct orr_script *script)
{
    if (!script->failing)
        return 0;
    int error = orr_task_drop(script->ender);
    if (error == -EBUSY)
        return error;
    script->failing = script->begun = false;
    orr_wait_withdraw(&script->patience);
    shutdown_end(&script->shutdown);
    return 0;
}

/* --- Loading ---------------------------------------------------------------------------------- */

static void free_text(struct orr_script *script, const char *text)
{
    if (text)
        alloc_free(&script->alloc, (void *)text, strlen(text) + 1);
}

static const char *name_of(const struct orr_script *script)
{
    const struct orr_lua_source *source = &script->options.source;
    return source->name ? source->name : source->path ? source->path : "script";
}

/* Compiles the script and starts its body. */
static int start(struct orr_script *script, lua_State *L)
{
    int error = orr_lua_load(L, &script->options.source);
    if (error == -EPROTO) {
        script->why = alloc_copy(&script->alloc, lua_tostring(L, -1));
        lua_pop(L, 1);
    }
    if (error)
        return error;
    struct orr_task *task;
    error = orr_lua_start(L, 0, name_of(script), &task);
    if (error)
        return error;
    struct ltask *self = ltask_of(task);
    self->script = script->number;
    script_body_loads(self);
    if (script->options.end_on_failure) {
        script->body = (struct body_watch){ .failing = body_fails, .failed = body_failed, .data = script };
        body_watch(&script->body, self);
    }
    orr_task_unref(task);
    return 0;
}

static void script_closed(void *data);

static int load_now(struct orr_script *script)
{
    lua_State *L = script->options.shared;
    bool own = !L;
    struct orr_lua_options lua = script->options.lua;
    lua.name = lua.name ? lua.name : name_of(script);
    int error = own ? orr_lua_new(script->rt, &lua, &L) : 0;
    if (error)
        return error;
    struct orr_isolate *iso = isolate_find(L);
    if (!iso || iso->closing)
        return -EINVAL;
    error = isolate_visit(iso);
    if (error)
        return error;
    script->iso = iso;
    script->number = script_new_number(&iso->scripts);
    script->name = (struct script_name){ .number = script->number, .text = name_of(script) };
    if (!own)
        script_add_name(&iso->scripts, &script->name);
    if (script->options.prepare)
        script->options.prepare(script->options.prepare_data, L);
    error = start(script, L);
    isolate_leave(iso);
    if (!error && own) {
        script_own_isolate(&iso->scripts, script->number);
        iso->on_closed.call = script_closed;
        iso->on_closed.data = script;
    }
    if (!error)
        return 0;
    script->iso = NULL;
    script_remove_name(&iso->scripts, &script->name);
    if (own)
        orr_lua_close(L);
    return error;
}

/* Loads the script, and keeps why that failed. */
static int load(struct orr_script *script)
{
    free_text(script, script->why);
    script->why = NULL;
    int error = load_now(script);
    if (error && !script->why) {
        char why[256];
        snprintf(why, sizeof why, "%.200s: %s", name_of(script), strerror(-error));
        script->why = alloc_copy(&script->alloc, why);
    }
    return error;
}

static void log_why(const struct orr_script *script, const char *what)
{
    struct log log = log_for(&script->rt->log, name_of(script));
    log_text(&log, ORR_LOG_ERROR, what, script->why ? script->why : "not enough memory");
}

/* Tells the host why it could not be loaded: the host itself, or else the log. */
static void say_why(const struct orr_script *script, int error, struct orr_value *why)
{
    struct orr_value text = orr_value_string(script->why ? script->why : "");
    if (why && script->why)
        value_clone(&script->alloc, &text, why);
    else if (!why && error == -EPROTO)
        log_why(script, "cannot load the script: ");
}

/* --- Life ------------------------------------------------------------------------------------- */

static void script_free(struct orr_script *script)
{
    struct orr_lua_source *source = &script->options.source;
    free_text(script, script->why);
    free_text(script, source->name);
    free_text(script, source->path);
    if (source->text)
        alloc_free(&script->alloc, (void *)source->text, source->size + 1);
    struct alloc alloc = script->alloc;
    alloc_free(&alloc, script, sizeof *script);
}

/* Copies the host's texts, because a reload needs them.  False if memory runs out. */
static bool keep_source(struct orr_script *script)
{
    struct orr_lua_source *source = &script->options.source, given = *source;
    size_t size = given.text ? given.size ? given.size : strlen(given.text) : 0;
    source->name = given.name ? alloc_copy(&script->alloc, given.name) : NULL;
    source->path = given.path ? alloc_copy(&script->alloc, given.path) : NULL;
    char *text = given.text ? alloc_zeroed(&script->alloc, size + 1) : NULL;
    if (text)
        memcpy(text, given.text, size);
    source->text = text;
    source->size = size;
    return (source->name || !given.name) && (source->path || !given.path) && (text || !given.text);
}

int orr_script_load(struct orr_runtime *rt, const struct orr_script_options *options, struct orr_script **out)
{
    if (options && options->why)
        *options->why = (struct orr_value){ .type = ORR_NIL };
    if (!runtime_valid(rt) || !options || !out || !options->source.path == !options->source.text)
        return -EINVAL;
    struct orr_script *script = alloc_zeroed(&rt->alloc, sizeof *script);
    if (!script)
        return -ENOMEM;
    script->rt = rt;
    script->alloc = rt->alloc;
    script->options = *options;
    script->options.why = NULL;
    script->asks_why = options->why;
    int error = keep_source(script) ? load(script) : -ENOMEM;
    if (!error) {
        *out = script;
        return 0;
    }
    say_why(script, error, options->why);
    script_free(script);
    return error;
}

const char *orr_script_error(const struct orr_script *script)
{
    return script ? script->why : NULL;
}

struct lua_State *orr_script_state(const struct orr_script *script)
{
    return script && script->iso ? script->iso->L : NULL;
}

/* Reloads or frees a script that has ended. */
static void script_ended(struct orr_script *script)
{
    script->iso = NULL;
    script->ending = false;
    if (!script->again) {
        script_free(script);
        return;
    }
    script->again = false;
    script->reload_error = load(script);
    if (script->reload_error && !(script->asks_why && script->reloading))
        log_why(script, "cannot reload the script: ");
}

/* Called when the script's own isolate has closed: by unloading, or by the host. */
static void script_closed(void *data)
{
    struct orr_script *script = data;
    forget_failure(script);
    script->body.body = NULL;
    script->iso = NULL;
    if (script->ending)
        script_ended(script);
}

/* The task that unloads a script from a shared isolate, if that was requested inside a poll. */
static enum orr_poll end_poll(struct orr_task *task, void *data)
{
    struct orr_script *script = data;
    if (!shutdown_poll(&script->shutdown, task))
        return ORR_PENDING;
    finish_ending(script);
    script_ended(script);
    return ORR_DONE;
}

/* Unloads a script that shares its isolate.  -EINPROGRESS if a task does so later. */
static int end_shared(struct orr_script *script)
{
    struct orr_isolate *iso = script->iso;
    if (worker_current == iso->worker && (worker_is_polling(iso->worker) || execution_is_busy(&iso->execution))) {
        struct orr_spawn what = { .poll = end_poll, .data = script, .name = "unloading a script", .detached = true };
        int error = orr_spawn(script->rt, &what);
        if (!error)
            begin_to_end(script);
        return error ? error : -EINPROGRESS;
    }
    int error = isolate_visit(iso);
    if (error)
        return error;
    begin_to_end(script);
    shutdown_now(&script->shutdown);
    finish_ending(script);
    isolate_leave(iso);
    script_ended(script);
    return 0;
}

/*
 * Stops watching the body, and drops the `ender` task.  -EINPROGRESS if called inside that task:
 * it then unloads the script when it is done.
 */
static int stop_failing(struct orr_script *script)
{
    int error = isolate_visit(script->iso);
    if (error)
        return error;
    body_unwatch(script->iso, &script->body);
    error = forget_failure(script);
    isolate_leave(script->iso);
    script->unload = error == -EBUSY;
    return error == -EBUSY ? -EINPROGRESS : error;
}

static int end(struct orr_script *script, bool again)
{
    if (!script)
        return -EINVAL;
    if (script->ending || script->unload)
        return -EALREADY;
    script->again = again;
    if (!script->iso) { /* the host has closed the isolate, or a reload has failed */
        script_ended(script);
        return 0;
    }
    int error = stop_failing(script);
    if (error)
        return error;
    script->ending = true;
    error = script->options.shared ? end_shared(script) : orr_lua_close(script->iso->L);
    if (error && error != -EINPROGRESS)
        script->ending = false;
    return error;
}

int orr_script_unload(struct orr_script *script)
{
    return end(script, false);
}

int orr_script_reload(struct orr_script *script)
{
    if (!script)
        return -EINVAL;
    script->reloading = true;
    int error = end(script, true);
    script->reloading = false;
    return error ? error : script->reload_error;
}
