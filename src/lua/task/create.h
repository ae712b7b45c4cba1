/* Making Lua tasks.  The isolate's worker's thread. */
#ifndef ORR_LUA_TASK_CREATE_H
#define ORR_LUA_TASK_CREATE_H

#include "lua/task/task.h"

struct ltask_options {
    const char *name;
    int name_at;      /* the name is the string at this index of L; 0 if it is not there */
    bool name_lasts;  /* the name outlives the task */
    bool provisional; /* the caller has the handle at index 1, and runs it at once */
    bool pooled;      /* no script asks for its handle: see task_pool.h */
    bool detached;    /* it has no parent */
    bool fair;        /* other Lua of the isolate may run while its slice is suspended */
    bool solitary;    /* its failure goes to the sink, not to its parent */
    bool steps;       /* the function answers the steps of the body: body_push_base_of_steps() */
    int handler;      /* index on L of the handler that it calls; 0 for none; pooled tasks only */
    enum orr_lua_entry entry;
    uint32_t script;      /* 0: the running script; for the call of a handler, the host */
    uint64_t deadline_ns; /* 0: the isolate's for such an entry */
};

/*
 * Makes a task of the function and its arguments at the top of L, which are taken off.  Leaves the
 * handle there, unless the task is pooled.  The task has not begun.  May raise.
 */
struct ltask *ltask_new(struct orr_isolate *iso, lua_State *L, int arguments, const struct ltask_options *options);

/*
 * Makes a pooled task, and has it begin soon, in the order of such calls.  Leaves nothing on L.
 * May raise.
 */
void ltask_start_soon(struct orr_isolate *iso, lua_State *L, int arguments, const struct ltask_options *options);

/*
 * How long a task may run without waiting, in the unit of the isolate's mode.  `ns` 0: the limit of
 * its entry.
 */
uint64_t ltask_limit(const struct orr_isolate *iso, enum orr_lua_entry entry, uint64_t ns);

/*
 * Makes a core task for the isolate, not queued.  A name that outlives it may be given here, in
 * place of `what`. Negative errno.  Never raises.
 */
int ltask_spawn_core(struct orr_isolate *iso, const struct orr_spawn *what, const char *lasting_name,
                     struct orr_task **out);

#endif
