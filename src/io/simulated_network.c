#include "io/simulated_network.h"

#include "base/clock.h"
#include "base/random.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum {
    HOSTS_MAX = 65000,
    WINDOW_DEFAULT = 256 * 1024,
    WINDOW_MAX = 16 * 1024 * 1024,
};

#define MAIN "main"

/* --- Memory ----------------------------------------------------------------------------------- */

/* Memory on the account of the network. */
static int take(struct orr_network *network, size_t size, void *out)
{
    int error = account_charge(network->opened.open.account, size);
    if (error)
        return error;
    *(void **)out = alloc_zeroed(&network->opened.worker->alloc, size);
    if (*(void **)out)
        return 0;
    account_uncharge(network->opened.open.account, size);
    return -ENOMEM;
}

static void give_back(struct orr_network *network, void *block, size_t size)
{
    account_uncharge(network->opened.open.account, size);
    alloc_free(&network->opened.worker->alloc, block, size);
}

static size_t host_size(const struct orr_network_host *host)
{
    return sizeof *host + strlen(host->name) + 1;
}

static void end_partitions(struct orr_network *network)
{
    while (!list_empty(&network->partitions)) {
        struct partition *partition = container_of(network->partitions.next, struct partition, in_network);
        list_remove(&partition->in_network);
        give_back(network, partition, sizeof *partition);
    }
    for (struct orr_link *link = network->hosts.next; link != &network->hosts; link = link->next)
        container_of(link, struct orr_network_host, in_network)->apart = false;
}

static void drop_reference(struct orr_network *network)
{
    if (--network->references)
        return;
    end_partitions(network);
    while (!list_empty(&network->hosts)) {
        struct orr_network_host *host = container_of(network->hosts.next, struct orr_network_host, in_network);
        list_remove(&host->in_network);
        give_back(network, host, host_size(host));
    }
    opened_free(&network->opened);
}

/* The account ends with the user's hold on the network, whoever is still on it. */
static void leave_account(struct orr_network *network)
{
    const struct orr_account *account = network->opened.open.account;
    for (struct orr_link *link = network->hosts.next; link != &network->hosts; link = link->next)
        account_uncharge(account, host_size(container_of(link, struct orr_network_host, in_network)));
    account_uncharge(account, network->opened.size);
    network->opened.open.account = NULL;
}

/* Calls a function of each node.  It may remove nodes, also its own, and add some. */
static void tell_nodes(struct orr_network *network, bool down)
{
    struct orr_link told;
    list_init(&told);
    while (!list_empty(&network->nodes)) {
        struct node *node = container_of(network->nodes.next, struct node, in_network);
        list_remove(&node->in_network);
        list_append(&told, &node->in_network);
        if (down)
            node->down(node);
        else if (node->healed)
            node->healed(node);
    }
    list_move(&network->nodes, &told);
}

void network_close(struct orr_network *network)
{
    network->down = true;
    end_partitions(network);
    tell_nodes(network, true);
    leave_account(network);
    drop_reference(network);
}

static bool network_info(const struct opened *opened, struct orr_open_info *info)
{
    (void)opened;
    (void)info;
    return false; /* not a thing of the network, but the network */
}

static void network_end(struct opened *opened)
{
    struct orr_network *network = container_of(opened, struct orr_network, opened);
    if (!network->down)
        network_close(network);
}

static const struct opened_kind opened_network = { .info = network_info, .end = network_end };

static bool is_probability(double number)
{
    return number >= 0 && number <= 1;
}

static bool are_sound(const struct orr_network_options *options)
{
    return is_probability(options->short_reads) && is_probability(options->short_writes) &&
           is_probability(options->resets) && is_probability(options->loss) && options->window <= WINDOW_MAX;
}

int network_new(const struct orr_network_options *options, struct orr_network **out)
{
    static const struct orr_network_options defaults;
    struct orr_network *network;
    struct orr_network_host *host;
    options = options ? options : &defaults;
    if (!are_sound(options))
        return -EINVAL;
    int error = opened_new(sizeof *network, &opened_network, &options->open, &network);
    if (error)
        return error;
    network->options = *options;
    network->options.open = (struct orr_open){ 0 };
    if (!options->window)
        network->options.window = WINDOW_DEFAULT;
    network->random = options->seed;
    network->references = 1;
    list_init(&network->hosts);
    list_init(&network->partitions);
    list_init(&network->nodes);
    error = orr_network_host(network, NULL, &host);
    if (error)
        network_close(network);
    else
        *out = network;
    return error;
}

/* --- Hosts ------------------------------------------------------------------------------------ */

static int check(const struct orr_network *network)
{
    if (!network)
        return -EINVAL;
    return network->opened.worker == worker_current ? 0 : -EPERM;
}

/* Whether an address with this host is one of a name. */
static bool is_name(const char *name)
{
    char text[ORR_HOST_TEXT + 2];
    struct orr_address address;
    if (strcasecmp(name, "localhost") == 0)
        return false;
    size_t length = (size_t)snprintf(text, sizeof text, "%s:1", name);
    return length < sizeof text && orr_address_parse(text, length, &address) == -EDESTADDRREQ;
}

struct orr_network_host *network_host_named(const struct orr_network *network, const char *name)
{
    for (struct orr_link *link = network->hosts.next; link != &network->hosts; link = link->next) {
        struct orr_network_host *host = container_of(link, struct orr_network_host, in_network);
        if (strcasecmp(host->name, name) == 0)
            return host;
    }
    return NULL;
}

int orr_network_host(struct orr_network *network, const char *name, struct orr_network_host **out)
{
    int error = out ? check(network) : -EINVAL;
    name = name ? name : MAIN;
    if (!error && !is_name(name))
        error = -EINVAL;
    if (error)
        return error;
    struct orr_network_host *host = network_host_named(network, name);
    if (!host) {
        size_t size = sizeof *host + strlen(name) + 1;
        error = network->host_count < HOSTS_MAX ? take(network, size, &host) : -ENOSPC;
        if (error)
            return error;
        memcpy(host->name, name, strlen(name));
        host->network = network;
        host->number = (uint16_t)++network->host_count;
        list_init(&host->bindings);
        list_append(&network->hosts, &host->in_network);
    }
    *out = host;
    return 0;
}

const char *orr_network_host_name(const struct orr_network_host *host)
{
    return host ? host->name : NULL;
}

struct orr_network_host *network_main(const struct orr_network *network)
{
    return container_of(network->hosts.next, struct orr_network_host, in_network);
}

struct orr_network_host *network_host_numbered(const struct orr_network *network, unsigned number)
{
    for (struct orr_link *link = network->hosts.next; link != &network->hosts; link = link->next) {
        struct orr_network_host *host = container_of(link, struct orr_network_host, in_network);
        if (host->number == number)
            return host;
    }
    return NULL;
}

/* --- Nodes ------------------------------------------------------------------------------------ */

void node_join(struct node *node, struct orr_network_host *host)
{
    node->host = host;
    host->network->references++;
    list_append(&host->network->nodes, &node->in_network);
}

void node_leave(struct node *node)
{
    if (!node->host)
        return;
    struct orr_network *network = node_network(node);
    list_remove(&node->in_network);
    node->host = NULL;
    drop_reference(network);
}

/* --- Partitions ------------------------------------------------------------------------------- */

bool network_is_cut(const struct orr_network_host *a, const struct orr_network_host *b)
{
    if (a == b)
        return false;
    if (a->apart || b->apart)
        return true;
    const struct orr_link *all = &a->network->partitions;
    for (struct orr_link *link = all->next; link != all; link = link->next) {
        const struct partition *partition = container_of(link, struct partition, in_network);
        if ((partition->a == a && partition->b == b) || (partition->a == b && partition->b == a))
            return true;
    }
    return false;
}

int orr_network_partition(struct orr_network_host *a, struct orr_network_host *b)
{
    int error = a ? check(a->network) : -EINVAL;
    if (error)
        return error;
    if (!b) {
        a->apart = true;
        return 0;
    }
    if (a == b || a->network != b->network)
        return -EINVAL;
    if (network_is_cut(a, b))
        return 0;
    struct partition *partition;
    error = take(a->network, sizeof *partition, &partition);
    if (error)
        return error;
    partition->a = a;
    partition->b = b;
    list_append(&a->network->partitions, &partition->in_network);
    return 0;
}

int orr_network_heal(struct orr_network *network)
{
    int error = check(network);
    if (error)
        return error;
    end_partitions(network);
    tell_nodes(network, false);
    return 0;
}

/* --- Time and chance -------------------------------------------------------------------------- */

uint64_t network_delay(struct orr_network *network)
{
    uint64_t jitter = network->options.jitter;
    uint64_t extra = jitter == UINT64_MAX ? random_next(&network->random)
                     : jitter             ? random_next(&network->random) % (jitter + 1)
                                          : 0;
    return clock_after(network->options.latency, extra);
}

uint64_t network_sending_time(const struct orr_network *network, size_t bytes)
{
    uint64_t bandwidth = network->options.bandwidth;
    if (!bandwidth)
        return 0;
    double ns = (double)bytes * (double)NS_PER_SECOND / (double)bandwidth;
    return ns < 1e18 ? (uint64_t)ns : UINT64_C(1000000000000000000);
}

bool network_chance(struct orr_network *network, double probability)
{
    if (probability <= 0)
        return false;
    return (double)(random_next(&network->random) >> 11) * 0x1p-53 < probability;
}

size_t network_choose(struct orr_network *network, size_t most)
{
    return 1 + (size_t)(random_next(&network->random) % most);
}
