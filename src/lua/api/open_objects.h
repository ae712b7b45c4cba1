/*
 * What scripts have opened: streams, listeners, datagram sockets.
 *
 * Each is a userdata of a class in src/lua/net that begins with a struct open_object.  While it is
 * open it is on the isolate's list, with the number of its script (task/script.h): so unloading a
 * script closes what it has left open, and a test lists it.  Its memory in the core counts as the
 * script's, by way of an account of the core.
 *
 * The isolate's worker's thread.
 */
#ifndef ORR_LUA_API_OPEN_OBJECTS_H
#define ORR_LUA_API_OPEN_OBJECTS_H

#include "lua/isolate/compat.h"
#include "orrery.h"

struct open_object;
struct orr_isolate;

struct open_class {
    const char *kind; /* "stream": for people; NULL for what may be left open */
    /* Writes what it is, such as "tcp 127.0.0.1:80". */
    void (*describe)(const struct open_object *object, char *text, size_t size);
    /* Closes it; again does nothing.  open_object_closed() is called by this function. */
    void (*close)(struct open_object *object);
    /* Frees what the core has of it, which its finalizer would do, too. */
    void (*free)(struct open_object *object);
};

struct open_object {
    struct orr_link in_isolate; /* initialised by open_object_init() */
    const struct open_class *class;
    struct orr_isolate *iso;
    uint32_t script;
    bool counted; /* among those that the isolate has open */
    bool shared;  /* belongs to no script: nothing closes, counts or lists it */
    char *label;  /* where it was opened; NULL if that is not remembered */
};

/* Part of the isolate. */
struct open_objects {
    struct orr_link open; /* the objects that are open, oldest first */
    unsigned count;       /* how many, and how many have a place among them */
    struct orr_account account;
    bool ended; /* the isolate ends: nothing can be opened any more */
};

/* Must be called when the isolate is made. */
void open_objects_init(struct orr_isolate *iso);

/* What to give the core for an object that is about to be opened. */
struct orr_open open_object_options(const struct open_object *object);

/* The account of what belongs to no object, such as an operation under way. */
const struct orr_account *open_objects_account(const struct orr_isolate *iso);

/* -EDQUOT if the isolate's scripts would have more open than they may, with `more` objects more. */
int open_objects_check(const struct orr_isolate *iso, unsigned more);

/*
 * Prepares an object that is not open yet, and remembers where the script is, if that is to be
 * remembered.  Raises after open_objects_end(): finalizers may still call the API then.
 */
void open_object_init(struct open_object *object, struct orr_isolate *iso, const struct open_class *class,
                      lua_State *L);

/*
 * Keeps a place for an object that takes time to open, so that many of them together cannot pass
 * the limit.  -EDQUOT if there is none.  open_object_closed() gives the place back.
 */
int open_object_reserve(struct open_object *object);

/*
 * All scripts share the object, which is not open yet: it is not closed with a script, is no leak,
 * and does not count as a socket.
 */
void open_object_share(struct open_object *object);

/* The object is open from now on. */
void open_object_opened(struct open_object *object);

/* The object is closed, or could not be opened; again does nothing. */
void open_object_closed(struct open_object *object);

/*
 * The finalizer of a class of primitive.h, for the object at index 1: frees the object, and says so
 * in the log if a test left it open.
 */
int open_object_finalize(lua_State *L, const char *class, struct open_object *object);

/* Closes everything that a script has open.  Never raises. */
void open_objects_close(struct orr_isolate *iso, uint32_t script);

/* The isolate ends: closes and frees everything, for good.  Never raises. */
void open_objects_end(struct orr_isolate *iso);

/* Appends a description of what a script has open to the list at the top of L.  May raise. */
void open_objects_list(struct orr_isolate *iso, lua_State *L, uint32_t script);

#endif
