/*
 * Encoding and decoding as work that can be suspended (limits/paced.h).  All C functions that copy
 * values for scripts go through these.
 */
#ifndef ORR_LUA_VALUES_WORK_H
#define ORR_LUA_VALUES_WORK_H

#include "lua/limits/paced.h"
#include "lua/values/decode.h"
#include "lua/values/encode.h"

struct encoding {
    struct paced paced;
    struct message own; /* used if the caller has no message; freed with the work */
    struct encoder encoder;
};

struct decoding {
    struct paced paced;
    struct decoder decoder;
};

/*
 * Begins to copy values into `m`, which is the caller's and stays where it is.  If `m` is NULL,
 * into a flat message that is the work's own.  `slot` is the place for the work on L's stack.  The
 * caller calls paced_run() next, which answers as values_encode() does.
 */
void encoding_begin(struct encoding *work, lua_State *L, int slot, struct message *m, int first, int count,
                    const char *root);

/*
 * Begins to decode `m`, or if `m` is NULL, bytes.  Both stay where they are.  The caller calls
 * paced_run() next, which answers how many values were pushed.
 */
void decoding_begin(struct decoding *work, int slot, const struct message *m, const void *bytes, size_t size);

/* Whether kept work writes or reads this message.  Callers check that before they go on. */
bool encoding_writes(const struct paced *work, const struct message *m);
bool decoding_reads(const struct paced *work, const struct message *m);

#endif
