/* What tasks come to: their results, those who wait for them, and those who are told. */
#ifndef ORR_EXEC_OUTCOME_H
#define ORR_EXEC_OUTCOME_H

#include "exec/wait.h"

/* Of the observers that users register; other parts of the library have kinds of their own. */
extern const struct orr_wait_kind observer_kind;

/* The result of a DONE task, as orr_task_result() gives it, without that counting as having been looked at. */
const struct orr_result *outcome_of(struct orr_task *task);

/* Registers an observer of any kind with a task that is not DONE. */
void outcome_observe(struct orr_task *task, struct orr_observer *observer, const struct orr_wait_kind *kind);

#endif
