/*
 * Which simulated network, and which host of it, an operation is for: see "Simulated networks" in
 * orrery.h for the order of the questions.
 *
 * A worker's simulation is made when it is first needed, and ends with the worker.  It observes
 * the tasks that were placed, so that it forgets them when they are done.
 *
 * All of it belongs to the worker's owner.
 */
#ifndef ORR_IO_SIMULATION_H
#define ORR_IO_SIMULATION_H

#include "io/simulated_network.h"

/*
 * Stores the host for something that is opened now on this thread's worker; NULL for the real
 * world.  `open` may be NULL.  -EPERM without a worker, or for another worker's host; -ENOMEM.
 */
int simulation_host(const struct orr_open *open, struct orr_network_host **host);

#endif
