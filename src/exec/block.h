/* Blocks: see block.c. */
#ifndef ORR_EXEC_BLOCK_H
#define ORR_EXEC_BLOCK_H

struct sleeper;

/* The deadline of a scope has come.  The worker's owner. */
void scope_expire(struct sleeper *sleeper);

#endif
