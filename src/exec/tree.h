#ifndef ORR_EXEC_TREE_H
#define ORR_EXEC_TREE_H

#include "exec/wait.h"

/* Writes the tree of the calling thread's worker into its log. */
void tree_log(struct worker *worker);

/*
 * Calls `each` for the tasks that a task waits for: those it awaits and, if its body is over, its
 * children.
 */
void tree_awaited(struct orr_task *task, task_each_fn *each, void *data);

#endif
