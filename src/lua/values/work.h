/*
 * Encoding and decoding as work that can be suspended (lua/paced.h).  The C functions that copy values all go through these.
 */
#ifndef ORR_LUA_VALUES_WORK_H
#define ORR_LUA_VALUES_WORK_H

#include "lua/limits/paced.h"
#include "lua/values/decode.h"
#include "lua/values/encode.h"

struct encoding {
    struct paced paced;
    struct message own; /* what is written, unless it goes into somebody else's message; freed with the work */
    struct encoder encoder;
};

struct decoding {
    struct paced paced;
    struct decoder decoder;
};

/*
 * Begins to copy values into `m`, which is the caller's and stays where it is; or if that is NULL, into a flat message of the work's own.
 * `slot` is the place on L's stack for the work.  paced_run() follows, and answers as values_encode() does.
 */
void encoding_begin(struct encoding *work, lua_State *L, int slot, struct message *m, int first, int count,
                    const char *root);

/* Begins to read a message, or if that is NULL, bytes; both stay where they are.  paced_run() answers how many values there are. */
void decoding_begin(struct decoding *work, int slot, const struct message *m, const void *bytes, size_t size);

#endif
