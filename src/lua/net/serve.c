#include "lua/net/serve.h"

#include "base/text.h"
#include "lua/api/primitive.h"
#include "lua/isolate/charge.h"
#include "lua/isolate/embedded.h"
#include "lua/isolate/late.h"
#include "lua/net/stream_object.h"
#include "lua/task/create.h"
#include "lua/task/run.h"

#include <errno.h>
#include <stdio.h>

static const char NAME[] = "net.serve";

/* --- Names ------------------------------------------------------------------------------------ */

/* Writes "net.serve 127.0.0.1:80: 127.0.0.1:51234", or what of it fits. */
static void write_name(const struct stream_object *stream, char name[TEXT_NAME_ROOM])
{
    char ends[2][ORR_ADDRESS_TEXT], text[sizeof NAME + sizeof ends + 8];
    for (enum orr_end end = ORR_LOCAL; end <= ORR_PEER; end++)
        if (orr_stream_describe(stream->stream, end, ends[end], sizeof ends[end]) < 0)
            snprintf(ends[end], sizeof ends[end], "(unknown)");
    snprintf(text, sizeof text, "%s %s: %s", NAME, ends[ORR_LOCAL], ends[ORR_PEER]);
    text_name(name, text);
}

void serve_name_failure(const struct stream_object *stream, lua_State *L)
{
    struct orr_isolate *iso = isolate_of(L);
    struct ltask *self = execution_task(&iso->execution);
    if (!self || !self->solitary || orr_task_name(self->task) != NAME || task_is_cancelled(self->task))
        return;
    char text[TEXT_NAME_ROOM];
    write_name(stream, text);
    task_lend_name(self->task, text);
    charge_force(iso, task_copy_name(self->task));
}

/* --- Starting the task of a connection -------------------------------------------------------- */

/*
 * [handle] [events].  The task has come to its first wait.  While its body is not over, the body
 * holds the stream.
 */
static int begun(lua_State *L, int status, lua_KContext context)
{
    (void)status;
    const struct stream_object *stream = (const struct stream_object *)context;
    const struct ltask *self = lua_touserdata(L, 1);
    if (self->task && task_is_live(self->task))
        orr_stream_cancel_on_loss(stream->stream, self->task, (unsigned)lua_tointeger(L, 2));
    return 0;
}

/*
 * start(cancel_on_eof, function, server, stream): runs function(server, stream) as a task until its
 * first wait.  From then on the loss of the peer cancels it.  One that never waits needs no watch.
 */
static int start(lua_State *L)
{
    struct orr_isolate *iso = isolate_of(L);
    enum { EVENTS = 1, STREAM = 4 };
    struct stream_object *stream = stream_object_check(L, STREAM);
    char name[TEXT_NAME_ROOM];
    lua_settop(L, STREAM);
    ltask_check_depth(L);
    if (iso->debug)
        write_name(stream, name);
    lua_pushinteger(L, ORR_RESET | (lua_toboolean(L, EVENTS) ? ORR_ENDED : 0));
    lua_replace(L, EVENTS);
    struct ltask *task = ltask_new(
        iso, L, 2,
        &(struct ltask_options){
            .name = iso->debug ? name : NAME, .name_lasts = !iso->debug, .solitary = true, .provisional = true });
    lua_insert(L, 1);
    return ltask_run_first(L, task, begun, (lua_KContext)stream);
}

/* --- The rest --------------------------------------------------------------------------------- */

/* children(task): how many children of the task are not done. */
static int count_children(lua_State *L)
{
    const struct ltask *self = ltask_check(L, 1);
    lua_pushinteger(L, self->task ? (lua_Integer)task_child_count(self->task) : 0);
    return 1;
}

/* fail(message, address) -> nil and an error: a server cannot be started. */
static int fail(lua_State *L)
{
    return io_error_push(L, &(struct io_failure){ .error = -ENOEXEC,
                                                  .operation = "serve",
                                                  .message = luaL_checkstring(L, 1),
                                                  .address = luaL_checkstring(L, 2) });
}

/* report(head, text): writes an error of several lines to the log. */
static int report(lua_State *L)
{
    log_text(&isolate_of(L)->log, ORR_LOG_ERROR, luaL_checkstring(L, 1), luaL_checkstring(L, 2));
    return 0;
}

/* warn(text): writes a line to the log. */
static int warn(lua_State *L)
{
    log_line(&isolate_of(L)->log, ORR_LOG_WARNING, "%s", luaL_checkstring(L, 1));
    return 0;
}

/* is_inside(task): whether the running task is this task, or below it. */
static int is_inside(lua_State *L)
{
    const struct ltask *self = ltask_check(L, 1), *running = execution_task(&isolate_of(L)->execution);
    const struct orr_task *at = running ? running->task : NULL;
    while (at && at != self->task)
        at = task_parent(at);
    lua_pushboolean(L, at && self->task);
    return 1;
}

/* is_simulated(real): whether a server would be in a simulated network. */
static int is_simulated(lua_State *L)
{
    struct orr_network_host *here = NULL;
    int error = VISITED(isolate_of(L), orr_network_here(&(struct orr_open){ .real = lua_toboolean(L, 1) }, &here));
    lua_pushboolean(L, !error && here);
    return 1;
}

/* serve_file(): returns lua/net_serve.lua as a function. */
static int serve_file(lua_State *L)
{
    late_push(L, &embedded_net_serve);
    return 1;
}

void serve_open(struct orr_isolate *iso, lua_State *L)
{
    static const luaL_Reg functions[] = {
        { "start", start }, { "children", count_children },   { "is_inside", is_inside }, { "warn", warn },
        { "fail", fail },   { "is_simulated", is_simulated }, { "report", report },       { "serve_file", serve_file },
        { NULL, NULL },
    };
    isolate_register(iso, L, functions);
}
