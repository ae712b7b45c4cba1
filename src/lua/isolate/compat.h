/*
 * The one place that knows which Lua this is: 5.4.4 and later, or 5.5.
 *
 * Here is what the library uses and the manuals of the two describe differently (section 8 of the
 * manual of 5.5), and what it assumes about the memory that Lua asks for.  What changes for
 * scripts is Lua's affair: in 5.5 `global` is reserved, the variables of `for` are read-only, and
 * error(nil) raises a text.  The library's own Lua code uses none of that.
 */
#ifndef ORR_LUA_ISOLATE_COMPAT_H
#define ORR_LUA_ISOLATE_COMPAT_H

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>

#include <limits.h>
#include <stdbool.h>

#if LUA_VERSION_NUM != 504 && LUA_VERSION_NUM != 505
#error "Orrery needs Lua 5.4 or 5.5"
#endif

/* The most slots of a stack.  Lua 5.5 keeps it to itself. */
#ifndef LUAI_MAXSTACK
#define LUAI_MAXSTACK 1000000
#endif

/* A state with hashes that are hard to foresee; NULL for lack of memory. */
static inline lua_State *compat_new_state(lua_Alloc alloc, void *data)
{
#if LUA_VERSION_NUM >= 505
    return lua_newstate(alloc, data, luaL_makeseed(NULL));
#else
    return lua_newstate(alloc, data);
#endif
}

/* Closes the variables that a coroutine has left to close.  Lua 5.4.6 has renamed the function. */
static inline int compat_close_thread(lua_State *co, lua_State *from)
{
#if LUA_VERSION_RELEASE_NUM >= 50406
    return lua_closethread(co, from);
#else
    (void)from;
    return lua_resetthread(co);
#endif
}

/* --- The collector ---------------------------------------------------------------------------- */

/*
 * Makes the collector incremental, with steps of about a thousand units of work.  `pause`: the
 * percentage of the memory in use at which Lua itself begins a cycle.
 */
static inline void compat_collect_in_steps(lua_State *L, int pause)
{
#if LUA_VERSION_NUM >= 505
    lua_gc(L, LUA_GCINC);
    lua_gc(L, LUA_GCPARAM, LUA_GCPPAUSE, pause);
    lua_gc(L, LUA_GCPARAM, LUA_GCPSTEPMUL, 100);                           /* units for each word, percent */
    lua_gc(L, LUA_GCPARAM, LUA_GCPSTEPSIZE, (int)(1024 * sizeof(void *))); /* bytes */
#else
    lua_gc(L, LUA_GCINC, pause, 16, 10); /* units for each byte, 16 is the least; a logarithm */
#endif
}

/* One step: 1 if it has ended a cycle, 0 if not, -1 inside a finalizer. */
static inline int compat_collect_step(lua_State *L)
{
#if LUA_VERSION_NUM >= 505
    return lua_gc(L, LUA_GCSTEP, (size_t)0);
#else
    return lua_gc(L, LUA_GCSTEP, 0);
#endif
}

/*
 * Keeps Lua from collecting by itself, until LUA_GCRESTART.  Steps are still possible.  Lua 5.4 gets
 * credit for a gigabyte; Lua 5.5 gives no credit, and is stopped, which costs a call for every 20 KB
 * that are allocated.
 */
static inline void compat_hold_collector(lua_State *L)
{
#if LUA_VERSION_NUM >= 505
    lua_gc(L, LUA_GCSTOP);
#else
    lua_gc(L, LUA_GCSTEP, -(1 << 20));
#endif
}

/* Counts bytes as if Lua had allocated them, which may start a step. */
static inline void compat_count_allocated(lua_State *L, size_t bytes)
{
#if LUA_VERSION_NUM >= 505
    if (bytes)
        lua_gc(L, LUA_GCSTEP, bytes);
#else
    if (bytes >> 10)
        lua_gc(L, LUA_GCSTEP, (int)(bytes >> 10 < INT_MAX ? bytes >> 10 : INT_MAX));
#endif
}

/* --- Blocks of memory ------------------------------------------------------------------------- */

/*
 * A list in Lua 5.4 is an array of values of 16 bytes, and grows in place.  In Lua 5.5 it is a new
 * block whenever it grows: all values without tags, a length, all tags.
 */
enum { COMPAT_VALUE = 8, COMPAT_LENGTH = sizeof(unsigned) };

/* Whether a block can be a list that has grown, by the size that it had. */
static inline bool compat_list_may_grow(size_t old_size)
{
    return LUA_VERSION_NUM >= 505 || old_size;
}

/* The slots of a list that takes so many bytes; 0 if none does. */
static inline size_t compat_list_slots(size_t bytes)
{
#if LUA_VERSION_NUM >= 505
    size_t slots = bytes / (COMPAT_VALUE + 1);
    return slots * (COMPAT_VALUE + 1) + COMPAT_LENGTH == bytes ? slots : 0;
#else
    return bytes % 16 ? 0 : bytes / 16;
#endif
}

/* The tag of a list's value. */
static inline unsigned char compat_list_tag(const unsigned char *list, size_t slots, size_t index)
{
#if LUA_VERSION_NUM >= 505
    return list[slots * COMPAT_VALUE + COMPAT_LENGTH + index];
#else
    (void)slots;
    return list[index * 16 + 8];
#endif
}

/*
 * Both have hash parts of nodes of 24 bytes.  In Lua 5.5 a pointer comes before the nodes if there
 * are more than eight.
 */
enum { COMPAT_NODE = 24, COMPAT_BEFORE_NODES = LUA_VERSION_NUM >= 505 ? sizeof(void *) : 0 };

/* The nodes of a large hash part that takes so many bytes; 0 if none does. */
static inline size_t compat_hash_nodes(size_t bytes)
{
    size_t nodes = bytes / COMPAT_NODE;
    return nodes * COMPAT_NODE + COMPAT_BEFORE_NODES == bytes ? nodes : 0;
}

#endif
