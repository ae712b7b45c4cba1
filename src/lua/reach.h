#ifndef ORR_LUA_REACH_H
#define ORR_LUA_REACH_H

#include "lua/task.h"

/* Makes what it needs.  May raise. */
void reach_open(struct orr_isolate *iso, lua_State *L);

/* A cycle of the collector is over: see who might be lost. */
void reach_look(struct orr_isolate *iso);

/* A task that is held weakly is needed again.  Never allocates. */
void reach_anchor(struct ltask *self);

/* A task that nobody could reach comes back: its handle is at the top of L, and is taken off. */
void reach_lost(lua_State *L, struct ltask *self);

#endif
