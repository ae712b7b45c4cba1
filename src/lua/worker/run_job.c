/*
 * The crew's side of a job.
 *
 * A task of the core sees to each job: it starts the script as a Lua task of a job_isolate, is woken when the job_isolate has no task left,
 * collects what has come of it, and completes the job's future.  A job is done when all that it began is: tasks, timers, and what it
 * scheduled.  The script's failure is the job's, and so is that of anything that nobody awaits: whichever comes first, the rest is
 * cancelled.
 *
 * In a new job_isolate the program's modules run before the script, in the job's time and as a task of their own, so that what they compute
 * can be suspended and ended, too.
 *
 * A job that was given up, or has failed, is cancelled: what waits may clean up, for CLEANUP_NS at most; what computes is ended where it
 * is, as if its deadline had passed, at the end of its slice.
 *
 * All of it on one thread; what others may touch is in pool.h.
 */
#include "lua/worker/job_isolate.h"

#include "lua/api/schedule.h"
#include "lua/api/script_timers.h"
#include "lua/isolate/charge.h"
#include "lua/isolate/settings.h"
#include "lua/limits/preempt.h"
#include "lua/task/create.h"
#include "lua/task/hold.h"
#include "lua/task/result.h"
#include "lua/task/shutdown.h"
#include "lua/task/task.h"
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
static int copy_few(struct job_isolate *job_isolate, lua_State *L, int first, int count, const char *root, int steps)
{
    static const volatile bool never = false;
    int top = lua_gettop(L), error;
    for (bool again = false;; again = true) {
        struct encoder encoder;
        encoder_begin(&encoder, &job_isolate->job->result, L, first, count, root);
        error = encoder_step(&encoder, L, steps, &never);
        encoder_free(&encoder);
        if (error != -ENOMEM || again || !charge_collect(job_isolate->iso, L))
            break;
        lua_settop(L, top);
    }
    if (error == -EAGAIN)
        lua_settop(L, top);
    return error;
}

/* Copies the error at the top.  False if that cannot be, with why not pushed. */
static bool copy_error(struct job_isolate *job_isolate, lua_State *L)
{
    struct job *job = job_isolate->job;
    int error = copy_few(job_isolate, L, lua_gettop(L), 1, "error", ERROR_STEPS);
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
static void fail(struct job_isolate *job_isolate, lua_State *L, const char *report)
{
    struct job *job = job_isolate->job;
    if (!job->failed) {
        job->failed = true;
        message_clear(&job->result);
        job_set_report(job, report);
        if (!copy_error(job_isolate, L)) {
            put_words(L, report);
            copy_few(job_isolate, L, lua_gettop(L), 1, "error", ERROR_STEPS);
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

/* Calls `function` with the job_isolate, a pointer and the job's handle, if there is one, protected.  What it raises is the job's error. */
static bool protect(struct job_isolate *job_isolate, lua_CFunction function, void *pointer, int results)
{
    lua_State *L = job_isolate->L;
    lua_pushcfunction(L, function);
    lua_pushlightuserdata(L, job_isolate);
    lua_pushlightuserdata(L, pointer);
    lua_pushvalue(L, lua_gettop(L) >= JOB_ISOLATE_MAIN + 3 ? JOB_ISOLATE_MAIN : 1);
    if (lua_pcall(L, 3, results, 0) == LUA_OK)
        return true;
    fail(job_isolate, L, NULL);
    return false;
}

/*
 * The job fails with the value at the top, which is taken off: the error of a task of the job_isolate.  If the job has used up its time, the error is
 * "timeout"; if its isolate was ended for what it did, the error says so.
 */
static void fail_with_task(struct job_isolate *job_isolate, lua_State *L, struct orr_task *task)
{
    const struct orr_result *result = orr_task_result(task);
    if (result && result->error == -ETIME && job_isolate->main && task == job_isolate->main->task) {
        job_isolate->spoiled = true;
        lua_pop(L, 1);
        if (ban_is_imposed(&job_isolate->iso->ban))
            lua_pushfstring(L, "Script ended: %s", ban_reason(&job_isolate->iso->ban));
        else
            lua_pushliteral(L, "timeout");
    }
    fail(job_isolate, L, report_of(task));
}

/* [job_isolate] [task] */
static int take_stray(lua_State *L)
{
    struct job_isolate *job_isolate = lua_touserdata(L, 1);
    struct orr_task *task = lua_touserdata(L, 2);
    push_error_of(L, job_isolate->iso, orr_task_result(task));
    fail_with_task(job_isolate, L, task);
    return 0;
}

/* Something that nobody awaits has failed. */
void run_job_note_unhandled(void *data, struct orr_task *task)
{
    struct job_isolate *job_isolate = data;
    task_set_seen(task, true);
    if (!job_isolate->job || job_isolate->stopping)
        return;
    protect(job_isolate, take_stray, task, 0);
    orr_waker_wake(task_set_on_empty(&job_isolate->iso->tasks)); /* to stop the rest */
}

/* [job_isolate] [NULL] [handle] [true] [results...] */
static void copy_results(struct job_isolate *job_isolate, lua_State *L, int count)
{
    struct job *job = job_isolate->job;
    int error = copy_few(job_isolate, L, 5, count, "results", COPIED_STEPS);
    job_isolate->taken = true;
    job_isolate->collects = error == -EAGAIN;
    if (error == -EAGAIN) {
        message_clear(&job->result);
    } else if (error) {
        fail(job_isolate, L, NULL);
    }
}

/* [job_isolate] [NULL] [handle]: what the script has returned, or raised. */
static int take_outcome(lua_State *L)
{
    struct job_isolate *job_isolate = lua_touserdata(L, 1);
    struct job *job = job_isolate->job;
    struct orr_task *task = job_isolate->main->task;
    int count = ltask_push_outcome(L, job_isolate->main, 3);
    luaL_checkstack(L, VALUES_ERROR_SLOTS + 4, NULL);
    if (!lua_toboolean(L, 4) && task)
        fail_with_task(job_isolate, L, task);
    else if (!lua_toboolean(L, 4))
        fail(job_isolate, L, NULL);
    else if (!job->failed && !job_isolate->taken)
        copy_results(job_isolate, L, count - 1);
    return 0;
}

/* --- Copying much -------------------------------------------------------------------------------------------------------- */

static int collect_on(lua_State *L, int status, lua_KContext context);

/* [handle] [job_isolate] [work] [true] [results...] */
static int run_collecting(lua_State *L, struct paced *work)
{
    struct job_isolate *job_isolate = lua_touserdata(L, 2);
    int error = paced_run(L, &work);
    if (error == -EAGAIN)
        return preempt_hold(L, collect_on, (lua_KContext)work);
    work->kind->free(work);
    if (error)
        fail(job_isolate, L, NULL);
    return 0;
}

static int collect_on(lua_State *L, int status, lua_KContext context)
{
    (void)status;
    return run_collecting(L, paced_kept(L, 3, context));
}

/* [handle] [job_isolate]: the body of a task that copies what the script's has returned. */
static int collect(lua_State *L)
{
    struct encoding work;
    struct job_isolate *job_isolate = lua_touserdata(L, 2);
    lua_settop(L, 3);
    int count = ltask_push_outcome(L, lua_touserdata(L, 1), 1);
    luaL_checkstack(L, VALUES_ERROR_SLOTS + 4, NULL);
    encoding_begin(&work, L, 3, &job_isolate->job->result, 5, count - 1, "results");
    return run_collecting(L, &work.paced);
}

static int call_on(lua_State *L, int status, lua_KContext context);

static int return_all(lua_State *L, int status, lua_KContext context)
{
    (void)status;
    (void)context;
    return lua_gettop(L);
}

/* [job_isolate] [work] [script] [arguments...] */
static int run_calling(lua_State *L, struct paced *work)
{
    struct job_isolate *job_isolate = lua_touserdata(L, 1);
    int count = paced_run(L, &work);
    if (count == -EAGAIN)
        return preempt_hold(L, call_on, (lua_KContext)work);
    message_free(&job_isolate->job->arguments);
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

/* [job_isolate] [nil] [script]: the body of a task that reads many arguments, and calls the script. */
static int call_with_arguments(lua_State *L)
{
    struct decoding work;
    struct job_isolate *job_isolate = lua_touserdata(L, 1);
    decoding_begin(&work, 2, &job_isolate->job->arguments, NULL, 0);
    return run_calling(L, &work.paced);
}

static void push_closure(const struct job_isolate *job_isolate, lua_State *L, lua_CFunction function)
{
    lua_pushlightuserdata(L, job_isolate->iso);
    lua_pushcclosure(L, function, 1);
}

/* --- Running a job ------------------------------------------------------------------------------------------------------- */

/* [job_isolate] [NULL] [function] -> [handle], with arguments on the stack above the function. */
static int start_task(struct job_isolate *job_isolate, lua_State *L, int arguments, const char *name)
{
    struct ltask_options options = { .name = name, .detached = true, .entry = ORR_LUA_JOB };
    job_isolate->main = ltask_new(job_isolate->iso, L, arguments, &options);
    worker_ready(job_isolate->iso->worker, job_isolate->main->task);
    return 1;
}

/* [job_isolate] [NULL] [script] */
static int start_script(lua_State *L)
{
    struct job_isolate *job_isolate = lua_touserdata(L, 1);
    const struct message *arguments = &job_isolate->job->arguments;
    if (arguments->size <= COPIED_BYTES)
        return start_task(job_isolate, L, values_decode(arguments, L), "job");
    push_closure(job_isolate, L, call_with_arguments);
    lua_insert(L, 3);
    lua_pushlightuserdata(L, job_isolate);
    lua_insert(L, 4);
    lua_pushnil(L);
    lua_insert(L, 5);
    return start_task(job_isolate, L, 3, "job");
}

/* [job_isolate] [NULL] [handle] */
static int start_collecting(lua_State *L)
{
    struct job_isolate *job_isolate = lua_touserdata(L, 1);
    push_closure(job_isolate, L, collect);
    lua_insert(L, 3);
    lua_pushlightuserdata(L, job_isolate);
    return start_task(job_isolate, L, 2, "job");
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

/* [job_isolate] */
static int start_loading(lua_State *L)
{
    struct job_isolate *job_isolate = lua_touserdata(L, 1);
    lua_pushcfunction(L, load_all);
    lua_pushlightuserdata(L, job_isolate->program->modules);
    return start_task(job_isolate, L, 1, "modules");
}

/* Its modules are loaded, or there are none.  False if the job has failed over the rest. */
static bool be_born(struct job_isolate *job_isolate)
{
    job_isolate->main = NULL;
    if (!job_isolate_init(job_isolate))
        fail(job_isolate, job_isolate->L, NULL);
    return job_isolate->born;
}

/* The job_isolate is born, or was: the script. */
static bool start_job_proper(struct job_isolate *job_isolate)
{
    bool started = protect(job_isolate, start_script, NULL, 1);
    if (!started || job_isolate->job->arguments.size <= COPIED_BYTES) /* else the task does it */
        message_free(&job_isolate->job->arguments);
    return started;
}

/* Of two times, either of which may be 0, for none. */
static uint64_t smaller_limit(uint64_t one, uint64_t other)
{
    return !one || (other && other < one) ? other : one;
}

/* False if there is nothing to wait for. */
static bool begin(struct job_isolate *job_isolate, struct orr_task *task)
{
    struct job *job = job_isolate->job;
    if (!job_begin(job, orr_task_waker(task)))
        return false;
    if (job_isolate->unfit) {
        fail(job_isolate, job_isolate->L, NULL);
        return false;
    }
    uint64_t limit = smaller_limit(job->timeout_ns, job->program->settings->limits.deadline_ns[ORR_LUA_JOB]);
    for (int entry = 0; entry < ORR_LUA_ENTRIES; entry++)
        job_isolate->iso->limits.deadline_ns[entry] = limit;
    task_set_wake_when_empty(&job_isolate->iso->tasks, orr_task_waker(task));
    if (!job_isolate->born && job_isolate->program->modules) {
        lua_settop(job_isolate->L, JOB_ISOLATE_MAIN - 1);
        return protect(job_isolate, start_loading, NULL, 1);
    }
    return (job_isolate->born || be_born(job_isolate)) && start_job_proper(job_isolate);
}

/* From now on the job is only to end: timers and what is scheduled too. */
static void stop(struct job_isolate *job_isolate)
{
    struct orr_isolate *iso = job_isolate->iso;
    job_isolate->stopping = true;
    bool computes = isolate_is_held(iso);
    script_timers_close(iso, EVERY_SCRIPT);
    schedule_cancel(iso, EVERY_SCRIPT);
    uint64_t grace = worker_grace_ns(iso->worker);
    shutdown_begin(&iso->shutdowns.all, iso, EVERY_SCRIPT, grace < CLEANUP_NS ? grace : CLEANUP_NS);
    if (computes || job_isolate->job_thread->ending)
        shutdown_force(&iso->shutdowns.all);
}

/* The thread ends: at once. */
static void end_by_force(struct job_isolate *job_isolate)
{
    if (!job_isolate->stopping)
        stop(job_isolate);
    job_isolate->spoiled = true;
    shutdown_drop(&job_isolate->iso->shutdowns.all);
}

/* Whether something is still to happen in the job_isolate.  Then the task is polled again. */
static bool goes_on(struct job_isolate *job_isolate, struct orr_task *task)
{
    struct orr_isolate *iso = job_isolate->iso;
    if (!job_isolate->stopping && ltask_is_done(job_isolate->main) && job_isolate->main->phase != LTASK_OK)
        protect(job_isolate, take_outcome, NULL, 0);
    if (!job_isolate->stopping &&
        (job_isolate->job_thread->ending || job_isolate->job->failed || job_is_given_up(job_isolate->job)))
        stop(job_isolate);
    if (job_isolate->stopping && task_set_count(&iso->tasks)) {
        bool ended = shutdown_poll(&iso->shutdowns.all, task);
        job_isolate->spoiled |= shutdown_has_forced(&iso->shutdowns.all);
        if (!ended)
            return true;
    }
    if (unhandled_any(&iso->unhandled))
        orr_task_yield(task);
    return task_set_count(&iso->tasks) || unhandled_any(&iso->unhandled) ||
           (!job_isolate->stopping && (schedule_count(&iso->schedule) || script_timers_any_active(iso)));
}

/* --- The task --------------------------------------------------------------------------------------------------------------- */

/*
 * All that the script began is over: takes what it has come to.  True if that is so much that a task has to copy it first; then that is the
 * job_isolate's task.
 */
static bool goes_on_collecting(struct job_isolate *job_isolate)
{
    if (job_isolate->taken || job_isolate->stopping || !job_isolate->main || job_isolate->main->phase != LTASK_OK ||
        job_isolate->job->failed)
        return false;
    protect(job_isolate, take_outcome, NULL, 0);
    if (!job_isolate->collects || !protect(job_isolate, start_collecting, NULL, 1))
        return false;
    lua_replace(job_isolate->L, JOB_ISOLATE_MAIN);
    return true;
}

/* What has come of it is told; `error`: nothing of its own.  The job_isolate is ready for another, or gone. */
static void job_isolate_over(struct job_isolate *job_isolate, int error)
{
    struct job *job = job_isolate->job;
    shutdown_end(&job_isolate->iso->shutdowns.all);
    if (!error && job_isolate->main && ltask_is_done(job_isolate->main))
        protect(job_isolate, take_outcome, NULL, 0);
    bool large = job_isolate_is_large(job_isolate);
    if (!large)
        orr_future_complete(job->future, (struct orr_result){ .error = error });
    job->job_isolate = NULL;
    job_isolate->job = NULL;
    job_isolate->main = NULL;
    job_isolate->begun = job_isolate->stopping = job_isolate->collects = job_isolate->taken = false;
    job_isolate_leave(job_isolate);
    if (large) /* not before its memory is there again, for whoever waits */
        orr_future_complete(job->future, (struct orr_result){ .error = error });
}

static void start_jobs(struct job_thread *job_thread, struct job *job);

/* Whether the job is under way. */
static bool is_under_way(struct job_isolate *job_isolate, struct orr_task *task)
{
    bool first = !job_isolate->begun;
    job_isolate->begun = true;
    if (first && !begin(job_isolate, task))
        return false;
    if (goes_on(job_isolate, task))
        return true;
    bool loaded = !job_isolate->born && !job_isolate->stopping && !job_isolate->job->failed;
    if (loaded)
        return be_born(job_isolate) && start_job_proper(job_isolate);
    return goes_on_collecting(job_isolate);
}

static enum orr_poll run_poll(struct orr_task *task, void *data)
{
    struct job *job = data;
    struct job_isolate *job_isolate = job->job_isolate;
    if (is_under_way(job_isolate, task))
        return ORR_PENDING;
    struct job_thread *job_thread = job_isolate->job_thread;
    job_isolate_over(job_isolate, (job_isolate->stopping || !job_isolate->main) && !job->failed ? -ECANCELED : 0);
    start_jobs(job_thread, job_leave(job));
    return ORR_DONE;
}

/* The task is over; or it ends with its thread, before the job has come to anything. */
static void job_isolate_drop(void *data)
{
    struct job *job = data;
    struct job_isolate *job_isolate = job->job_isolate;
    if (job_isolate) {
        end_by_force(job_isolate);
        job_isolate_over(job_isolate, -ECANCELED);
        job_leave(job);
    }
    job_unref(job);
}

/* False if there is no memory for it. */
static bool start_job(struct job_thread *job_thread, struct job *job)
{
    struct job_isolate *job_isolate = job_isolate_get(job_thread, job);
    if (!job_isolate)
        return false;
    job->job_isolate = job_isolate;
    struct orr_spawn what = {
        .poll = run_poll, .data = job, .drop = job_isolate_drop, .name = "a worker's job", .detached = true
    };
    if (!orr_spawn(worker_runtime(job_thread->worker), &what))
        return true;
    job->job_isolate = NULL;
    job_isolate->job = NULL;
    job_isolate_leave(job_isolate);
    return false;
}

/* A job, and if it cannot be started the next, until one can. */
static void start_jobs(struct job_thread *job_thread, struct job *job)
{
    while (job && !start_job(job_thread, job)) {
        struct job *failed = job;
        orr_future_complete(job->future, (struct orr_result){ .error = job_thread->ending ? -ESHUTDOWN : -ENOMEM });
        job = job_leave(job);
        job_unref(failed);
    }
}

/* --- Arriving ------------------------------------------------------------------------------------------------------------------- */

void job_arrives(struct worker *worker, struct mail *mail)
{
    struct job *job = container_of(mail, struct job, mail);
    struct job_thread *job_thread = worker_refuses_letters(worker) ? NULL : job_thread_of(worker, job->pool->all);
    if (job_thread) {
        start_jobs(job_thread, job);
        return;
    }
    orr_future_complete(job->future,
                        (struct orr_result){ .error = worker_refuses_letters(worker) ? -ESHUTDOWN : -ENOMEM });
    job_leave(job);
    job_unref(job);
}
