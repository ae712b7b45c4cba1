/*
 * The state of a call is a struct on the C stack until it has to outlive that: when the call
 * pauses, and before it calls a function of the script.  Then it moves into a userdata on the Lua
 * stack.  The last such userdata stays in an upvalue, for the next call to use.  If a call ends
 * with an error, its userdata stays marked as used, and the next call replaces it in the upvalue.
 */
#include "lua/pattern/gsub.h"

#include "lua/limits/preempt.h"
#include "lua/pattern/match.h"

#include <string.h>

enum {
    GSUB_INLINE = 512,      /* bytes of the output that need no userdata */
    OUTPUT_MIN = 2048,      /* bytes of an output in a userdata */
    INDEX_CHAIN_MAX = 2000, /* as in Lua */
};

/* The Lua stack. */
enum {
    SUBJECT = 1,
    PATTERN,
    REPLACEMENT,
    STATE,
    OUTPUT,
    MATCH, /* and one more */
};

enum { SPARE = 2 }; /* the upvalue after the isolate */

#define CHANGED "the stack was changed while a pattern was being replaced"

enum gsub_place {
    GSUB_ON_C_STACK,
    GSUB_KEPT,  /* in a userdata on the Lua stack */
    GSUB_SPARE, /* in a userdata that no call uses */
};

struct gsub {
    const uint8_t *from; /* in the subject: what is before it is in the output */
    const uint8_t *stop; /* the end of the match that is being replaced */
    const char *text;    /* the replacement, if it is a string */
    size_t text_length;
    lua_Integer count, most;
    char *output;
    size_t length, room;
    int type;     /* of the replacement */
    bool escapes; /* `text` has some */
    bool changed; /* the output differs from the subject */
    bool anchored;
    uint8_t place; /* enum gsub_place */
    char inline_output[GSUB_INLINE];
};

/* --- Output ----------------------------------------------------------------------------------- */

static void check_length(lua_State *L, size_t length)
{
    size_t most = isolate_of(L)->limits.longest_string;
    if (most && length > most)
        luaL_error(L, "resulting string too large");
}

static void grow_output(lua_State *L, struct gsub *g, size_t more)
{
    if (more > PTRDIFF_MAX - g->length)
        luaL_error(L, "resulting string too large");
    check_length(L, g->length + more);
    size_t room = g->room * 2 < OUTPUT_MIN ? OUTPUT_MIN : g->room * 2;
    if (room < g->length + more)
        room = g->length + more;
    char *output = lua_newuserdatauv(L, room, 0);
    memcpy(output, g->output, g->length);
    lua_replace(L, OUTPUT);
    g->output = output;
    g->room = room;
}

static inline void add(lua_State *L, struct gsub *g, const void *text, size_t length)
{
    if (length > g->room - g->length)
        grow_output(L, g, length);
    if (length == 1) /* by far the most frequent */
        g->output[g->length] = *(const char *)text;
    else
        memcpy(g->output + g->length, text, length);
    g->length += length;
}

/* --- Keeping ---------------------------------------------------------------------------------- */

/* Pushes a userdata for the state of a call: the spare one, or a new one. */
static struct gsub *push_kept(lua_State *L)
{
    struct gsub *kept = lua_touserdata(L, lua_upvalueindex(SPARE));
    if (kept && kept->place == GSUB_SPARE) {
        lua_pushvalue(L, lua_upvalueindex(SPARE));
    } else {
        kept = lua_newuserdatauv(L, sizeof *kept, 0);
        kept->place = GSUB_SPARE;
        lua_pushvalue(L, -1);
        lua_replace(L, lua_upvalueindex(SPARE));
    }
    return kept;
}

static struct gsub *keep(lua_State *L, struct gsub *g)
{
    if (g->place == GSUB_KEPT)
        return g;
    struct gsub *kept = push_kept(L);
    lua_replace(L, STATE);
    memcpy(kept, g, offsetof(struct gsub, inline_output));
    kept->place = GSUB_KEPT;
    if (g->output == g->inline_output) {
        memcpy(kept->inline_output, g->inline_output, g->length);
        kept->output = kept->inline_output;
    }
    return kept;
}

/* The state that was kept.  Raises if the debug library has replaced it, or what it points to. */
static struct gsub *kept_at(lua_State *L, const void *state)
{
    struct gsub *g = lua_touserdata(L, STATE);
    if (!g || g != state || (g->output != g->inline_output && g->output != lua_touserdata(L, OUTPUT)) ||
        (g->text && (lua_type(L, REPLACEMENT) != LUA_TSTRING || lua_tostring(L, REPLACEMENT) != g->text)))
        luaL_error(L, CHANGED);
    return g;
}

/* --- Replacements ----------------------------------------------------------------------------- */

/* Adds the replacement string, with its escapes expanded. */
static void add_expanded(lua_State *L, struct gsub *g, const struct match *m)
{
    const char *p = g->text, *end = g->text + g->text_length, *escape;
    while ((escape = memchr(p, '%', (size_t)(end - p)))) {
        add(L, g, p, (size_t)(escape - p));
        char c = escape[1]; /* Lua's strings end with a 0 */
        p = escape + 2;
        size_t length;
        lua_Integer position = 0;
        if (c == '%') {
            add(L, g, "%", 1);
        } else if (c == '0') {
            add(L, g, m->start, (size_t)(m->at - m->start));
        } else if (c < '1' || c > '9') {
            luaL_error(L, "invalid use of '%%' in replacement string");
        } else {
            const char *capture = match_capture(L, m, c - '1', &length, &position);
            if (capture) {
                add(L, g, capture, length);
            } else {
                lua_pushinteger(L, position);
                const char *digits = lua_tolstring(L, -1, &length);
                add(L, g, digits, length);
                lua_pop(L, 1);
            }
        }
    }
    add(L, g, p, (size_t)(end - p));
}

static void add_string(lua_State *L, struct gsub *g, struct match *m)
{
    size_t before = g->length;
    if (g->escapes)
        add_expanded(L, g, m);
    else
        add(L, g, g->text, g->text_length);
    g->changed = true;
    size_t steps = (g->length - before) / 64;
    m->steps -= steps > MATCH_STEPS ? MATCH_STEPS : (int)steps;
}

/* Adds the value at the top, which is popped; for false and nil adds the match. */
static void add_value(lua_State *L, struct gsub *g)
{
    size_t length;
    const char *text = lua_tolstring(L, -1, &length);
    if (text) {
        add(L, g, text, length);
        g->changed = true;
    } else if (!lua_toboolean(L, -1)) {
        add(L, g, g->from, (size_t)(g->stop - g->from));
    } else {
        luaL_error(L, "invalid replacement value (a %s)", luaL_typename(L, -1));
    }
    lua_pop(L, 1);
}

/*
 * [table] [key] -> [value], and answers false; or -> [function] [argument] [key], and answers true:
 * the caller calls the function, which is an `__index`.
 */
static bool look_up(lua_State *L)
{
    for (int i = 0; i < INDEX_CHAIN_MAX; i++) {
        if (lua_istable(L, -2)) {
            lua_pushvalue(L, -1);
            if (lua_rawget(L, -3) != LUA_TNIL || luaL_getmetafield(L, -3, "__index") == LUA_TNIL) {
                lua_replace(L, -3);
                lua_pop(L, 1);
                return false;
            }
            lua_remove(L, -2); /* the nil */
        } else if (luaL_getmetafield(L, -2, "__index") == LUA_TNIL) {
            break; /* lua_gettable() raises */
        }
        if (lua_isfunction(L, -1)) {
            lua_insert(L, -3);
            return true;
        }
        lua_replace(L, -3);
    }
    lua_gettable(L, -2);
    lua_remove(L, -2);
    return false;
}

/*
 * Pushes a function and its arguments for a match, and answers how many; or the replacement, and
 * answers -1.
 */
static int push_replacement(lua_State *L, const struct gsub *g, const struct match *m)
{
    if (g->type == LUA_TFUNCTION) {
        lua_pushvalue(L, REPLACEMENT);
        return match_push_captures(L, m, true);
    }
    match_push_capture(L, m, 0);
    if (lua_rawget(L, REPLACEMENT) != LUA_TNIL || !lua_getmetatable(L, REPLACEMENT))
        return -1;
    lua_pop(L, 2);
    lua_pushvalue(L, REPLACEMENT);
    match_push_capture(L, m, 0);
    return look_up(L) ? 2 : -1;
}

/* --- The loop --------------------------------------------------------------------------------- */

static int finish(lua_State *L, struct gsub *g, const struct match *m)
{
    if (g->changed) {
        add(L, g, g->from, (size_t)(m->end - g->from));
        check_length(L, g->length);
        lua_pushlstring(L, g->output, g->length);
    } else {
        lua_pushvalue(L, SUBJECT);
    }
    lua_pushinteger(L, g->count);
    g->place = GSUB_SPARE;
    return 2;
}

static int called(lua_State *L, int status, lua_KContext state);
static int paused(lua_State *L, int status, lua_KContext kept);

/* Goes on after the match that was replaced.  False if there can be no other. */
static bool advance(struct gsub *g, struct match *m)
{
    g->from = m->start = m->avoid = g->stop;
    return !g->anchored;
}

static int go_on(lua_State *L, struct gsub *g, struct match *m)
{
    while (g->count < g->most) {
        enum match_verdict verdict = match_search(L, m);
        if (verdict == MATCH_PAUSE) {
            m->owner = keep(L, g);
            return preempt_yield(L, paused, (lua_KContext)match_keep(L, m));
        }
        if (verdict == MATCH_NONE)
            break;
        add(L, g, g->from, (size_t)(m->start - g->from));
        g->from = m->start;
        g->stop = m->at;
        g->count++;
        if (g->text) {
            add_string(L, g, m);
        } else {
            int arguments = push_replacement(L, g, m);
            if (arguments >= 0) {
                bool kept = m->moved;
                g = keep(L, g);
                lua_callk(L, arguments, 1, (lua_KContext)g, called);
                g = kept_at(L, g);
                if (kept)
                    m = match_kept(L, MATCH, (lua_KContext)m, SUBJECT, PATTERN);
                else
                    match_check(L, m, SUBJECT, PATTERN);
            }
            add_value(L, g);
        }
        if (!advance(g, m))
            break;
    }
    return finish(L, g, m);
}

/* The function that was called has yielded, and has now returned. */
static int called(lua_State *L, int status, lua_KContext state)
{
    (void)status;
    struct gsub *g = kept_at(L, (void *)state);
    size_t length, pattern_length;
    const char *subject = luaL_checklstring(L, SUBJECT, &length),
               *pattern = luaL_checklstring(L, PATTERN, &pattern_length);
    struct match m;
    match_begin(&m, subject, length, pattern, pattern_length, MATCH); /* not used with an anchor */
    if (g->from < m.subject || g->stop > m.end)
        return luaL_error(L, CHANGED);
    add_value(L, g);
    return advance(g, &m) ? go_on(L, g, &m) : finish(L, g, &m);
}

static int paused(lua_State *L, int status, lua_KContext kept)
{
    (void)status;
    struct match *m = match_kept(L, MATCH, kept, SUBJECT, PATTERN);
    return go_on(L, kept_at(L, m->owner), m);
}

static int string_gsub(lua_State *L)
{
    size_t length, pattern_length;
    const char *subject = luaL_checklstring(L, SUBJECT, &length),
               *pattern = luaL_checklstring(L, PATTERN, &pattern_length);
    int type = lua_type(L, REPLACEMENT);
    lua_Integer most = luaL_optinteger(L, 4, (lua_Integer)length + 1);
    luaL_argexpected(L, type == LUA_TSTRING || type == LUA_TNUMBER || type == LUA_TFUNCTION || type == LUA_TTABLE,
                     REPLACEMENT, "string/function/table");
    lua_settop(L, REPLACEMENT);
    struct gsub local, *g = type == LUA_TFUNCTION ? push_kept(L) : &local;
    lua_settop(L, OUTPUT);
    g->place = type == LUA_TFUNCTION ? GSUB_KEPT : GSUB_ON_C_STACK;
    g->type = type == LUA_TNUMBER ? LUA_TSTRING : type;
    g->text = type == LUA_TFUNCTION || type == LUA_TTABLE ? NULL : lua_tolstring(L, REPLACEMENT, &g->text_length);
    g->escapes = g->text && memchr(g->text, '%', g->text_length);
    g->changed = false;
    g->count = 0;
    g->most = most;
    g->output = g->inline_output;
    g->length = 0;
    g->room = sizeof g->inline_output;
    struct match m;
    match_begin_anchored(&m, subject, length, pattern, pattern_length, MATCH);
    g->anchored = m.anchored;
    g->from = m.subject;
    return go_on(L, g, &m);
}

void gsub_open(struct orr_isolate *iso, lua_State *L)
{
    lua_pushlightuserdata(L, iso);
    lua_pushnil(L);
    lua_pushcclosure(L, string_gsub, SPARE);
    lua_setfield(L, -2, "gsub");
}
