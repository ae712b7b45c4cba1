/*
 * Errors of I/O, as scripts see them: a function returns nil and a table
 *
 *     { code = "ECONNREFUSED", message = "Connection refused", operation = "connect",
 *       address = "127.0.0.1:9" }
 *
 * whose metatable is the error mark of values/mark.h: tostring() names all of it, and copies of
 * values for other states keep it.  Misuse raises instead.
 *
 * A task that is interrupted while it waits gets its interruption raised, as in every wait.
 *
 * The isolate's worker's thread.
 */
#ifndef ORR_LUA_NET_IO_ERROR_H
#define ORR_LUA_NET_IO_ERROR_H

#include "lua/task/task.h"

/* What to add to the message of an error that would not be there with real sockets. */
#define SIMULATED_HINT "the clock is virtual, so the network is in memory; the option real = true asks for real sockets"

/* What failed. */
struct io_failure {
    int error;             /* negative errno; -ENODATA is the end of the input, code "EOF" */
    const char *operation; /* "connect" */
    const char *address;   /* NULL if it is not known */
    const char *path;      /* of an operation on files; or NULL */
    const char *message;   /* NULL for that of the errno */
    const char *code;      /* NULL for that of the errno */
    size_t written;        /* of a broken write; 0 for none */
};

/* Pushes nil and the error, and returns 2.  May raise. */
int io_error_push(lua_State *L, const struct io_failure *failure);

/*
 * The end of a wait for I/O that failed.  Raises what interrupts the task, if that is the reason;
 * else as io_error_push().
 */
int io_error_end(lua_State *L, struct ltask *task, const struct io_failure *failure);

#endif
