#include "lua/worker/job_outcome.h"

#include "lua/isolate/charge.h"
#include "lua/limits/preempt.h"
#include "lua/task/result.h"
#include "lua/task/task.h"
#include "lua/values/work.h"

#include <errno.h>
#include <string.h>

/*
 * Outside the script's tasks nothing can be suspended, so what is copied there must take about 100
 * microseconds at most.  Larger results are copied by a task.  Larger errors are not copied.
 */
enum { RESULT_STEPS = PACED_STEPS, ERROR_STEPS = 4 * PACED_STEPS };

/* --- Errors ----------------------------------------------------------------------------------- */

/*
 * [error] [why it cannot be copied] -> [text].  The text is the error's own, if it has a
 * `__tostring`: it is taken from the report, which was made when the error was raised, so that no
 * script runs here.
 */
static void describe_error(lua_State *L, const char *report)
{
    const char *end = report ? strstr(report, "\nstack traceback:") : NULL;
    if (end && luaL_getmetafield(L, -2, "__tostring") != LUA_TNIL) {
        lua_pop(L, 2);
        lua_pushlstring(L, report, (size_t)(end - report));
    }
    lua_replace(L, -2);
}

/*
 * Copies values into the job's result.  Answers as values_encode() does, or -EAGAIN, with nothing
 * pushed, if that takes more than `steps`.  Collects the job's garbage if that makes room.
 */
static int copy_few(struct job_isolate *isolate, lua_State *L, int first, int count, const char *root, int steps)
{
    static const volatile bool never = false;
    int top = lua_gettop(L), error;
    for (bool again = false;; again = true) {
        struct encoder encoder;
        encoder_begin(&encoder, &isolate->job->result, L, first, count, root);
        error = encoder_step(&encoder, L, steps, &never);
        encoder_free(&encoder);
        if (error != -ENOMEM || again || !charge_collect(isolate->iso, L))
            break;
        lua_settop(L, top);
    }
    if (error == -EAGAIN)
        lua_settop(L, top);
    return error;
}

/* Copies the error at the top.  False, with the reason pushed, if it cannot be copied. */
static bool copy_error(struct job_isolate *isolate, lua_State *L)
{
    int error = copy_few(isolate, L, lua_gettop(L), 1, "error", ERROR_STEPS);
    if (error != -EAGAIN)
        return !error;
    message_clear(&isolate->job->result);
    lua_pushfstring(L, "error: too large to be copied: errors have at most %d values", ERROR_STEPS);
    return false;
}

void job_outcome_fail(struct job_isolate *isolate, lua_State *L, const char *report)
{
    struct job *job = isolate->job;
    if (!job->failed) {
        job->failed = true;
        message_clear(&job->result);
        job_set_report(job, report);
        if (!copy_error(isolate, L)) {
            describe_error(L, report);
            copy_few(isolate, L, lua_gettop(L), 1, "error", ERROR_STEPS);
        }
    }
    lua_pop(L, 1);
}

bool job_outcome_protect(struct job_isolate *isolate, lua_CFunction function, void *pointer, int results)
{
    lua_State *L = isolate->L;
    lua_pushcfunction(L, function);
    lua_pushlightuserdata(L, isolate);
    lua_pushlightuserdata(L, pointer);
    lua_pushvalue(L, lua_gettop(L) >= JOB_ISOLATE_MAIN + 3 ? JOB_ISOLATE_MAIN : 1);
    if (lua_pcall(L, 3, results, 0) == LUA_OK)
        return true;
    job_outcome_fail(isolate, L, NULL);
    return false;
}

/* The report of the task in which a failure arose. */
static const char *report_of(struct orr_task *task)
{
    for (struct orr_task *cause; (cause = orr_task_cause(task));)
        task = cause;
    const struct orr_result *result = orr_task_result(task);
    return result ? result->message : NULL;
}

/*
 * Fails the job with the error of a task, at the top, which is popped.  If the job has used up its
 * time, the error is "timeout"; if the isolate was condemned, the error says why.
 */
static void fail_with_task(struct job_isolate *isolate, lua_State *L, struct orr_task *task)
{
    const struct orr_result *result = orr_task_result(task);
    if (result && result->error == -ETIME && isolate->main && task == isolate->main->task) {
        isolate->reusable = false;
        lua_pop(L, 1);
        if (ban_is_imposed(&isolate->iso->ban))
            lua_pushfstring(L, "Script ended: %s", ban_reason(&isolate->iso->ban));
        else
            lua_pushliteral(L, "timeout");
    }
    job_outcome_fail(isolate, L, report_of(task));
}

/* [isolate] [task] */
static int take_unhandled(lua_State *L)
{
    struct job_isolate *isolate = lua_touserdata(L, 1);
    struct orr_task *task = lua_touserdata(L, 2);
    push_error_of(L, isolate->iso, orr_task_result(task));
    fail_with_task(isolate, L, task);
    return 0;
}

void job_outcome_note_unhandled(void *data, struct orr_task *task)
{
    struct job_isolate *isolate = data;
    const struct ltask *self = ltask_of(task);
    if (self && self->solitary) {
        sink_report(task);
        return;
    }
    task_set_seen(task, true);
    if (!isolate->job || isolate->progress == PROGRESS_STOPPING)
        return;
    job_outcome_protect(isolate, take_unhandled, task, 0);
    /* the task that runs the job stops the rest */
    orr_waker_wake(task_set_on_empty(&isolate->iso->tasks));
}

/* --- Results ---------------------------------------------------------------------------------- */

/* [isolate] [NULL] [handle] [true] [results...] */
static void copy_results(struct job_isolate *isolate, lua_State *L, int count)
{
    int error = copy_few(isolate, L, 5, count, "results", RESULT_STEPS);
    isolate->progress = error == -EAGAIN ? PROGRESS_COPYING : PROGRESS_COPIED;
    if (error == -EAGAIN)
        message_clear(&isolate->job->result);
    else if (error)
        job_outcome_fail(isolate, L, NULL);
}

/* [isolate] [NULL] [handle] */
static int take_outcome(lua_State *L)
{
    struct job_isolate *isolate = lua_touserdata(L, 1);
    struct orr_task *task = isolate->main->task;
    int count = ltask_push_outcome(L, isolate->main, 3);
    luaL_checkstack(L, VALUES_ERROR_SLOTS + 4, NULL);
    if (!lua_toboolean(L, 4) && task)
        fail_with_task(isolate, L, task);
    else if (!lua_toboolean(L, 4))
        job_outcome_fail(isolate, L, NULL);
    else if (!isolate->job->failed && isolate->progress == PROGRESS_RUNNING)
        copy_results(isolate, L, count - 1);
    return 0;
}

void job_outcome_take(struct job_isolate *isolate)
{
    job_outcome_protect(isolate, take_outcome, NULL, 0);
}

/* --- Copying large results -------------------------------------------------------------------- */

static int go_on_copying(lua_State *L, int status, lua_KContext context);

/* [handle] [isolate] [work] [true] [results...] */
static int run_copying(lua_State *L, struct paced *work)
{
    struct job_isolate *isolate = lua_touserdata(L, 2);
    int error = paced_run(L, &work);
    if (error == -EAGAIN)
        return preempt_hold(L, go_on_copying, (lua_KContext)work);
    work->kind->free(work);
    if (error)
        job_outcome_fail(isolate, L, NULL);
    return 0;
}

static int go_on_copying(lua_State *L, int status, lua_KContext context)
{
    (void)status;
    return run_copying(L, paced_kept(L, 3, context));
}

/* [handle] [isolate]: the body of a task that copies the results of the task with the handle. */
static int copy_all_results(lua_State *L)
{
    struct encoding work;
    struct job_isolate *isolate = lua_touserdata(L, 2);
    lua_settop(L, 3);
    int count = ltask_push_outcome(L, lua_touserdata(L, 1), 1);
    luaL_checkstack(L, VALUES_ERROR_SLOTS + 4, NULL);
    encoding_begin(&work, L, 3, &isolate->job->result, 5, count - 1, "results");
    return run_copying(L, &work.paced);
}

/* [isolate] [NULL] [handle] -> [handle of the task that copies] */
static int start_copying(lua_State *L)
{
    struct job_isolate *isolate = lua_touserdata(L, 1);
    job_isolate_push_function(isolate, L, copy_all_results);
    lua_insert(L, 3);
    lua_pushlightuserdata(L, isolate);
    job_isolate_start_task(isolate, L, 2, "job");
    return 1;
}

bool job_outcome_start_copying(struct job_isolate *isolate)
{
    if (!job_outcome_protect(isolate, start_copying, NULL, 1))
        return false;
    lua_replace(isolate->L, JOB_ISOLATE_MAIN);
    return true;
}
