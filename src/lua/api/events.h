/*
 * The Lua module `events`, the C part: starting handlers as tasks, and the host's side.  lua/events.lua
 * keeps the registrations.
 *
 * The isolate's worker's thread.
 */
#ifndef ORR_LUA_API_EVENTS_H
#define ORR_LUA_API_EVENTS_H

#include "lua/isolate/compat.h"

#include <stdbool.h>
#include <stdint.h>

struct orr_isolate;

/* Part of the isolate: statistics of the events that the host has emitted. */
struct event_queue {
    uint64_t emitted, refused, dropped, coalesced;
    bool pending; /* events are queued */
};

/* Pushes the table of functions that lua/events.lua calls.  May raise. */
void events_push_private(struct orr_isolate *iso, lua_State *L);

/* Keeps the field `host` of that table, at the top of L: the functions that C calls.  May raise. */
void events_keep_host(lua_State *L);

/* Releases all handlers: the state is about to be closed.  May raise. */
void events_forget_host(lua_State *L);

/* Removes the registrations of a script. */
void events_remove(struct orr_isolate *iso, uint32_t script);

/* Appends a description of each registration of a script to the list at the top of L.  May raise. */
void events_list(lua_State *L, uint32_t script);

/* Starts the handlers of the events that were queued while the isolate was held. */
void events_flush(struct orr_isolate *iso);

#endif
