#include "io/simulation.h"

#include "exec/extend.h"
#include "exec/observer.h"

/* Where a task was placed.  Ends with the task. */
struct place {
    struct orr_link in_simulation;
    struct orr_task *task;
    struct orr_network_host *host;
    struct orr_observer observer;
};

struct simulation {
    struct opened opened;
    struct orr_network *used; /* by orr_network_use(); or NULL */
    struct orr_network *own;  /* of a worker with a virtual clock; NULL until it is needed */
    struct orr_link places;
};

/* --- Life ------------------------------------------------------------------------------------- */

static bool simulation_info(const struct opened *opened, struct orr_open_info *info)
{
    (void)opened;
    (void)info;
    return false;
}

static void simulation_end(struct opened *opened)
{
    opened->worker->opened.simulation = NULL;
    opened_free(opened); /* no task is left, so no place is */
}

static const struct opened_kind opened_simulation = { .info = simulation_info, .end = simulation_end };

/* Makes the simulation of this thread's worker, if there is none. */
static int begin(struct simulation **out)
{
    if (!worker_current)
        return -EPERM;
    *out = worker_current->opened.simulation;
    if (*out)
        return 0;
    int error = opened_new(sizeof **out, &opened_simulation, NULL, out);
    if (error)
        return error;
    list_init(&(*out)->places);
    worker_current->opened.simulation = *out;
    return 0;
}

/* --- Places ----------------------------------------------------------------------------------- */

static struct place *place_at(struct orr_link *link)
{
    return container_of(link, struct place, in_simulation);
}

static struct place *find(const struct simulation *simulation, const struct orr_task *task)
{
    for (struct orr_link *link = simulation->places.next; link != &simulation->places; link = link->next)
        if (place_at(link)->task == task)
            return place_at(link);
    return NULL;
}

/* Frees a place that observes its task no more. */
static void forget(struct worker *worker, struct place *place)
{
    list_remove(&place->in_simulation);
    alloc_free(&worker->alloc, place, sizeof *place);
}

static void task_is_done(struct orr_task *task, void *data)
{
    forget(task->worker, data);
}

/* Unlike a user's observer, it does not count as somebody who sees how the task ended. */
static const struct orr_wait_kind place_kind = { .name = "a place" };

static void end_place(struct worker *worker, struct place *place)
{
    unobserve(&place->observer);
    forget(worker, place);
}

static int begin_place(struct simulation *simulation, struct orr_task *task, struct orr_network_host *host)
{
    struct place *place = alloc_zeroed(&task->worker->alloc, sizeof *place);
    if (!place)
        return -ENOMEM;
    place->task = task;
    place->host = host;
    place->observer.done = task_is_done;
    place->observer.data = place;
    observe(task, &place->observer, &place_kind);
    list_append(&simulation->places, &place->in_simulation);
    return 0;
}

int orr_network_place(struct orr_task *task, struct orr_network_host *host)
{
    struct simulation *simulation;
    if (!task)
        return -EINVAL;
    if (task->worker != worker_current || (host && host->network->opened.worker != worker_current))
        return -EPERM;
    if (!task_is_unfinished(task))
        return -ESRCH;
    int error = begin(&simulation);
    if (error)
        return error;
    struct place *place = find(simulation, task);
    if (place && host)
        place->host = host;
    else if (place)
        end_place(task->worker, place);
    else if (host)
        error = begin_place(simulation, task, host);
    return error;
}

/* The host on which the task that runs was placed, or one above it; NULL for none. */
static struct orr_network_host *placed_host(const struct simulation *simulation)
{
    if (list_empty(&simulation->places))
        return NULL;
    for (struct orr_task *task = worker_current->polling; task; task = task_parent(task)) {
        const struct place *place = find(simulation, task);
        if (place)
            return place->host;
    }
    return NULL;
}

static void end_places_in(struct simulation *simulation, const struct orr_network *network)
{
    for (struct orr_link *link = simulation->places.next, *next; link != &simulation->places; link = next) {
        next = link->next;
        if (place_at(link)->host->network == network)
            end_place(simulation->opened.worker, place_at(link));
    }
}

/* --- Networks --------------------------------------------------------------------------------- */

int orr_network_new(const struct orr_network_options *options, struct orr_network **network)
{
    return network ? network_new(options, network) : -EINVAL;
}

static int check(const struct orr_network *network)
{
    return network->opened.worker == worker_current ? 0 : -EPERM;
}

int orr_network_free(struct orr_network *network)
{
    if (!network)
        return 0;
    int error = check(network);
    if (error)
        return error;
    struct simulation *simulation = worker_current->opened.simulation;
    if (simulation)
        end_places_in(simulation, network);
    if (simulation && simulation->used == network)
        simulation->used = NULL;
    if (simulation && simulation->own == network)
        simulation->own = NULL;
    network_close(network);
    return 0;
}

int orr_network_use(struct orr_network *network)
{
    struct simulation *simulation;
    int error = network ? check(network) : 0;
    if (!error)
        error = begin(&simulation);
    if (!error)
        simulation->used = network;
    return error;
}

/* The worker's own network. */
static int own_host(struct orr_network_host **host)
{
    struct simulation *simulation;
    int error = begin(&simulation);
    if (!error && !simulation->own)
        error = network_new(NULL, &simulation->own);
    if (!error)
        *host = network_main(simulation->own);
    return error;
}

int simulation_host(const struct orr_open *open, struct orr_network_host **host)
{
    *host = NULL;
    if (!worker_current)
        return -EPERM;
    if (open && (open->real || open->host)) {
        *host = open->real ? NULL : open->host;
        return *host && (*host)->network->opened.worker != worker_current ? -EPERM : 0;
    }
    const struct simulation *simulation = worker_current->opened.simulation;
    *host = simulation ? placed_host(simulation) : NULL;
    if (!*host && simulation && simulation->used)
        *host = network_main(simulation->used);
    bool by_clock = worker_current->timers->clock == ORR_CLOCK_VIRTUAL;
    return *host || !by_clock ? 0 : own_host(host);
}

int orr_network_here(const struct orr_open *open, struct orr_network_host **host)
{
    return host ? simulation_host(open, host) : -EINVAL;
}
