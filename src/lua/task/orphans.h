#ifndef ORR_LUA_TASK_ORPHANS_H
#define ORR_LUA_TASK_ORPHANS_H

#include "lua/task/task.h"

/* Makes what it needs.  May raise. */
void orphans_open(struct orr_isolate *iso, lua_State *L);

/* A cycle of the collector is over: see who might be lost. */
void orphans_look(struct orr_isolate *iso);

/* A task that is held weakly is needed again.  Never allocates. */
void orphans_anchor(struct ltask *self);

/* A task that nobody could reach comes back: its handle is at the top of L, and is taken off. */
void orphans_found(lua_State *L, struct ltask *self);

#endif
