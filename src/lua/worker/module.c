/*
 * The module `worker`, as far as it is written in C; the rest is lua/worker.lua, which gets these functions and shows none of them.
 *
 * A job's handle gives the job up when it is closed or collected, so one that nobody waits for any more does not run on.
 */
#include "lua/worker/module.h"

#include "lua/isolate/charge.h"
#include "lua/isolate/embedded.h"
#include "lua/limits/preempt.h"
#include "lua/task/suspend.h"
#include "lua/task/task.h"
#include "lua/values/work.h"
#include "lua/worker/channel.h"
#include "lua/worker/pool.h"

#include <errno.h>
#include <string.h>

#define PROGRAM "orrery.worker_program"
#define POOL "orrery.worker_pool"
#define JOB "orrery.worker_job"

/* A userdata with a pointer, of a class. */
static void **new_handle(lua_State *L, const char *class)
{
    void **handle = lua_newuserdatauv(L, sizeof *handle, 0);
    *handle = NULL;
    luaL_setmetatable(L, class);
    return handle;
}

/* --- Programs ------------------------------------------------------------------------------------------------------------ */

static int program_gc(lua_State *L)
{
    void **handle = lua_touserdata(L, 1);
    program_unref(*handle);
    *handle = NULL;
    return 0;
}

/* Sets the code of the program, and its modules, from the arguments of compile().  False, with why not pushed. */
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

/* compile(script, name, memory, modules): modules are { name, script, name of the chunk, name, ... }.  A program; or nil and why not. */
static int compile(lua_State *L)
{
    struct orr_isolate *iso = isolate_of(L);
    lua_settop(L, 4);
    void **handle = new_handle(L, PROGRAM);
    bool compiled, again = false;
    do {
        lua_settop(L, 5);
        program_unref(*handle);
        struct program *program = *handle = program_new(iso, (size_t)lua_tointeger(L, 3));
        if (!program)
            return luaL_error(L, "not enough memory");
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

/* --- Pools ----------------------------------------------------------------------------------------------------------------- */

static struct pools *get_pools(lua_State *L)
{
    struct pools *pools;
    int error = pools_get(isolate_of(L)->rt, &pools);
    if (error)
        luaL_error(L, "no threads for workers: %s", strerror(-error));
    return pools;
}

static int pool_gc(lua_State *L)
{
    void **handle = lua_touserdata(L, 1);
    struct pool *pool = *handle;
    *handle = NULL;
    if (!pool)
        return 0;
    isolate_of(L)->job_slots -= pool->size;
    charge_give(isolate_of(L), sizeof *pool);
    pool_unref(pool);
    return 0;
}

/* Every job has a memory limit of its own: so untrusted scripts may have only so many at once. */
static void check_places(lua_State *L, const struct pools *pools, unsigned size)
{
    enum { A_THREAD = 4 };
    const struct orr_isolate *iso = isolate_of(L);
    unsigned most = A_THREAD * pools->count;
    if (iso->limits.profile == ORR_LUA_UNTRUSTED && (size > most || iso->job_slots > most - size))
        luaL_error(L, "worker.pool: the pools of this script may be of size %d together, and %d is taken", (int)most,
                   (int)iso->job_slots);
}

/* pool(size, queue) */
static int make_pool(lua_State *L)
{
    struct orr_isolate *iso = isolate_of(L);
    struct pools *pools = get_pools(L);
    unsigned size = (unsigned)lua_tointeger(L, 1);
    size = size ? size : pools->count;
    check_places(L, pools, size);
    void **handle = new_handle(L, POOL);
    if (charge_take(iso, sizeof(struct pool)))
        return charge_raise(L);
    *handle = pool_new(pools, size, (unsigned)lua_tointeger(L, 2));
    if (!*handle) {
        charge_give(iso, sizeof(struct pool));
        return luaL_error(L, "not enough memory");
    }
    iso->job_slots += size;
    return 1;
}

static struct pool *pool_at(lua_State *L, int index)
{
    void **handle = lua_touserdata(L, index);
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
    struct pool *pool = pool_at(L, 1);
    struct pools *pools = pool->all;
    pthread_mutex_lock(&pools->lock);
    struct pool now = { .size = pool->size, .limit = pool->limit, .running = pool->running, .waiting = pool->waiting };
    uint64_t done = pools->done, made = pools->made;
    pthread_mutex_unlock(&pools->lock);
    lua_createtable(L, 0, 8);
    set_field(L, "threads", pools->count);
    set_field(L, "size", now.size);
    set_field(L, "queue", now.limit);
    set_field(L, "running", now.running);
    set_field(L, "waiting", now.waiting);
    set_field(L, "done", done);
    set_field(L, "isolates", made);
    return 1;
}

/* --- Jobs -------------------------------------------------------------------------------------------------------------------- */

static int job_gc(lua_State *L)
{
    void **handle = lua_touserdata(L, 1);
    struct job *job = *handle;
    *handle = NULL;
    if (!job)
        return 0;
    job_give_up(job);
    job_unref(job);
    return 0;
}

enum { JOBS = 2, PROGRAM_GIVEN, POOL_GIVEN, BOUNDED, TIMEOUT, ARGUMENTS, WORK = TIMEOUT };

/* Before it is sent, for that must not fail: from then on, whoever has the set can cancel it. */
static void note_job(lua_State *L, bool under_way)
{
    lua_pushvalue(L, 1);
    if (under_way)
        lua_pushboolean(L, true);
    else
        lua_pushnil(L);
    lua_rawset(L, JOBS);
}

/* [job] ..., with a copy of its arguments. */
static int send_job(lua_State *L, struct job *job)
{
    note_job(L, true);
    int error = job_submit(job, lua_toboolean(L, BOUNDED));
    if (error)
        note_job(L, false);
    if (error == -EAGAIN) {
        lua_pushnil(L);
        lua_pushfstring(L, "the worker queue is full (%d jobs wait)", (int)pool_at(L, POOL_GIVEN)->limit);
        return 2;
    }
    if (error)
        return luaL_error(L, "the runtime is shutting down");
    lua_settop(L, 1);
    return 1;
}

static int submit_on(lua_State *L, int status, lua_KContext context);

/* There was no memory for the copy: what is garbage is collected, and it is tried again. */
static int collect_and_copy(lua_State *L, int status, lua_KContext context);

static int run_submission(lua_State *L, struct job *job, struct paced *work)
{
    int error = paced_run(L, &work);
    if (error == -EAGAIN)
        return preempt_hold(L, submit_on, (lua_KContext)work);
    work->kind->free(work);
    if (!error)
        return send_job(L, job);
    if (error == -ENOMEM && !job->collected && charge_begin_to_collect(isolate_of(L))) {
        job->collected = true;
        lua_pop(L, 1);
        return collect_and_copy(L, LUA_OK, 0);
    }
    lua_pushboolean(L, false);
    lua_insert(L, -2);
    return 2;
}

static int submit_on(lua_State *L, int status, lua_KContext context)
{
    (void)status;
    struct paced *work = paced_kept(L, WORK, context);
    void **handle = luaL_testudata(L, 1, JOB);
    struct job *job = handle ? *handle : NULL;
    if (!job || container_of(work, struct encoding, paced)->encoder.m != &job->arguments)
        return luaL_error(L, "somebody has changed what is being sent");
    return run_submission(L, job, work);
}

static int begin_submission(lua_State *L, struct job *job)
{
    struct encoding work;
    encoding_begin(&work, L, WORK, &job->arguments, ARGUMENTS, lua_gettop(L) - ARGUMENTS + 1, "args");
    return run_submission(L, job, &work.paced);
}

static int collect_and_copy(lua_State *L, int status, lua_KContext context)
{
    (void)status;
    if (preempt_to_collect(L))
        return preempt_hold(L, collect_and_copy, context);
    charge_collected(isolate_of(L));
    void **handle = luaL_testudata(L, 1, JOB);
    if (!handle || !*handle)
        return luaL_error(L, "somebody has changed what is being sent");
    return begin_submission(L, *handle);
}

static int make_and_submit(lua_State *L, bool collected);

/* The same, when there was no memory for the job itself. */
static int collect_and_submit(lua_State *L, int status, lua_KContext context)
{
    (void)status;
    if (preempt_to_collect(L))
        return preempt_hold(L, collect_and_submit, context);
    charge_collected(isolate_of(L));
    return make_and_submit(L, true);
}

/*
 * submit(set of jobs, program, pool, bounded, timeout in ms, arguments...): a job, put into the set; or nil and why not, if as many wait
 * as may; or false and what is wrong with the arguments.
 */
static int make_and_submit(lua_State *L, bool collected)
{
    luaL_checkstack(L, VALUES_ERROR_SLOTS + 4, NULL);
    void **handle = new_handle(L, JOB);
    lua_insert(L, 1);
    struct pool *pool = pool_at(L, POOL_GIVEN);
    struct job *job = *handle = job_new(pool, *(void **)lua_touserdata(L, PROGRAM_GIVEN));
    if (!job && !collected && !runtime_stopping(pool->all->rt) && charge_begin_to_collect(isolate_of(L))) {
        lua_remove(L, 1);
        return collect_and_submit(L, LUA_OK, 0);
    }
    if (!job)
        return luaL_error(L, runtime_stopping(pool->all->rt) ? "the runtime is shutting down" : "not enough memory");
    double timeout = lua_tonumber(L, TIMEOUT) * 1e6;
    job->timeout_ns = timeout < 1 ? 1 : timeout < 9e18 ? (uint64_t)timeout : 0;
    lua_pushnil(L);
    lua_replace(L, WORK);
    return begin_submission(L, job);
}

static int submit(lua_State *L)
{
    return make_and_submit(L, false);
}

/* [job] [work] [whether it went well] [what it has come to...] */
static int outcome_on(lua_State *L, int status, lua_KContext context);

static int run_outcome(lua_State *L, const struct job *job, struct paced *work)
{
    int count = paced_run(L, &work);
    if (count == -EAGAIN)
        return preempt_hold(L, outcome_on, (lua_KContext)work);
    if (!job->failed)
        return count + 1;
    if (!count)
        lua_pushliteral(L, "not enough memory");
    lua_pushstring(L, job->report);
    return 3;
}

static int outcome_on(lua_State *L, int status, lua_KContext context)
{
    (void)status;
    struct paced *work = paced_kept(L, 2, context);
    void **handle = luaL_testudata(L, 1, JOB);
    const struct job *job = handle ? *handle : NULL;
    if (!job || container_of(work, struct decoding, paced)->decoder.m != &job->result)
        return luaL_error(L, "somebody has changed what is being received");
    return run_outcome(L, job, work);
}

/* [job]: pushes what it has come to. */
static int push_outcome(lua_State *L, struct job *job)
{
    const struct orr_result *result = orr_future_result(job->future);
    if (result->error) {
        lua_pushnil(L);
        lua_pushstring(L, result->error == -ECANCELED ? "cancelled"
                          : result->error == -ENOMEM  ? "not enough memory"
                                                      : "the runtime is shutting down");
        return 2;
    }
    struct decoding work;
    lua_settop(L, 2);
    lua_pushboolean(L, !job->failed);
    decoding_begin(&work, 2, &job->result, NULL, 0);
    return run_outcome(L, job, &work.paced);
}

/* wait(job): true and the results; false, the error and its report; or nil and why nothing has come of it. */
static int wait_for(lua_State *L, int status, lua_KContext context)
{
    (void)status;
    struct job *job = *(void **)lua_touserdata(L, 1);
    struct ltask *self = ltask_waiting(L, "worker:call");
    int error = orr_future_wait(self->task, &self->wait, job->future);
    if (error == -EAGAIN)
        return suspend(L, wait_for, context);
    if (!error)
        return push_outcome(L, job);
    job_give_up(job);
    return wait_raise(L, error);
}

/* However the wait ends, and if the task is just dropped, the handle is closed. */
static int wait_job(lua_State *L)
{
    lua_settop(L, 1);
    lua_toclose(L, 1);
    return wait_for(L, LUA_OK, 0);
}

/* cancel(job): whether it was in time. */
static int cancel(lua_State *L)
{
    struct job *job = *(void **)lua_touserdata(L, 1);
    lua_pushboolean(L, job && job_give_up(job));
    return 1;
}

/* is_open(job): whether somebody still waits for it, or is going to. */
static int is_open(lua_State *L)
{
    lua_pushboolean(L, *(void **)lua_touserdata(L, 1) != NULL);
    return 1;
}

/* where(level): of the function that many out from us. */
static int where(lua_State *L)
{
    luaL_where(L, (int)luaL_checkinteger(L, 1));
    return 1;
}

/* --- The module ---------------------------------------------------------------------------------------------------------------- */

void worker_module_open(struct orr_isolate *iso, lua_State *L)
{
    static const luaL_Reg functions[] = {
        { "compile", compile }, { "pool", make_pool }, { "figures", figures },     { "submit", submit },
        { "wait", wait_job },   { "cancel", cancel },  { "channel", channel_new }, { "where", where },
        { "is_open", is_open }, { NULL, NULL },
    };
    static const luaL_Reg of_program[] = { { "__gc", program_gc }, { NULL, NULL } };
    static const luaL_Reg of_pool[] = { { "__gc", pool_gc }, { NULL, NULL } };
    static const luaL_Reg of_job[] = { { "__gc", job_gc }, { "__close", job_gc }, { NULL, NULL } };
    channel_open(iso, L);
    isolate_class(iso, L, PROGRAM, of_program);
    isolate_class(iso, L, POOL, of_pool);
    isolate_class(iso, L, JOB, of_job);
    embedded_push(L, &embedded_worker);
    lua_pushvalue(L, -2);
    lua_newtable(L);
    isolate_register(iso, L, functions);
    lua_call(L, 2, 0);
}
