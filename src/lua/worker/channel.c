#include "lua/worker/channel.h"

/* --- Items ------------------------------------------------------------------------------------ */

struct channel_item *channel_item_new(const struct channel *channel)
{
    struct channel_item *item = alloc_zeroed(&channel->alloc, sizeof *item);
    if (item)
        message_init(&item->message, &channel->alloc);
    return item;
}

void channel_item_free(struct channel_item *item, const struct alloc *alloc)
{
    if (!item)
        return;
    message_free(&item->message);
    alloc_free(alloc, item, sizeof *item);
}

static void append(struct channel *channel, struct channel_item *item)
{
    item->next = NULL;
    *(channel->last ? &channel->last->next : &channel->first) = item;
    channel->last = item;
    channel->count++;
}

static void prepend(struct channel *channel, struct channel_item *item)
{
    item->next = channel->first;
    channel->first = item;
    if (!channel->last)
        channel->last = item;
    channel->count++;
}

static struct channel_item *take_first(struct channel *channel)
{
    struct channel_item *item = channel->first;
    channel->first = item->next;
    if (!channel->first)
        channel->last = NULL;
    channel->count--;
    return item;
}

/* --- The life of a channel -------------------------------------------------------------------- */

static void ref_attachment(struct attachment *attachment)
{
    channel_ref(container_of(attachment, struct channel, attachment));
}

static void unref_attachment(struct attachment *attachment)
{
    channel_unref(container_of(attachment, struct channel, attachment));
}

struct channel *channel_new(const struct alloc *alloc, size_t capacity,
                            int (*push)(lua_State *L, struct attachment *self))
{
    struct channel *channel = alloc_zeroed(alloc, sizeof *channel);
    if (!channel)
        return NULL;
    channel->attachment =
        (struct attachment){ .size = sizeof *channel, .ref = ref_attachment, .unref = unref_attachment, .push = push };
    channel->references = 1;
    channel->alloc = *alloc;
    channel->capacity = capacity;
    list_init(&channel->senders);
    list_init(&channel->receivers);
    pthread_mutex_init(&channel->lock, NULL);
    return channel;
}

void channel_ref(struct channel *channel)
{
    atomic_fetch_add_explicit(&channel->references, 1, memory_order_relaxed);
}

void channel_unref(struct channel *channel)
{
    /*
     * Release, so that every use comes before the end; acquire in the thread that frees the
     * channel.
     */
    if (atomic_fetch_sub_explicit(&channel->references, 1, memory_order_acq_rel) != 1)
        return;
    struct alloc alloc = channel->alloc;
    while (channel->first)
        channel_item_free(take_first(channel), &alloc);
    pthread_mutex_destroy(&channel->lock);
    alloc_free(&alloc, channel, sizeof *channel);
}

/* --- Waiters ---------------------------------------------------------------------------------- */

static struct channel_waiter *first_waiter(const struct orr_link *list)
{
    return list_empty(list) ? NULL : container_of(list->next, struct channel_waiter, link);
}

static void enlist(struct channel_waiter *waiter)
{
    struct channel *channel = waiter->channel;
    waiter->state = WAITER_LISTED;
    list_append(waiter->sends ? &channel->senders : &channel->receivers, &waiter->link);
}

/*
 * Takes a waiter off its list.  The caller wakes it with wake() after it has unlocked the channel.
 */
static struct orr_future *serve(struct channel_waiter *waiter, enum channel_waiter_state state)
{
    list_remove(&waiter->link);
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

/* Returns an item to the first receiver that waits, or to the channel, as its first item. */
static struct orr_future *give_back(struct channel *channel, struct channel_item *item)
{
    struct channel_waiter *receiver = first_waiter(&channel->receivers);
    if (!receiver) {
        prepend(channel, item);
        return NULL;
    }
    receiver->item = item;
    return serve(receiver, WAITER_SERVED);
}

void channel_waiter_init(struct channel_waiter *waiter, struct channel *channel, bool sends)
{
    *waiter = (struct channel_waiter){ .channel = channel, .sends = sends };
    list_init(&waiter->link);
    channel_ref(channel);
}

void channel_waiter_close(struct channel_waiter *waiter)
{
    struct channel *channel = waiter->channel;
    struct orr_future *woken = NULL;
    pthread_mutex_lock(&channel->lock);
    struct channel_item *item = waiter->item;
    waiter->item = NULL;
    list_remove(&waiter->link);
    if (item && !waiter->sends) {
        woken = give_back(channel, item);
        item = NULL;
    }
    pthread_mutex_unlock(&channel->lock);
    wake(woken);
    channel_item_free(item, &channel->alloc);
    orr_future_unref(waiter->future);
    waiter->future = NULL;
    waiter->channel = NULL;
    channel_unref(channel);
}

enum channel_waiter_state channel_waiter_leave(struct channel_waiter *waiter)
{
    struct channel *channel = waiter->channel;
    pthread_mutex_lock(&channel->lock);
    enum channel_waiter_state state = waiter->state;
    if (state == WAITER_LISTED) {
        list_remove(&waiter->link);
        waiter->state = WAITER_NEW;
    }
    pthread_mutex_unlock(&channel->lock);
    return state;
}

/* --- Sending and receiving -------------------------------------------------------------------- */

enum channel_attempt channel_send(struct channel_waiter *waiter, bool listing)
{
    struct channel *channel = waiter->channel;
    struct orr_future *woken = NULL;
    enum channel_attempt answer = ATTEMPT_DONE;
    pthread_mutex_lock(&channel->lock);
    struct channel_waiter *receiver = first_waiter(&channel->receivers);
    if (channel->closed) {
        answer = ATTEMPT_CLOSED;
    } else if (receiver) {
        receiver->item = waiter->item;
        woken = serve(receiver, WAITER_SERVED);
    } else if (channel->count < channel->capacity) {
        append(channel, waiter->item);
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

enum channel_attempt channel_receive(struct channel_waiter *waiter, bool listing)
{
    struct channel *channel = waiter->channel;
    struct orr_future *woken = NULL;
    enum channel_attempt answer = ATTEMPT_DONE;
    pthread_mutex_lock(&channel->lock);
    struct channel_waiter *sender = first_waiter(&channel->senders);
    if (sender) { /* this receiver makes room; with a capacity of 0, it takes the sender's item */
        append(channel, sender->item);
        sender->item = NULL;
        woken = serve(sender, WAITER_SERVED);
    }
    if (channel->first) {
        waiter->item = take_first(channel);
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

void channel_close(struct channel *channel)
{
    struct orr_future *woken;
    do {
        pthread_mutex_lock(&channel->lock);
        channel->closed = true;
        struct channel_waiter *waiter = first_waiter(&channel->receivers);
        if (!waiter)
            waiter = first_waiter(&channel->senders);
        woken = waiter ? serve(waiter, WAITER_TOLD_CLOSED) : NULL;
        pthread_mutex_unlock(&channel->lock);
        wake(woken);
    } while (woken);
}

bool channel_is_closed(struct channel *channel)
{
    pthread_mutex_lock(&channel->lock);
    bool closed = channel->closed;
    pthread_mutex_unlock(&channel->lock);
    return closed;
}

size_t channel_count(struct channel *channel)
{
    pthread_mutex_lock(&channel->lock);
    size_t count = channel->count;
    pthread_mutex_unlock(&channel->lock);
    return count;
}
