#include "lua/isolate/visit.h"

#include "lua/isolate.h"

#include <errno.h>

_Thread_local struct orr_isolate *isolate_in_slice;

static const char isolate_key; /* the address is the isolate's key in the registry */

_Thread_local struct found_isolate isolate_found_last = { .as_of = UINT64_MAX };
_Atomic uint64_t isolate_comings_and_goings;

void isolate_forget_found(void)
{
    atomic_fetch_add_explicit(&isolate_comings_and_goings, 1, memory_order_relaxed);
}

struct orr_isolate *isolate_look_up(lua_State *L)
{
    uint64_t as_of = atomic_load_explicit(&isolate_comings_and_goings, memory_order_relaxed);
    if (!L)
        return NULL;
    lua_rawgetp(L, LUA_REGISTRYINDEX, &isolate_key);
    struct orr_isolate *iso = lua_touserdata(L, -1);
    lua_pop(L, 1);
    if (iso && iso->L == L)
        isolate_found_last = (struct found_isolate){ .L = L, .iso = iso, .as_of = as_of };
    return iso;
}

void isolate_publish(struct orr_isolate *iso, lua_State *L)
{
    lua_pushlightuserdata(L, iso);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &isolate_key);
}

void isolate_unpublish(lua_State *L)
{
    lua_pushnil(L);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &isolate_key);
    isolate_forget_found();
}

int isolate_visit(struct orr_isolate *iso)
{
    if (worker_current == iso->worker) {
        iso->visits.depth += iso->visits.depth > 0; /* nested in another visit */
        return 0;
    }
    if (iso->worker != runtime_worker(iso->rt, 1))
        return -EPERM;
    int error = worker_current ? orr_runtime_enter(iso->rt) : visit_begin(iso->worker);
    if (!error) /* on failure `depth` belongs to another thread */
        iso->visits.depth = 1;
    return error;
}

void isolate_leave(struct orr_isolate *iso)
{
    if (!iso->visits.depth || --iso->visits.depth)
        return;
    if (worker_has_outer(iso->worker))
        orr_runtime_leave(iso->rt);
    else
        visit_end(iso->worker);
}
