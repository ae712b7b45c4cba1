#include "lua/fs/file_operation.h"

#include "lua/api/primitive.h"
#include "lua/isolate.h"
#include "lua/isolate/charge.h"
#include "lua/task/suspend.h"

#include <errno.h>
#include <string.h>

#define OPERATION_CLASS "orrery.file_operation"

/* 0, or the error of isolate_visit(): then the operation goes on. */
static int give_up(lua_State *L, struct file_operation *self)
{
    int error = self->work ? isolate_visit(isolate_of(L)) : 0;
    if (error || !self->work)
        return error;
    orr_file_work_free(self->work);
    self->work = NULL;
    isolate_leave(isolate_of(L));
    return 0;
}

static int operation_gc(lua_State *L)
{
    return primitive_ended(L, OPERATION_CLASS, give_up(L, lua_touserdata(L, 1)));
}

static const char *message_of(int error)
{
    switch (error) {
    case -EBADF:
        return "the file was not opened for that";
    case -ENXIO:
        return "no process has it open for reading";
    case -EXDEV:
        return "the path leads out of its directory, or to another file system";
    default:
        return strerror(-error);
    }
}

/* An error of the operation itself: it comes from the system, whatever else its number means. */
static int fail(lua_State *L, struct file_operation *self, int error)
{
    const char *code = strerrorname_np(-error);
    struct io_failure failure = {
        .error = error,
        .operation = self->name,
        .path = self->path,
        .code = code ? code : "EUNKNOWN",
        .message = message_of(error),
    };
    if (self->opens)
        open_object_closed(&self->opens->object);
    give_up(L, self);
    return io_error_push(L, &failure);
}

/* The operation did not take place. */
static int refuse(lua_State *L, struct ltask *task, struct file_operation *self, int error)
{
    struct io_failure failure = { .error = error, .operation = self->name, .path = self->path };
    if (self->opens)
        open_object_closed(&self->opens->object);
    give_up(L, self);
    return io_error_end(L, task, &failure);
}

static int take(struct file_operation *self)
{
    struct orr_open open = open_object_options(&self->opens->object);
    struct orr_stream *stream;
    int error = orr_file_take(self->work, &open, &stream);
    if (!error)
        stream_object_opened(self->opens, stream);
    return error;
}

static int finish(lua_State *L, struct file_operation *self)
{
    const struct orr_file_answer *answer = orr_file_answer(self->work);
    if (answer->result < 0)
        return fail(L, self, (int)answer->result);
    int error = self->opens ? take(self) : 0;
    if (error)
        return refuse(L, NULL, self, error);
    lua_pushboolean(L, true);
    int results = self->finish ? self->finish(L, self, answer) : 1;
    give_up(L, self);
    return results;
}

static int wait_on(lua_State *L, int status, lua_KContext context)
{
    (void)status;
    struct ltask *task = ltask_current(L, "an operation on a file");
    struct file_operation *self = lua_touserdata(L, (int)context);
    int error = orr_file_await(task->task, &task->wait, self->work);
    if (error == -EAGAIN)
        return suspend(L, wait_on, context);
    return error ? refuse(L, task, self, error) : finish(L, self);
}

static int start(lua_State *L, struct file_operation *self, const struct orr_file_request *request)
{
    struct orr_open open = { .account = open_objects_account(isolate_of(L)) };
    int error = orr_file_start(request, &open, &self->work);
    if (error == -ENOMEM && charge_collect(isolate_of(L), L))
        error = orr_file_start(request, &open, &self->work);
    return error;
}

int file_operation_run(lua_State *L, const struct file_operation *what, const struct orr_file_request *request)
{
    struct ltask *task = ltask_waiting(L, what->name);
    struct file_operation *self = primitive_new(L, OPERATION_CLASS, sizeof *self, 0);
    *self = *what;
    int error = self->opens ? open_object_reserve(&self->opens->object) : 0;
    if (!error)
        error = start(L, self, request);
    return error ? refuse(L, task, self, error) : wait_on(L, LUA_OK, lua_gettop(L));
}

void file_operation_open(struct orr_isolate *iso, lua_State *L)
{
    static const luaL_Reg methods[] = { { "__gc", operation_gc }, { NULL, NULL } };
    isolate_class(iso, L, OPERATION_CLASS, methods);
}
