/*
 * The lifetime of an isolate's struct.  It lives as long as its Lua state, and as long as tasks and
 * timers that work for it.  The layers above open and close its members (host/open.c).
 *
 * Only the isolate's worker thread may call these functions.
 */
#ifndef ORR_LUA_ISOLATE_LIFE_H
#define ORR_LUA_ISOLATE_LIFE_H

struct orr_isolate;
struct orr_runtime;
struct settings;

/*
 * An isolate with one reference and an open memory account; NULL for lack of memory.  Takes a
 * reference to the settings.
 */
struct orr_isolate *isolate_alloc(struct orr_runtime *rt, struct settings *settings);

void isolate_ref(struct orr_isolate *iso);

/* Gives up a reference.  The last one frees the struct; the Lua state must be closed by then. */
void isolate_unref(struct orr_isolate *iso);

#endif
