#include "lua/worker/server_threads.h"

#include "base/thread.h"
#include "exec/extend.h"
#include "lua/isolate.h"
#include "lua/isolate/registry.h"
#include "lua/worker/runtime_pools.h"

#include <string.h>

#define CLASS "orrery.server_threads"

struct server_threads {
    struct job_pool *pool;  /* a reference; NULL once it is closed */
    struct orr_runtime *rt; /* NULL once it is being freed */
    pthread_t closer;       /* frees the runtime */
    bool closing;           /* there is a closer, to be joined */
    struct orr_isolate *iso;
    unsigned slots; /* of the isolate's job slots, while it has threads */
};

static void *free_runtime(void *rt)
{
    orr_runtime_free(rt);
    return NULL;
}

/* Ending threads may take a while: the isolate's thread does not wait for them, if it need not. */
static void close_threads(struct server_threads *self, bool wait)
{
    struct orr_runtime *rt = self->rt;
    job_pool_unref(self->pool);
    self->pool = NULL;
    self->rt = NULL;
    self->iso->job_slots -= self->slots;
    self->slots = 0;
    if (rt)
        self->closing = !wait && !thread_start(&self->closer, free_runtime, rt);
    if (rt && !self->closing)
        orr_runtime_free(rt);
}

static int threads_gc(lua_State *L)
{
    struct server_threads *self = lua_touserdata(L, 1);
    if (self->closing)
        pthread_join(self->closer, NULL);
    self->closing = false;
    close_threads(self, true);
    return 0;
}

/* close_threads(threads): all jobs are over, and their handles are closed. */
static int lua_close_threads(lua_State *L)
{
    struct server_threads *self = luaL_checkudata(L, 1, CLASS);
    if (self->rt)
        close_threads(self, false);
    return 0;
}

static int open_threads(struct server_threads *self, struct orr_runtime *home, unsigned count)
{
    struct job_pools *pools;
    int error = runtime_open_beside(home, count, &self->rt);
    if (!error)
        error = runtime_pools_get(self->rt, &pools);
    if (error)
        return error;
    pools->home = home;
    self->pool = job_pool_new(pools, count, 0);
    return self->pool && pools->count == count ? 0 : -EAGAIN;
}

/* The servers of an untrusted script have no more threads than the host lets its jobs have. */
static bool has_room(const struct orr_isolate *iso, unsigned count)
{
    unsigned most = runtime_pool_most(iso->rt);
    return iso->limits.profile == ORR_LUA_TRUSTED || (count <= most && iso->job_slots <= most - count);
}

/* threads(count) -> threads, or nil and a message */
static int make_threads(lua_State *L)
{
    unsigned count = (unsigned)luaL_checkinteger(L, 1);
    if (!has_room(isolate_of(L), count)) {
        lua_pushnil(L);
        lua_pushfstring(L, "the servers and pools of this script may have %d threads together",
                        (int)runtime_pool_most(isolate_of(L)->rt));
        return 2;
    }
    struct server_threads *self = lua_newuserdatauv(L, sizeof *self, 0);
    *self = (struct server_threads){ .iso = isolate_of(L), .slots = count };
    self->iso->job_slots += count;
    luaL_setmetatable(L, CLASS);
    int error = open_threads(self, isolate_of(L)->rt, count);
    if (!error)
        return 1;
    close_threads(self, true);
    lua_pushnil(L);
    lua_pushstring(L, strerror(-error));
    return 2;
}

void server_threads_open(struct orr_isolate *iso, lua_State *L)
{
    static const luaL_Reg functions[] = { { "threads", make_threads },
                                          { "close_threads", lua_close_threads },
                                          { NULL, NULL } };
    static const luaL_Reg methods[] = { { "__gc", threads_gc }, { NULL, NULL } };
    isolate_class(iso, L, CLASS, methods);
    isolate_register(iso, L, functions);
}
