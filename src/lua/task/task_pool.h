/* Pooled tasks that wait for their next use: see callback.h. */
#ifndef ORR_LUA_TASK_TASK_POOL_H
#define ORR_LUA_TASK_TASK_POOL_H

struct ltask;

struct task_pool {
    struct ltask *first;
    int count;
};

#endif
