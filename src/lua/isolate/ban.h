/*
 * A ban ends a script for good.  It is imposed when the script breaks a limit that an error cannot
 * enforce, because breaking the limit takes long each time.  Then the isolate's Lua runs no more:
 * each call and task that runs, or would go on, is ended as at its deadline.  The host is told why,
 * once.
 *
 * Only the isolate's worker thread may call these functions.
 */
#ifndef ORR_LUA_ISOLATE_BAN_H
#define ORR_LUA_ISOLATE_BAN_H

#include <stdbool.h>

struct orr_isolate;

struct ban {
    bool imposed;
    char reason[160];
    /* Tells the host that its script was ended; the layer above provides it */
    void (*tell)(struct orr_isolate *iso, const char *reason);
};

/* `tell` tells the host that its script was ended, and why. */
static inline void ban_open(struct ban *self, void (*tell)(struct orr_isolate *iso, const char *reason))
{
    self->tell = tell;
}

/*
 * Imposes a ban.  `reason` begins with the cause: "its garbage took ...".  Safe inside the
 * allocator.
 */
void ban_impose(struct orr_isolate *iso, const char *reason);

static inline bool ban_is_imposed(const struct ban *self)
{
    return self->imposed;
}

/* The reason of the ban; an empty text without a ban. */
static inline const char *ban_reason(const struct ban *self)
{
    return self->reason;
}

#endif
