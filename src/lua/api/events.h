/*
 * The Lua module `events`, the C part: starting handlers as tasks, and the host's side.
 * lua/events.lua is the Lua part: it keeps the registrations and the queue of the host's events.
 *
 * The host's functions are orr_events_emit(), orr_events_reserve(), orr_events_enable() and
 * orr_events_disabled(): see orrery.h.
 *
 * The isolate's worker's thread.
 */
#ifndef ORR_LUA_API_EVENTS_H
#define ORR_LUA_API_EVENTS_H

#include "lua/isolate/compat.h"

#include <stdbool.h>
#include <stdint.h>

struct orr_isolate;

/* What became of the events that the host has emitted. */
struct event_figures {
    uint64_t emitted, refused, dropped, coalesced;
};

/* Part of the isolate. */
struct event_queue {
    struct event_figures figures;
    bool queued; /* the queue of lua/events.lua may have events */
    int lists;   /* reference: a table with the tables of lists of handlers: see event_calls.h */
};

static inline const struct event_figures *events_figures(const struct event_queue *self)
{
    return &self->figures;
}

/* Adds the module to the table at the top of L, as its field `events`.  May raise. */
void events_open(struct orr_isolate *iso, lua_State *L);

/* Releases all handlers: the state is about to be closed.  May raise. */
void events_forget(lua_State *L);

/* Removes the registrations of a script.  Never raises. */
void events_remove(struct orr_isolate *iso, uint32_t script);

/*
 * Appends a description of each registration of a script to the list at the top of L.  May raise.
 */
void events_list(lua_State *L, uint32_t script);

#endif
