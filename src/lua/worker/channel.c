/*
 * A channel: values on their way between tasks, of any isolates of the runtime, on any thread.
 *
 * It is shared by references, one for each handle in an isolate and one for each message that it is part of, and each of them is charged
 * for it.  Everything in it is
 * guarded by its lock, which is held for a few instructions at a time, never while Lua runs, memory is asked for, or somebody is woken.
 *
 * Those who wait are *waiters*, each a userdata of its own isolate, and each with a future that whoever serves it completes.  They are
 * served in the order in which they came: a value goes straight to the first who waits for one, and a sender that waits is let in when
 * there is room.  So there are never values waiting and receivers waiting at once.
 *
 * A waiter that was served has what it came for, even if it was cancelled meanwhile: it hears of that at its next wait.  One that is
 * no more to go on when it is served, because its isolate ends, gives what it got back, to be the first again.  So nothing is lost.
 */
#include "lua/worker/channel.h"

#include "lua/isolate.h"
#include "lua/isolate/charge.h"
#include "lua/isolate/settings.h"
#include "lua/limits/preempt.h"
#include "lua/task/suspend.h"
#include "lua/task/task.h"
#include "lua/values/work.h"

#include <errno.h>
#include <string.h>

#define CHANNEL "orrery.channel"
#define WAITER "orrery.channel_waiter"
#define CAPACITY_MAX 1000000
#define CAPACITY_MAX_UNTRUSTED 10000 /* they are all freed at once, by a finalizer */
#define FUTURE_COST 128

struct item {
    struct item *next;
    struct message message;
};

enum waiter_state {
    WAITER_NEW,
    WAITER_LISTED,
    WAITER_SERVED,
    WAITER_TOLD_CLOSED,
};

struct waiter {
    struct channel *channel;   /* a reference */
    struct orr_future *future; /* a reference */
    struct waiter *next, *previous;
    enum waiter_state state;
    bool sends;
    bool collected;    /* garbage was, once, to make room for the item */
    struct item *item; /* a sender's, until it is served; a receiver's, from then on */
};

struct line {
    struct waiter *first, *last;
};

struct channel {
    struct attachment attachment;
    _Atomic unsigned references;
    struct alloc alloc;
    pthread_mutex_t lock;
    size_t capacity, count;
    struct item *first, *last;
    struct line senders, receivers;
    bool closed;
};

/* What an isolate has of it. */
struct handle {
    struct attachment *attachment; /* a reference */
};

/* --- Items ------------------------------------------------------------------------------------------------------------ */

static struct item *item_new(const struct alloc *alloc)
{
    struct item *item = alloc_zeroed(alloc, sizeof *item);
    if (item)
        message_init(&item->message, alloc);
    return item;
}

static void item_free(struct item *item, const struct alloc *alloc)
{
    if (!item)
        return;
    message_free(&item->message);
    alloc_free(alloc, item, sizeof *item);
}

static void put(struct channel *channel, struct item *item)
{
    item->next = NULL;
    *(channel->last ? &channel->last->next : &channel->first) = item;
    channel->last = item;
    channel->count++;
}

static void put_first(struct channel *channel, struct item *item)
{
    item->next = channel->first;
    channel->first = item;
    if (!channel->last)
        channel->last = item;
    channel->count++;
}

static struct item *take(struct channel *channel)
{
    struct item *item = channel->first;
    channel->first = item->next;
    if (!channel->first)
        channel->last = NULL;
    channel->count--;
    return item;
}

/* --- Waiters ------------------------------------------------------------------------------------------------------------ */

static struct line *line_of(const struct waiter *waiter)
{
    return waiter->sends ? &waiter->channel->senders : &waiter->channel->receivers;
}

static void enlist(struct waiter *waiter)
{
    struct line *line = line_of(waiter);
    waiter->state = WAITER_LISTED;
    waiter->previous = line->last;
    *(line->last ? &line->last->next : &line->first) = waiter;
    line->last = waiter;
}

static void leave_line(struct waiter *waiter)
{
    struct line *line = line_of(waiter);
    *(waiter->previous ? &waiter->previous->next : &line->first) = waiter->next;
    *(waiter->next ? &waiter->next->previous : &line->last) = waiter->previous;
    waiter->next = waiter->previous = NULL;
}

/* Takes the first out of its line.  The future, a reference of the caller's, is to be completed when the lock is no more held. */
static struct orr_future *serve(struct waiter *waiter, enum waiter_state state)
{
    leave_line(waiter);
    waiter->state = state;
    return orr_future_ref(waiter->future);
}

static void wake(struct orr_future *future)
{
    if (!future)
        return;
    orr_future_complete(future, (struct orr_result){ 0 });
    orr_future_unref(future);
}

/* --- Life ----------------------------------------------------------------------------------------------------------------- */

static void channel_ref(struct attachment *attachment)
{
    struct channel *channel = container_of(attachment, struct channel, attachment);
    atomic_fetch_add_explicit(&channel->references, 1, memory_order_relaxed);
}

static void channel_unref(struct attachment *attachment)
{
    struct channel *channel = container_of(attachment, struct channel, attachment);
    /* Release and acquire: all that was done with it comes before its end. */
    if (atomic_fetch_sub_explicit(&channel->references, 1, memory_order_acq_rel) != 1)
        return;
    struct alloc alloc = channel->alloc;
    while (channel->first)
        item_free(take(channel), &alloc);
    pthread_mutex_destroy(&channel->lock);
    alloc_free(&alloc, channel, sizeof *channel);
}

static int channel_push(lua_State *L, struct attachment *attachment)
{
    struct orr_isolate *iso = isolate_find(L);
    objects_check(iso, L);
    struct handle *handle = lua_newuserdatauv(L, sizeof *handle, 0);
    handle->attachment = NULL;
    luaL_setmetatable(L, CHANNEL);
    objects_made(iso);
    if (charge_take(iso, sizeof(struct channel)))
        return charge_raise(L);
    channel_ref(attachment);
    handle->attachment = attachment;
    return 1;
}

static int channel_gc(lua_State *L)
{
    struct handle *handle = lua_touserdata(L, 1);
    struct attachment *attachment = handle->attachment;
    handle->attachment = NULL;
    objects_gone(isolate_of(L));
    if (attachment) {
        charge_give(isolate_of(L), sizeof(struct channel));
        channel_unref(attachment);
    }
    return 0;
}

static struct channel *check(lua_State *L)
{
    struct handle *handle = luaL_checkudata(L, 1, CHANNEL);
    return container_of(handle->attachment, struct channel, attachment);
}

int channel_new(lua_State *L)
{
    struct orr_isolate *iso = isolate_of(L);
    lua_Integer capacity = luaL_optinteger(L, 1, 1);
    if (iso->limits.profile == ORR_LUA_UNTRUSTED)
        luaL_argcheck(L, capacity >= 0 && capacity <= CAPACITY_MAX_UNTRUSTED, 1,
                      "a capacity from 0 to 10000 expected, which is the most that an untrusted script may have");
    luaL_argcheck(L, capacity >= 0 && capacity <= CAPACITY_MAX, 1, "a capacity from 0 to 1000000 expected");
    objects_check(iso, L);
    struct handle *handle = lua_newuserdatauv(L, sizeof *handle, 0);
    handle->attachment = NULL;
    luaL_setmetatable(L, CHANNEL);
    objects_made(iso);
    if (charge_take(iso, sizeof(struct channel)))
        return charge_raise(L);
    struct channel *channel = alloc_zeroed(&iso->rt->alloc, sizeof *channel);
    if (!channel) {
        charge_give(iso, sizeof *channel);
        return luaL_error(L, "not enough memory");
    }
    channel->attachment = (struct attachment){
        .size = sizeof *channel, .ref = channel_ref, .unref = channel_unref, .push = channel_push
    };
    channel->references = 1;
    channel->alloc = iso->rt->alloc;
    channel->capacity = (size_t)capacity;
    pthread_mutex_init(&channel->lock, NULL);
    handle->attachment = &channel->attachment;
    return 1;
}

/* --- Waiting ---------------------------------------------------------------------------------------------------------------- */

/* Pushes one, below the channel and the arguments, at 1. */
static struct waiter *waiter_new(lua_State *L, struct channel *channel, bool sends)
{
    struct waiter *waiter = lua_newuserdatauv(L, sizeof *waiter, 0);
    *waiter = (struct waiter){ .sends = sends };
    luaL_setmetatable(L, WAITER);
    objects_made(isolate_of(L));
    lua_insert(L, 1);
    channel_ref(&channel->attachment);
    waiter->channel = channel;
    return waiter;
}

/* It is going to wait: raises where nobody can. */
static void waiter_prepare(lua_State *L, struct waiter *waiter)
{
    struct orr_isolate *iso = isolate_of(L);
    ltask_waiting(L, waiter->sends ? "channel:send" : "channel:receive");
    if (charge_take(iso, FUTURE_COST))
        charge_raise(L);
    int error = orr_future_new(iso->rt, NULL, &waiter->future);
    if (error)
        charge_give(iso, FUTURE_COST);
    if (error)
        luaL_error(L, "channel: cannot wait: %s", strerror(-error));
}

/* An item that nobody got comes back: to the first who waits, or first in the channel. */
static struct orr_future *give_back(struct channel *channel, struct item *item)
{
    struct waiter *next = channel->receivers.first;
    if (!next) {
        put_first(channel, item);
        return NULL;
    }
    next->item = item;
    return serve(next, WAITER_SERVED);
}

static int waiter_gc(lua_State *L)
{
    struct waiter *waiter = lua_touserdata(L, 1);
    struct channel *channel = waiter->channel;
    struct orr_future *woken = NULL;
    if (channel) {
        pthread_mutex_lock(&channel->lock);
        struct item *item = waiter->item;
        waiter->item = NULL;
        if (waiter->state == WAITER_LISTED)
            leave_line(waiter);
        if (item && !waiter->sends) {
            woken = give_back(channel, item);
            item = NULL;
        }
        pthread_mutex_unlock(&channel->lock);
        wake(woken);
        item_free(item, &channel->alloc);
        waiter->channel = NULL;
        channel_unref(&channel->attachment);
    }
    if (waiter->future)
        charge_give(isolate_of(L), FUTURE_COST);
    orr_future_unref(waiter->future);
    waiter->future = NULL;
    objects_gone(isolate_of(L));
    return 0;
}

static int answer_closed(lua_State *L)
{
    lua_pushnil(L);
    lua_pushliteral(L, "closed");
    return 2;
}

static int answer_true(lua_State *L)
{
    lua_pushboolean(L, true);
    return 1;
}

/* [waiter] [work], with what a receiver gets.  Until all of it is read, the item goes back with the waiter. */
static int deliver_on(lua_State *L, int status, lua_KContext context);

static int run_delivery(lua_State *L, struct waiter *waiter, struct paced *work)
{
    int count = paced_run(L, &work);
    if (count == -EAGAIN)
        return preempt_hold(L, deliver_on, (lua_KContext)work);
    item_free(waiter->item, &waiter->channel->alloc);
    waiter->item = NULL;
    return count;
}

static int deliver_on(lua_State *L, int status, lua_KContext context)
{
    (void)status;
    struct paced *work = paced_kept(L, 2, context);
    struct waiter *waiter = luaL_testudata(L, 1, WAITER);
    const struct decoding *decoding = container_of(work, struct decoding, paced);
    if (!waiter || !waiter->item || decoding->decoder.m != &waiter->item->message)
        return luaL_error(L, "somebody has changed what is being received");
    return run_delivery(L, waiter, work);
}

static int deliver(lua_State *L, struct waiter *waiter)
{
    struct decoding work;
    lua_settop(L, 2);
    decoding_begin(&work, 2, &waiter->item->message, NULL, 0);
    return run_delivery(L, waiter, &work.paced);
}

/* [waiter], which is listed. */
static int stand_in_line(lua_State *L, int status, lua_KContext context)
{
    (void)status;
    struct waiter *waiter = lua_touserdata(L, 1);
    struct channel *channel = waiter->channel;
    struct ltask *self = ltask_current(L, "channel");
    int error = orr_future_wait(self->task, &self->wait, waiter->future);
    if (error == -EAGAIN)
        return suspend(L, stand_in_line, context);
    pthread_mutex_lock(&channel->lock);
    enum waiter_state state = waiter->state;
    if (state == WAITER_LISTED) {
        leave_line(waiter);
        waiter->state = WAITER_NEW;
    }
    pthread_mutex_unlock(&channel->lock);
    if (state == WAITER_LISTED)
        return wait_raise(L, error);
    if (state == WAITER_TOLD_CLOSED)
        return answer_closed(L);
    return waiter->sends ? answer_true(L) : deliver(L, waiter);
}

/* --- Sending and receiving ----------------------------------------------------------------------------------------------------- */

enum attempt {
    ATTEMPT_DONE,
    ATTEMPT_CLOSED,
    ATTEMPT_WAIT,
};

/* Sends what the waiter has.  If that has to wait, and `listing`, it is put in line. */
static enum attempt try_send(struct waiter *waiter, bool listing)
{
    struct channel *channel = waiter->channel;
    struct orr_future *woken = NULL;
    enum attempt answer = ATTEMPT_DONE;
    pthread_mutex_lock(&channel->lock);
    struct waiter *receiver = channel->receivers.first;
    if (channel->closed) {
        answer = ATTEMPT_CLOSED;
    } else if (receiver) {
        receiver->item = waiter->item;
        woken = serve(receiver, WAITER_SERVED);
    } else if (channel->count < channel->capacity) {
        put(channel, waiter->item);
    } else {
        answer = ATTEMPT_WAIT;
        if (listing)
            enlist(waiter);
    }
    if (answer == ATTEMPT_DONE)
        waiter->item = NULL;
    pthread_mutex_unlock(&channel->lock);
    wake(woken);
    return answer;
}

static enum attempt try_receive(struct waiter *waiter, bool listing)
{
    struct channel *channel = waiter->channel;
    struct orr_future *woken = NULL;
    enum attempt answer = ATTEMPT_DONE;
    pthread_mutex_lock(&channel->lock);
    struct waiter *sender = channel->senders.first;
    if (sender) { /* there is room for its item now; with no capacity, it is the one */
        put(channel, sender->item);
        sender->item = NULL;
        woken = serve(sender, WAITER_SERVED);
    }
    if (channel->first) {
        waiter->item = take(channel);
    } else if (channel->closed) {
        answer = ATTEMPT_CLOSED;
    } else {
        answer = ATTEMPT_WAIT;
        if (listing)
            enlist(waiter);
    }
    pthread_mutex_unlock(&channel->lock);
    wake(woken);
    return answer;
}

/* It would hold itself, for ever. */
static void check_not_through_itself(lua_State *L, const struct channel *channel, const struct message *message)
{
    for (unsigned i = 0; i < message->attachment_count; i++)
        if (message->attachments[i] == &channel->attachment)
            luaL_error(L, "channel:send: a channel cannot be sent through itself");
}

/* [waiter], with a copy of the values. */
static int send_copy(lua_State *L, struct waiter *waiter)
{
    enum attempt attempt = try_send(waiter, false);
    if (attempt == ATTEMPT_WAIT) {
        waiter_prepare(L, waiter);
        attempt = try_send(waiter, true);
    }
    if (attempt == ATTEMPT_WAIT)
        return stand_in_line(L, LUA_OK, 0);
    return attempt == ATTEMPT_CLOSED ? answer_closed(L) : answer_true(L);
}

static int try_send_copy(lua_State *L, struct waiter *waiter)
{
    enum attempt attempt = try_send(waiter, false);
    if (attempt == ATTEMPT_DONE)
        return answer_true(L);
    lua_pushnil(L);
    lua_pushstring(L, attempt == ATTEMPT_CLOSED ? "closed" : "full");
    return 2;
}

/* [waiter] [work] [values...]: copies the values, and sends the copy with one of the two. */
static int copy_on(lua_State *L, int status, lua_KContext context);
static int try_copy_on(lua_State *L, int status, lua_KContext context);

/* There was no memory: what is garbage is collected, and it is tried again. */
static int collect_and_copy(lua_State *L, int status, lua_KContext waits);

static int run_copying(lua_State *L, struct waiter *waiter, struct paced *work, bool waits)
{
    int error = paced_run(L, &work);
    if (error == -EAGAIN)
        return preempt_hold(L, waits ? copy_on : try_copy_on, (lua_KContext)work);
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

static int go_on_copying(lua_State *L, lua_KContext context, bool waits)
{
    struct paced *work = paced_kept(L, 2, context);
    struct waiter *waiter = luaL_testudata(L, 1, WAITER);
    const struct encoding *encoding = container_of(work, struct encoding, paced);
    if (!waiter || !waiter->item || encoding->encoder.m != &waiter->item->message)
        return luaL_error(L, "somebody has changed what is being sent");
    return run_copying(L, waiter, work, waits);
}

static int copy_on(lua_State *L, int status, lua_KContext context)
{
    (void)status;
    return go_on_copying(L, context, true);
}

static int try_copy_on(lua_State *L, int status, lua_KContext context)
{
    (void)status;
    return go_on_copying(L, context, false);
}

static int begin_copying(lua_State *L, struct waiter *waiter, bool waits)
{
    struct encoding work;
    struct message *message = &waiter->item->message;
    if (!message->quota && message_charge_to(message, isolate_of(L)->settings->quota))
        return luaL_error(L, "channel:send: not enough memory");
    encoding_begin(&work, L, 2, message, 3, lua_gettop(L) - 2, "value");
    return run_copying(L, waiter, &work.paced, waits);
}

static int collect_and_copy(lua_State *L, int status, lua_KContext waits)
{
    (void)status;
    if (preempt_to_collect(L))
        return preempt_hold(L, collect_and_copy, waits);
    charge_collected(isolate_of(L));
    struct waiter *waiter = luaL_testudata(L, 1, WAITER);
    if (!waiter || !waiter->item)
        return luaL_error(L, "somebody has changed what is being sent");
    return begin_copying(L, waiter, waits);
}

/* [channel] [values...] */
static int copy_and_send(lua_State *L, bool waits)
{
    struct channel *channel = check(L);
    luaL_checkstack(L, VALUES_ERROR_SLOTS + 4, NULL);
    struct waiter *waiter = waiter_new(L, channel, true);
    waiter->item = item_new(&channel->alloc);
    if (!waiter->item)
        return luaL_error(L, "not enough memory");
    lua_pushnil(L);
    lua_replace(L, 2);
    return begin_copying(L, waiter, waits);
}

static int channel_send(lua_State *L)
{
    return copy_and_send(L, true);
}

static int channel_try_send(lua_State *L)
{
    return copy_and_send(L, false);
}

static int channel_receive(lua_State *L)
{
    struct waiter *waiter = waiter_new(L, check(L), false);
    lua_settop(L, 1);
    enum attempt attempt = try_receive(waiter, false);
    if (attempt == ATTEMPT_WAIT) {
        waiter_prepare(L, waiter);
        attempt = try_receive(waiter, true);
    }
    if (attempt == ATTEMPT_WAIT)
        return stand_in_line(L, LUA_OK, 0);
    return attempt == ATTEMPT_CLOSED ? answer_closed(L) : deliver(L, waiter);
}

static int channel_try_receive(lua_State *L)
{
    struct waiter *waiter = waiter_new(L, check(L), false);
    lua_settop(L, 1);
    enum attempt attempt = try_receive(waiter, false);
    if (attempt == ATTEMPT_DONE)
        return deliver(L, waiter);
    lua_pushnil(L);
    lua_pushstring(L, attempt == ATTEMPT_CLOSED ? "closed" : "empty");
    return 2;
}

/* for value in channel:iter(): until it is closed and empty. */
static int channel_iter(lua_State *L)
{
    check(L);
    lua_pushlightuserdata(L, isolate_of(L));
    lua_pushcclosure(L, channel_receive, 1);
    lua_pushvalue(L, 1);
    return 2;
}

/* What was sent can still be received; those who wait are told. */
static int channel_close(lua_State *L)
{
    struct channel *channel = check(L);
    struct orr_future *woken;
    do {
        pthread_mutex_lock(&channel->lock);
        channel->closed = true;
        struct waiter *waiter = channel->receivers.first ? channel->receivers.first : channel->senders.first;
        woken = waiter ? serve(waiter, WAITER_TOLD_CLOSED) : NULL;
        pthread_mutex_unlock(&channel->lock);
        wake(woken);
    } while (woken);
    return 0;
}

static int channel_is_closed(lua_State *L)
{
    struct channel *channel = check(L);
    pthread_mutex_lock(&channel->lock);
    lua_pushboolean(L, channel->closed);
    pthread_mutex_unlock(&channel->lock);
    return 1;
}

static int channel_length(lua_State *L)
{
    struct channel *channel = check(L);
    pthread_mutex_lock(&channel->lock);
    lua_Integer count = (lua_Integer)channel->count;
    pthread_mutex_unlock(&channel->lock);
    lua_pushinteger(L, count);
    return 1;
}

static int channel_equal(lua_State *L)
{
    struct attachment *one = attachment_test(L, 1), *other = attachment_test(L, 2);
    lua_pushboolean(L, one && one == other);
    return 1;
}

void channel_open(struct orr_isolate *iso, lua_State *L)
{
    static const luaL_Reg methods[] = {
        { "send", channel_send },
        { "try_send", channel_try_send },
        { "receive", channel_receive },
        { "try_receive", channel_try_receive },
        { "iter", channel_iter },
        { "close", channel_close },
        { "is_closed", channel_is_closed },
        { "__len", channel_length },
        { "__eq", channel_equal },
        { "__close", channel_close },
        { "__gc", channel_gc },
        { NULL, NULL },
    };
    static const luaL_Reg of_waiter[] = { { "__gc", waiter_gc }, { NULL, NULL } };
    isolate_class(iso, L, CHANNEL, methods);
    luaL_getmetatable(L, CHANNEL);
    attachment_mark(L);
    lua_pop(L, 1);
    isolate_class(iso, L, WAITER, of_waiter);
}
