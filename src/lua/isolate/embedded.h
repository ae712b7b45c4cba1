/*
 * Files of lua/ that are part of the library.  They are compiled and embedded at build time,
 * because parsing them would take most of the start-up time.
 */
#ifndef ORR_LUA_ISOLATE_EMBEDDED_H
#define ORR_LUA_ISOLATE_EMBEDDED_H

#include "lua/isolate/compat.h"

#include <stddef.h>

struct embedded {
    const char *name; /* as error messages and tracebacks show it, with Lua's prefix '=' */
    const char *code;
    const size_t *size;
};

extern const struct embedded embedded_async;
extern const struct embedded embedded_async_nvim;
extern const struct embedded embedded_async_nvim_futures;
extern const struct embedded embedded_async_nvim_sync;
extern const struct embedded embedded_async_nvim_text;
extern const struct embedded embedded_bounded;
extern const struct embedded embedded_eventloop;
extern const struct embedded embedded_events;
extern const struct embedded embedded_globals;
extern const struct embedded embedded_late;
extern const struct embedded embedded_fs;
extern const struct embedded embedded_fs_tree;
extern const struct embedded embedded_net;
extern const struct embedded embedded_net_serve;
extern const struct embedded embedded_net_threads;
extern const struct embedded embedded_require;
extern const struct embedded embedded_testing_network;
extern const struct embedded embedded_worker;

/* Pushes the file as a function.  May raise. */
void embedded_push(lua_State *L, const struct embedded *file);

#endif
