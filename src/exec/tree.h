#ifndef ORR_EXEC_TREE_H
#define ORR_EXEC_TREE_H

struct worker;

/* Draws the tree of the calling thread's worker into its log. */
void tree_log(struct worker *worker);

#endif
