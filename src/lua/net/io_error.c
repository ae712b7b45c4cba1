#include "lua/net/io_error.h"

#include "exec/extend.h"
#include "lua/task/suspend.h"
#include "lua/values/mark.h"

#include <errno.h>
#include <string.h>

static const char *code_of(int error)
{
    if (error == -ENODATA)
        return "EOF";
    if (error == -EBADF)
        return "ECANCELED"; /* the script has closed it: a descriptor is never wrong here */
    const char *name = strerrorname_np(-error);
    return name ? name : "EUNKNOWN";
}

static const char *message_of(int error)
{
    switch (error) {
    case -ENODATA:
        return "the input has ended";
    case -EBADF:
        return "closed";
    case -ECONNABORTED:
        return "an earlier write was cancelled after a part of it had gone out";
    case -EDQUOT:
        return "too many streams and sockets are open; close some, or raise the limit max_sockets";
    default:
        return strerror(-error);
    }
}

static void set_text(lua_State *L, const char *field, const char *text)
{
    if (!text)
        return;
    lua_pushstring(L, text);
    lua_setfield(L, -2, field);
}

int io_error_push(lua_State *L, const struct io_failure *failure)
{
    lua_pushnil(L);
    lua_createtable(L, 0, 4);
    set_text(L, "code", failure->code ? failure->code : code_of(failure->error));
    set_text(L, "message", failure->message ? failure->message : message_of(failure->error));
    set_text(L, "operation", failure->operation);
    /* "unix:" is an end without a name. */
    if (failure->address && strcmp(failure->address, "unix:") != 0)
        set_text(L, "address", failure->address);
    set_text(L, "path", failure->path);
    if (failure->written) {
        lua_pushinteger(L, (lua_Integer)failure->written);
        lua_setfield(L, -2, "written");
    }
    mark_push(L, MARK_ERROR);
    lua_setmetatable(L, -2);
    return 2;
}

/*
 * What interrupts the task, or 0.  A socket's own ETIMEDOUT is an error of the socket; that of a
 * time limit interrupts the task.  An error may have cancelled the task, because it is the loss of
 * the peer that the task works for: then that is what the task hears.
 */
static int interruption_of(const struct ltask *task, int error)
{
    if (error == -ECANCELED || error == -ECHILD)
        return error;
    if (!task || !task_is_cancelled_here(task->task))
        return 0;
    return error == -ETIMEDOUT ? error : -ECANCELED;
}

int io_error_end(lua_State *L, struct ltask *task, const struct io_failure *failure)
{
    int interruption = interruption_of(task, failure->error);
    return interruption ? wait_raise(L, interruption) : io_error_push(L, failure);
}
