/*
 * The part of the Lua module `worker` that is written in C.  lua/worker.lua gets these functions,
 * checks the arguments and makes the module; scripts never see the functions.
 *
 * Closing or collecting the handle of a job gives the job up: a job that nobody waits for does not
 * run on.
 */
#include "lua/worker/module.h"

#include "lua/api/option_table.h"
#include "lua/api/scopes.h"
#include "lua/isolate/charge.h"
#include "lua/isolate/embedded.h"
#include "lua/isolate/late.h"
#include "lua/limits/preempt.h"
#include "lua/task/suspend.h"
#include "lua/task/task.h"
#include "lua/task/told.h"
#include "lua/values/work.h"
#include "lua/worker/channel_class.h"
#include "lua/worker/pool.h"
#include "lua/worker/runtime_pools.h"
#include "lua/worker/server_threads.h"

#include <errno.h>
#include <string.h>

#define PROGRAM "orrery.worker_program"
#define POOL "orrery.worker_pool"
#define JOB "orrery.worker_job"

/* Pushes a userdata of a class, which holds a pointer.  May raise. */
static void **new_handle(lua_State *L, const char *class)
{
    void **handle = lua_newuserdatauv(L, sizeof *handle, 0);
    *handle = NULL;
    luaL_setmetatable(L, class);
    return handle;
}

/* --- Programs --------------------------------------------------------------------------------- */

static int program_gc(lua_State *L)
{
    void **handle = lua_touserdata(L, 1);
    program_unref(*handle);
    *handle = NULL;
    return 0;
}

/*
 * Sets the code and the modules of a program from the arguments of compile().  False, with the
 * reason pushed.
 */
static bool set_code(lua_State *L, struct program *program)
{
    bool compiled = program_set_code(program, L, 1, lua_tostring(L, 2));
    for (int i = 1; compiled && lua_rawgeti(L, 4, i) == LUA_TSTRING; i += 3) {
        lua_rawgeti(L, 4, i + 1);
        lua_rawgeti(L, 4, i + 2);
        compiled = program_add_module(program, L, lua_gettop(L) - 1, lua_tostring(L, -3), lua_tostring(L, -1));
        if (compiled)
            lua_settop(L, 5);
    }
    return compiled;
}

/*
 * compile(script, name, memory, modules, equal): a program; or nil and the reason.  `modules` is a
 * list of a name, a script and the name of its chunk for each module.  `equal`: the script has the
 * modules of the API that this script has, not those of a job.
 */
static int compile(lua_State *L)
{
    struct orr_isolate *iso = isolate_of(L);
    bool equal = lua_toboolean(L, 5);
    lua_settop(L, 4);
    void **handle = new_handle(L, PROGRAM);
    bool compiled, again = false;
    do {
        lua_settop(L, 5);
        program_unref(*handle);
        struct program *program = *handle = program_new(iso, (size_t)lua_tointeger(L, 3));
        if (!program)
            return luaL_error(L, "not enough memory");
        if (equal)
            program->settings->modules = iso->settings->modules;
        compiled = set_code(L, program);
        again = !compiled && !again && program->over_quota && charge_collect(iso, L);
    } while (again);
    if (!compiled) {
        lua_pushnil(L);
        lua_insert(L, -2);
        return 2;
    }
    lua_settop(L, 5);
    charge_tell_collector(iso, ((struct program *)*handle)->charged);
    return 1;
}

/* --- Pools ------------------------------------------------------------------------------------ */

static struct job_pools *get_pools(lua_State *L)
{
    struct job_pools *pools;
    int error = runtime_pools_get(isolate_of(L)->rt, &pools);
    if (error)
        luaL_error(L, "worker: cannot start the pool threads: %s", strerror(-error));
    return pools;
}

static int pool_gc(lua_State *L)
{
    void **handle = lua_touserdata(L, 1);
    struct job_pool *pool = *handle;
    *handle = NULL;
    if (!pool)
        return 0;
    isolate_of(L)->job_slots -= pool->size;
    charge_give(isolate_of(L), sizeof *pool);
    job_pool_unref(pool);
    return 0;
}

/*
 * Every job has a memory limit of its own, so an untrusted script may run only a number of jobs at
 * once.
 */
static void check_slots(lua_State *L, const struct job_pools *pools, unsigned size)
{
    enum { SLOTS_A_THREAD = 4 };
    const struct orr_isolate *iso = isolate_of(L);
    unsigned most = SLOTS_A_THREAD * pools->count;
    if (iso->limits.profile == ORR_LUA_UNTRUSTED && (size > most || iso->job_slots > most - size))
        luaL_error(L, "worker.pool: the pools of this script may be of size %d together, and %d is taken", (int)most,
                   (int)iso->job_slots);
}

/* pool(size, queue) */
static int make_pool(lua_State *L)
{
    struct orr_isolate *iso = isolate_of(L);
    struct job_pools *pools = get_pools(L);
    unsigned size = (unsigned)lua_tointeger(L, 1);
    size = size ? size : pools->count;
    check_slots(L, pools, size);
    void **handle = new_handle(L, POOL);
    if (charge_take(iso, sizeof(struct job_pool)))
        return charge_raise(L);
    *handle = job_pool_new(pools, size, (unsigned)lua_tointeger(L, 2));
    if (!*handle) {
        charge_give(iso, sizeof(struct job_pool));
        return luaL_error(L, "not enough memory");
    }
    iso->job_slots += size;
    return 1;
}

/* May raise. */
static struct job_pool *pool_at(lua_State *L, int index)
{
    void **handle = lua_touserdata(L, index);
    if (handle && !*handle)
        luaL_error(L, "worker: the pool is closed");
    return handle ? *handle : get_pools(L)->standard;
}

static void set_field(lua_State *L, const char *name, uint64_t value)
{
    lua_pushinteger(L, (lua_Integer)value);
    lua_setfield(L, -2, name);
}

/* figures([pool]) */
static int figures(lua_State *L)
{
    struct job_pool_figures figures = job_pool_read(pool_at(L, 1));
    lua_createtable(L, 0, 8);
    set_field(L, "threads", figures.threads);
    set_field(L, "size", figures.size);
    set_field(L, "queue", figures.waiting_max);
    set_field(L, "running", figures.running);
    set_field(L, "waiting", figures.waiting);
    set_field(L, "done", figures.finished);
    set_field(L, "isolates", figures.isolates);
    return 1;
}

/* --- Jobs ------------------------------------------------------------------------------------- */

/* What a script holds of a job. */
struct job_handle {
    struct job *job;          /* a reference; NULL when the handle is closed */
    bool calls;               /* worker:call(): who sends the job waits for it, too */
    bool timed;               /* the wait is inside the block */
    struct scope_block block; /* of the task that waits */
};

static int job_gc(lua_State *L)
{
    struct job_handle *handle = lua_touserdata(L, 1);
    struct job *job = handle->job;
    handle->job = NULL;
    if (!job)
        return 0;
    job_give_up(job);
    job_unref(job);
    return 0;
}

static int raise_changed(lua_State *L)
{
    return luaL_error(L, "worker: the stack was changed while values were being copied");
}

/* The handle at 1, which is open.  Raises if the debug library has put something else there. */
static struct job_handle *check_handle(lua_State *L)
{
    struct job_handle *handle = luaL_testudata(L, 1, JOB);
    if (!handle || !handle->job)
        raise_changed(L);
    return handle;
}

/* Raises the text at the top as an error of the code that has called worker:call(). */
static int raise_for_caller(lua_State *L)
{
    luaL_where(L, 2); /* lua/worker.lua is between */
    lua_insert(L, -2);
    lua_concat(L, 2);
    return lua_error(L);
}

/* --- Waiting ---------------------------------------------------------------------------------- */

/* The stack while a job is waited for: [handle] [set of jobs] [work] [success] [results...]. */
enum { JOBS = 2, OUTCOME_WORK };

/* Notes the job in the set, or takes it out.  May raise if it is noted. */
static void note_job(lua_State *L, bool under_way)
{
    lua_pushvalue(L, 1);
    if (under_way)
        lua_pushboolean(L, true);
    else
        lua_pushnil(L);
    lua_rawset(L, JOBS);
}

static int outcome_on(lua_State *L, int status, lua_KContext context);

/*
 * A script is about to get a job's error, at the top: its report shall begin with the job's stack.
 * A job's time is up for its caller, too, and either may notice that first.
 */
static void note_failure(lua_State *L, const struct job *job)
{
    bool timed_out = lua_type(L, -1) == LUA_TSTRING && !strcmp(lua_tostring(L, -1), "timeout");
    if (job->report && !timed_out)
        told_note_elsewhere(isolate_of(L), L, -1, job->report);
}

static int run_outcome(lua_State *L, const struct job_handle *handle, struct paced *work)
{
    const struct job *job = handle->job;
    int count = paced_run(L, &work);
    if (count == -EAGAIN)
        return preempt_hold(L, outcome_on, (lua_KContext)work);
    if (!job->failed)
        return handle->calls ? count : count + 1;
    if (!count)
        lua_pushliteral(L, "not enough memory");
    note_failure(L, job);
    if (handle->calls)
        return lua_error(L);
    lua_pushstring(L, job->report);
    return 3;
}

static int outcome_on(lua_State *L, int status, lua_KContext context)
{
    (void)status;
    struct paced *work = paced_kept(L, OUTCOME_WORK, context);
    const struct job_handle *handle = check_handle(L);
    if (!decoding_reads(work, &handle->job->result))
        return raise_changed(L);
    return run_outcome(L, handle, work);
}

/* There is no outcome of the script's: [reason]. */
static int push_reason(lua_State *L, const struct job_handle *handle)
{
    if (handle->calls)
        return lua_error(L);
    lua_pushnil(L);
    lua_insert(L, -2);
    return 2;
}

static int push_outcome(lua_State *L, struct job_handle *handle)
{
    struct job *job = handle->job;
    const struct orr_result *result = orr_future_result(job->future);
    if (result->error) {
        lua_pushstring(L, result->error == -ECANCELED ? "cancelled"
                          : result->error == -ENOMEM  ? "not enough memory"
                                                      : "the runtime is shutting down");
        return push_reason(L, handle);
    }
    struct decoding work;
    lua_pushnil(L);
    lua_pushboolean(L, !job->failed);
    decoding_begin(&work, OUTCOME_WORK, &job->result, NULL, 0);
    return run_outcome(L, handle, &work.paced);
}

/* The wait has ended with an error of the core. */
static int give_up(lua_State *L, struct job_handle *handle, int error)
{
    job_give_up(handle->job);
    if (error == -ESCRIPT)
        return lua_error(L); /* the error of a child, at the top */
    wait_push_error(L, error);
    return error == -ETIMEDOUT ? push_reason(L, handle) : lua_error(L);
}

/* The wait is over: leaves the block, and pushes the outcome. */
static int wait_over(lua_State *L, int status, lua_KContext context)
{
    (void)status;
    struct job_handle *handle = lua_touserdata(L, 1);
    struct ltask *self = ltask_current(L, "worker:call");
    int error = handle->block.error;
    if (handle->timed)
        error = orr_scope_leave(self->task, &self->wait, &handle->block.scope, error);
    if (error == -EAGAIN)
        return suspend(L, wait_over, context);
    handle->timed = false;
    note_job(L, false);
    return error ? give_up(L, handle, error) : push_outcome(L, handle);
}

static int wait_for(lua_State *L, int status, lua_KContext context)
{
    (void)status;
    struct job_handle *handle = lua_touserdata(L, 1);
    struct ltask *self = ltask_waiting(L, "worker:call");
    int error = orr_future_wait(self->task, &self->wait, handle->job->future);
    if (error == -EAGAIN)
        return suspend(L, wait_for, context);
    if (error == -ECHILD)
        wait_push_error(L, error);
    handle->block.error = error == -ECHILD ? -ESCRIPT : error;
    return wait_over(L, LUA_OK, context);
}

/*
 * [handle] [set of jobs]: waits for the job.  However the wait ends, also if the task is dropped,
 * the handle is closed.
 */
static int wait_for_outcome(lua_State *L, struct job_handle *handle)
{
    uint64_t timeout = handle->job->timeout_ns;
    lua_toclose(L, 1);
    if (timeout) {
        struct ltask *self = ltask_waiting(L, "worker:call");
        handle->block = (struct scope_block){ .L = L };
        int error = orr_scope_enter(self->task, &handle->block.scope,
                                    &(struct orr_scope_options){ .timeout_ns = timeout });
        if (error)
            return wait_raise(L, error);
        handle->timed = true;
    }
    return wait_for(L, LUA_OK, 0);
}

/*
 * wait(job, set of jobs): true and the results; false, the error and its report; or nil and why
 * there is no result.  Takes the job out of the set.
 */
static int wait_job(lua_State *L)
{
    lua_settop(L, JOBS);
    return wait_for_outcome(L, check_handle(L));
}

/* --- Sending ---------------------------------------------------------------------------------- */

/* The stack of submit(), with the handle at 1. */
enum { PROGRAM_GIVEN = JOBS + 1, POOL_GIVEN, BOUNDED, TIMEOUT, ARGUMENTS, WORK = TIMEOUT };

/* [handle] ...: sends the job, which has a copy of its arguments. */
static int send_job(lua_State *L, struct job_handle *handle)
{
    note_job(L, true); /* before: from then on the owner of the set can cancel it */
    int error = job_submit(handle->job, lua_toboolean(L, BOUNDED));
    if (error)
        note_job(L, false);
    if (error == -EAGAIN) {
        lua_pushnil(L);
        lua_pushfstring(L, "the worker queue is full (%d jobs wait)", (int)pool_at(L, POOL_GIVEN)->waiting_max);
        return 2;
    }
    if (error)
        return luaL_error(L, "the runtime is shutting down");
    lua_settop(L, handle->calls ? JOBS : 1);
    return handle->calls ? wait_for_outcome(L, handle) : 1;
}

static int submit_on(lua_State *L, int status, lua_KContext context);

static int collect_and_copy(lua_State *L, int status, lua_KContext context);

static int run_submission(lua_State *L, struct job_handle *handle, struct paced *work)
{
    struct job *job = handle->job;
    int error = paced_run(L, &work);
    if (error == -EAGAIN)
        return preempt_hold(L, submit_on, (lua_KContext)work);
    work->kind->free(work);
    if (!error)
        return send_job(L, handle);
    if (error == -ENOMEM && !job->collected && charge_begin_to_collect(isolate_of(L))) {
        job->collected = true;
        lua_pop(L, 1);
        return collect_and_copy(L, LUA_OK, 0);
    }
    if (handle->calls) {
        lua_pushfstring(L, "worker:call: %s", lua_tostring(L, -1));
        return raise_for_caller(L);
    }
    lua_pushboolean(L, false);
    lua_insert(L, -2);
    return 2;
}

static int submit_on(lua_State *L, int status, lua_KContext context)
{
    (void)status;
    struct paced *work = paced_kept(L, WORK, context);
    struct job_handle *handle = check_handle(L);
    if (!encoding_writes(work, &handle->job->arguments))
        return raise_changed(L);
    return run_submission(L, handle, work);
}

static int begin_submission(lua_State *L, struct job_handle *handle)
{
    struct encoding work;
    encoding_begin(&work, L, WORK, &handle->job->arguments, ARGUMENTS, lua_gettop(L) - ARGUMENTS + 1, "args");
    return run_submission(L, handle, &work.paced);
}

/* There was no memory for the copy: collects garbage and tries again. */
static int collect_and_copy(lua_State *L, int status, lua_KContext context)
{
    (void)status;
    if (preempt_to_collect(L))
        return preempt_hold(L, collect_and_copy, context);
    charge_collected(isolate_of(L));
    return begin_submission(L, check_handle(L));
}

static int make_and_submit(lua_State *L, bool calls, bool collected);

/*
 * There was no memory for the job itself: collects garbage and tries again.  The context is whether
 * the sender waits.
 */
static int collect_and_submit(lua_State *L, int status, lua_KContext context)
{
    (void)status;
    if (preempt_to_collect(L))
        return preempt_hold(L, collect_and_submit, context);
    charge_collected(isolate_of(L));
    return make_and_submit(L, context, true);
}

/* Pushes the handle of a job that is not made yet.  May raise. */
static struct job_handle *new_job_handle(lua_State *L, bool calls)
{
    struct job_handle *handle = lua_newuserdatauv(L, sizeof *handle, 0);
    handle->job = NULL;
    handle->calls = calls;
    handle->timed = false;
    handle->block.error = 0;
    luaL_setmetatable(L, JOB);
    return handle;
}

/* [set of jobs] [program] [pool] [bounded] [timeout in ms] [arguments...] */
static int make_and_submit(lua_State *L, bool calls, bool collected)
{
    luaL_checkstack(L, VALUES_ERROR_SLOTS + 4, NULL);
    struct job_handle *handle = new_job_handle(L, calls);
    lua_insert(L, 1);
    struct job_pool *pool = pool_at(L, POOL_GIVEN);
    struct job *job = handle->job = job_new(pool, *(void **)lua_touserdata(L, PROGRAM_GIVEN));
    if (!job && !collected && !runtime_stopping(pool->all->rt) && charge_begin_to_collect(isolate_of(L))) {
        lua_remove(L, 1);
        return collect_and_submit(L, LUA_OK, calls);
    }
    if (!job)
        return luaL_error(L, runtime_stopping(pool->all->rt) ? "the runtime is shutting down" : "not enough memory");
    double timeout = lua_tonumber(L, TIMEOUT) * 1e6;
    job->timeout_ns = timeout < 1 ? 1 : timeout < 9e18 ? (uint64_t)timeout : 0;
    lua_pushnil(L);
    lua_replace(L, WORK);
    return begin_submission(L, handle);
}

/*
 * submit(set of jobs, program, pool, bounded, timeout in ms, arguments...): a job, which is put
 * into the set; or nil and a message, if the queue is full; or false and a message, if the
 * arguments cannot be copied.
 */
static int submit(lua_State *L)
{
    return make_and_submit(L, false, false);
}

/*
 * call(set of jobs, program, pool, false, timeout in ms, arguments...): sends a job, waits for it
 * and returns its results.  Raises the job's error, the same value; or why there is no result.
 */
static int call(lua_State *L)
{
    const struct orr_isolate *iso = isolate_of(L);
    if (!execution_task(&iso->execution)) {
        lua_pushfstring(L, "worker:call: not inside a task; start one with %s, or use worker:run", ltask_starter(iso));
        return raise_for_caller(L);
    }
    return make_and_submit(L, true, false);
}

/* --- Looking after jobs ----------------------------------------------------------------------- */

/* cancel(job): false if the job was over before. */
static int cancel(lua_State *L)
{
    struct job *job = ((struct job_handle *)lua_touserdata(L, 1))->job;
    lua_pushboolean(L, job && job_give_up(job));
    return 1;
}

/* is_open(job): whether its handle was not closed or collected yet. */
static int is_open(lua_State *L)
{
    lua_pushboolean(L, ((struct job_handle *)lua_touserdata(L, 1))->job != NULL);
    return 1;
}

/* where(level): "file:line: " of the function at that level of the call stack. */
static int where(lua_State *L)
{
    luaL_where(L, (int)luaL_checkinteger(L, 1));
    return 1;
}

/* --- The module ------------------------------------------------------------------------------- */

/* starter() -> the call that messages tell a script to start a task with */
static int starter(lua_State *L)
{
    lua_pushstring(L, ltask_starter(isolate_of(L)));
    return 1;
}

void worker_module_open(struct orr_isolate *iso, lua_State *L)
{
    static const luaL_Reg functions[] = { { "channel", channel_class_new }, { NULL, NULL } };
    channel_class_open(iso, L);
    lua_getfield(L, -1, "worker");
    isolate_register(iso, L, functions);
    lua_pop(L, 1);
}

void net_threads_module_run(struct orr_isolate *iso, lua_State *L)
{
    static const luaL_Reg functions[] = {
        { "compile", compile },
        { "submit", submit },
        { "wait", wait_job },
        { "cancel", cancel },
        { "is_open", is_open },
        { "where", where },
        { "channel", channel_class_new },
        { NULL, NULL },
    };
    late_push(L, &embedded_net_threads);
    lua_pushvalue(L, -2);
    lua_newtable(L);
    isolate_register(iso, L, functions);
    server_threads_open(iso, L);
    lua_call(L, 2, 0);
}

void worker_module_run(struct orr_isolate *iso, lua_State *L)
{
    static const luaL_Reg functions[] = {
        { "compile", compile }, { "pool", make_pool },
        { "figures", figures }, { "submit", submit },
        { "call", call },       { "wait", wait_job },
        { "cancel", cancel },   { "where", where },
        { "is_open", is_open }, { "advise", option_table_advise },
        { "starter", starter }, { "watch", missing_watch_from_lua },
        { NULL, NULL },
    };
    static const luaL_Reg of_program[] = { { "__gc", program_gc }, { NULL, NULL } };
    static const luaL_Reg of_pool[] = { { "__gc", pool_gc }, { NULL, NULL } };
    static const luaL_Reg of_job[] = { { "__gc", job_gc }, { "__close", job_gc }, { NULL, NULL } };
    isolate_class(iso, L, PROGRAM, of_program);
    isolate_class(iso, L, POOL, of_pool);
    isolate_class(iso, L, JOB, of_job);
    late_push(L, &embedded_worker);
    lua_pushvalue(L, -2);
    lua_newtable(L);
    isolate_register(iso, L, functions);
    lua_call(L, 2, 0);
}
