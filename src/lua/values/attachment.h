/*
 * An attachment is the head of an object that isolates share by reference, such as a channel.
 *
 * A userdata whose metatable attachment_mark() has marked is a block that begins with a pointer to
 * an attachment.  Scripts that cannot change the metatables of userdata cannot forge one.
 */
#ifndef ORR_LUA_VALUES_ATTACHMENT_H
#define ORR_LUA_VALUES_ATTACHMENT_H

#include "lua/isolate/compat.h"

#include <stddef.h>

struct attachment {
    size_t size; /* bytes that keeping it takes: charged to each message that it is part of */

    /* Any thread. */
    void (*ref)(struct attachment *self);
    void (*unref)(struct attachment *self);

    /*
     * Pushes a userdata with a reference of its own, and answers 1.  Raises only for lack of
     * memory.  The thread of L.
     */
    int (*push)(lua_State *L, struct attachment *self);
};

/* Marks the metatable at the top of L.  May raise. */
void attachment_mark(lua_State *L);

/* The attachment of the userdata at an index; NULL if there is none.  Never raises. */
struct attachment *attachment_test(lua_State *L, int index);

#endif
