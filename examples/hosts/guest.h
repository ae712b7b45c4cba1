/*
 * What the hosts in this folder have in common: a runtime with one untrusted script in it, and what is told of it.  What
 * sets them apart, the loop, is in a file for each.  All of it is for the thread that drives the runtime.
 */
#ifndef GUEST_H
#define GUEST_H

#include <orrery.h>

#include <lua.h>

#define MS UINT64_C(1000000)
#define SECOND (1000 * MS)

enum { TICK_MS = 16 }; /* how often these hosts have something of their own to do, such as drawing a frame */

/* What a turn may take.  A tick that falls into one is late by that much at most, so it is a part of the tick's length. */
#define TURN_NS (4 * MS)

struct guest {
    struct orr_runtime *rt;
    struct orr_script *script; /* NULL while none is loaded, as is its state */
    lua_State *L;
    bool quiet;   /* counts time-outs, but prints no reports */
    bool forgive; /* never disables a handler, however often it times out */
    unsigned timeouts, disabled, failures, refused;
    unsigned ticks, busy_ticks; /* of the host; those at which a script was in the middle of something */
};

/* The runtime alone.  A negative errno, which has been reported. */
int guest_open(struct guest *guest);

/*
 * Starts a script, which calls the host `mount`.  `prepare` may add functions of the host's to that global before anything of the
 * script's has run; it may be NULL.  A negative errno, which has been reported.
 */
int guest_load(struct guest *guest, const char *mount, const char *path, void (*prepare)(void *data, lua_State *L),
               void *data);

/* Unloading leaves nothing of the script behind; another may be loaded.  Closing unloads. */
void guest_unload(struct guest *guest);
int guest_close(struct guest *guest);

/* Tells the script's handlers, with a table of these fields.  They run in the next turns. */
void guest_emit(struct guest *guest, const char *event, const struct orr_pair *fields, unsigned count);

/* The host's own work: counts, and emits "tick". */
void guest_tick(struct guest *guest);

/* Prints what has happened. */
void guest_summary(const struct guest *guest);

#endif
