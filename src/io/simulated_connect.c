/*
 * The request goes to the host of the address, which takes a delay, and the answer comes back,
 * which takes another.  As with sockets, the wait owns the stream until the task has it.
 */
#include "io/simulated_connect.h"

#include "base/clock.h"
#include "io/connecting.h"
#include "io/gate.h"
#include "io/simulated_listener.h"

/* --- The request ------------------------------------------------------------------------------ */

/* Nobody listens: what the kernel says. */
static int refusal(const struct orr_address *address)
{
    return address_family(address) == AF_UNIX && port_is_file(address) ? -ENOENT : -ECONNREFUSED;
}

static void arrive(struct simulated_end *caller)
{
    const struct orr_address *address = &caller->addresses[ORR_PEER];
    const struct orr_network_host *host = caller->far_host;
    struct simulated_listener *listener = host ? simulated_listener_at(host, address) : NULL;
    if (listener)
        simulated_listener_receive(listener, caller);
    else
        end_answer(caller, host ? refusal(address) : -EHOSTUNREACH);
}

static void ring(struct alarm *alarm)
{
    struct simulated_end *caller = container_of(alarm, struct simulated_end, alarm);
    if (!end_is_cut(caller)) /* else it goes on when the partition ends */
        arrive(caller);
}

/* Sends the request. */
static void call(struct simulated_end *caller)
{
    struct orr_network *network = node_network(&caller->node);
    uint64_t delay = end_is_wired(caller) ? network_delay(network) : 0;
    if (delay)
        alarm_set(&caller->alarm, network->opened.worker, clock_after(network_now(network), delay));
    else if (!end_is_cut(caller))
        arrive(caller);
}

static void healed(struct node *node)
{
    struct simulated_end *caller = container_of(node, struct simulated_end, node);
    if (caller->stage == END_CALLING && !alarm_is_set(&caller->alarm))
        call(caller);
}

/* Finds out the addresses of both ends. */
static int find_addresses(struct simulated_end *caller, const struct orr_address *address,
                          const struct orr_address *local)
{
    struct orr_network_host *host = caller->node.host;
    struct orr_address *own = &caller->addresses[ORR_LOCAL], *peer = &caller->addresses[ORR_PEER];
    *peer = *address;
    port_choose(host, address, own);
    if (port_is_any(address)) { /* means the host itself */
        *peer = *own;
        port_set_number(peer, port_number(address));
    }
    if (!local)
        return 0;
    if (!address_is_sound(local) || address_family(local) != address_family(address))
        return -EINVAL;
    uint16_t chosen = address_family(local) == AF_UNIX ? 0 : port_number(own);
    int error = port_check_own(host, local);
    if (error)
        return error;
    if (address_family(local) == AF_UNIX || !port_is_any(local))
        *own = *local;
    if (chosen)
        port_set_number(own, port_number(local) ? port_number(local) : chosen);
    return 0;
}

/* Whether the gate lets a connection through. */
static bool is_granted(const struct orr_address *address, const struct orr_socket_options *options)
{
    struct gate_request to = { .use = GATE_CONNECT, .address = address, .simulated = true };
    struct gate_request from = { .use = GATE_LISTEN, .address = options->local, .simulated = true };
    return gate_grants(options->open.gate, &to) &&
           (!options->local || !address_is_sound(options->local) || gate_grants(options->open.gate, &from));
}

/* Makes the stream of a connection that is still to be made. */
static int make(struct orr_network_host *host, const struct orr_address *address,
                const struct orr_socket_options *options, struct orr_stream **out)
{
    struct simulated_end *caller;
    if (!is_granted(address, options))
        return -EACCES;
    enum end_sort sort = address_family(address) == AF_UNIX ? END_UNIX : END_TCP;
    int error = end_new(host, sort, options->open.account, &caller);
    if (error)
        return error;
    error = find_addresses(caller, address, options->local);
    if (!error && sort == END_TCP)
        error = simulated_check_setting(AF_INET, ORR_SET_KEEPALIVE, options->keepalive_s);
    end_set_windows(caller, options->receive_buffer, options->send_buffer);
    if (!error)
        error = simulated_stream_new(caller, &options->open, out);
    if (error) {
        end_close(caller);
        return error;
    }
    caller->far_host = port_owner(host, address);
    caller->alarm.ring = ring;
    caller->node.healed = healed;
    return 0;
}

/* --- The wait --------------------------------------------------------------------------------- */

static const struct orr_wait_kind connect_kind = {
    .name = "a connection",
    .withdraw = connecting_withdraw,
    .describe = connecting_describe,
    .ends_by_itself = true,
};

bool simulated_connect_waits(const struct orr_wait *wait)
{
    return wait->state != WAIT_IDLE && wait->kind == &connect_kind;
}

/*
 * The connection as it is now: waits for its answer, or hands the stream over, or frees it.  If it
 * is there `at_once`, and many others were, other tasks run first.
 */
static int look(struct attempt *attempt, bool at_once, struct orr_stream **out)
{
    struct orr_stream *stream = attempt->stream;
    const struct simulated_end *end = simulated_end_of(stream);
    int answer = end->stage != END_OPEN                            ? attempt_wait(attempt, ORR_WRITABLE)
                 : at_once && spree_is_over(stream->opened.worker) ? attempt_yield(attempt)
                                                                   : end->answer;
    if (answer == -EAGAIN)
        return answer;
    wait_refuse(attempt->wait, answer);
    if (answer)
        orr_stream_free(stream);
    else
        *out = stream;
    return answer;
}

int simulated_connect_on(struct orr_task *task, struct orr_wait *wait, struct orr_stream **out)
{
    struct attempt attempt = { task, wait, wait->source, SLOT_WRITE, &connect_kind, NULL };
    int answer = attempt_begin(&attempt);
    return answer < 0 ? answer : look(&attempt, false, out);
}

int simulated_connect(struct orr_task *task, struct orr_wait *wait, struct orr_network_host *host,
                      const struct orr_address *address, const struct orr_socket_options *options,
                      struct orr_stream **out)
{
    struct attempt attempt = { task, wait, NULL, SLOT_WRITE, &connect_kind, wait->grouped ? wait->owner : NULL };
    int answer = wait_interruption(task);
    if (!answer)
        answer = make(host, address, options, &attempt.stream);
    if (answer)
        return wait_refuse(wait, answer);
    call(simulated_end_of(attempt.stream));
    spree_spend(task->worker, 0);
    return look(&attempt, true, out);
}
