#include "io/simulated_end.h"

#include "base/clock.h"

#include <string.h>

enum {
    BUFFER_FIRST = 4 * 1024,
    ARRIVALS_FIRST = 8,
    ARRIVALS_MOST = 4096,  /* further bytes come with the last ones */
    WINDOW_MIN = 4 * 1024, /* of those that users set: as the kernel, which accepts every number */
    WINDOW_MAX = 16 * 1024 * 1024,
};

static struct orr_network *network_of(const struct simulated_end *end)
{
    return node_network(&end->node);
}

static struct worker *worker_of(const struct simulated_end *end)
{
    return node_worker(&end->node);
}

static uint64_t now_of(const struct simulated_end *end)
{
    return network_now(network_of(end));
}

bool end_is_cut(const struct simulated_end *end)
{
    return end_is_wired(end) && end->far_host && network_is_cut(end->node.host, end->far_host);
}

/* --- Memory ----------------------------------------------------------------------------------- */

/* Bytes that the buffer and the arrivals take. */
static size_t input_size(const struct simulated_end *end)
{
    return end->capacity + end->arrival_capacity * sizeof *end->arrivals;
}

/* Who pays for the input; NULL for nobody. */
static const struct orr_account *payer(const struct simulated_end *end)
{
    return end->pays_itself ? end->account : end->peer ? end->peer->account : NULL;
}

/* Makes a block of the input bigger.  NULL if there is no memory, or the account does not allow it;
 * then `*error` says why. */
static void *grow(struct simulated_end *end, void *block, size_t from, size_t to, int *error)
{
    *error = account_charge(payer(end), to - from);
    if (*error)
        return NULL;
    void *bigger = alloc_resize(&worker_of(end)->alloc, block, from, to);
    if (bigger)
        return bigger;
    account_uncharge(payer(end), to - from);
    *error = -ENOMEM;
    return NULL;
}

static void free_arrivals(struct simulated_end *end)
{
    size_t size = end->arrival_capacity * sizeof *end->arrivals;
    if (!size)
        return;
    account_uncharge(payer(end), size);
    alloc_free(&worker_of(end)->alloc, end->arrivals, size);
    end->arrivals = NULL;
    end->first_arrival = end->arrival_count = end->arrival_capacity = 0;
}

static void free_buffer(struct simulated_end *end)
{
    if (!end->capacity)
        return;
    account_uncharge(payer(end), end->capacity);
    alloc_free(&worker_of(end)->alloc, end->bytes, end->capacity);
    end->bytes = NULL;
    end->start = end->length = end->arrived = end->capacity = 0;
}

/* Gives back what holds nothing. */
static void settle(struct simulated_end *end)
{
    if (!end->arrival_count)
        free_arrivals(end);
    if (!end->length)
        free_buffer(end);
}

/* Forgets bytes that are on their way. */
static void drop_coming(struct simulated_end *end)
{
    end->length = end->arrived;
    end->arrival_count = 0;
    settle(end);
}

/* Makes room for `more` bytes behind those that are there. */
static int reserve(struct simulated_end *end, size_t more)
{
    size_t needed = end->length + more, capacity = end->capacity ? end->capacity : BUFFER_FIRST;
    if (end->start + needed <= end->capacity)
        return 0;
    if (end->start)
        memmove(end->bytes, end->bytes + end->start, end->length);
    end->start = 0;
    if (needed <= end->capacity)
        return 0;
    while (capacity < needed)
        capacity *= 2;
    int error;
    char *bytes = grow(end, end->bytes, end->capacity, capacity, &error);
    if (!bytes)
        return error;
    end->bytes = bytes;
    end->capacity = capacity;
    return 0;
}

/* Makes room for one more arrival, unless there are as many as there may be. */
static int reserve_arrival(struct simulated_end *end)
{
    size_t size = sizeof *end->arrivals;
    if (end->first_arrival + end->arrival_count < end->arrival_capacity)
        return 0;
    if (end->first_arrival)
        memmove(end->arrivals, end->arrivals + end->first_arrival, end->arrival_count * size);
    end->first_arrival = 0;
    unsigned capacity = end->arrival_capacity ? 2 * end->arrival_capacity : ARRIVALS_FIRST;
    if (end->arrival_count < end->arrival_capacity || capacity > ARRIVALS_MOST)
        return 0;
    int error;
    void *arrivals = grow(end, end->arrivals, end->arrival_capacity * size, capacity * size, &error);
    if (!arrivals)
        return error;
    end->arrivals = arrivals;
    end->arrival_capacity = capacity;
    return 0;
}

/* --- Readiness -------------------------------------------------------------------------------- */

/* How many bytes may be on their way.  A peer that is gone has a window until that is heard. */
static size_t window_of(const struct simulated_end *end)
{
    size_t window = end->peer ? end->peer->window : end->window;
    return end->send_window && end->send_window < window ? end->send_window : window;
}

/* How many bytes may be sent now. */
static size_t room(const struct simulated_end *end)
{
    size_t sent = end->peer ? end->peer->length : end->unheard, window = window_of(end);
    return sent < window ? window - sent : 0;
}

/* As the kernel does it: a peer that reads little by little does not wake the writer each time. */
static bool is_writable(const struct simulated_end *end)
{
    bool fails = end->reset || (!end->peer && !end_is_wired(end));
    return end->stage == END_OPEN && (fails || (room(end) && room(end) >= window_of(end) / 3));
}

static unsigned readiness(const struct simulated_end *end)
{
    bool alone = end->sort == END_WRITER && !end->peer;
    return (end->arrived || end->ended || end->reset ? ORR_READABLE : 0u) | (is_writable(end) ? ORR_WRITABLE : 0u) |
           (end->reset || alone ? ORR_RESET : 0u) | (end->ended || end->reset ? ORR_ENDED : 0u);
}

/* Something has changed: tells tasks that wait for it. */
static void tell(struct simulated_end *end)
{
    unsigned events = end->wanted & readiness(end);
    end->wanted &= (uint8_t)~events;
    if (events && end->stream)
        stream_ready(end->stream, events);
}

void end_want(struct simulated_end *end, unsigned events)
{
    end->wanted = (uint8_t)events;
    tell(end);
}

/* --- Arrival ---------------------------------------------------------------------------------- */

/* When the next thing arrives; ORR_NEVER if nothing is on its way. */
static uint64_t next_at(const struct simulated_end *end)
{
    if (end->stage != END_OPEN)
        return end->stage == END_CALLED ? end->answer_at : ORR_NEVER;
    if (end->arrival_count)
        return end->arrivals[end->first_arrival].at;
    return end->end_at != ORR_NEVER ? end->end_at : end->reset_at;
}

static void become_reset(struct simulated_end *end)
{
    end->reset = true;
    end->end_at = end->reset_at = ORR_NEVER;
    end->stage = END_OPEN;
    drop_coming(end);
}

static void arrive(struct simulated_end *end)
{
    if (end->stage == END_CALLED) {
        end->stage = END_OPEN;
    } else if (end->arrival_count) {
        end->arrived += end->arrivals[end->first_arrival++].bytes;
        end->arrival_count--;
        settle(end);
    } else if (end->end_at != ORR_NEVER) {
        end->end_at = ORR_NEVER;
        end->ended = true;
    } else {
        become_reset(end);
    }
}

/* Takes in what has arrived by now, and sets the alarm for the next. */
static void advance(struct simulated_end *end)
{
    alarm_stop(&end->alarm, worker_of(end));
    bool cut = end_is_cut(end);
    uint64_t now = now_of(end);
    while (!cut && next_at(end) <= now)
        arrive(end);
    if (!cut && next_at(end) != ORR_NEVER)
        alarm_set(&end->alarm, worker_of(end), next_at(end));
    tell(end);
}

static void ring(struct alarm *alarm)
{
    advance(container_of(alarm, struct simulated_end, alarm));
}

/*
 * When something arrives that sets out for this end now, after `bytes` bytes were put out.  What is
 * sent first arrives first.
 */
static uint64_t arrival_time(struct simulated_end *end, size_t bytes)
{
    uint64_t now = now_of(end), at = now;
    if (end_is_wired(end)) {
        uint64_t from = end->sent_at > now ? end->sent_at : now;
        end->sent_at = clock_after(from, network_sending_time(network_of(end), bytes));
        at = clock_after(end->sent_at, network_delay(network_of(end)));
        at = at == ORR_NEVER ? at - 1 : at;
    }
    end->last_at = at > end->last_at ? at : end->last_at;
    return end->last_at;
}

/* All partitions have ended: what was held back sets out now. */
static void healed(struct node *node)
{
    struct simulated_end *end = container_of(node, struct simulated_end, node);
    if (next_at(end) == ORR_NEVER || alarm_is_set(&end->alarm))
        return;
    uint64_t earliest = clock_after(now_of(end), network_delay(network_of(end)));
    end->answer_at = end->answer_at > earliest ? end->answer_at : earliest;
    for (unsigned i = 0; i < end->arrival_count; i++) {
        struct arrival *arrival = &end->arrivals[end->first_arrival + i];
        arrival->at = arrival->at > earliest ? arrival->at : earliest;
    }
    end->end_at = end->end_at > earliest ? end->end_at : earliest;
    end->reset_at = end->reset_at > earliest ? end->reset_at : earliest;
    end->last_at = end->last_at > earliest ? end->last_at : earliest;
    advance(end);
}

/* --- Life ------------------------------------------------------------------------------------- */

static void down(struct node *node)
{
    struct simulated_end *end = container_of(node, struct simulated_end, node);
    if (end->stage != END_OPEN)
        end->answer = -ENETDOWN;
    if (end->stage == END_IN_LINE)
        list_remove(&end->in_line);
    become_reset(end);
    advance(end);
}

int end_new(struct orr_network_host *host, enum end_sort sort, const struct orr_account *account,
            struct simulated_end **out)
{
    struct worker *worker = host->network->opened.worker;
    int error = account_charge(account, sizeof **out);
    if (error)
        return error;
    struct simulated_end *end = alloc_zeroed(&worker->alloc, sizeof *end);
    if (!end) {
        account_uncharge(account, sizeof *end);
        return -ENOMEM;
    }
    end->sort = sort;
    end->account = account;
    end->window = host->network->options.window;
    end->end_at = end->reset_at = ORR_NEVER;
    end->alarm.ring = ring;
    end->node.down = down;
    end->node.healed = healed;
    list_init(&end->in_line);
    node_join(&end->node, host);
    *out = end;
    return 0;
}

void end_join(struct simulated_end *a, struct simulated_end *b)
{
    a->peer = b;
    b->peer = a;
    a->far_host = b->node.host;
    b->far_host = a->node.host;
    for (enum orr_end side = ORR_LOCAL; side <= ORR_PEER; side++)
        b->addresses[side] = a->addresses[1 - side];
    b->stage = END_OPEN;
}

static size_t sound_window(size_t bytes)
{
    return bytes < WINDOW_MIN ? WINDOW_MIN : bytes > WINDOW_MAX ? WINDOW_MAX : bytes;
}

void end_set_windows(struct simulated_end *end, size_t receive, size_t send)
{
    if (receive)
        end->window = sound_window(receive);
    if (send)
        end->send_window = sound_window(send);
    tell(end);
    if (end->peer)
        tell(end->peer);
}

int end_move_account(struct simulated_end *end, const struct orr_account *account)
{
    size_t size = sizeof *end + (end->pays_itself ? input_size(end) : 0);
    if (account == end->account)
        return 0;
    int error = account_charge(account, size);
    if (error)
        return error;
    account_uncharge(end->account, size);
    end->account = account;
    return 0;
}

/* The peer pays for what was sent to it, from now on.  If it cannot, the connection breaks. */
static void hand_over_input(struct simulated_end *end, struct simulated_end *peer)
{
    size_t size = input_size(peer);
    bool refused = size && account_charge(peer->account, size);
    account_uncharge(end->account, size);
    end->peer = peer->peer = NULL; /* from here on nobody pays, or the peer */
    peer->pays_itself = !refused;
    if (!refused)
        return;
    peer->arrived = 0;
    become_reset(peer);
}

/* Frees an end whose peer knows that it is gone. */
static void destroy(struct simulated_end *end)
{
    list_remove(&end->in_line);
    end->arrived = 0;
    drop_coming(end);
    if (end->peer)
        hand_over_input(end, end->peer);
    struct worker *worker = worker_of(end);
    alarm_stop(&end->alarm, worker);
    account_uncharge(end->account, sizeof *end);
    node_leave(&end->node);
    alloc_free(&worker->alloc, end, sizeof *end);
}

static void send_reset(struct simulated_end *to, uint64_t not_before)
{
    if (to->reset || to->reset_at != ORR_NEVER)
        return;
    uint64_t at = arrival_time(to, 0);
    to->reset_at = to->last_at = at > not_before ? at : not_before;
    advance(to);
}

static void send_end(struct simulated_end *to)
{
    if (to->ended || to->reset || to->end_at != ORR_NEVER)
        return;
    to->end_at = arrival_time(to, 0);
    advance(to);
}

void end_close(struct simulated_end *end)
{
    struct simulated_end *peer = end->peer;
    bool unheard = end->arrival_count; /* bytes that come to nobody are answered with a reset */
    uint64_t heard_at = end->last_at;
    bool connected = end->stage == END_OPEN, says_so = end->sort != END_READER;
    destroy(end);
    if (!peer)
        return;
    if (!connected)
        send_reset(peer, 0);
    else if (says_so)
        send_end(peer);
    if (unheard)
        send_reset(peer, clock_after(heard_at, network_delay(network_of(peer))));
    tell(peer);
}

void end_abort(struct simulated_end *end)
{
    struct simulated_end *peer = end->peer;
    destroy(end);
    if (peer)
        send_reset(peer, 0);
}

void end_answer(struct simulated_end *end, int answer)
{
    end->answer = answer;
    end->stage = END_CALLED;
    end->alarm.ring = ring;
    end->node.healed = healed;
    end->answer_at = arrival_time(end, 0);
    advance(end);
}

void end_reset(struct simulated_end *end)
{
    struct simulated_end *peer = end->peer;
    become_reset(end);
    advance(end);
    if (!peer)
        return;
    become_reset(peer);
    advance(peer);
}

/* --- Transfers -------------------------------------------------------------------------------- */

static size_t total_of(const struct iovec *parts, int count)
{
    size_t total = 0;
    for (int i = 0; i < count; i++)
        total += parts[i].iov_len;
    return total;
}

static void copy_out(const struct iovec *parts, int count, const char *bytes, size_t length)
{
    for (int i = 0; i < count && length; i++) {
        size_t now = parts[i].iov_len < length ? parts[i].iov_len : length;
        memcpy(parts[i].iov_base, bytes, now);
        bytes += now;
        length -= now;
    }
}

static void copy_in(char *bytes, const struct iovec *parts, int count, size_t length)
{
    for (int i = 0; i < count && length; i++) {
        size_t now = parts[i].iov_len < length ? parts[i].iov_len : length;
        if (now)
            memcpy(bytes, parts[i].iov_base, now);
        bytes += now;
        length -= now;
    }
}

ssize_t end_read(struct simulated_end *end, const struct iovec *parts, int count)
{
    struct orr_network *network = network_of(end);
    size_t length = total_of(parts, count);
    if (!end->arrived)
        return end->ended ? 0 : end->reset ? -ECONNRESET : -EAGAIN;
    length = length < end->arrived ? length : end->arrived;
    if (network_chance(network, network->options.short_reads))
        length = network_choose(network, length);
    copy_out(parts, count, end->bytes + end->start, length);
    end->start += length;
    end->length -= length;
    end->arrived -= length;
    settle(end);
    if (end->peer)
        tell(end->peer);
    return (ssize_t)length;
}

/* Notes when the last `length` bytes of the buffer arrive. */
static int note_arrival(struct simulated_end *to, uint64_t at, size_t length)
{
    int error = reserve_arrival(to);
    if (error)
        return error;
    unsigned last = to->first_arrival + to->arrival_count;
    if (last == to->arrival_capacity) { /* as many as there may be */
        to->arrivals[last - 1].bytes += length;
        to->arrivals[last - 1].at = at;
        return 0;
    }
    to->arrivals[last] = (struct arrival){ .at = at, .bytes = length };
    to->arrival_count++;
    return 0;
}

/* Puts bytes on their way to an end. */
static int send_bytes(struct simulated_end *to, const struct iovec *parts, int count, size_t length)
{
    int error = reserve(to, length);
    if (error)
        return error;
    uint64_t at = arrival_time(to, length);
    bool at_once = to->stage == END_OPEN && !to->arrival_count && at <= now_of(to) && !end_is_cut(to);
    if (!at_once)
        error = note_arrival(to, at, length);
    if (error) {
        settle(to);
        return error;
    }
    copy_in(to->bytes + to->start + to->length, parts, count, length);
    to->length += length;
    to->arrived += at_once ? length : 0;
    advance(to);
    return 0;
}

/* A write to a peer that is gone. */
static ssize_t write_to_nobody(struct simulated_end *end, size_t length)
{
    if (!end_is_wired(end))
        return -EPIPE;
    if (!room(end))
        return -EAGAIN;
    length = length < room(end) ? length : room(end);
    end->unheard += length;
    uint64_t there = clock_after(now_of(end), network_delay(network_of(end)));
    send_reset(end, clock_after(there, network_delay(network_of(end))));
    return (ssize_t)length;
}

ssize_t end_write(struct simulated_end *end, const struct iovec *parts, int count)
{
    struct orr_network *network = network_of(end);
    size_t length = total_of(parts, count), most = room(end);
    if (end->reset)
        return end->ended ? -EPIPE : -ECONNRESET;
    if (!end->peer)
        return write_to_nobody(end, length);
    bool stalled = end->stalled;
    end->stalled = false;
    if (stalled || !most)
        return -EAGAIN;
    if (end_is_wired(end) && network_chance(network, network->options.resets)) {
        end_reset(end);
        return -ECONNRESET;
    }
    size_t now = length < most ? length : most;
    if (network_chance(network, network->options.short_writes))
        now = network_choose(network, now);
    int error = send_bytes(end->peer, parts, count, now);
    if (error)
        return error;
    end->stalled = now < length && now < most;
    return (ssize_t)now;
}

int end_shutdown(struct simulated_end *end)
{
    if (end->reset)
        return -ENOTCONN;
    if (end->peer)
        send_end(end->peer);
    return 0;
}
