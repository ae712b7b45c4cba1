#include "lua/pattern/find.h"

#include "lua/limits/preempt.h"
#include "lua/pattern/match.h"

#include <string.h>

enum {
    PLAIN_BLOCK = 64 * 1024, /* bytes that a plain search looks at without a pause, at least */
    PLAIN_MISSES = 16,       /* false starts before memmem() takes over */
};

/* The index from 0 that the argument `init` means. */
static size_t init_index(lua_Integer init, size_t length)
{
    if (init > 0)
        return (size_t)init - 1;
    size_t back = 0 - (size_t)init;
    return init == 0 || back > length ? 0 : length - back;
}

/* --- Plain search ----------------------------------------------------------------------------- */

struct needle {
    const char *text;
    size_t length;
};

/* The first needle between two places; NULL if there is none. */
static const char *find_needle(const struct needle *needle, const char *from, const char *to)
{
    if (needle->length == 0)
        return from;
    for (int misses = 0; (size_t)(to - from) >= needle->length; misses++) {
        if (misses == PLAIN_MISSES)
            return memmem(from, (size_t)(to - from), needle->text, needle->length);
        from = memchr(from, *needle->text, (size_t)(to - from) - needle->length + 1);
        if (!from || (from[needle->length - 1] == needle->text[needle->length - 1] &&
                      !memcmp(from, needle->text, needle->length)))
            return from;
        from++;
    }
    return NULL;
}

static int find_plain_on(lua_State *L, int status, lua_KContext from);

/* Searches a subject from index `from` on, in blocks. */
static int find_plain(lua_State *L, const char *subject, size_t length, size_t from, struct needle needle)
{
    size_t block = needle.length < PLAIN_BLOCK / 4 ? PLAIN_BLOCK : 4 * needle.length;
    while (length - from >= needle.length) {
        size_t to = length - from > block ? from + block : length;
        const char *found = find_needle(&needle, subject + from, subject + to);
        if (found) {
            lua_pushinteger(L, found - subject + 1);
            lua_pushinteger(L, found - subject + (lua_Integer)needle.length);
            return 2;
        }
        if (to == length)
            break;
        from = to - needle.length + 1;
        if (preempt_is_due(L))
            return preempt_yield(L, find_plain_on, (lua_KContext)from);
    }
    luaL_pushfail(L);
    return 1;
}

static int find_plain_on(lua_State *L, int status, lua_KContext from)
{
    (void)status;
    size_t length;
    struct needle needle;
    const char *subject = luaL_checklstring(L, 1, &length);
    needle.text = luaL_checklstring(L, 2, &needle.length);
    luaL_argcheck(L, (size_t)from <= length, 1, "the stack was changed while a string was being searched");
    return find_plain(L, subject, length, (size_t)from, needle);
}

/* --- find and match --------------------------------------------------------------------------- */

enum { FIND_SLOT = 3 };

/* Whether a pattern has no special characters. */
static bool is_plain(const char *pattern, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        switch (pattern[i]) {
        case '^':
        case '$':
        case '*':
        case '+':
        case '?':
        case '.':
        case '(':
        case '[':
        case '%':
        case '-':
            return false;
        default:
            break;
        }
    }
    return true;
}

static int search(lua_State *L, struct match *m, lua_KFunction k, bool find)
{
    switch (match_search(L, m)) {
    case MATCH_PAUSE:
        return preempt_yield(L, k, (lua_KContext)match_keep(L, m));
    case MATCH_NONE:
        luaL_pushfail(L);
        return 1;
    default:
        break;
    }
    if (!find)
        return match_push_captures(L, m, true);
    lua_pushinteger(L, m->start - m->subject + 1);
    lua_pushinteger(L, m->at - m->subject);
    return 2 + match_push_captures(L, m, false);
}

static int find_on(lua_State *L, int status, lua_KContext kept)
{
    (void)status;
    return search(L, match_kept(L, FIND_SLOT, kept, 1, 2), find_on, true);
}

static int match_on(lua_State *L, int status, lua_KContext kept)
{
    (void)status;
    return search(L, match_kept(L, FIND_SLOT, kept, 1, 2), match_on, false);
}

static inline int find(lua_State *L, lua_KFunction k, bool find)
{
    size_t length, pattern_length;
    const char *subject = luaL_checklstring(L, 1, &length), *pattern = luaL_checklstring(L, 2, &pattern_length);
    size_t init = init_index(luaL_optinteger(L, 3, 1), length);
    if (init > length) {
        luaL_pushfail(L);
        return 1;
    }
    if (find && (lua_toboolean(L, 4) || is_plain(pattern, pattern_length)))
        return find_plain(L, subject, length, init, (struct needle){ pattern, pattern_length });
    struct match m;
    match_begin_anchored(&m, subject, length, pattern, pattern_length, FIND_SLOT);
    m.start += init;
    return search(L, &m, k, find);
}

static int string_find(lua_State *L)
{
    return find(L, find_on, true);
}

static int string_match(lua_State *L)
{
    return find(L, match_on, false);
}

/* --- gmatch ----------------------------------------------------------------------------------- */

/* Upvalues of the iterator after the isolate; and the slot on its stack. */
enum { GMATCH_SUBJECT = 2, GMATCH_PATTERN, GMATCH_STATE, GMATCH_SLOT = 1 };

/*
 * What an iterator keeps between two calls.  A call that pauses keeps its match on its own stack,
 * so other calls may come in between.
 */
struct gmatch {
    size_t from;  /* where the next search begins; after the subject's end there is none */
    size_t avoid; /* where the last match ended; SIZE_MAX before the first */
};

static int next_match(lua_State *L, struct match *m);

static int next_match_on(lua_State *L, int status, lua_KContext kept)
{
    (void)status;
    return next_match(
        L, match_kept(L, GMATCH_SLOT, kept, lua_upvalueindex(GMATCH_SUBJECT), lua_upvalueindex(GMATCH_PATTERN)));
}

static int next_match(lua_State *L, struct match *m)
{
    enum match_verdict verdict = match_search(L, m);
    if (verdict == MATCH_PAUSE)
        return preempt_yield(L, next_match_on, (lua_KContext)match_keep(L, m));
    if (verdict == MATCH_NONE)
        return 0;
    struct gmatch *self = lua_touserdata(L, lua_upvalueindex(GMATCH_STATE));
    self->from = self->avoid = (size_t)(m->at - m->subject);
    return match_push_captures(L, m, true);
}

static int gmatch_call(lua_State *L)
{
    size_t length, pattern_length;
    const struct gmatch *self = lua_touserdata(L, lua_upvalueindex(GMATCH_STATE));
    const char *subject = lua_tolstring(L, lua_upvalueindex(GMATCH_SUBJECT), &length);
    const char *pattern = lua_tolstring(L, lua_upvalueindex(GMATCH_PATTERN), &pattern_length);
    if (self->from > length)
        return 0;
    struct match m;
    match_begin(&m, subject, length, pattern, pattern_length, GMATCH_SLOT);
    m.start += self->from;
    if (self->avoid != SIZE_MAX)
        m.avoid = m.subject + self->avoid;
    return next_match(L, &m);
}

static int string_gmatch(lua_State *L)
{
    size_t length;
    luaL_checklstring(L, 1, &length);
    luaL_checkstring(L, 2);
    size_t init = init_index(luaL_optinteger(L, 3, 1), length);
    lua_settop(L, 2);
    lua_pushlightuserdata(L, isolate_of(L));
    lua_insert(L, 1);
    struct gmatch *self = lua_newuserdatauv(L, sizeof *self, 0);
    *self = (struct gmatch){ .from = init, .avoid = SIZE_MAX };
    lua_pushcclosure(L, gmatch_call, GMATCH_STATE);
    return 1;
}

void find_open(struct orr_isolate *iso, lua_State *L)
{
    static const luaL_Reg functions[] = {
        { "find", string_find },
        { "match", string_match },
        { "gmatch", string_gmatch },
        { NULL, NULL },
    };
    isolate_register(iso, L, functions);
}
