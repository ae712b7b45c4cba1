#include "lua/net/stream_read.h"

#include "lua/isolate.h"
#include "lua/isolate/charge.h"
#include "lua/net/stream_object.h"
#include "lua/task/suspend.h"

#include <errno.h>
#include <string.h>

enum {
    CHUNK = 16 * 1024,           /* what read() gives at most, and how far others read ahead */
    LINE_MAX_DEFAULT = 64 << 10, /* of read_line() and read_until() */
    ALL_MAX_DEFAULT = 16 << 20,  /* of read_all() */
};

static int fail(lua_State *L, struct ltask *task, const struct stream_object *self, int error, const char *message)
{
    return stream_fail(L, task, self, "stream:read", error, message);
}

static int at_end(lua_State *L)
{
    lua_pushnil(L);
    return 1;
}

/* Returns the first bytes of the buffer as a string, and removes them and `skip` more. */
static int take(lua_State *L, struct stream_object *self, size_t length, size_t skip)
{
    const void *bytes = NULL;
    orr_stream_peek(self->stream, &bytes);
    lua_pushlstring(L, bytes, length);
    orr_stream_consume(self->stream, length + skip);
    return 1;
}

/* Bytes that are there. */
static size_t buffered(const struct stream_object *self)
{
    const void *bytes;
    return orr_stream_peek(self->stream, &bytes);
}

/*
 * Bytes to ask for at once when the buffer holds `have`: it doubles, so memory is taken only as
 * bytes arrive, whatever length a peer has announced.
 */
static size_t ask(size_t have)
{
    return have < CHUNK ? CHUNK : 2 * have;
}

/* As orr_stream_fill(), but collects garbage if there is no memory. */
static int fill(lua_State *L, struct ltask *task, struct stream_object *self, size_t least, size_t most)
{
    int error = orr_stream_fill(task->task, &task->wait, self->stream, least, most);
    if (error == -ENOMEM && charge_collect(isolate_of(L), L))
        error = orr_stream_fill(task->task, &task->wait, self->stream, least, most);
    return error;
}

static size_t check_max(lua_State *L, int index, lua_Integer usual)
{
    lua_Integer max = luaL_optinteger(L, index, usual);
    luaL_argcheck(L, max >= 1, index, "expected a number of bytes, at least 1");
    return (size_t)max;
}

/*
 * A search for the end of a text, in a userdata at 2: it lives through the waits of one call.
 * [stream] [search] [the text that ends it]
 */
struct search {
    size_t max;     /* bytes before the end */
    size_t least;   /* bytes that the buffer must have before the search goes on */
    size_t scanned; /* bytes of the buffer that hold no end */
    bool line;      /* "\r" before the end belongs to the end */
    bool keep;      /* the end is part of the answer */
    bool raise;     /* raises what has failed */
};

/* --- read(): what is there -------------------------------------------------------------------- */

/*
 * Pushes at most `most` bytes that are there, or nil at the end.  Returns 1, or an error, as the
 * wait function of the core does.
 */
static int push_some(lua_State *L, struct ltask *task, struct stream_object *self, size_t most)
{
    int error = fill(L, task, self, 1, most);
    if (error == -ENODATA)
        return at_end(L);
    if (error)
        return error;
    const void *bytes;
    size_t have = orr_stream_peek(self->stream, &bytes);
    return take(L, self, have < most ? have : most, 0);
}

/* [stream] */
static int read_some(lua_State *L, int status, lua_KContext max)
{
    (void)status;
    struct ltask *task = ltask_current(L, "stream:read");
    struct stream_object *self = lua_touserdata(L, 1);
    int pushed = push_some(L, task, self, (size_t)max);
    if (pushed == -EAGAIN)
        return suspend(L, read_some, max);
    return pushed < 0 ? fail(L, task, self, pushed, NULL) : pushed;
}

/* As read_some(), but raises what has failed. */
static int read_next(lua_State *L, int status, lua_KContext context)
{
    (void)status;
    struct ltask *task = ltask_current(L, "a loop over a stream");
    struct stream_object *self = lua_touserdata(L, 1);
    int pushed = push_some(L, task, self, CHUNK);
    if (pushed == -EAGAIN)
        return suspend(L, read_next, context);
    if (pushed > 0)
        return pushed;
    fail(L, task, self, pushed, NULL);
    return lua_error(L);
}

int stream_next(lua_State *L)
{
    stream_object_check(L, 1);
    lua_settop(L, 1);
    return read_next(L, LUA_OK, 0);
}

static int read_line(lua_State *L, struct search search);

/* The formats of Lua's io library. */
static int read_format(lua_State *L)
{
    size_t length;
    const char *format = lua_tolstring(L, 2, &length), *name = format + (*format == '*');
    char letter = '\0';
    if (format + length == name + 1)
        letter = *name;
    if (letter == 'l' || letter == 'L') {
        lua_settop(L, 1);
        return read_line(L, (struct search){ .max = LINE_MAX_DEFAULT, .keep = letter == 'L' });
    }
    if (letter == 'a') {
        lua_settop(L, 1);
        return stream_read_all(L);
    }
    return luaL_error(L, "bad argument #1 to 'read' (expected a number of bytes, \"l\", \"L\" or \"a\", got \"%s\"%s)",
                      name, *name == 'n' ? "; read a line and use tonumber()" : "");
}

int stream_read(lua_State *L)
{
    stream_object_check(L, 1);
    if (lua_type(L, 2) == LUA_TSTRING)
        return read_format(L);
    size_t max = check_max(L, 2, CHUNK);
    lua_settop(L, 1);
    return read_some(L, LUA_OK, (lua_KContext)(max < CHUNK ? max : CHUNK));
}

/* --- read_exactly() --------------------------------------------------------------------------- */

static int read_exactly(lua_State *L, int status, lua_KContext count)
{
    (void)status;
    struct ltask *task = ltask_current(L, "stream:read_exactly");
    struct stream_object *self = lua_touserdata(L, 1);
    size_t all = (size_t)count;
    int error;
    do {
        size_t least = ask(buffered(self));
        least = least < all ? least : all;
        error = fill(L, task, self, least, least < CHUNK ? CHUNK : least);
    } while (!error && buffered(self) < all);
    if (error == -EAGAIN)
        return suspend(L, read_exactly, count);
    if (!error)
        return take(L, self, all, 0);
    if (error != -ENODATA)
        return fail(L, task, self, error, NULL);
    const char *message = lua_pushfstring(L, "the input ended after %I of %I bytes", (lua_Integer)buffered(self),
                                          (lua_Integer)count);
    return fail(L, task, self, error, message);
}

int stream_read_exactly(lua_State *L)
{
    stream_object_check(L, 1);
    lua_Integer count = luaL_checkinteger(L, 2);
    luaL_argcheck(L, count >= 0, 2, "expected a number of bytes, at least 0");
    lua_settop(L, 1);
    if (!count) {
        lua_pushliteral(L, "");
        return 1;
    }
    return read_exactly(L, LUA_OK, (lua_KContext)count);
}

/* --- read_line(), read_until() ---------------------------------------------------------------- */

static int found(lua_State *L, struct stream_object *self, const struct search *search, size_t at, size_t ending)
{
    const void *bytes;
    orr_stream_peek(self->stream, &bytes);
    if (search->keep)
        return take(L, self, at + ending, 0);
    size_t length = at;
    if (search->line && length && ((const char *)bytes)[length - 1] == '\r')
        length--;
    return take(L, self, length, at + ending - length);
}

static int fail_search(lua_State *L, struct ltask *task, const struct stream_object *self, const struct search *search,
                       int error)
{
    const char *message = NULL;
    if (error == -EMSGSIZE)
        message = lua_pushfstring(L, "no end within %I bytes", (lua_Integer)search->max);
    int results = fail(L, task, self, error, message);
    return search->raise ? lua_error(L) : results;
}

/* The input has ended without the text: what is there is the last piece. */
static int take_rest(lua_State *L, struct ltask *task, struct stream_object *self, const struct search *search)
{
    size_t have = buffered(self);
    if (have > search->max)
        return fail_search(L, task, self, search, -EMSGSIZE);
    return have ? take(L, self, have, 0) : at_end(L);
}

/*
 * Whether `length` bytes, after which the end comes, or may come with the next bytes, are too many.
 * How the bytes arrive must not matter.
 */
static bool is_too_long(const struct search *search, const char *bytes, size_t length)
{
    bool carriage_return = search->line && length && bytes[length - 1] == '\r';
    return length > search->max + carriage_return;
}

static int find_end(lua_State *L, int status, lua_KContext context)
{
    (void)status;
    struct ltask *task = ltask_current(L, "stream:read_line");
    struct stream_object *self = lua_touserdata(L, 1);
    struct search *search = lua_touserdata(L, 2);
    size_t ending;
    const char *end = lua_tolstring(L, 3, &ending);
    for (;;) {
        /* Asks even if enough is there: a task that reads already must be noticed. */
        size_t least = search->least;
        int error = fill(L, task, self, least, least + ask(least));
        if (error == -EAGAIN)
            return suspend(L, find_end, context);
        if (error == -ENODATA)
            return take_rest(L, task, self, search);
        if (error)
            return fail_search(L, task, self, search, error);
        const void *buffer;
        size_t have = orr_stream_peek(self->stream, &buffer);
        const char *bytes = buffer, *at = memmem(bytes + search->scanned, have - search->scanned, end, ending);
        if (have >= ending)
            search->scanned = have - ending + 1;
        size_t before = at ? (size_t)(at - bytes) : search->scanned;
        if (is_too_long(search, bytes, before))
            return fail_search(L, task, self, search, -EMSGSIZE);
        if (at)
            return found(L, self, search, before, ending);
        search->least = have + 1;
    }
}

static int begin_search(lua_State *L, struct search search)
{
    struct search *kept = lua_newuserdatauv(L, sizeof *kept, 0);
    size_t have = buffered(lua_touserdata(L, 1));
    search.least = have ? have : 1;
    *kept = search;
    lua_insert(L, 2);
    return find_end(L, LUA_OK, 0);
}

static int read_line(lua_State *L, struct search search)
{
    search.line = true;
    lua_settop(L, 1);
    lua_pushliteral(L, "\n");
    return begin_search(L, search);
}

int stream_read_line(lua_State *L)
{
    stream_object_check(L, 1);
    return read_line(L, (struct search){ .max = check_max(L, 2, LINE_MAX_DEFAULT) });
}

/* The upvalues of the iterator, after the isolate. */
enum { LINES_STREAM = 2, LINES_MAX };

static int next_line(lua_State *L)
{
    lua_settop(L, 0);
    lua_pushvalue(L, lua_upvalueindex(LINES_STREAM));
    size_t max = (size_t)lua_tointeger(L, lua_upvalueindex(LINES_MAX));
    return read_line(L, (struct search){ .max = max, .raise = true });
}

int stream_lines(lua_State *L)
{
    stream_object_check(L, 1);
    size_t max = check_max(L, 2, LINE_MAX_DEFAULT);
    lua_pushlightuserdata(L, isolate_of(L));
    lua_pushvalue(L, 1);
    lua_pushinteger(L, (lua_Integer)max);
    lua_pushcclosure(L, next_line, LINES_MAX);
    return 1;
}

int stream_read_until(lua_State *L)
{
    stream_object_check(L, 1);
    size_t length;
    luaL_checklstring(L, 2, &length);
    luaL_argcheck(L, length >= 1, 2, "expected a text that is not empty");
    size_t max = check_max(L, 3, LINE_MAX_DEFAULT);
    lua_settop(L, 2);
    return begin_search(L, (struct search){ .max = max });
}

/* --- read_all() ------------------------------------------------------------------------------- */

static int read_all(lua_State *L, int status, lua_KContext max)
{
    (void)status;
    struct ltask *task = ltask_current(L, "stream:read_all");
    struct stream_object *self = lua_touserdata(L, 1);
    int error;
    do {
        size_t have = buffered(self), least = have > (size_t)max ? have : have + 1;
        error = fill(L, task, self, least, least + ask(least));
    } while (!error && buffered(self) <= (size_t)max);
    if (error == -EAGAIN)
        return suspend(L, read_all, max);
    if (!error)
        return fail(L, task, self, -EMSGSIZE, lua_pushfstring(L, "more than %I bytes", (lua_Integer)max));
    return error == -ENODATA ? take(L, self, buffered(self), 0) : fail(L, task, self, error, NULL);
}

int stream_read_all(lua_State *L)
{
    stream_object_check(L, 1);
    size_t max = check_max(L, 2, ALL_MAX_DEFAULT);
    lua_settop(L, 1);
    return read_all(L, LUA_OK, (lua_KContext)max);
}
