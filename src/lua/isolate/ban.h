/*
 * A ban ends a script for good.  It is imposed when the script breaks a limit that no error can
 * hold, since what breaks the limit takes long each time.  Then none of the isolate's Lua runs any
 * more: each call and task that runs, or goes on, is ended as at its deadline.  The host is told
 * why, once.
 *
 * The isolate's worker's thread.
 */
#ifndef ORR_LUA_ISOLATE_BAN_H
#define ORR_LUA_ISOLATE_BAN_H

#include <stdbool.h>

struct orr_isolate;

struct ban {
    bool imposed;
    char reason[160];
    /* Tells the host; given by the layer above */
    void (*tell)(struct orr_isolate *iso, const char *reason);
};

/* `tell` tells the host that its script was ended. */
static inline void ban_open(struct ban *self, void (*tell)(struct orr_isolate *iso, const char *reason))
{
    self->tell = tell;
}

/*
 * `reason` begins with the thing that was wrong: "its garbage took ...".  Safe inside the
 * allocator.
 */
void ban_impose(struct orr_isolate *iso, const char *reason);

static inline bool ban_is_imposed(const struct ban *self)
{
    return self->imposed;
}

/* Why; an empty text without a ban. */
static inline const char *ban_reason(const struct ban *self)
{
    return self->reason;
}

#endif
