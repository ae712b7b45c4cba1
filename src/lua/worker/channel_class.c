#include "lua/worker/channel_class.h"

#include "lua/isolate/charge.h"
#include "lua/isolate/settings.h"
#include "lua/limits/preempt.h"
#include "lua/task/suspend.h"
#include "lua/task/task.h"
#include "lua/values/work.h"
#include "lua/worker/channel.h"

#include <errno.h>
#include <string.h>

#define CHANNEL "orrery.channel"
#define WAITER "orrery.channel_waiter"
#define CAPACITY_MAX 1000000
#define CAPACITY_MAX_UNTRUSTED 10000 /* a finalizer frees all items at once */
#define FUTURE_COST 128

/* --- Handles ---------------------------------------------------------------------------------- */

/* What an isolate has of a channel: a block that begins as attachment_mark() says. */
struct handle {
    struct attachment *attachment; /* a reference; NULL until there is a channel */
};

/* Pushes a handle, and charges the isolate for its channel.  May raise. */
static struct handle *new_handle(struct orr_isolate *iso, lua_State *L)
{
    objects_check(iso, L);
    struct handle *handle = lua_newuserdatauv(L, sizeof *handle, 0);
    handle->attachment = NULL;
    luaL_setmetatable(L, CHANNEL);
    objects_made(iso);
    if (charge_take(iso, sizeof(struct channel)))
        charge_raise(L);
    return handle;
}

/* The attachment's push. */
static int push_handle(lua_State *L, struct attachment *attachment)
{
    struct handle *handle = new_handle(isolate_find(L), L);
    attachment->ref(attachment);
    handle->attachment = attachment;
    return 1;
}

static int handle_gc(lua_State *L)
{
    struct handle *handle = lua_touserdata(L, 1);
    struct attachment *attachment = handle->attachment;
    handle->attachment = NULL;
    objects_gone(isolate_of(L));
    if (attachment) {
        charge_give(isolate_of(L), sizeof(struct channel));
        attachment->unref(attachment);
    }
    return 0;
}

static struct channel *check(lua_State *L)
{
    struct handle *handle = luaL_checkudata(L, 1, CHANNEL);
    return container_of(handle->attachment, struct channel, attachment);
}

int channel_class_new(lua_State *L)
{
    struct orr_isolate *iso = isolate_of(L);
    lua_Integer capacity = luaL_optinteger(L, 1, 1);
    if (iso->limits.profile == ORR_LUA_UNTRUSTED)
        luaL_argcheck(L, capacity >= 0 && capacity <= CAPACITY_MAX_UNTRUSTED, 1,
                      "a capacity from 0 to 10000 expected, which is the most that an untrusted script may have");
    luaL_argcheck(L, capacity >= 0 && capacity <= CAPACITY_MAX, 1, "a capacity from 0 to 1000000 expected");
    struct handle *handle = new_handle(iso, L);
    struct channel *channel = channel_new(&iso->rt->alloc, (size_t)capacity, push_handle);
    if (!channel) {
        charge_give(iso, sizeof *channel);
        return luaL_error(L, "not enough memory");
    }
    handle->attachment = &channel->attachment;
    return 1;
}

/* --- Waiting ---------------------------------------------------------------------------------- */

/* Pushes a waiter, below the channel and the arguments, at 1. */
static struct channel_waiter *waiter_new(lua_State *L, struct channel *channel, bool sends)
{
    struct channel_waiter *waiter = lua_newuserdatauv(L, sizeof *waiter, 0);
    waiter->channel = NULL;
    waiter->future = NULL;
    luaL_setmetatable(L, WAITER);
    objects_made(isolate_of(L));
    lua_insert(L, 1);
    channel_waiter_init(waiter, channel, sends); /* from here on, nothing raises */
    return waiter;
}

static int waiter_gc(lua_State *L)
{
    struct channel_waiter *waiter = lua_touserdata(L, 1);
    if (waiter->future)
        charge_give(isolate_of(L), FUTURE_COST);
    if (waiter->channel)
        channel_waiter_close(waiter);
    objects_gone(isolate_of(L));
    return 0;
}

/* The waiter is going to wait.  Raises where no task can wait. */
static void waiter_prepare(lua_State *L, struct channel_waiter *waiter)
{
    struct orr_isolate *iso = isolate_of(L);
    ltask_waiting(L, waiter->sends ? "channel:send" : "channel:receive");
    if (charge_take(iso, FUTURE_COST))
        charge_raise(L);
    int error = orr_future_new(iso->rt, NULL, &waiter->future);
    if (!error)
        return;
    charge_give(iso, FUTURE_COST);
    luaL_error(L, "channel: cannot wait: %s", strerror(-error));
}

static int answer_true(lua_State *L)
{
    lua_pushboolean(L, true);
    return 1;
}

static int answer_nil(lua_State *L, const char *why)
{
    lua_pushnil(L);
    lua_pushstring(L, why);
    return 2;
}

static int go_on_decoding(lua_State *L, int status, lua_KContext context);

/* [waiter] [work]: until all of its item is decoded, the waiter would give it back. */
static int run_decoding(lua_State *L, struct channel_waiter *waiter, struct paced *work)
{
    int count = paced_run(L, &work);
    if (count == -EAGAIN)
        return preempt_hold(L, go_on_decoding, (lua_KContext)work);
    channel_item_free(waiter->item, &waiter->channel->alloc);
    waiter->item = NULL;
    return count;
}

static int go_on_decoding(lua_State *L, int status, lua_KContext context)
{
    (void)status;
    struct paced *work = paced_kept(L, 2, context);
    struct channel_waiter *waiter = luaL_testudata(L, 1, WAITER);
    if (!waiter || !waiter->item || !decoding_reads(work, &waiter->item->message))
        return luaL_error(L, "channel:receive: the stack was changed while values were being received");
    return run_decoding(L, waiter, work);
}

/* [waiter]: pushes what it received. */
static int deliver(lua_State *L, struct channel_waiter *waiter)
{
    struct decoding work;
    lua_settop(L, 2);
    decoding_begin(&work, 2, &waiter->item->message, NULL, 0);
    return run_decoding(L, waiter, &work.paced);
}

/* [waiter], which is listed. */
static int wait_listed(lua_State *L, int status, lua_KContext context)
{
    (void)status;
    struct channel_waiter *waiter = lua_touserdata(L, 1);
    struct ltask *self = ltask_current(L, "channel");
    int error = orr_future_wait(self->task, &self->wait, waiter->future);
    if (error == -EAGAIN)
        return suspend(L, wait_listed, context);
    switch (channel_waiter_leave(waiter)) {
    case WAITER_LISTED:
        return wait_raise(L, error);
    case WAITER_TOLD_CLOSED:
        return answer_nil(L, "closed");
    default:
        return waiter->sends ? answer_true(L) : deliver(L, waiter);
    }
}

/* Tries to send or receive, and else lists the waiter. */
static enum channel_attempt try_or_list(lua_State *L, struct channel_waiter *waiter,
                                        enum channel_attempt (*attempt)(struct channel_waiter *waiter, bool listing))
{
    enum channel_attempt answer = attempt(waiter, false);
    if (answer != ATTEMPT_WAIT)
        return answer;
    waiter_prepare(L, waiter);
    return attempt(waiter, true);
}

/* --- Sending ---------------------------------------------------------------------------------- */

/* A channel that held itself would never be freed. */
static void check_not_through_itself(lua_State *L, const struct channel *channel, const struct message *message)
{
    for (unsigned i = 0; i < message->attachment_count; i++)
        if (message->attachments[i] == &channel->attachment)
            luaL_error(L, "channel:send: a channel cannot be sent through itself");
}

/* [waiter], with a copy of the values. */
static int send_copy(lua_State *L, struct channel_waiter *waiter)
{
    switch (try_or_list(L, waiter, channel_send)) {
    case ATTEMPT_WAIT:
        return wait_listed(L, LUA_OK, 0);
    case ATTEMPT_CLOSED:
        return answer_nil(L, "closed");
    default:
        return answer_true(L);
    }
}

/* [waiter], with a copy of the values. */
static int try_send_copy(lua_State *L, struct channel_waiter *waiter)
{
    enum channel_attempt attempt = channel_send(waiter, false);
    return attempt == ATTEMPT_DONE ? answer_true(L) : answer_nil(L, attempt == ATTEMPT_CLOSED ? "closed" : "full");
}

static int go_on_copying(lua_State *L, int status, lua_KContext context);
static int go_on_copying_to_try(lua_State *L, int status, lua_KContext context);
static int collect_and_copy(lua_State *L, int status, lua_KContext waits);

/*
 * [waiter] [work] [values...]: copies the values and sends them.  `waits`: if there is no room,
 * waits.
 */
static int run_copying(lua_State *L, struct channel_waiter *waiter, struct paced *work, bool waits)
{
    int error = paced_run(L, &work);
    if (error == -EAGAIN)
        return preempt_hold(L, waits ? go_on_copying : go_on_copying_to_try, (lua_KContext)work);
    work->kind->free(work);
    if (error == -ENOMEM && !waiter->collected && charge_begin_to_collect(isolate_of(L))) {
        waiter->collected = true;
        lua_pop(L, 1);
        return collect_and_copy(L, LUA_OK, waits);
    }
    if (error)
        return luaL_error(L, "channel:send: %s", lua_tostring(L, -1));
    check_not_through_itself(L, waiter->channel, &waiter->item->message);
    lua_settop(L, 1);
    return waits ? send_copy(L, waiter) : try_send_copy(L, waiter);
}

/* The waiter at 1, which still has its item.  Raises if the debug library has replaced it. */
static struct channel_waiter *check_sender(lua_State *L)
{
    struct channel_waiter *waiter = luaL_testudata(L, 1, WAITER);
    if (!waiter || !waiter->item)
        luaL_error(L, "channel:send: the stack was changed while values were being sent");
    return waiter;
}

static int copy_on(lua_State *L, lua_KContext context, bool waits)
{
    struct paced *work = paced_kept(L, 2, context);
    struct channel_waiter *waiter = check_sender(L);
    if (!encoding_writes(work, &waiter->item->message))
        return luaL_error(L, "channel:send: the stack was changed while values were being sent");
    return run_copying(L, waiter, work, waits);
}

static int go_on_copying(lua_State *L, int status, lua_KContext context)
{
    (void)status;
    return copy_on(L, context, true);
}

static int go_on_copying_to_try(lua_State *L, int status, lua_KContext context)
{
    (void)status;
    return copy_on(L, context, false);
}

/* [waiter] [slot for the work] [values...] */
static int begin_copying(lua_State *L, struct channel_waiter *waiter, bool waits)
{
    struct encoding work;
    struct message *message = &waiter->item->message;
    if (!message->quota && message_charge_to(message, isolate_of(L)->settings->quota))
        return luaL_error(L, "channel:send: not enough memory");
    encoding_begin(&work, L, 2, message, 3, lua_gettop(L) - 2, "value");
    return run_copying(L, waiter, &work.paced, waits);
}

/* There was no memory for the copy: collects garbage and tries again. */
static int collect_and_copy(lua_State *L, int status, lua_KContext waits)
{
    (void)status;
    if (preempt_to_collect(L))
        return preempt_hold(L, collect_and_copy, waits);
    charge_collected(isolate_of(L));
    return begin_copying(L, check_sender(L), waits);
}

/* [channel] [values...] */
static int copy_and_send(lua_State *L, bool waits)
{
    struct channel *channel = check(L);
    luaL_checkstack(L, VALUES_ERROR_SLOTS + 4, NULL);
    struct channel_waiter *waiter = waiter_new(L, channel, true);
    waiter->item = channel_item_new(channel);
    if (!waiter->item)
        return luaL_error(L, "not enough memory");
    lua_pushnil(L);
    lua_replace(L, 2);
    return begin_copying(L, waiter, waits);
}

static int method_send(lua_State *L)
{
    return copy_and_send(L, true);
}

static int method_try_send(lua_State *L)
{
    return copy_and_send(L, false);
}

/* --- Receiving -------------------------------------------------------------------------------- */

static int method_receive(lua_State *L)
{
    struct channel_waiter *waiter = waiter_new(L, check(L), false);
    lua_settop(L, 1);
    switch (try_or_list(L, waiter, channel_receive)) {
    case ATTEMPT_WAIT:
        return wait_listed(L, LUA_OK, 0);
    case ATTEMPT_CLOSED:
        return answer_nil(L, "closed");
    default:
        return deliver(L, waiter);
    }
}

static int method_try_receive(lua_State *L)
{
    struct channel_waiter *waiter = waiter_new(L, check(L), false);
    lua_settop(L, 1);
    enum channel_attempt attempt = channel_receive(waiter, false);
    return attempt == ATTEMPT_DONE ? deliver(L, waiter) : answer_nil(L, attempt == ATTEMPT_CLOSED ? "closed" : "empty");
}

/* for value in channel:iter() do: until the channel is closed and empty. */
static int method_iter(lua_State *L)
{
    check(L);
    lua_pushlightuserdata(L, isolate_of(L));
    lua_pushcclosure(L, method_receive, 1);
    lua_pushvalue(L, 1);
    return 2;
}

/* --- The class -------------------------------------------------------------------------------- */

static int method_close(lua_State *L)
{
    channel_close(check(L));
    return 0;
}

static int method_is_closed(lua_State *L)
{
    lua_pushboolean(L, channel_is_closed(check(L)));
    return 1;
}

static int method_len(lua_State *L)
{
    lua_pushinteger(L, (lua_Integer)channel_count(check(L)));
    return 1;
}

static int method_eq(lua_State *L)
{
    struct attachment *one = attachment_test(L, 1), *other = attachment_test(L, 2);
    lua_pushboolean(L, one && one == other);
    return 1;
}

void channel_class_open(struct orr_isolate *iso, lua_State *L)
{
    static const luaL_Reg methods[] = {
        { "send", method_send },
        { "try_send", method_try_send },
        { "receive", method_receive },
        { "try_receive", method_try_receive },
        { "iter", method_iter },
        { "close", method_close },
        { "is_closed", method_is_closed },
        { "__call", method_receive }, /* for value in channel do: until it is closed and empty */
        { "__len", method_len },
        { "__eq", method_eq },
        { "__close", method_close },
        { "__gc", handle_gc },
        { NULL, NULL },
    };
    static const luaL_Reg of_waiter[] = { { "__gc", waiter_gc }, { NULL, NULL } };
    isolate_class(iso, L, CHANNEL, methods);
    luaL_getmetatable(L, CHANNEL);
    attachment_mark(L);
    lua_pop(L, 1);
    isolate_class(iso, L, WAITER, of_waiter);
}
