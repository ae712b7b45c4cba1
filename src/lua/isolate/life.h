/*
 * The life of the struct of an isolate.  It lives as long as its Lua state, and as long as tasks
 * and timers that work for it.  The layers above open and close what is in it (host/open.c).
 *
 * The isolate's worker's thread.
 */
#ifndef ORR_LUA_ISOLATE_LIFE_H
#define ORR_LUA_ISOLATE_LIFE_H

struct orr_isolate;
struct orr_runtime;
struct settings;

/*
 * A struct with one reference, its memory account open; NULL for lack of memory.  Keeps a reference
 * to the settings.
 */
struct orr_isolate *isolate_alloc(struct orr_runtime *rt, struct settings *settings);

void isolate_ref(struct orr_isolate *iso);

/* Frees the struct with the last reference; the Lua state is closed by then. */
void isolate_unref(struct orr_isolate *iso);

#endif
