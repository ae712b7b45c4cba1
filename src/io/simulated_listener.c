#include "io/simulated_listener.h"

static struct simulated_end *first_in(const struct orr_link *list)
{
    return list_empty(list) ? NULL : container_of(list->next, struct simulated_end, in_line);
}

static void tell(struct simulated_listener *listener)
{
    if (!listener->wanted)
        return;
    listener->wanted = false;
    listener->notify(listener);
}

static bool has_room(const struct simulated_listener *listener)
{
    return listener->backlog_count <= listener->backlog_most; /* one more, as in Linux */
}

/* Makes a connection in the backlog. */
static void admit(struct simulated_listener *listener, struct simulated_end *caller)
{
    struct simulated_end *end;
    int error = end_new(listener->node.host, caller->sort, listener->account, &end);
    if (!error) {
        end_join(caller, end);
        end_set_windows(end, listener->receive_window, listener->send_window);
        list_append(&listener->backlog, &end->in_line);
        listener->backlog_count++;
    }
    end_answer(caller, error);
    tell(listener);
}

void simulated_listener_receive(struct simulated_listener *listener, struct simulated_end *caller)
{
    if (has_room(listener)) {
        admit(listener, caller);
        return;
    }
    caller->stage = END_IN_LINE;
    list_append(&listener->line, &caller->in_line);
}

static void admit_waiting(struct simulated_listener *listener)
{
    struct simulated_end *caller;
    while (has_room(listener) && (caller = first_in(&listener->line))) {
        list_remove(&caller->in_line);
        admit(listener, caller);
    }
}

static void leave_backlog(struct simulated_listener *listener, struct simulated_end *end)
{
    list_remove(&end->in_line);
    listener->backlog_count--;
}

/* Drops connections that broke before anybody has accepted them. */
static void drop_broken(struct simulated_listener *listener)
{
    struct simulated_end *end;
    while ((end = first_in(&listener->backlog)) && end->reset) {
        leave_backlog(listener, end);
        end_close(end);
    }
}

int simulated_accept(struct simulated_listener *listener, const struct orr_open *open, struct orr_stream **out)
{
    if (listener->down)
        return -ENETDOWN;
    drop_broken(listener);
    struct simulated_end *end = first_in(&listener->backlog);
    int error = end ? simulated_stream_new(end, open, out) : -EAGAIN;
    if (!error)
        leave_backlog(listener, end);
    admit_waiting(listener);
    return error;
}

bool simulated_listener_want(struct simulated_listener *listener, bool wanted)
{
    bool there = wanted && (listener->down || !list_empty(&listener->backlog));
    listener->wanted = wanted && !there;
    return there;
}

static void drop_all(struct simulated_listener *listener)
{
    struct simulated_end *end;
    while ((end = first_in(&listener->backlog))) {
        leave_backlog(listener, end);
        end_abort(end);
    }
    while ((end = first_in(&listener->line))) {
        list_remove(&end->in_line);
        end_answer(end, -ECONNREFUSED);
    }
}

void simulated_listener_close(struct simulated_listener *listener)
{
    binding_end(&listener->binding);
    drop_all(listener);
    node_leave(&listener->node);
}

static void down(struct node *node)
{
    struct simulated_listener *listener = container_of(node, struct simulated_listener, node);
    listener->down = true;
    drop_all(listener);
    tell(listener);
}

int simulated_listen(struct simulated_listener *listener, struct orr_network_host *host,
                     const struct orr_address *address, const struct orr_listen_options *options, int backlog,
                     void (*notify)(struct simulated_listener *listener))
{
    listener->binding.sort = BINDING_STREAMS;
    listener->binding.shared = options->reuse_port;
    listener->binding.v6_only = options->v6_only;
    int error = binding_make(&listener->binding, host, address);
    if (error)
        return error;
    list_init(&listener->backlog);
    list_init(&listener->line);
    listener->backlog_most = (unsigned)backlog;
    listener->receive_window = options->socket.receive_buffer;
    listener->send_window = options->socket.send_buffer;
    listener->account = options->socket.open.account;
    listener->notify = notify;
    listener->node.down = down;
    node_join(&listener->node, host);
    return 0;
}

struct simulated_listener *simulated_listener_at(const struct orr_network_host *host, const struct orr_address *address)
{
    struct simulated_listener *chosen = NULL;
    struct binding *binding = NULL;
    /* Of several that share an address, the one with the shortest backlog. */
    while ((binding = binding_find(host, BINDING_STREAMS, address, binding))) {
        struct simulated_listener *listener = container_of(binding, struct simulated_listener, binding);
        if (!chosen || listener->backlog_count < chosen->backlog_count)
            chosen = listener;
    }
    return chosen;
}
