/*
 * Observers of tasks: functions that are called when a task is done.  An observer is a wait without
 * an owner, in the list of the task's watchers.  The worker's owner.
 */
#ifndef ORR_EXEC_OBSERVER_H
#define ORR_EXEC_OBSERVER_H

#include "exec/wait.h"

/* The kind of observers that users register; other parts of the library have kinds of their own. */
extern const struct orr_wait_kind observer_kind;

/* Registers an observer of any kind with a task that is not DONE. */
void observe(struct orr_task *task, struct orr_observer *observer, const struct orr_wait_kind *kind);

/* Takes out an observer of any kind whose task is not DONE. */
void unobserve(struct orr_observer *observer);

#endif
