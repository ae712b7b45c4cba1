#ifndef ORR_EXEC_TREE_H
#define ORR_EXEC_TREE_H

#include "exec/wait.h"

/* Draws the tree of the calling thread's worker into its log. */
void tree_log(struct worker *worker);

/*
 * The tasks that a task waits for, because it awaits them, or because they are its children and it
 * has nothing else to do.
 */
void tree_awaited(struct orr_task *task, task_each_fn *each, void *data);

#endif
