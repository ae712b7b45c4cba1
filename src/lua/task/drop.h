/* The end of a task: the core has dropped it, and its result is settled.  The isolate's worker's thread. */
#ifndef ORR_LUA_TASK_DROP_H
#define ORR_LUA_TASK_DROP_H

struct orr_isolate;

/* Tasks of an isolate end as drop.c has it. */
void drop_open(struct orr_isolate *iso);

#endif
