/*
 * A queue of items.  The items are in a list of segments, so that a long queue is never moved; one
 * empty segment is kept, so that a short queue allocates nothing.
 *
 * An item stays in its segment until it is picked up.  A getter in line is granted the *right* to
 * one item: `promised` counts those rights, there are never more of them than items, and a getter
 * that is not in line may only take an item that is not promised.  So no item is put back if its
 * getter ends: the right passes to the next in line.  (A getter that is polled without need may so
 * be first to pick up; items still leave in order.)
 *
 * A putter in line keeps its item.  `length` is at the capacity while there are putters in line,
 * unless there was no memory for a segment; then the item is taken from the line when the segments
 * are empty.
 */
#include "sync/primitive.h"

enum { SEGMENT_ITEMS = 62 };

struct segment {
    struct segment *next;
    size_t first; /* index of the oldest item; the queue has that of the newest */
    void *items[SEGMENT_ITEMS];
};

struct orr_queue {
    struct primitive common; /* its line: getters */
    struct orr_link *putters;
    size_t capacity; /* SIZE_MAX for no bound */
    size_t length;   /* items in segments */
    size_t promised; /* items promised to getters that have not picked them up */
    struct segment *head, *tail, *spare;
    size_t tail_used;
    bool closed;
    void (*drop)(void *item);
    struct alloc alloc; /* for the segments */
};

/* --- Segments --------------------------------------------------------------------------------- */

static int grow(struct orr_queue *queue)
{
    struct segment *segment = queue->spare;
    queue->spare = NULL;
    if (!segment)
        segment = alloc_new(&queue->alloc, sizeof *segment);
    if (!segment)
        return -ENOMEM;
    segment->next = NULL;
    segment->first = 0;
    if (queue->tail)
        queue->tail->next = segment;
    else
        queue->head = segment;
    queue->tail = segment;
    queue->tail_used = 0;
    return 0;
}

static void discard_head(struct orr_queue *queue)
{
    struct segment *segment = queue->head;
    queue->head = segment->next;
    if (!queue->head)
        queue->tail = NULL;
    if (queue->spare)
        alloc_free(&queue->alloc, segment, sizeof *segment);
    else
        queue->spare = segment;
}

static int push(struct orr_queue *queue, void *item)
{
    if (!queue->tail || queue->tail_used == SEGMENT_ITEMS) {
        int error = grow(queue);
        if (error)
            return error;
    }
    queue->tail->items[queue->tail_used++] = item;
    queue->length++;
    return 0;
}

static void *pop(struct orr_queue *queue)
{
    struct segment *segment = queue->head;
    void *item = segment->items[segment->first++];
    queue->length--;
    if (segment->first == (segment == queue->tail ? queue->tail_used : SEGMENT_ITEMS))
        discard_head(queue);
    return item;
}

/* --- Lines ------------------------------------------------------------------------------------ */

/* Grants each item that is not promised to the first getter in line. */
static void promise(struct orr_queue *queue)
{
    while (queue->promised < queue->length && primitive_grant_first(&queue->common, &queue->common.line))
        queue->promised++;
}

/* Lets putters in while there is room, and memory. */
static void admit(struct orr_queue *queue)
{
    while (queue->putters && queue->length < queue->capacity) {
        struct orr_wait *wait = container_of(queue->putters, struct orr_wait, in_source);
        if (push(queue, (void *)(uintptr_t)wait->value))
            break;
        primitive_grant_first(&queue->common, &queue->putters);
    }
    promise(queue);
}

/* Takes an item that is not promised to another; false if there is none. */
static bool take(struct orr_queue *queue, void **item)
{
    if (queue->promised < queue->length) {
        *item = pop(queue);
        admit(queue);
        return true;
    }
    if (queue->length || !queue->putters)
        return false;
    *item = (void *)(uintptr_t)container_of(queue->putters, struct orr_wait, in_source)->value;
    primitive_grant_first(&queue->common, &queue->putters);
    return true;
}

/* Ends all getters in line, once a closed queue is empty. */
static void tell_getters(struct orr_queue *queue)
{
    struct orr_wait *wait;
    while (queue->closed && !queue->length && (wait = primitive_grant_first(&queue->common, &queue->common.line)))
        wait->value = true; /* the queue has ended */
}

static void get_withdraw(struct orr_wait *wait, bool granted)
{
    struct orr_queue *queue = wait->source;
    if (!granted) {
        ring_remove(&queue->common.line, &wait->in_source);
        return;
    }
    queue->common.granted--;
    if (wait->value)
        return;
    queue->promised--;
    promise(queue);
}

static const struct orr_wait_kind get_kind = { .name = "queue get", .withdraw = get_withdraw };

/* A granted putter has put its item; there is nothing to give back. */
static void put_withdraw(struct orr_wait *wait, bool granted)
{
    struct orr_queue *queue = wait->source;
    if (granted)
        queue->common.granted--;
    else
        ring_remove(&queue->putters, &wait->in_source);
}

static const struct orr_wait_kind put_kind = { .name = "queue put", .withdraw = put_withdraw };

/* The `value` of a putter is its item; of one whose item the queue has refused, this address. */
static const char refused;

/* --- For users -------------------------------------------------------------------------------- */

const size_t queue_size = sizeof(struct orr_queue);

int queue_init(struct orr_queue *queue, size_t capacity, void (*drop)(void *item), const struct alloc *alloc)
{
    int error = primitive_init(queue, sizeof *queue);
    if (error)
        return error;
    queue->alloc = *alloc;
    queue->capacity = capacity ? capacity : SIZE_MAX;
    queue->drop = drop;
    return 0;
}

int orr_queue_new(size_t capacity, void (*drop)(void *item), struct orr_queue **out)
{
    int error = primitive_new(out, sizeof **out);
    return error ? error : queue_init(*out, capacity, drop, &worker_current->alloc);
}

int queue_end(struct orr_queue *queue)
{
    int error = primitive_check_end(queue);
    if (error || !primitive_lives(queue))
        return error;
    if (queue->putters)
        return -EBUSY;
    while (queue->length) {
        void *item = pop(queue);
        if (queue->drop)
            queue->drop(item);
    }
    while (queue->head)
        discard_head(queue);
    alloc_free(&queue->alloc, queue->spare, sizeof *queue->spare);
    queue->spare = NULL;
    primitive_end(queue);
    return 0;
}

int orr_queue_free(struct orr_queue *queue)
{
    return primitive_free(queue_end(queue), queue, sizeof *queue);
}

int orr_queue_try_put(struct orr_queue *queue, void *item)
{
    int error = primitive_check(queue);
    if (error)
        return error;
    if (queue->closed)
        return -EPIPE;
    if (queue->putters || queue->length >= queue->capacity)
        return -EAGAIN;
    error = push(queue, item);
    if (!error)
        promise(queue);
    return error;
}

int orr_queue_try_get(struct orr_queue *queue, void **item)
{
    int error = item ? primitive_check(queue) : -EINVAL;
    if (error)
        return error;
    if (!queue->common.line && take(queue, item))
        return 0;
    return queue->closed && !queue->length && !queue->putters ? -EPIPE : -EAGAIN;
}

int orr_queue_put(struct orr_task *task, struct orr_wait *wait, struct orr_queue *queue, void *item)
{
    int answer = primitive_poll(task, wait, queue, &put_kind);
    if (answer == 0)
        return wait->value == (uintptr_t)&refused ? -EPIPE : 0;
    if (answer != 1)
        return answer;
    answer = orr_queue_try_put(queue, item);
    if (answer != -EAGAIN) {
        wait_at_once(wait);
        return answer;
    }
    wait->value = (uintptr_t)item;
    return wait_in_line(task, wait, queue, &put_kind, &queue->putters);
}

int orr_queue_get(struct orr_task *task, struct orr_wait *wait, struct orr_queue *queue, void **item)
{
    if (!item)
        return -EINVAL;
    int answer = primitive_poll(task, wait, queue, &get_kind);
    if (answer == 0) {
        if (wait->value)
            return -EPIPE;
        queue->promised--;
        *item = pop(queue);
        admit(queue);
        tell_getters(queue);
        return 0;
    }
    if (answer != 1)
        return answer;
    answer = orr_queue_try_get(queue, item);
    if (answer != -EAGAIN) {
        wait_at_once(wait);
        return answer;
    }
    wait->value = false; /* becomes true at the end of the queue */
    return wait_in_line(task, wait, queue, &get_kind, &queue->common.line);
}

int orr_queue_close(struct orr_queue *queue)
{
    int error = primitive_check(queue);
    if (error)
        return error;
    queue->closed = true;
    struct orr_wait *wait;
    while ((wait = primitive_grant_first(&queue->common, &queue->putters)))
        wait->value = (uintptr_t)&refused;
    tell_getters(queue);
    return 0;
}

size_t orr_queue_length(const struct orr_queue *queue)
{
    return queue ? queue->length : 0;
}
