#include "lua/worker/run_job.h"

#include "lua/api/schedule.h"
#include "lua/api/script_timers.h"
#include "lua/isolate/settings.h"
#include "lua/limits/preempt.h"
#include "lua/task/hold.h"
#include "lua/task/shutdown.h"
#include "lua/task/task.h"
#include "lua/values/work.h"
#include "lua/worker/job_outcome.h"
#include "lua/worker/job_thread.h"
#include "lua/worker/library.h"

#include <errno.h>

#define CLEANUP_NS UINT64_C(100000000)

/* Arguments of more bytes are decoded by the script's task, which can be suspended. */
enum { ARGUMENTS_AT_ONCE = 8192 };

/* --- Starting the script ---------------------------------------------------------------------- */

static int go_on_decoding(lua_State *L, int status, lua_KContext context);

static int return_all(lua_State *L, int status, lua_KContext context)
{
    (void)status;
    (void)context;
    return lua_gettop(L);
}

/* [isolate] [work] [script] [arguments...] */
static int run_decoding(lua_State *L, struct paced *work)
{
    struct job_isolate *isolate = lua_touserdata(L, 1);
    int count = paced_run(L, &work);
    if (count == -EAGAIN)
        return preempt_hold(L, go_on_decoding, (lua_KContext)work);
    message_free(&isolate->job->arguments);
    lua_remove(L, 1);
    lua_remove(L, 1);
    lua_callk(L, count, LUA_MULTRET, 0, return_all);
    return return_all(L, LUA_OK, 0);
}

static int go_on_decoding(lua_State *L, int status, lua_KContext context)
{
    (void)status;
    return run_decoding(L, paced_kept(L, 2, context));
}

/*
 * [isolate] [nil] [script]: the body of a task that decodes large arguments and calls the script.
 */
static int decode_and_call(lua_State *L)
{
    struct decoding work;
    struct job_isolate *isolate = lua_touserdata(L, 1);
    decoding_begin(&work, 2, &isolate->job->arguments, NULL, 0);
    return run_decoding(L, &work.paced);
}

/* [isolate] [NULL] [script] -> [handle] */
static int start_script(lua_State *L)
{
    struct job_isolate *isolate = lua_touserdata(L, 1);
    const struct message *arguments = &isolate->job->arguments;
    if (arguments->size <= ARGUMENTS_AT_ONCE) {
        job_isolate_start_task(isolate, L, values_decode(arguments, L), "job");
        return 1;
    }
    job_isolate_push_function(isolate, L, decode_and_call);
    lua_insert(L, 3);
    lua_pushlightuserdata(L, isolate);
    lua_insert(L, 4);
    lua_pushnil(L);
    lua_insert(L, 5);
    job_isolate_start_task(isolate, L, 3, "job");
    return 1;
}

/* The isolate is ready.  False if the job failed. */
static bool run_script(struct job_isolate *isolate)
{
    struct message *arguments = &isolate->job->arguments;
    isolate->progress = PROGRESS_RUNNING;
    bool started = job_outcome_protect(isolate, start_script, NULL, 1);
    if (!started || arguments->size <= ARGUMENTS_AT_ONCE) /* else the task frees them */
        message_free(arguments);
    return started;
}

/* --- Loading modules -------------------------------------------------------------------------- */

/* [first module].  With a module as the context: it has run, and its result is at the top. */
static int load_modules(lua_State *L, int status, lua_KContext context)
{
    (void)status;
    struct program_module *module = (struct program_module *)context;
    if (module)
        library_register(L, module->name);
    for (module = module ? module->next : lua_touserdata(L, 1); module; module = module->next) {
        if (!program_load(&module->code, L))
            lua_error(L);
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

/* [isolate] -> [handle] */
static int start_loading(lua_State *L)
{
    struct job_isolate *isolate = lua_touserdata(L, 1);
    lua_pushcfunction(L, load_all);
    lua_pushlightuserdata(L, isolate->program->modules);
    job_isolate_start_task(isolate, L, 1, "modules");
    return 1;
}

/* The modules are loaded, or there are none.  False if the job failed. */
static bool init_and_run_script(struct job_isolate *isolate)
{
    isolate->main = NULL;
    if (job_isolate_init(isolate))
        return run_script(isolate);
    job_outcome_fail(isolate, isolate->L, NULL);
    return false;
}

/* --- Running and stopping --------------------------------------------------------------------- */

/* The smaller of two limits, each 0 for none. */
static uint64_t smaller_limit(uint64_t one, uint64_t other)
{
    return !one || (other && other < one) ? other : one;
}

/* False if the job is over already. */
static bool begin(struct job_isolate *isolate, struct orr_task *task)
{
    struct job *job = isolate->job;
    struct orr_isolate *iso = isolate->iso;
    if (!job_begin(job, orr_task_waker(task)))
        return false;
    if (isolate->state == JOB_ISOLATE_UNPREPARED) {
        job_outcome_fail(isolate, isolate->L, NULL);
        return false;
    }
    uint64_t limit = smaller_limit(job->timeout_ns, job->program->settings->limits.deadline_ns[ORR_LUA_JOB]);
    for (int entry = 0; entry < ORR_LUA_ENTRIES; entry++)
        iso->limits.deadline_ns[entry] = limit;
    task_set_wake_when_empty(&iso->tasks, orr_task_waker(task));
    if (isolate->state == JOB_ISOLATE_READY)
        return run_script(isolate);
    if (!isolate->program->modules)
        return init_and_run_script(isolate);
    isolate->progress = PROGRESS_LOADING;
    lua_settop(isolate->L, JOB_ISOLATE_MAIN - 1);
    return job_outcome_protect(isolate, start_loading, NULL, 1);
}

static void begin_grace_period(struct orr_isolate *iso)
{
    struct shutdown *shutdown = shutdown_of_all(&iso->shutdowns);
    uint64_t grace = worker_grace_ns(iso->worker);
    if (!shutdown_is_under_way(shutdown))
        shutdown_begin(shutdown, iso, EVERY_SCRIPT, grace < CLEANUP_NS ? grace : CLEANUP_NS);
}

/* The job ends early: cancels its tasks, timers and scheduled callbacks. */
static void stop(struct job_isolate *isolate)
{
    struct orr_isolate *iso = isolate->iso;
    isolate->progress = PROGRESS_STOPPING;
    bool computes = isolate_is_held(iso);
    script_timers_close(iso, EVERY_SCRIPT);
    schedule_cancel(iso, EVERY_SCRIPT);
    begin_grace_period(iso);
    if (computes || isolate->thread->closing)
        shutdown_force(shutdown_of_all(&iso->shutdowns));
}

/* The thread ends, and with it all that is left of the job. */
static void stop_by_force(struct job_isolate *isolate)
{
    if (isolate->progress != PROGRESS_STOPPING)
        stop(isolate);
    isolate->reusable = false;
    shutdown_drop(shutdown_of_all(&isolate->iso->shutdowns));
}

static bool must_stop(struct job_isolate *isolate)
{
    return isolate->thread->closing || isolate->job->failed || job_is_given_up(isolate->job);
}

/*
 * The job's Lua cannot be suspended, for example inside table.sort(), so the job's task is not
 * polled.  If the job must stop, its Lua is ended when the grace period is over.
 */
static void look_while_stuck(void *data)
{
    struct job_isolate *isolate = data;
    if (!isolate->job || isolate->progress == PROGRESS_STOPPING || !must_stop(isolate))
        return;
    isolate->reusable = false;
    begin_grace_period(isolate->iso);
}

/* Whether tasks, timers or callbacks of the job are left.  Then the job's task is polled again. */
static bool is_active(struct job_isolate *isolate, struct orr_task *task)
{
    struct orr_isolate *iso = isolate->iso;
    if (isolate->progress != PROGRESS_STOPPING) {
        if (ltask_is_done(isolate->main) && isolate->main->phase != LTASK_OK)
            job_outcome_take(isolate);
        if (must_stop(isolate))
            stop(isolate);
    }
    bool stopping = isolate->progress == PROGRESS_STOPPING;
    if (stopping && task_set_count(&iso->tasks)) {
        bool ended = shutdown_poll(shutdown_of_all(&iso->shutdowns), task);
        if (shutdown_has_forced(shutdown_of_all(&iso->shutdowns)))
            isolate->reusable = false;
        if (!ended)
            return true;
    }
    if (unhandled_any(&iso->unhandled))
        orr_task_yield(task);
    return task_set_count(&iso->tasks) || unhandled_any(&iso->unhandled) ||
           (!stopping && (schedule_count(&iso->schedule) || script_timers_any_active(iso)));
}

/* All that the main task began is over.  True if another main task follows. */
static bool start_next_step(struct job_isolate *isolate)
{
    if (isolate->job->failed)
        return false;
    if (isolate->progress == PROGRESS_LOADING)
        return init_and_run_script(isolate);
    if (isolate->progress != PROGRESS_RUNNING || isolate->main->phase != LTASK_OK)
        return false;
    job_outcome_take(isolate);
    return isolate->progress == PROGRESS_COPYING && job_outcome_start_copying(isolate);
}

static bool goes_on(struct job_isolate *isolate, struct orr_task *task)
{
    grace_period_set_look(&isolate->iso->grace_periods, look_while_stuck, isolate);
    if (isolate->progress == PROGRESS_ASSIGNED && !begin(isolate, task))
        return false;
    return is_active(isolate, task) || start_next_step(isolate);
}

/*
 * Completes the job's future with its outcome, or with `error`, gives the isolate back, and leaves
 * the thread.  Answers the next job for the thread, or NULL.
 *
 * A large isolate is freed before the submitter hears of the outcome: it finds the memory free.  An
 * isolate that is restored quickly has left the thread before: if the submitter calls again at
 * once, it finds this thread free, which is awake, and wakes no other.
 */
static struct job *finish(struct job_isolate *isolate, int error)
{
    struct job *job = isolate->job;
    struct orr_result result = { .error = error };
    shutdown_end(shutdown_of_all(&isolate->iso->shutdowns));
    if (!error && isolate->main && ltask_is_done(isolate->main))
        job_outcome_take(isolate);
    bool large = job_isolate_is_large(isolate);
    bool quick = !large && job_isolate_has_little_garbage(isolate);
    struct job *next = quick ? job_leave(job) : NULL;
    if (!large)
        orr_future_complete(job->future, result);
    job->isolate = NULL;
    isolate->job = NULL;
    isolate->main = NULL;
    isolate->progress = PROGRESS_ASSIGNED;
    job_thread_give_isolate(isolate->thread, isolate);
    if (large)
        orr_future_complete(job->future, result);
    return quick ? next : job_leave(job);
}

/* --- The task that runs a job ----------------------------------------------------------------- */

static void start_jobs(struct job_thread *thread, struct job *job);

static enum orr_poll poll_job(struct orr_task *task, void *data)
{
    struct job *job = data;
    struct job_isolate *isolate = job->isolate;
    if (goes_on(isolate, task))
        return ORR_PENDING;
    struct job_thread *thread = isolate->thread;
    bool cancelled = (isolate->progress == PROGRESS_STOPPING || !isolate->main) && !job->failed;
    start_jobs(thread, finish(isolate, cancelled ? -ECANCELED : 0));
    return ORR_DONE;
}

/* The task is over; or it ends with its thread, before the job is done. */
static void drop_job(void *data)
{
    struct job *job = data;
    struct job_isolate *isolate = job->isolate;
    if (isolate) {
        struct job_thread *thread = isolate->thread;
        stop_by_force(isolate);
        start_jobs(thread, finish(isolate, -ECANCELED));
    }
    job_unref(job);
}

/* False for lack of memory. */
static bool start_job(struct job_thread *thread, struct job *job)
{
    struct job_isolate *isolate = job_thread_take_isolate(thread, job, job_outcome_note_unhandled);
    if (!isolate)
        return false;
    job->isolate = isolate;
    struct orr_spawn spawn = {
        .poll = poll_job, .data = job, .drop = drop_job, .name = "a worker's job", .detached = true
    };
    if (!orr_spawn(worker_runtime(thread->worker), &spawn))
        return true;
    job->isolate = NULL;
    isolate->job = NULL;
    job_thread_give_isolate(thread, isolate);
    return false;
}

/* Completes the future of a job that cannot run.  Answers the next job for the thread, or NULL. */
static struct job *refuse_job(struct job *job, int error)
{
    orr_future_complete(job->future, (struct orr_result){ .error = error });
    struct job *next = job_leave(job);
    job_unref(job);
    return next;
}

/* Starts a job; if that fails, the next one, until one can be started. */
static void start_jobs(struct job_thread *thread, struct job *job)
{
    while (job && !start_job(thread, job))
        job = refuse_job(job, thread->closing ? -ESHUTDOWN : -ENOMEM);
}

void run_job_arrive(struct worker *worker, struct mail *mail)
{
    struct job *job = container_of(mail, struct job, mail);
    struct job_thread *thread = worker_refuses_letters(worker) ? NULL : job_thread_of(worker);
    if (thread)
        start_jobs(thread, job);
    while (!thread && job)
        job = refuse_job(job, worker_refuses_letters(worker) ? -ESHUTDOWN : -ENOMEM);
}
