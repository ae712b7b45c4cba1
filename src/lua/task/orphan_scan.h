/* The scan for tasks that nobody can reach any more: see orphans.c. */
#ifndef ORR_LUA_TASK_ORPHAN_SCAN_H
#define ORR_LUA_TASK_ORPHAN_SCAN_H

#include <stdbool.h>
#include <stdint.h>

struct orphan_scan {
    bool due;      /* the collector has finished a cycle */
    uint32_t next; /* the task that is looked at next */
};

#endif
