/*
 * The wait that all operations of streams are made of.
 */
#include "io/stream.h"

#include "exec/scope.h"

#include <stdio.h>
#include <string.h>

enum {
    SPREE_MAX = 1024 * 1024,   /* cost of what may end at once in one poll */
    OPERATION_COST = 16 * 1024 /* of an operation, besides its bytes */
};

/* --- Sprees ----------------------------------------------------------------------------------- */

void spree_spend(struct worker *worker, size_t bytes)
{
    uint64_t poll = counter_read(&worker->counters.polls);
    if (worker->spree.poll != poll)
        worker->spree = (struct spree){ .poll = poll };
    worker->spree.cost += OPERATION_COST + bytes;
}

bool spree_is_over(const struct worker *worker)
{
    return worker->spree.cost >= SPREE_MAX && worker->spree.poll == counter_read(&worker->counters.polls);
}

/* --- Waiting ---------------------------------------------------------------------------------- */

int stream_tell_kind(struct orr_stream *stream)
{
    unsigned events = stream->fatal;
    for (enum stream_slot slot = 0; slot < SLOTS; slot++)
        if (stream->waits[slot] && stream->waits[slot]->state == WAIT_WAITING)
            events |= (unsigned)stream->waits[slot]->value;
    if (stream->closed || events == stream->wanted)
        return 0;
    stream->wanted = (uint8_t)events;
    return stream->kind->want(stream, events);
}

void stream_lost(struct orr_stream *stream, unsigned events)
{
    struct orr_task *task = tasks_find(&stream->opened.worker->tasks, stream->dependent);
    stream->fatal = 0;
    if (task)
        scope_cancel(&task->own,
                     events & ORR_RESET ? "the peer has reset the connection" : "the peer has ended its output");
}

void stream_ready(struct orr_stream *stream, unsigned events)
{
    stream->wanted &= (uint8_t)~events;
    /* First of all: a task that is cancelled has nothing granted any more. */
    if (stream->fatal & events)
        stream_lost(stream, events);
    for (enum stream_slot slot = 0; slot < SLOTS; slot++) {
        struct orr_wait *wait = stream->waits[slot];
        if (wait && wait->state == WAIT_WAITING && wait->value & events)
            wait_grant(wait);
    }
}

void orr_stream_ready(struct orr_stream *stream, unsigned events)
{
    if (!stream_check(stream))
        stream_ready(stream, events);
}

void stream_withdraw(struct orr_wait *wait, bool granted)
{
    struct orr_stream *stream = wait->source;
    for (enum stream_slot slot = 0; slot < SLOTS; slot++)
        if (stream->waits[slot] == wait)
            stream->waits[slot] = NULL;
    if (!granted)
        stream_tell_kind(stream);
    stream_destroy_if_unused(stream);
}

void stream_describe_wait(const struct orr_stream *stream, const char *doing, char *text, size_t size)
{
    char address[ORR_ADDRESS_TEXT];
    int length = orr_stream_describe(stream, ORR_PEER, address, sizeof address);
    bool named = length > 0 && strcmp(address, "unix:") != 0;
    snprintf(text, size, "%s %s%s%s", doing, stream->kind->name, named ? " " : "", named ? address : "");
}

int attempt_begin(struct attempt *attempt)
{
    struct orr_wait *wait = attempt->wait;
    struct orr_stream *stream = attempt->stream;
    if (!attempt->task || !wait || !stream)
        return -EINVAL;
    attempt->group = wait->grouped ? wait->owner : NULL;
    /* Up to here the stream is only a number: once its wait was withdrawn, it may be gone. */
    int answer = wait_poll(attempt->task, wait, stream, attempt->kind);
    if (answer == 0) {
        stream->waits[attempt->slot] = NULL;
        return stream->closed ? attempt_end(attempt, -EBADF) : 0;
    }
    if (answer != 1)
        return answer;
    if (stream->opened.worker != attempt->task->worker)
        return wait_refuse(wait, -EPERM);
    if (stream->closed)
        return wait_refuse(wait, -EBADF);
    if (stream->waits[attempt->slot])
        return wait_refuse(wait, -EBUSY);
    return spree_is_over(stream->opened.worker) ? attempt_yield(attempt) : 1;
}

/* Puts the wait into its slot, and back into its group. */
static int enter_slot(struct attempt *attempt, unsigned events)
{
    struct orr_wait *wait = attempt->wait;
    int interruption = wait_interruption(attempt->task);
    if (interruption)
        return wait_refuse(wait, interruption);
    wait->value = events;
    wait->grouped = attempt->group;
    wait->owner = attempt->group ? (void *)attempt->group : attempt->task;
    attempt->stream->waits[attempt->slot] = wait;
    return wait_begin(attempt->task, wait, attempt->stream, attempt->kind);
}

int attempt_wait(struct attempt *attempt, unsigned events)
{
    int answer = enter_slot(attempt, events);
    if (answer != -EAGAIN)
        return answer;
    int error = stream_tell_kind(attempt->stream);
    if (!error)
        return -EAGAIN;
    attempt->stream->waits[attempt->slot] = NULL;
    wait_pick_up(attempt->wait);
    stream_tell_kind(attempt->stream);
    return error;
}

int attempt_yield(struct attempt *attempt)
{
    int answer = enter_slot(attempt, 0);
    if (answer == -EAGAIN)
        wait_grant(attempt->wait);
    return answer;
}

int attempt_end(struct attempt *attempt, int answer)
{
    if (answer != -EAGAIN)
        wait_refuse(attempt->wait, answer);
    stream_destroy_if_unused(attempt->stream);
    return answer;
}
