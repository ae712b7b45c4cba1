/*
 * One operation on files, for a task of a script: starts it, waits for it, and pushes its results.
 *
 * The operation belongs to a userdata on the stack of the task.  A task that is cancelled gives it
 * up at once; the collector does that for a task that was dropped.
 *
 * The isolate's worker's thread.
 */
#ifndef ORR_LUA_FS_FILE_OPERATION_H
#define ORR_LUA_FS_FILE_OPERATION_H

#include "lua/net/stream_object.h"

struct orr_isolate;

struct file_operation {
    struct orr_file_work *work; /* NULL before it has started, and once it has been given up */
    const char *name;           /* "open" */
    const char *path;           /* a string on the stack, or the path of a stream on the stack */

    /* Pushes the results of an operation that has succeeded, and returns how many; NULL: true.
     * It may raise. */
    int (*finish)(lua_State *L, struct file_operation *self, const struct orr_file_answer *answer);
    struct stream_object *opens; /* the object on the stack that gets what is opened; or NULL */
};

/* Makes the class.  May raise. */
void file_operation_open(struct orr_isolate *iso, lua_State *L);

/* What a C function of a script returns: it runs the request, with what is on the stack kept. */
int file_operation_run(lua_State *L, const struct file_operation *what, const struct orr_file_request *request);

#endif
