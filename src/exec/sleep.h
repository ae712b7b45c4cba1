/* Sleeping: the waits and deadlines that a timer shard ends. */
#ifndef ORR_EXEC_SLEEP_H
#define ORR_EXEC_SLEEP_H

struct sleeper;

/*
 * For the timers: the deadline of a sleeper has come.  `part_of` is one of SLEEPER_OF_... in
 * wait.h.  The worker's owner.
 */
void sleep_over(struct sleeper *sleeper, unsigned part_of);

#endif
