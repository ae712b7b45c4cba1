/*
 * What the hosts in this folder share: a runtime with one untrusted script, and reports about it.
 * Each host has its own file for its loop.  All functions are for the thread that drives the
 * runtime.
 */
#ifndef GUEST_H
#define GUEST_H

#include <orrery.h>

#include <lua.h>

#define MS UINT64_C(1000000)
#define SECOND (1000 * MS)

enum { TICK_MS = 16 }; /* how often these hosts have work of their own, such as drawing a frame */

/*
 * The budget of a turn.  A tick that falls into a turn is late by at most this much, so it is a
 * part of the tick's length.
 */
#define TURN_NS (4 * MS)

struct guest {
    struct orr_runtime *rt;
    struct orr_script *script; /* NULL while none is loaded, and so is its state */
    lua_State *L;
    bool quiet;   /* counts timeouts, but prints no reports */
    bool forgive; /* never disables a handler, however often it times out */
    unsigned timeouts, disabled, failures, refused;
    unsigned ticks, busy_ticks; /* ticks of the host; those during which a script was busy */
};

/* Creates the runtime.  Returns a negative errno after a message. */
int guest_open(struct guest *guest);

/*
 * Starts a script, which calls the host `mount`.  `prepare` may add functions of the host to that
 * global before the script runs; it may be NULL.  Returns a negative errno after a message.
 */
int guest_load(struct guest *guest, const char *mount, const char *path, void (*prepare)(void *data, lua_State *L),
               void *data);

/* Unloading leaves nothing of the script behind; another one may be loaded.  Closing unloads. */
void guest_unload(struct guest *guest);
int guest_close(struct guest *guest);

/* Emits an event with a table of these fields.  The script's handlers run in the next turns. */
void guest_emit(struct guest *guest, const char *event, const struct orr_pair *fields, unsigned count);

/* The host's own work: counts, and emits "tick". */
void guest_tick(struct guest *guest);

/* Prints what has happened. */
void guest_summary(const struct guest *guest);

#endif
