/*
 * The crew's side of a job.
 *
 * A task of the core sees to each job: it starts the script as a Lua task of a cell, is woken when the cell has no task left,
 * collects what has come of it, and completes the job's future.  A job is done when all that it began is: tasks, timers, and what it
 * scheduled.  The script's failure is the job's, and so is that of anything that nobody awaits: whichever comes first, the rest is
 * cancelled.
 *
 * In a new cell the program's modules run before the script, in the job's time and as a task of their own, so that what they compute
 * can be suspended and ended, too.
 *
 * A job that was given up, or has failed, is cancelled: what waits may clean up, for CLEANUP_NS at most; what computes is ended where it
 * is, as if its deadline had passed, at the end of its slice.
 *
 * All of it on one thread; what others may touch is in pool.h.
 */
#include "lua/worker/cell.h"

#include "lua/budget.h"
#include "lua/charge.h"
#include "lua/loop.h"
#include "lua/modules.h"
#include "lua/task.h"
#include "lua/terms.h"
#include "lua/values/work.h"
#include "lua/worker/library.h"

#include <errno.h>
#include <string.h>

#define CLEANUP_NS UINT64_C(100000000)

/*
 * What is copied outside the script's tasks, where nothing can be suspended: some 100 microseconds' worth.  Larger arguments and results
 * are copied by a task.  Larger errors are not copied.
 */
enum { COPIED_STEPS = PACED_STEPS, COPIED_BYTES = 8192, ERROR_STEPS = 4 * PACED_STEPS };

/* --- What a job has come to ---------------------------------------------------------------------------------------------- */

/*
 * For a value that cannot be copied, and what values_encode() says of it, at the top: leaves words in their place.  They are its own, if it
 * has any: those that the report was made of when it was raised, so that no script runs here.
 */
static void put_words(lua_State *L, const char *report)
{
    const char *end = report ? strstr(report, "\nstack traceback:") : NULL;
    if (end && luaL_getmetafield(L, -2, "__tostring") != LUA_TNIL) {
        lua_pop(L, 2);
        lua_pushlstring(L, report, (size_t)(end - report));
    }
    lua_replace(L, -2);
}

/*
 * As values_encode(), into the result; but -EAGAIN, with nothing pushed, for more than so many steps.  What the job has left behind is
 * collected, if that makes room.
 */
static int copy_few(struct cell *cell, lua_State *L, int first, int count, const char *root, int steps)
{
    static const volatile bool never = false;
    int top = lua_gettop(L), error;
    for (bool again = false;; again = true) {
        struct encoder encoder;
        encoder_begin(&encoder, &cell->job->result, L, first, count, root);
        error = encoder_step(&encoder, L, steps, &never);
        encoder_free(&encoder);
        if (error != -ENOMEM || again || !charge_collect(cell->iso, L))
            break;
        lua_settop(L, top);
    }
    if (error == -EAGAIN)
        lua_settop(L, top);
    return error;
}

/* Copies the error at the top.  False if that cannot be, with why not pushed. */
static bool copy_error(struct cell *cell, lua_State *L)
{
    struct job *job = cell->job;
    int error = copy_few(cell, L, lua_gettop(L), 1, "error", ERROR_STEPS);
    if (error != -EAGAIN)
        return !error;
    message_clear(&job->result);
    lua_pushfstring(L, "error: too large to be copied: errors have at most %d values", ERROR_STEPS);
    return false;
}

/*
 * The job fails with the value at the top, which is taken off, unless it has failed before.  Raises for lack of memory, but not without
 * a report; then there is no message.
 */
static void fail(struct cell *cell, lua_State *L, const char *report)
{
    struct job *job = cell->job;
    if (!job->failed) {
        job->failed = true;
        message_clear(&job->result);
        job_set_report(job, report);
        if (!copy_error(cell, L)) {
            put_words(L, report);
            copy_few(cell, L, lua_gettop(L), 1, "error", ERROR_STEPS);
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
    lua_pushvalue(L, lua_gettop(L) >= CELL_MAIN + 3 ? CELL_MAIN : 1);
    if (lua_pcall(L, 3, results, 0) == LUA_OK)
        return true;
    fail(cell, L, NULL);
    return false;
}

/*
 * The job fails with the value at the top, which is taken off: the error of a task of the cell.  If the job has used up its time, the error is
 * "timeout"; if its isolate was ended for what it did, the error says so.
 */
static void fail_with_task(struct cell *cell, lua_State *L, struct orr_task *task)
{
    const struct orr_result *result = orr_task_result(task);
    if (result && result->error == -ETIME && cell->main && task == cell->main->task) {
        cell->spoiled = true;
        lua_pop(L, 1);
        if (cell->iso->condemned)
            lua_pushfstring(L, "Script ended: %s", cell->iso->verdict);
        else
            lua_pushliteral(L, "timeout");
    }
    fail(cell, L, report_of(task));
}

/* [cell] [task] */
static int take_stray(lua_State *L)
{
    struct cell *cell = lua_touserdata(L, 1);
    struct orr_task *task = lua_touserdata(L, 2);
    push_error_of(L, cell->iso, orr_task_result(task));
    fail_with_task(cell, L, task);
    return 0;
}

/* Something that nobody awaits has failed. */
void perform_note_stray(void *data, struct orr_task *task)
{
    struct cell *cell = data;
    task->observed = true;
    if (!cell->job || cell->stopping)
        return;
    protect(cell, take_stray, task, 0);
    orr_waker_wake(cell->iso->closer); /* to stop the rest */
}

/* [cell] [NULL] [handle] [true] [results...] */
static void copy_results(struct cell *cell, lua_State *L, int count)
{
    struct job *job = cell->job;
    int error = copy_few(cell, L, 5, count, "results", COPIED_STEPS);
    cell->taken = true;
    cell->collects = error == -EAGAIN;
    if (error == -EAGAIN) {
        message_clear(&job->result);
    } else if (error) {
        fail(cell, L, NULL);
    }
}

/* [cell] [NULL] [handle]: what the script has returned, or raised. */
static int take_outcome(lua_State *L)
{
    struct cell *cell = lua_touserdata(L, 1);
    struct job *job = cell->job;
    struct orr_task *task = cell->main->task;
    int count = ltask_push_outcome(L, cell->main, 3);
    luaL_checkstack(L, VALUES_ERROR_SLOTS + 4, NULL);
    if (!lua_toboolean(L, 4) && task)
        fail_with_task(cell, L, task);
    else if (!lua_toboolean(L, 4))
        fail(cell, L, NULL);
    else if (!job->failed && !cell->taken)
        copy_results(cell, L, count - 1);
    return 0;
}

/* --- Copying much -------------------------------------------------------------------------------------------------------- */

static int collect_on(lua_State *L, int status, lua_KContext context);

/* [handle] [cell] [work] [true] [results...] */
static int run_collecting(lua_State *L, struct paced *work)
{
    struct cell *cell = lua_touserdata(L, 2);
    int error = paced_run(L, &work);
    if (error == -EAGAIN)
        return budget_hold(L, collect_on, (lua_KContext)work);
    work->kind->free(work);
    if (error)
        fail(cell, L, NULL);
    return 0;
}

static int collect_on(lua_State *L, int status, lua_KContext context)
{
    (void)status;
    return run_collecting(L, paced_kept(L, 3, context));
}

/* [handle] [cell]: the body of a task that copies what the script's has returned. */
static int collect(lua_State *L)
{
    struct encoding work;
    struct cell *cell = lua_touserdata(L, 2);
    lua_settop(L, 3);
    int count = ltask_push_outcome(L, lua_touserdata(L, 1), 1);
    luaL_checkstack(L, VALUES_ERROR_SLOTS + 4, NULL);
    encoding_begin(&work, L, 3, &cell->job->result, 5, count - 1, "results");
    return run_collecting(L, &work.paced);
}

static int call_on(lua_State *L, int status, lua_KContext context);

static int return_all(lua_State *L, int status, lua_KContext context)
{
    (void)status;
    (void)context;
    return lua_gettop(L);
}

/* [cell] [work] [script] [arguments...] */
static int run_calling(lua_State *L, struct paced *work)
{
    struct cell *cell = lua_touserdata(L, 1);
    int count = paced_run(L, &work);
    if (count == -EAGAIN)
        return budget_hold(L, call_on, (lua_KContext)work);
    message_free(&cell->job->arguments);
    lua_remove(L, 1);
    lua_remove(L, 1);
    lua_callk(L, count, LUA_MULTRET, 0, return_all);
    return return_all(L, LUA_OK, 0);
}

static int call_on(lua_State *L, int status, lua_KContext context)
{
    (void)status;
    return run_calling(L, paced_kept(L, 2, context));
}

/* [cell] [nil] [script]: the body of a task that reads many arguments, and calls the script. */
static int call_with_arguments(lua_State *L)
{
    struct decoding work;
    struct cell *cell = lua_touserdata(L, 1);
    decoding_begin(&work, 2, &cell->job->arguments, NULL, 0);
    return run_calling(L, &work.paced);
}

static void push_closure(const struct cell *cell, lua_State *L, lua_CFunction function)
{
    lua_pushlightuserdata(L, cell->iso);
    lua_pushcclosure(L, function, 1);
}

/* --- Running a job ------------------------------------------------------------------------------------------------------- */

/* [cell] [NULL] [function] -> [handle], with arguments on the stack above the function. */
static int start_task(struct cell *cell, lua_State *L, int arguments, const char *name)
{
    struct ltask_options options = { .name = name, .detached = true, .entry = ORR_LUA_JOB };
    cell->main = ltask_new(cell->iso, L, arguments, &options);
    worker_ready(cell->iso->worker, cell->main->task);
    return 1;
}

/* [cell] [NULL] [script] */
static int start_script(lua_State *L)
{
    struct cell *cell = lua_touserdata(L, 1);
    const struct message *arguments = &cell->job->arguments;
    if (arguments->size <= COPIED_BYTES)
        return start_task(cell, L, values_decode(arguments, L), "job");
    push_closure(cell, L, call_with_arguments);
    lua_insert(L, 3);
    lua_pushlightuserdata(L, cell);
    lua_insert(L, 4);
    lua_pushnil(L);
    lua_insert(L, 5);
    return start_task(cell, L, 3, "job");
}

/* [cell] [NULL] [handle] */
static int start_collecting(lua_State *L)
{
    struct cell *cell = lua_touserdata(L, 1);
    push_closure(cell, L, collect);
    lua_insert(L, 3);
    lua_pushlightuserdata(L, cell);
    return start_task(cell, L, 2, "job");
}

static void load(lua_State *L, const struct code *code)
{
    if (!program_load(code, L))
        lua_error(L);
}

/* [first]; and with a module as the context, it has run, and what it returned is at the top. */
static int load_modules(lua_State *L, int status, lua_KContext context)
{
    (void)status;
    struct program_module *module = (struct program_module *)context;
    if (module)
        library_register(L, module->name);
    for (module = module ? module->next : lua_touserdata(L, 1); module; module = module->next) {
        load(L, &module->code);
        lua_pushstring(L, module->name);
        lua_callk(L, 1, 1, (lua_KContext)module, load_modules);
        library_register(L, module->name);
    }
    return 0;
}

static int load_all(lua_State *L)
{
    return load_modules(L, LUA_OK, 0);
}

/* [cell] */
static int start_loading(lua_State *L)
{
    struct cell *cell = lua_touserdata(L, 1);
    lua_pushcfunction(L, load_all);
    lua_pushlightuserdata(L, cell->program->modules);
    return start_task(cell, L, 1, "modules");
}

/* Its modules are loaded, or there are none.  False if the job has failed over the rest. */
static bool be_born(struct cell *cell)
{
    cell->main = NULL;
    if (!cell_bear(cell))
        fail(cell, cell->L, NULL);
    return cell->born;
}

/* The cell is born, or was: the script. */
static bool start_job_proper(struct cell *cell)
{
    bool started = protect(cell, start_script, NULL, 1);
    if (!started || cell->job->arguments.size <= COPIED_BYTES) /* else the task does it */
        message_free(&cell->job->arguments);
    return started;
}

/* Of two times, either of which may be 0, for none. */
static uint64_t smaller_limit(uint64_t one, uint64_t other)
{
    return !one || (other && other < one) ? other : one;
}

/* False if there is nothing to wait for. */
static bool begin(struct cell *cell, struct orr_task *task)
{
    struct job *job = cell->job;
    if (!job_begin(job, orr_task_waker(task)))
        return false;
    if (cell->unfit) {
        fail(cell, cell->L, NULL);
        return false;
    }
    uint64_t limit = smaller_limit(job->timeout_ns, job->program->terms->limits.deadline_ns[ORR_LUA_JOB]);
    for (int entry = 0; entry < ORR_LUA_ENTRIES; entry++)
        cell->iso->limits.deadline_ns[entry] = limit;
    cell->iso->closer = orr_task_waker(task);
    if (!cell->born && cell->program->modules) {
        lua_settop(cell->L, CELL_MAIN - 1);
        return protect(cell, start_loading, NULL, 1);
    }
    return (cell->born || be_born(cell)) && start_job_proper(cell);
}

/* From now on the job is only to end: timers and what is scheduled too. */
static void stop(struct cell *cell)
{
    struct orr_isolate *iso = cell->iso;
    cell->stopping = true;
    bool computes = isolate_is_held(iso);
    loop_close_timers(iso, EVERY_SCRIPT);
    schedule_cancel(iso, EVERY_SCRIPT);
    uint64_t grace = iso->worker->grace_ns;
    shutdown_begin(&iso->shutdown, iso, EVERY_SCRIPT, grace < CLEANUP_NS ? grace : CLEANUP_NS);
    if (computes || cell->station->ending)
        shutdown_force(&iso->shutdown);
}

/* The thread ends: at once. */
static void end_by_force(struct cell *cell)
{
    if (!cell->stopping)
        stop(cell);
    cell->spoiled = true;
    shutdown_drop(&cell->iso->shutdown);
}

/* Whether something is still to happen in the cell.  Then the task is polled again. */
static bool goes_on(struct cell *cell, struct orr_task *task)
{
    struct orr_isolate *iso = cell->iso;
    if (!cell->stopping && cell->main->state != LTASK_LIVE && cell->main->state != LTASK_OK)
        protect(cell, take_outcome, NULL, 0);
    if (!cell->stopping && (cell->station->ending || cell->job->failed || job_is_given_up(cell->job)))
        stop(cell);
    if (cell->stopping && iso->tasks) {
        bool ended = shutdown_poll(&iso->shutdown, task);
        cell->spoiled |= iso->shutdown.forced > 0;
        if (!ended)
            return true;
    }
    if (iso->unseen.first)
        orr_task_yield(task);
    return iso->tasks || iso->unseen.first || (!cell->stopping && (iso->schedule.count || loop_any_active(iso)));
}

/* --- The task --------------------------------------------------------------------------------------------------------------- */

/*
 * All that the script began is over: takes what it has come to.  True if that is so much that a task has to copy it first; then that is the
 * cell's task.
 */
static bool goes_on_collecting(struct cell *cell)
{
    if (cell->taken || cell->stopping || !cell->main || cell->main->state != LTASK_OK || cell->job->failed)
        return false;
    protect(cell, take_outcome, NULL, 0);
    if (!cell->collects || !protect(cell, start_collecting, NULL, 1))
        return false;
    lua_replace(cell->L, CELL_MAIN);
    return true;
}

/* What has come of it is told; `error`: nothing of its own.  The cell is ready for another, or gone. */
static void cell_over(struct cell *cell, int error)
{
    struct job *job = cell->job;
    shutdown_end(&cell->iso->shutdown);
    if (!error && cell->main && cell->main->state != LTASK_LIVE)
        protect(cell, take_outcome, NULL, 0);
    bool large = cell_is_large(cell);
    if (!large)
        orr_future_complete(job->future, (struct orr_result){ .error = error });
    job->cell = NULL;
    cell->job = NULL;
    cell->main = NULL;
    cell->begun = cell->stopping = cell->collects = cell->taken = false;
    cell_leave(cell);
    if (large) /* not before its memory is there again, for whoever waits */
        orr_future_complete(job->future, (struct orr_result){ .error = error });
}

static void start_jobs(struct station *station, struct job *job);

/* Whether the job is under way. */
static bool is_under_way(struct cell *cell, struct orr_task *task)
{
    bool first = !cell->begun;
    cell->begun = true;
    if (first && !begin(cell, task))
        return false;
    if (goes_on(cell, task))
        return true;
    bool loaded = !cell->born && !cell->stopping && !cell->job->failed;
    if (loaded)
        return be_born(cell) && start_job_proper(cell);
    return goes_on_collecting(cell);
}

static enum orr_poll cell_poll(struct orr_task *task, void *data)
{
    struct job *job = data;
    struct cell *cell = job->cell;
    if (is_under_way(cell, task))
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
        orr_future_complete(job->future, (struct orr_result){ .error = station->ending ? -ESHUTDOWN : -ENOMEM });
        job = job_leave(job);
        job_unref(failed);
    }
}

/* --- Arriving ------------------------------------------------------------------------------------------------------------------- */

void job_arrives(struct worker *worker, struct mail *mail)
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
