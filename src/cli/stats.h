/* --stats: prints statistics about a run as a table on stderr. */
#ifndef ORR_CLI_STATS_H
#define ORR_CLI_STATS_H

struct lua_State;
struct orr_runtime;

void stats_print(struct orr_runtime *rt, struct lua_State *L);

#endif
