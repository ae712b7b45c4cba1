#include "lua/worker/job_isolate.h"

#include "lua/api/schedule.h"
#include "lua/api/script_timers.h"
#include "lua/isolate/api_modules.h"
#include "lua/isolate/charge.h"
#include "lua/isolate/quota.h"
#include "lua/worker/library.h"
#include "lua/worker/snapshot.h"

enum {
    SPARES = 4,              /* job_isolates that a thread keeps */
    GARBAGE_MAX = 512 << 10, /* that a spare job_isolate may hold */
};

/* --- Making and freeing ------------------------------------------------------------------------------------------------ */

/* It is no more one of those kept for the next job. */
static void unspare(struct job_isolate *job_isolate)
{
    quota_give_spare(job_isolate->program->settings->quota, job_isolate->spared);
    job_isolate->spared = 0;
}

/* What is kept for the next job takes memory from its script, so it may not be much. */
static bool spare(struct job_isolate *job_isolate)
{
    size_t memory = account_used(&job_isolate->iso->account);
    charge_end_slice(job_isolate->iso);
    if (!quota_take_spare(job_isolate->program->settings->quota, memory))
        return false;
    job_isolate->spared = memory;
    return true;
}

static void job_isolate_free(struct job_isolate *job_isolate)
{
    struct job_thread *job_thread = job_isolate->job_thread;
    if (job_isolate->iso && job_isolate->iso->tasks.count) { /* the kernel has not let go of their I/O */
        job_isolate->next = job_thread->remains;
        job_thread->remains = job_isolate;
        return;
    }
    struct alloc alloc = job_isolate->program->alloc;
    unspare(job_isolate);
    if (job_isolate->iso)
        job_isolate->program->settings->maker->free(job_isolate->iso);
    program_unref(job_isolate->program);
    alloc_free(&alloc, job_isolate, sizeof *job_isolate);
}

/* [job_isolate] -> [library] */
static int prepare(lua_State *L)
{
    struct job_isolate *job_isolate = lua_touserdata(L, 1);
    const struct settings *settings = job_isolate->program->settings;
    library_adapt(job_isolate->iso, L, &job_isolate->spoiled);
    snapshot_note_library(L);
    if (settings->prepare)
        settings->prepare(settings->prepare_data, L);
    lua_settop(L, 1);
    return 1;
}

/* NULL for lack of memory. */
static struct job_isolate *job_isolate_new(struct job_thread *job_thread, struct job *job)
{
    struct program *program = job->program;
    struct job_isolate *job_isolate = alloc_zeroed(&program->alloc, sizeof *job_isolate);
    if (!job_isolate)
        return NULL;
    job_isolate->job_thread = job_thread;
    job_isolate->job = job;
    job_isolate->program = program_ref(program);
    if (program->settings->maker->open(worker_runtime(job_thread->worker), program->settings, &job_isolate->L)) {
        job_isolate_free(job_isolate);
        return NULL;
    }
    job_isolate->iso = isolate_find(job_isolate->L);
    charge_force(job_isolate->iso, sizeof *job_isolate + sizeof *job_isolate->iso);
    job_isolate->iso->on_unhandled.call = run_job_note_unhandled;
    job_isolate->iso->on_unhandled.data = job_isolate;
    lua_pushcfunction(job_isolate->L, prepare);
    lua_pushlightuserdata(job_isolate->L, job_isolate);
    job_isolate->unfit = lua_pcall(job_isolate->L, 1, 1, 0) != LUA_OK;
    return job_isolate;
}

struct job_isolate *job_isolate_get(struct job_thread *job_thread, struct job *job)
{
    for (struct job_isolate **at = &job_thread->spares; *at; at = &(*at)->next) {
        struct job_isolate *job_isolate = *at;
        if (job_isolate->program != job->program)
            continue;
        *at = job_isolate->next;
        job_thread->spare_count--;
        unspare(job_isolate);
        job_isolate->job = job;
        return job_isolate;
    }
    struct pools *pools = job->pool->all;
    pthread_mutex_lock(&pools->lock);
    pools->made++;
    pthread_mutex_unlock(&pools->lock);
    return job_isolate_new(job_thread, job);
}

/* [job_isolate] [library] -> [script] [birth] */
static int remember(lua_State *L)
{
    struct job_isolate *job_isolate = lua_touserdata(L, 1);
    const struct program *program = job_isolate->program;
    if (!program_load(&program->code, L))
        lua_error(L);
    bool can_be_put_back = snapshot_take(L, 2, 3);
    job_isolate->single = !can_be_put_back || api_modules_beyond_jobs(program->settings->modules);
    return 2;
}

bool job_isolate_init(struct job_isolate *job_isolate)
{
    lua_State *L = job_isolate->L;
    lua_settop(L, JOB_ISOLATE_LIBRARY);
    lua_pushcfunction(L, remember);
    lua_insert(L, 1);
    lua_pushlightuserdata(L, job_isolate);
    lua_insert(L, 2);
    if (lua_pcall(L, 2, 2, 0) != LUA_OK)
        return false;
    job_isolate->newborn = account_used(&job_isolate->iso->account);
    job_isolate->born = true;
    return true;
}

/* --- Between jobs ---------------------------------------------------------------------------------------------------------- */

/* [job_isolate] [NULL] [handle or script] [birth] */
static int restore(lua_State *L)
{
    library_check(L);
    snapshot_restore(L, 4);
    library_restore(L);
    return 0;
}

/* What is not Lua's. */
static void isolate_forget(struct orr_isolate *iso)
{
    iso->tasks.closer = (struct orr_waker){ 0 };
    iso->debug = false;
    statistics_reset(&iso->statistics);
    iso->tasks.scheduled_failed = 0;
}

static bool is_at_rest(const struct orr_isolate *iso)
{
    return !iso->tasks.count && !iso->tasks.unseen.first && !iso->hold.urgent && !held_any(&iso->hold.parked) &&
           !schedule_count(&iso->schedule);
}

/* Makes it as it was.  False if that cannot be. */
static bool job_isolate_renew(struct job_isolate *job_isolate)
{
    lua_State *L = job_isolate->L;
    script_timers_close(job_isolate->iso, 0);
    if (!job_isolate->born || job_isolate->single || job_isolate->spoiled || !is_at_rest(job_isolate->iso) ||
        memory_alarm_is_on(&job_isolate->iso->memory_alarm))
        return false;
    isolate_forget(job_isolate->iso);
    lua_settop(L, JOB_ISOLATE_SNAPSHOT);
    lua_pushcfunction(L, restore);
    lua_pushlightuserdata(L, job_isolate);
    lua_pushnil(L);
    lua_pushvalue(L, JOB_ISOLATE_SCRIPT);
    lua_pushvalue(L, JOB_ISOLATE_SNAPSHOT);
    if (lua_pcall(L, 4, 0, 0) != LUA_OK)
        return false;
    if (account_used(&job_isolate->iso->account) > job_isolate->newborn + GARBAGE_MAX)
        lua_gc(L, LUA_GCCOLLECT);
    slab_trim(&job_isolate->iso->slab, true);
    return account_used(&job_isolate->iso->account) <= job_isolate->newborn + GARBAGE_MAX;
}

bool job_isolate_is_large(const struct job_isolate *job_isolate)
{
    enum { PARTS = 16 };
    const struct quota *quota = job_isolate->program->settings->quota;
    return quota && charge_drawn(&job_isolate->iso->charge) > quota->limit / PARTS;
}

void job_isolate_leave(struct job_isolate *job_isolate)
{
    struct job_thread *job_thread = job_isolate->job_thread;
    if (job_thread->ending || !job_isolate_renew(job_isolate) || !spare(job_isolate)) {
        job_isolate_free(job_isolate);
        return;
    }
    job_isolate->next = job_thread->spares;
    job_thread->spares = job_isolate;
    if (++job_thread->spare_count <= SPARES)
        return;
    struct job_isolate **at = &job_thread->spares;
    while ((*at)->next)
        at = &(*at)->next;
    struct job_isolate *oldest = *at;
    *at = NULL;
    job_thread->spare_count--;
    job_isolate_free(oldest);
}

/* --- The thread ----------------------------------------------------------------------------------------------------------------- */

struct job_thread *job_thread_of(struct worker *worker, struct pools *pools)
{
    if (worker_extension(worker))
        return worker_extension(worker);
    struct job_thread *job_thread = alloc_zeroed(worker_alloc(worker), sizeof *job_thread);
    if (!job_thread)
        return NULL;
    job_thread->worker = worker;
    pools->berths[worker_number(worker) - pools->first].job_thread = job_thread;
    worker_set_extension(worker, job_thread);
    return job_thread;
}

static void free_all(struct job_isolate **first)
{
    while (*first) {
        struct job_isolate *job_isolate = *first;
        *first = job_isolate->next;
        job_isolate_free(job_isolate);
    }
}

/* Jobs that run are ended when their tasks are polled, which are cancelled next. */
void job_thread_on_close(struct worker *worker)
{
    struct job_thread *job_thread = worker_extension(worker);
    if (!job_thread)
        return;
    job_thread->ending = true;
    job_thread->spare_count = 0;
    free_all(&job_thread->spares);
}

void job_thread_free(struct job_thread *job_thread, const struct alloc *alloc)
{
    if (!job_thread)
        return;
    free_all(&job_thread->remains);
    alloc_free(alloc, job_thread, sizeof *job_thread);
}
