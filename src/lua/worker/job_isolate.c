#include "lua/worker/job_isolate.h"

#include "lua/api/schedule.h"
#include "lua/api/script_timers.h"
#include "lua/isolate/api_modules.h"
#include "lua/isolate/charge.h"
#include "lua/isolate/quota.h"
#include "lua/task/create.h"
#include "lua/task/task.h"
#include "lua/worker/library.h"
#include "lua/worker/snapshot.h"

enum { GARBAGE_MAX = 512 << 10 }; /* that a spare may hold */

/* --- Making and freeing ----------------------------------------------------------------------- */

/* [isolate] -> [library] */
static int prepare(lua_State *L)
{
    struct job_isolate *isolate = lua_touserdata(L, 1);
    const struct settings *settings = isolate->program->settings;
    library_adapt(isolate->iso, L, &isolate->reusable);
    snapshot_note_library(L);
    if (settings->prepare)
        settings->prepare(settings->prepare_data, L);
    lua_settop(L, 1);
    return 1;
}

struct job_isolate *job_isolate_new(struct job_thread *thread, struct job *job, job_isolate_unhandled *on_unhandled)
{
    struct program *program = job->program;
    struct job_isolate *isolate = alloc_zeroed(&program->alloc, sizeof *isolate);
    if (!isolate)
        return NULL;
    isolate->thread = thread;
    isolate->job = job;
    isolate->program = program_ref(program);
    isolate->reusable = true;
    if (program->settings->maker->open(job->pool->all->rt, program->settings, &isolate->L)) {
        job_isolate_free(isolate);
        return NULL;
    }
    isolate->iso = isolate_find(isolate->L);
    charge_force(isolate->iso, sizeof *isolate + sizeof *isolate->iso + sizeof *isolate->iso->settings);
    unhandled_set_sink(&isolate->iso->unhandled, on_unhandled, isolate);
    lua_pushcfunction(isolate->L, prepare);
    lua_pushlightuserdata(isolate->L, isolate);
    if (lua_pcall(isolate->L, 1, 1, 0) == LUA_OK)
        isolate->state = JOB_ISOLATE_PREPARED;
    return isolate;
}

/* It is no spare any more. */
static void uncharge_spare(struct job_isolate *isolate)
{
    quota_give_spare(isolate->program->settings->quota, isolate->spare_memory);
    isolate->spare_memory = 0;
}

bool job_isolate_free(struct job_isolate *isolate)
{
    if (isolate->iso && task_set_count(&isolate->iso->tasks))
        return false;
    struct alloc alloc = isolate->program->alloc;
    uncharge_spare(isolate);
    if (isolate->iso)
        isolate->program->settings->maker->free(isolate->iso);
    dirty_close(&isolate->dirty);
    program_unref(isolate->program);
    alloc_free(&alloc, isolate, sizeof *isolate);
    return true;
}

/* [isolate] [library] -> [snapshot] */
static int take_snapshot(lua_State *L)
{
    struct job_isolate *isolate = lua_touserdata(L, 1);
    bool can_be_restored = snapshot_take(L, 2, &isolate->dirty);
    if (!can_be_restored || api_modules_beyond_jobs(isolate->program->settings->modules))
        isolate->reusable = false;
    return 1;
}

/* Pushes the script.  False, with the error pushed. */
static bool load_script(struct job_isolate *isolate)
{
    const struct account *account = &isolate->iso->account;
    size_t before = account_used(account);
    if (!program_load(&isolate->program->code, isolate->L))
        return false;
    /* A collection may have made it less. */
    size_t script = account_used(account) > before ? account_used(account) - before : 0;
    isolate->ready_memory = isolate->base_memory + script;
    return true;
}

bool job_isolate_init(struct job_isolate *isolate)
{
    lua_State *L = isolate->L;
    lua_settop(L, JOB_ISOLATE_LIBRARY);
    lua_pushcfunction(L, take_snapshot);
    lua_insert(L, 1);
    lua_pushlightuserdata(L, isolate);
    lua_insert(L, 2);
    if (lua_pcall(L, 2, 1, 0) != LUA_OK)
        return false;
    isolate->base_memory = account_used(&isolate->iso->account);
    if (!load_script(isolate))
        return false;
    lua_insert(L, JOB_ISOLATE_SCRIPT);
    isolate->state = JOB_ISOLATE_READY;
    return true;
}

/* --- Between jobs ----------------------------------------------------------------------------- */

/* A script may have given itself another environment: its only upvalue. */
static void restore_environment(lua_State *L, int script)
{
    lua_pushglobaltable(L);
    if (!lua_setupvalue(L, script, 1))
        lua_pop(L, 1);
}

/* [script] [snapshot] */
static int restore_state(lua_State *L)
{
    library_check(L);
    snapshot_restore(L, JOB_ISOLATE_SNAPSHOT);
    restore_environment(L, JOB_ISOLATE_SCRIPT);
    library_restore(L);
    return 0;
}

/* Resets what is not in the Lua state. */
static void reset_isolate(struct orr_isolate *iso)
{
    task_set_reset(&iso->tasks);
    told_clear(iso);
    iso->debug = false;
    statistics_reset(&iso->statistics);
}

static bool is_at_rest(const struct orr_isolate *iso)
{
    return !task_set_count(&iso->tasks) && !unhandled_any(&iso->unhandled) && hold_is_empty(&iso->hold) &&
           !schedule_count(&iso->schedule);
}

bool job_isolate_has_little_garbage(const struct job_isolate *isolate)
{
    return account_used(&isolate->iso->account) <= isolate->ready_memory + GARBAGE_MAX;
}

/* Makes it what it was when it became ready.  False if that cannot be. */
static bool restore(struct job_isolate *isolate)
{
    lua_State *L = isolate->L;
    struct orr_isolate *iso = isolate->iso;
    script_timers_close(iso, 0);
    if (isolate->state != JOB_ISOLATE_READY || !isolate->reusable || !is_at_rest(iso) ||
        memory_alarm_is_on(&iso->memory_alarm))
        return false;
    reset_isolate(iso);
    lua_settop(L, JOB_ISOLATE_SNAPSHOT);
    lua_pushcfunction(L, restore_state);
    lua_pushvalue(L, JOB_ISOLATE_SCRIPT);
    lua_pushvalue(L, JOB_ISOLATE_SNAPSHOT);
    if (lua_pcall(L, 2, 0, 0) != LUA_OK)
        return false;
    if (!job_isolate_has_little_garbage(isolate))
        lua_gc(L, LUA_GCCOLLECT);
    slab_trim(&iso->slab, true);
    return job_isolate_has_little_garbage(isolate);
}

bool job_isolate_make_spare(struct job_isolate *isolate)
{
    if (!restore(isolate))
        return false;
    size_t memory = account_used(&isolate->iso->account);
    charge_end_slice(isolate->iso);
    /* Spares take memory from their script, so all of them together may not be much. */
    if (!quota_take_spare(isolate->program->settings->quota, memory))
        return false;
    isolate->spare_memory = memory;
    return true;
}

/* The isolate, a spare, goes over to another program. */
static bool adopt_program(struct job_isolate *isolate, struct program *program)
{
    program_unref(isolate->program);
    isolate->program = program_ref(program);
    if (!load_script(isolate))
        return false;
    lua_replace(isolate->L, JOB_ISOLATE_SCRIPT);
    return true;
}

bool job_isolate_use_spare(struct job_isolate *isolate, struct job *job)
{
    uncharge_spare(isolate);
    isolate->job = job;
    return isolate->program == job->program || adopt_program(isolate, job->program);
}

bool job_isolate_is_large(const struct job_isolate *isolate)
{
    enum { PARTS = 16 };
    const struct quota *quota = isolate->program->settings->quota;
    return quota && charge_drawn(&isolate->iso->charge) > quota->limit / PARTS;
}

/* --- Running something in it ------------------------------------------------------------------ */

void job_isolate_push_function(const struct job_isolate *isolate, lua_State *L, lua_CFunction function)
{
    lua_pushlightuserdata(L, isolate->iso);
    lua_pushcclosure(L, function, 1);
}

void job_isolate_start_task(struct job_isolate *isolate, lua_State *L, int arguments, const char *name)
{
    struct ltask_options options = { .name = name, .detached = true, .entry = ORR_LUA_JOB };
    isolate->main = ltask_new(isolate->iso, L, arguments, &options);
    worker_ready(isolate->iso->worker, isolate->main->task);
}
