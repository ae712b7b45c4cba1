#include "lua/isolate/stack_room.h"

#include "lua/isolate/compat.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#define SLOT ((uintptr_t)16) /* bytes */

enum {
    /*
     * Slots for the hook and one more Lua function, which has up to 255 slots, and 20 slots for
     * each C function in between
     */
    NEEDED = 512,
    STATE_WORDS = 16,
    FRAME_WORDS = 4,
    BASIC_SIZE = 2 * LUA_MINSTACK, /* slots of a new stack */
};

/*
 * Where the fields are, as indices of words.  `known` is 1 if all were found, 2 if not.  Several
 * fields may point to the beginning of a new stack: later the lowest of their values is the
 * beginning.
 */
struct layout {
    uint8_t known, top, frame, end, begin, other_begin, frame_top;
};

static_assert(sizeof(struct layout) <= sizeof(uint64_t), "it is kept in one atomic");

static _Atomic(uint64_t) learned;

static uintptr_t word(const void *of, unsigned index)
{
    uintptr_t value;
    memcpy(&value, (const char *)of + index * sizeof value, sizeof value);
    return value;
}

/*
 * The index of the only word that is `was` in `before` and `is` in `after`; `words` if there is
 * none, or more than one.
 */
static unsigned find(const uintptr_t *before, uintptr_t was, const uintptr_t *after, uintptr_t is, unsigned words)
{
    unsigned found = words;
    for (unsigned i = 0; i < words; i++) {
        if (before[i] != was || after[i] != is)
            continue;
        if (found != words)
            return words;
        found = i;
    }
    return found;
}

static void copy(uintptr_t *words, const void *of, unsigned count)
{
    memcpy(words, of, count * sizeof *words);
}

/* The field that moves when a value is pushed; STATE_WORDS if it is not clear which. */
static unsigned find_top(lua_State *co)
{
    uintptr_t before[STATE_WORDS], after[STATE_WORDS];
    unsigned found = STATE_WORDS;
    copy(before, co, STATE_WORDS);
    lua_pushnil(co);
    copy(after, co, STATE_WORDS);
    lua_pop(co, 1);
    for (unsigned i = 0; i < STATE_WORDS; i++) {
        if (after[i] == before[i])
            continue;
        if (found != STATE_WORDS || after[i] != before[i] + SLOT)
            return STATE_WORDS;
        found = i;
    }
    return found;
}

/*
 * Finds the fields that point to the ends of a new coroutine's stack, before and after it grows.
 * One slot of the stack is in use.
 */
static bool find_ends(lua_State *co, struct layout *layout)
{
    enum { MORE = 100 }; /* more than twice the basic size, which Lua would grow to by itself */
    uintptr_t before[STATE_WORDS], after[STATE_WORDS];
    copy(before, co, STATE_WORDS);
    if (!lua_checkstack(co, MORE))
        return false;
    copy(after, co, STATE_WORDS);
    uintptr_t was = before[layout->top] - SLOT, is = after[layout->top] - SLOT;
    unsigned end = find(before, was + BASIC_SIZE * SLOT, after, is + (MORE + 1) * SLOT, STATE_WORDS);
    unsigned count = 0;
    for (unsigned i = 0; i < STATE_WORDS; i++) {
        if (before[i] != was || after[i] != is)
            continue;
        if (!count++)
            layout->begin = (uint8_t)i;
        layout->other_begin = (uint8_t)i;
    }
    layout->end = (uint8_t)end;
    return end < STATE_WORDS && count >= 1;
}

/*
 * Finds the field that points to the running frame, which belongs to the calling function, and the
 * field of the frame that points to the frame's end.
 */
static bool find_frame(lua_State *L, struct layout *layout)
{
    enum { MORE = 2 * LUA_MINSTACK };
    lua_Debug info;
    uintptr_t state[STATE_WORDS], before[FRAME_WORDS], after[FRAME_WORDS];
    if (!lua_getstack(L, 0, &info))
        return false;
    copy(state, L, STATE_WORDS);
    layout->frame = (uint8_t)find(state, (uintptr_t)info.i_ci, state, (uintptr_t)info.i_ci, STATE_WORDS);
    copy(before, info.i_ci, FRAME_WORDS);
    if (!lua_checkstack(L, MORE))
        return false;
    copy(after, info.i_ci, FRAME_WORDS);
    uintptr_t end = word(L, layout->top) + MORE * SLOT;
    unsigned found = FRAME_WORDS;
    for (unsigned i = 0; i < FRAME_WORDS; i++)
        found = after[i] == end && before[i] != end ? i : found;
    layout->frame_top = (uint8_t)found;
    return layout->frame < STATE_WORDS && found < FRAME_WORDS;
}

static int learn(lua_State *L)
{
    struct layout layout = { .known = 1 };
    lua_State *co = lua_newthread(L);
    layout.top = (uint8_t)find_top(co);
    if (layout.top == STATE_WORDS || !find_ends(co, &layout) || !find_frame(L, &layout))
        layout.known = 2;
    uint64_t packed = 0;
    memcpy(&packed, &layout, sizeof layout);
    atomic_store_explicit(&learned, packed, memory_order_relaxed);
    return 0;
}

/* Relaxed: the result is one word, and every thread learns the same value. */
void stack_room_learn(lua_State *L)
{
    if (atomic_load_explicit(&learned, memory_order_relaxed))
        return;
    lua_pushcfunction(L, learn);
    lua_call(L, 0, 0);
}

bool stack_room_is_left(lua_State *L)
{
    uint64_t packed = atomic_load_explicit(&learned, memory_order_relaxed);
    struct layout layout;
    memcpy(&layout, &packed, sizeof layout);
    if (layout.known != 1)
        return true;
    uintptr_t begin = word(L, layout.begin), other = word(L, layout.other_begin), end = word(L, layout.end);
    begin = other < begin ? other : begin;
    uintptr_t top = word(L, layout.top), frame_top = word((const void *)word(L, layout.frame), layout.frame_top);
    /* Lua is just making the frame or the stack */
    if (frame_top < begin || frame_top > end + NEEDED * SLOT)
        return (end - begin) / SLOT + NEEDED < LUAI_MAXSTACK;
    uintptr_t used = (top > frame_top ? top : frame_top) - begin;
    return used / SLOT + NEEDED <= LUAI_MAXSTACK;
}
