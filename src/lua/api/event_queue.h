/* What became of the events that the host emitted into an isolate. */
#ifndef ORR_LUA_API_EVENT_QUEUE_H
#define ORR_LUA_API_EVENT_QUEUE_H

#include <stdint.h>

struct event_queue {
    uint64_t emitted, refused, dropped, coalesced;
};

#endif
