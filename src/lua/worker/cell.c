/*
 * The crew's side of jobs: a *cell* is an isolate, on one thread of the crew, in which jobs of one program run, one at a time.
 *
 * A task of the core sees to each job: it starts the script as a Lua task of the cell, is woken when the cell has no task left,
 * collects what has come of it, and completes the job's future.  A job is done when all that it began is: tasks, timers, and what it
 * scheduled.  If its script fails, the rest is cancelled.  A failure in what nobody awaits fails the job.
 *
 * A job that was given up is cancelled: what waits may clean up, for CLEANUP_NS at most; what computes is ended where it is, as if its
 * deadline had passed, at the end of its slice.
 *
 * After a job its cell is made as it was when it was new (birth.h), and kept for the next job of the same program; unless it is
 * *spoiled*, because it holds state that cannot be put back, or was ended by force, or has run out of memory.  Then it is freed.
 *
 * All of it on one thread; what others may touch is in pool.h.
 */
#include "lua/worker/pool.h"

#include "base/clock.h"
#include "lua/loop.h"
#include "lua/modules.h"
#include "lua/task.h"
#include "lua/worker/birth.h"
#include "lua/worker/library.h"

#include <errno.h>
#include <string.h>

#define CLEANUP_NS UINT64_C(100000000)

enum {
    SPARES = 4,              /* cells that a thread keeps */
    GARBAGE_MAX = 512 << 10, /* that a spare cell may hold */
    SCRIPT = 1,              /* on the stack of a cell's state: the function, */
    BIRTH,                   /* what it was like, */
    MAIN,                    /* and the handle of the job's task */
};

struct cell {
    struct cell *next; /* of the spares; or of those that could not be freed yet */
    struct station *station;
    struct program *program; /* a reference */
    lua_State *L;
    struct orr_isolate *iso;
    size_t newborn; /* its memory then */
    bool spoiled;

    struct job *job; /* NULL while it is spare */
    struct ltask *main;
    struct orr_wait cleanup;
    uint64_t cleanup_end;
    bool begun, stopping;
};

struct station {
    struct worker *worker;
    struct cell *spares, *remains; /* newest first */
    unsigned spare_count;
    bool ending;
};

/* --- Making and freeing ------------------------------------------------------------------------------------------------ */

static void cell_free(struct cell *cell)
{
    struct station *station = cell->station;
    if (cell->iso && cell->iso->tasks) { /* the kernel has not let go of their I/O */
        cell->next = station->remains;
        station->remains = cell;
        return;
    }
    struct alloc alloc = cell->program->alloc;
    if (cell->iso)
        isolate_free(cell->iso);
    program_unref(cell->program);
    alloc_free(&alloc, cell, sizeof *cell);
}

static void load(lua_State *L, const struct code *code)
{
    if (!program_load(code, L))
        lua_error(L);
}

/* [cell] -> [script] [birth] */
static int furnish(lua_State *L)
{
    struct cell *cell = lua_touserdata(L, 1);
    const struct terms *terms = cell->program->terms;
    library_adapt(cell->iso, L, &cell->spoiled);
    birth_note_library(L);
    if (terms->prepare)
        terms->prepare(terms->prepare_data, L);
    lua_settop(L, 1);
    for (const struct program_module *module = cell->program->modules; module; module = module->next) {
        load(L, &module->code);
        lua_pushstring(L, module->name);
        if (orr_lua_call(L, 1, 1, cell->job->timeout_ns ? cell->job->timeout_ns : ORR_NEVER))
            lua_error(L);
        library_register(L, module->name);
    }
    load(L, &cell->program->code);
    birth_remember(L, 1);
    return 2;
}

static void note_stray(void *data, struct orr_task *task);

/* NULL for lack of memory; and with a text on the state, `spoiled`, if it cannot be furnished. */
static struct cell *cell_new(struct station *station, struct job *job)
{
    struct program *program = job->program;
    struct cell *cell = alloc_zeroed(&program->alloc, sizeof *cell);
    if (!cell)
        return NULL;
    cell->station = station;
    cell->job = job;
    cell->program = program_ref(program);
    if (isolate_new(station->worker->runtime, program->terms, &cell->L)) {
        cell_free(cell);
        return NULL;
    }
    cell->iso = isolate_find(cell->L);
    cell->iso->stray = note_stray;
    cell->iso->stray_data = cell;
    lua_pushcfunction(cell->L, furnish);
    lua_pushlightuserdata(cell->L, cell);
    if (lua_pcall(cell->L, 1, 2, 0) != LUA_OK)
        cell->spoiled = true;
    cell->newborn = cell->iso->memory;
    return cell;
}

/* A spare one of the program, or a new one. */
static struct cell *cell_get(struct station *station, struct job *job)
{
    for (struct cell **at = &station->spares; *at; at = &(*at)->next) {
        struct cell *cell = *at;
        if (cell->program != job->program)
            continue;
        *at = cell->next;
        station->spare_count--;
        cell->job = job;
        return cell;
    }
    struct pools *pools = station->worker->runtime->pools;
    pthread_mutex_lock(&pools->lock);
    pools->made++;
    pthread_mutex_unlock(&pools->lock);
    return cell_new(station, job);
}

/* --- What a job has come to ---------------------------------------------------------------------------------------------- */

/* The job fails with the value at the top, which is taken off, unless it has failed before.  Never raises. */
static void fail(struct cell *cell, const char *report)
{
    struct job *job = cell->job;
    lua_State *L = cell->L;
    if (!job->failed) {
        job->failed = true;
        message_free(&job->result);
        job->report = report ? alloc_copy(&job->program->alloc, report) : NULL;
        if (values_encode(&job->result, L, lua_gettop(L), 1, "error")) { /* it cannot be copied: then words about it */
            lua_replace(L, -2);
            values_encode(&job->result, L, lua_gettop(L), 1, "error");
        }
    }
    lua_pop(L, 1);
}

/* The report of the task in which a failure arose. */
static const char *report_of(struct orr_task *task)
{
    for (struct orr_task *cause; (cause = orr_task_cause(task));)
        task = cause;
    const struct orr_result *result = orr_task_result(task);
    return result ? result->message : NULL;
}

/* Calls `function` with the cell, a pointer and the job's handle, if there is one, protected.  What it raises is the job's error. */
static bool protect(struct cell *cell, lua_CFunction function, void *pointer, int results)
{
    lua_State *L = cell->L;
    lua_pushcfunction(L, function);
    lua_pushlightuserdata(L, cell);
    lua_pushlightuserdata(L, pointer);
    lua_pushvalue(L, lua_gettop(L) >= MAIN + 3 ? MAIN : 1);
    if (lua_pcall(L, 3, results, 0) == LUA_OK)
        return true;
    fail(cell, NULL);
    return false;
}

/* [cell] [task] */
static int take_stray(lua_State *L)
{
    struct cell *cell = lua_touserdata(L, 1);
    struct orr_task *task = lua_touserdata(L, 2);
    push_error_of(L, cell->iso, orr_task_result(task));
    fail(cell, report_of(task));
    return 0;
}

/* Something that nobody awaits has failed. */
static void note_stray(void *data, struct orr_task *task)
{
    struct cell *cell = data;
    task->observed = true;
    if (cell->job && !cell->stopping)
        protect(cell, take_stray, task, 0);
}

/* [cell] [NULL] [handle]: what the script has returned, or raised. */
static int take_outcome(lua_State *L)
{
    struct cell *cell = lua_touserdata(L, 1);
    struct job *job = cell->job;
    struct orr_task *task = cell->main->task;
    const struct orr_result *result = task ? orr_task_result(task) : NULL;
    int count = ltask_push_outcome(L, cell->main, 3);
    luaL_checkstack(L, VALUES_ERROR_SLOTS + 4, NULL);
    if (!lua_toboolean(L, 4)) {
        if (result && result->error == -ETIME) {
            cell->spoiled = true;
            lua_pushliteral(L, "timeout");
        }
        fail(cell, task ? report_of(task) : NULL);
    } else if (!job->failed && values_encode(&job->result, L, 5, count - 1, "results")) {
        fail(cell, NULL);
    }
    return 0;
}

/* --- Running a job ------------------------------------------------------------------------------------------------------- */

/* [cell] -> [handle] */
static int start_main(lua_State *L)
{
    struct cell *cell = lua_touserdata(L, 1);
    lua_settop(L, 3);
    lua_pushvalue(L, 3);
    int count = values_decode(&cell->job->arguments, L);
    struct ltask_options options = { .name = "job", .detached = true, .entry = ORR_LUA_JOB };
    cell->main = ltask_new(cell->iso, L, count, &options);
    worker_ready(cell->iso->worker, cell->main->task);
    return 1;
}

/* False if there is nothing to wait for. */
static bool begin(struct cell *cell, struct orr_task *task)
{
    struct job *job = cell->job;
    if (!job_begin(job, orr_task_waker(task)))
        return false;
    if (cell->spoiled) { /* it could not be furnished: the text says why */
        fail(cell, NULL);
        return false;
    }
    for (int entry = 0; entry < ORR_LUA_ENTRIES; entry++)
        cell->iso->limits.deadline_ns[entry] = job->timeout_ns;
    cell->iso->closer = orr_task_waker(task);
    bool started = protect(cell, start_main, NULL, 1);
    message_free(&job->arguments);
    return started;
}

/* All of the cell, timers and what is scheduled too. */
static void cancel_all(struct cell *cell)
{
    loop_close_timers(cell->iso, 0);
    schedule_cancel(cell->iso, 0);
    ltask_cancel_all(cell->iso);
}

static void end_by_force(struct cell *cell)
{
    cell->spoiled = true;
    ltask_drop_all(cell->iso);
}

/* From now on the job is only to end. */
static void stop(struct cell *cell)
{
    cell->stopping = true;
    cell->cleanup_end = clock_after(clock_now(), CLEANUP_NS);
    bool computes = isolate_is_held(cell->iso);
    cancel_all(cell);
    if (computes || cell->station->ending)
        end_by_force(cell);
}

/* Whether something is still to happen in the cell.  Then the task is polled again. */
static bool goes_on(struct cell *cell, struct orr_task *task)
{
    struct orr_isolate *iso = cell->iso;
    if (!cell->stopping && (cell->station->ending || job_is_given_up(cell->job)))
        stop(cell);
    if (cell->main->state != LTASK_LIVE && cell->main->state != LTASK_OK && !cell->stopping && iso->tasks)
        stop(cell); /* without it the others are nobody's */
    if (cell->stopping && iso->tasks) {
        if (clock_now() >= cell->cleanup_end)
            end_by_force(cell);
        else if (isolate_is_held(iso))
            orr_task_yield(task);
        else
            orr_sleep(task, &cell->cleanup, CLEANUP_NS);
        return iso->tasks;
    }
    if (iso->unseen)
        orr_task_yield(task);
    return iso->tasks || iso->unseen || (!cell->stopping && (iso->schedule.count || loop_any_active(iso)));
}

/* --- Between jobs ---------------------------------------------------------------------------------------------------------- */

/* [cell] [NULL] [handle or script] [birth] */
static int restore(lua_State *L)
{
    birth_restore(L, 4);
    library_restore(L);
    return 0;
}

static bool is_at_rest(const struct orr_isolate *iso)
{
    return !iso->tasks && !iso->unseen && !iso->urgent && !iso->parked.first && !iso->belated.first && !iso->schedule.count;
}

/* Makes it as it was.  False if that cannot be. */
static bool cell_renew(struct cell *cell)
{
    lua_State *L = cell->L;
    loop_close_timers(cell->iso, 0);
    if (cell->spoiled || !is_at_rest(cell->iso) || cell->iso->over_memory)
        return false;
    cell->iso->closer = (struct orr_waker){ 0 };
    lua_settop(L, BIRTH);
    lua_pushcfunction(L, restore);
    lua_pushlightuserdata(L, cell);
    lua_pushnil(L);
    lua_pushvalue(L, SCRIPT);
    lua_pushvalue(L, BIRTH);
    if (lua_pcall(L, 4, 0, 0) != LUA_OK)
        return false;
    if (cell->iso->memory > cell->newborn + GARBAGE_MAX)
        lua_gc(L, LUA_GCCOLLECT);
    return cell->iso->memory <= cell->newborn + GARBAGE_MAX;
}

static void cell_leave(struct cell *cell)
{
    struct station *station = cell->station;
    if (station->ending || !cell_renew(cell)) {
        cell_free(cell);
        return;
    }
    cell->next = station->spares;
    station->spares = cell;
    if (++station->spare_count <= SPARES)
        return;
    struct cell **at = &station->spares;
    while ((*at)->next)
        at = &(*at)->next;
    struct cell *oldest = *at;
    *at = NULL;
    station->spare_count--;
    cell_free(oldest);
}

/* --- The task --------------------------------------------------------------------------------------------------------------- */

/* What has come of it is told; `error`: nothing of its own.  The cell is ready for another, or gone. */
static void cell_over(struct cell *cell, int error)
{
    struct job *job = cell->job;
    orr_wait_withdraw(&cell->cleanup);
    if (!error && cell->main && cell->main->state != LTASK_LIVE)
        protect(cell, take_outcome, NULL, 0);
    orr_future_complete(job->future, (struct orr_result){ .error = error });
    job->cell = NULL;
    cell->job = NULL;
    cell->main = NULL;
    cell->begun = cell->stopping = false;
    cell_leave(cell);
}

static void start_jobs(struct station *station, struct job *job);

static enum orr_poll cell_poll(struct orr_task *task, void *data)
{
    struct job *job = data;
    struct cell *cell = job->cell;
    bool first = !cell->begun;
    cell->begun = true;
    if ((!first || begin(cell, task)) && goes_on(cell, task))
        return ORR_PENDING;
    struct station *station = cell->station;
    cell_over(cell, (cell->stopping || !cell->main) && !job->failed ? -ECANCELED : 0);
    start_jobs(station, job_leave(job));
    return ORR_DONE;
}

/* The task is over; or it ends with its thread, before the job has come to anything. */
static void cell_drop(void *data)
{
    struct job *job = data;
    struct cell *cell = job->cell;
    if (cell) {
        end_by_force(cell);
        cell_over(cell, -ECANCELED);
        job_leave(job);
    }
    job_unref(job);
}

/* False if there is no memory for it. */
static bool start_job(struct station *station, struct job *job)
{
    struct cell *cell = cell_get(station, job);
    if (!cell)
        return false;
    job->cell = cell;
    struct orr_spawn what = {
        .poll = cell_poll, .data = job, .drop = cell_drop, .name = "a worker's job", .detached = true
    };
    if (!orr_spawn(station->worker->runtime, &what))
        return true;
    job->cell = NULL;
    cell->job = NULL;
    cell_leave(cell);
    return false;
}

/* A job, and if it cannot be started the next, until one can. */
static void start_jobs(struct station *station, struct job *job)
{
    while (job && !start_job(station, job)) {
        struct job *failed = job;
        orr_future_complete(job->future,
                            (struct orr_result){ .error = station->ending ? -ESHUTDOWN : -ENOMEM });
        job = job_leave(job);
        job_unref(failed);
    }
}

/* --- The thread ----------------------------------------------------------------------------------------------------------------- */

static struct station *station_of(struct worker *worker)
{
    if (worker->station)
        return worker->station;
    struct pools *pools = worker->runtime->pools;
    struct station *station = alloc_zeroed(&worker->alloc, sizeof *station);
    if (!station)
        return NULL;
    station->worker = worker;
    worker->station = pools->stations[worker->number - pools->first] = station;
    return station;
}

void cell_receive(struct worker *worker, struct mail *mail)
{
    struct job *job = container_of(mail, struct job, mail);
    struct station *station = worker->closing ? NULL : station_of(worker);
    if (station) {
        start_jobs(station, job);
        return;
    }
    orr_future_complete(job->future, (struct orr_result){ .error = worker->closing ? -ESHUTDOWN : -ENOMEM });
    job_leave(job);
    job_unref(job);
}

static void free_all(struct cell **first)
{
    while (*first) {
        struct cell *cell = *first;
        *first = cell->next;
        cell_free(cell);
    }
}

/* Jobs that run are ended when their tasks are polled, which are cancelled next. */
void cell_farewell(struct worker *worker)
{
    struct station *station = worker->station;
    if (!station)
        return;
    station->ending = true;
    station->spare_count = 0;
    free_all(&station->spares);
}

void station_free(struct station *station, const struct alloc *alloc)
{
    if (!station)
        return;
    free_all(&station->remains);
    alloc_free(alloc, station, sizeof *station);
}
