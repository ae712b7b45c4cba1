/* Events of the host that wait for an isolate: figures, and whether some are queued. */
#ifndef ORR_LUA_API_EVENT_QUEUE_H
#define ORR_LUA_API_EVENT_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

struct event_queue {
    uint64_t emitted, refused, dropped, coalesced;
    bool pending; /* some are queued */
};

#endif
