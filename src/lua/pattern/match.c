#include "lua/pattern/match.h"

#include "lua/limits/preempt.h"
#include "lua/pattern/charset.h"

#include <string.h>

int match_steps = MATCH_STEPS;

/* --- Items ------------------------------------------------------------------------------------ */

static const uint8_t *set_end(lua_State *L, const struct match *m, const uint8_t *p)
{
    p += 1 + (p[1] == '^');
    for (const uint8_t *first = p; p < m->pattern_end; p += *p == '%' ? 2 : 1)
        if (*p == ']' && p != first)
            return p + 1;
    luaL_error(L, "malformed pattern (missing ']')");
    return NULL;
}

/* Where an item that matches one character ends. */
static inline const uint8_t *item_end(lua_State *L, const struct match *m, const uint8_t *p)
{
    switch (charset_kinds[*p]) {
    case ESCAPE:
        if (p + 1 == m->pattern_end)
            luaL_error(L, "malformed pattern (ends with '%%')");
        return p + 2;
    case SET:
        return set_end(L, m, p);
    default:
        return p + 1;
    }
}

/* Whether an escape matches one character. */
static bool is_simple_escape(uint8_t letter)
{
    return letter != 'b' && letter != 'f' && !(letter >= '0' && letter <= '9');
}

/* The character that must come next for the rest of a pattern to match. */
static int16_t needed_by(const struct match *m, const uint8_t *p)
{
    while (*p == '(' || *p == ')')
        p++;
    if (p == m->pattern_end)
        return NEEDED_NONE;
    if (*p == '%' && ispunct(p[1]))
        p++;
    else if (charset_kinds[*p] != LITERAL)
        return NEEDED_NONE;
    if (is_optional(p[1]))
        return NEEDED_NONE;
    return *p;
}

/* How many steps it takes to test a character: a set may be long. */
static inline int weight_of(const uint8_t *item, const uint8_t *end)
{
    ptrdiff_t more = (end - item) / 32;
    return more < MATCH_STEPS ? 1 + (int)more : MATCH_STEPS;
}

/* Answers `s` if it is at a frontier; else NULL. */
static const uint8_t *match_frontier(lua_State *L, struct match *m, const uint8_t *s, const uint8_t *set,
                                     const uint8_t **next)
{
    if (*set != '[')
        luaL_error(L, "missing '[' after '%%f' in pattern");
    const uint8_t *end = *next = set_end(L, m, set);
    m->steps -= 2 * (weight_of(set, end) - 1);
    uint8_t before = s == m->subject ? 0 : s[-1];
    /* At the subject's end `*s` is 0, as in all strings of Lua. */
    bool is_one = !set_has(before, set + 1, end - 1) && set_has(*s, set + 1, end - 1);
    return is_one ? s : NULL;
}

/* --- Captures --------------------------------------------------------------------------------- */

static void begin_capture(lua_State *L, struct match *m, const uint8_t *s, bool position)
{
    if (m->level >= CAPTURES_MAX)
        luaL_error(L, "too many captures");
    m->captures[m->level] = (struct match_capture){ .start = s };
    if (!position)
        m->open |= UINT32_C(1) << m->level;
    m->level++;
}

static void end_capture(lua_State *L, struct match *m, const uint8_t *s)
{
    if (!m->open)
        luaL_error(L, "invalid pattern capture");
    int last = 31 - __builtin_clz(m->open);
    m->captures[last].end = s;
    m->open &= ~(UINT32_C(1) << last);
}

/* Answers where a repetition of a capture ends; NULL if it is not there. */
static const uint8_t *match_again(lua_State *L, struct match *m, const uint8_t *s, uint8_t digit)
{
    int index = digit - '1';
    if (index < 0 || index >= m->level || m->open >> index & 1)
        luaL_error(L, "invalid capture index %%%d", index + 1);
    const struct match_capture *capture = &m->captures[index];
    if (!capture->end)
        return NULL;
    size_t length = (size_t)(capture->end - capture->start);
    if ((size_t)(m->end - s) < length)
        return NULL;
    m->steps -= length / 16 > MATCH_STEPS ? MATCH_STEPS : (int)(length / 16);
    return memcmp(capture->start, s, length) ? NULL : s + length;
}

const char *match_capture(lua_State *L, const struct match *m, int index, size_t *length, lua_Integer *position)
{
    if (index >= m->level) {
        if (index)
            luaL_error(L, "invalid capture index %%%d", index + 1);
        *length = (size_t)(m->at - m->start);
        return (const char *)m->start;
    }
    const struct match_capture *capture = &m->captures[index];
    if (m->open >> index & 1)
        luaL_error(L, "unfinished capture");
    if (!capture->end) {
        *position = capture->start - m->subject + 1;
        return NULL;
    }
    *length = (size_t)(capture->end - capture->start);
    return (const char *)capture->start;
}

void match_push_capture(lua_State *L, const struct match *m, int index)
{
    size_t length;
    lua_Integer position = 0;
    const char *text = match_capture(L, m, index, &length, &position);
    if (text)
        lua_pushlstring(L, text, length);
    else
        lua_pushinteger(L, position);
}

int match_push_captures(lua_State *L, const struct match *m, bool whole)
{
    int count = m->level == 0 && whole ? 1 : m->level;
    if (count > 4)
        luaL_checkstack(L, count, "too many captures");
    for (int i = 0; i < count; i++)
        match_push_capture(L, m, i);
    return count;
}

/* --- Choices ---------------------------------------------------------------------------------- */

/* Makes the slots of a match exist. */
static void make_slots(lua_State *L, const struct match *m)
{
    lua_settop(L, m->slot + 1);
}

static void grow_choices(lua_State *L, struct match *m)
{
    if (m->room >= MATCH_CHOICES_MAX)
        luaL_error(L, "pattern too complex");
    uint32_t room = m->room * 4 < MATCH_CHOICES_MAX ? m->room * 4 : MATCH_CHOICES_MAX;
    make_slots(L, m);
    struct match_choice *choices = lua_newuserdatauv(L, room * sizeof *choices, 0);
    memcpy(choices, m->choices, m->depth * sizeof *choices);
    lua_replace(L, m->slot);
    m->choices = choices;
    m->room = room;
}

static inline void push_choice(lua_State *L, struct match *m, struct match_choice choice)
{
    if (m->depth == m->room)
        grow_choices(L, m);
    choice.open = m->open;
    choice.level = (uint8_t)m->level;
    choice.needed = NEEDED_UNKNOWN;
    m->choices[m->depth++] = choice;
}

/* How far a loop over characters may go before the next check whether to pause. */
static inline const uint8_t *limit_of(const struct match *m, const uint8_t *s, int weight)
{
    ptrdiff_t steps = m->steps;
    if (weight > 1)
        steps /= weight;
    if (steps < 1)
        steps = 1;
    return m->end - s > steps ? s + steps : m->end;
}

/* The repetition takes one character less, or as many less as the next item needs. */
static const uint8_t *take_less(struct match *m, struct match_choice *choice)
{
    const uint8_t *s = choice->at - 1;
    if (choice->needed >= 0 && s > choice->bound && *s != choice->needed) {
        ptrdiff_t steps = m->steps > 0 ? m->steps : 1;
        const uint8_t *from = s, *low = s - choice->bound > steps ? s - steps : choice->bound;
        do
            s--;
        while (s > low && *s != choice->needed);
        m->steps -= (int)(from - s);
    }
    choice->at = s;
    if (s == choice->bound)
        m->depth--;
    return s;
}

/*
 * The repetition takes one character more, or as many more as the next item needs; NULL if it
 * cannot.
 */
static const uint8_t *take_more(struct match *m, struct match_choice *choice)
{
    const uint8_t *s = choice->at, *item = choice->bound, *end = choice->next - 1;
    if (s == m->end || !item_is(*s, item, end))
        return NULL;
    s++;
    int weight = weight_of(item, end);
    m->steps -= weight - 1;
    if (choice->needed >= 0) {
        const uint8_t *from = s, *limit = limit_of(m, s, weight);
        if (*item == '.')
            s = char_seek((uint8_t)choice->needed, s, limit);
        else
            while (s < limit && *s != choice->needed && item_is(*s, item, end))
                s++;
        m->steps -= (int)(s - from) * weight;
    }
    choice->at = s;
    return s;
}

/* --- Matching --------------------------------------------------------------------------------- */

/* The steps are used up: answers whether to pause. */
static bool must_pause(lua_State *L, struct match *m)
{
    m->steps = match_steps;
    return preempt_is_due(L);
}

/* Goes on in a %b from `m->at`.  MATCH_FOUND: the %b ends at `m->at`. */
static enum match_verdict balance(lua_State *L, struct match *m)
{
    uint8_t opening = m->item[2], closing = m->item[3];
    for (;;) {
        const uint8_t *s = m->at, *limit = limit_of(m, s, 1);
        m->steps -= (int)(limit - s);
        for (; s < limit; s++) {
            if (*s == closing) {
                if (--m->nesting == 0) {
                    m->at = s + 1;
                    return MATCH_FOUND;
                }
            } else if (*s == opening) {
                m->nesting++;
            }
        }
        m->at = s;
        if (s == m->end)
            return MATCH_NONE;
        if (m->steps <= 0 && must_pause(L, m))
            return MATCH_PAUSE;
    }
}

/* Begins a %b. */
static enum match_verdict begin_balance(lua_State *L, struct match *m, const uint8_t *s, const uint8_t *item)
{
    if (m->pattern_end - item < 4)
        luaL_error(L, "malformed pattern (missing arguments to '%%b')");
    if (s == m->end || *s != item[2])
        return MATCH_NONE;
    m->item = item;
    m->at = s + 1;
    m->nesting = 1;
    return balance(L, m);
}

/* Notes where an attempt pauses. */
static enum match_verdict pause_at(struct match *m, enum match_state state, const uint8_t *s, const uint8_t *item)
{
    m->state = (uint8_t)state;
    m->at = s;
    m->item = item;
    return MATCH_PAUSE;
}

/* Begins an attempt, or goes on with it. */
static enum match_verdict attempt(lua_State *L, struct match *m)
{
    const uint8_t *s = m->at, *p = m->item, *next, *low;
    enum match_verdict verdict;
    if (m->state == MATCH_IN_SPAN) {
        low = m->low;
        next = item_end(L, m, p);
        goto span;
    }
    if (m->state == MATCH_IN_BALANCE) {
        verdict = balance(L, m);
        goto balanced;
    }

item:
    if (--m->steps < 0 && must_pause(L, m))
        return pause_at(m, MATCH_AT_ITEM, s, p);
    if (p == m->pattern_end) {
        m->at = s;
        return MATCH_FOUND;
    }
    switch (charset_kinds[*p]) {
    case LITERAL:
    case ANY:
        next = p + 1;
        break;
    case SET:
        next = set_end(L, m, p);
        m->steps -= weight_of(p, next) - 1;
        break;
    case CAPTURE_BEGIN:
        begin_capture(L, m, s, p[1] == ')');
        p += 1 + (p[1] == ')');
        goto item;
    case CAPTURE_END:
        end_capture(L, m, s);
        p++;
        goto item;
    case DOLLAR:
        next = p + 1;
        if (next < m->pattern_end)
            break;
        if (s < m->end)
            goto fail;
        m->at = s;
        return MATCH_FOUND;
    default:
        if (is_simple_escape(p[1])) {
            next = item_end(L, m, p);
            break;
        }
        if (p[1] == 'b') {
            verdict = begin_balance(L, m, s, p);
            goto balanced;
        }
        next = p + 2;
        s = p[1] == 'f' ? match_frontier(L, m, s, next, &next) : match_again(L, m, s, p[1]);
        if (!s)
            goto fail;
        p = next;
        goto item;
    }

    /* An item that matches one character, or a repetition of it. */
    switch (*next) {
    default:
        if (s == m->end || !item_is(*s, p, next))
            goto fail;
        s++;
        p = next;
        goto item;
    case '?':
        if (s < m->end && item_is(*s, p, next)) {
            push_choice(L, m, (struct match_choice){ .next = next + 1, .at = s + 1, .bound = s });
            s++;
        }
        p = next + 1;
        goto item;
    case '-':
        push_choice(L, m, (struct match_choice){ .next = next + 1, .at = s, .bound = p, .lazy = true });
        p = next + 1;
        goto item;
    case '+':
        if (s == m->end || !item_is(*s, p, next))
            goto fail;
        s++;
        break;
    case '*':
        break;
    }
    low = s;

span:
    for (;;) {
        int weight = weight_of(p, next);
        const uint8_t *limit = limit_of(m, s, weight), *to = item_span(p, next, s, limit);
        m->steps -= (int)(to - s) * weight;
        s = to;
        if (s < limit || s == m->end)
            break;
        if (m->steps <= 0 && must_pause(L, m)) {
            m->low = low;
            return pause_at(m, MATCH_IN_SPAN, s, p);
        }
    }
    p = next + 1;
    if (s > low && p < m->pattern_end) /* at the pattern's end no other choice is tried */
        push_choice(L, m, (struct match_choice){ .next = p, .at = s, .bound = low });
    goto item;

balanced:
    if (verdict == MATCH_PAUSE) {
        m->state = MATCH_IN_BALANCE;
        return verdict;
    }
    if (verdict == MATCH_NONE)
        goto fail;
    s = m->at;
    p = m->item + 4;
    goto item;

fail:
    if (m->depth == 0)
        return MATCH_NONE;
    struct match_choice *choice = &m->choices[m->depth - 1];
    m->level = choice->level;
    m->open = choice->open;
    p = choice->next;
    if (choice->needed == NEEDED_UNKNOWN)
        choice->needed = needed_by(m, p);
    s = choice->lazy ? take_more(m, choice) : take_less(m, choice);
    if (s)
        goto item;
    m->depth--;
    goto fail;
}

/* Finds the item that every match begins with. */
static void find_lead(lua_State *L, struct match *m)
{
    const uint8_t *p = m->pattern;
    if (*p == '(' && p[1] != ')')
        p++;
    m->lead = m->lead_end = p;
    if (p == m->pattern_end || charset_kinds[*p] >= CAPTURE_BEGIN || *p == '.' ||
        (*p == '%' && !is_simple_escape(p[1])))
        return;
    const uint8_t *end = item_end(L, m, p);
    if (!is_optional(*end))
        m->lead_end = end;
}

enum match_verdict match_search(lua_State *L, struct match *m)
{
    if (m->state != MATCH_SEARCHING)
        goto resume;
    if (!m->lead && !m->anchored)
        find_lead(L, m);
    for (;;) {
        while (m->lead < m->lead_end) {
            int weight = weight_of(m->lead, m->lead_end);
            const uint8_t *limit = limit_of(m, m->start, weight), *from = m->start;
            m->start = item_seek(m->lead, m->lead_end, m->start, limit);
            m->steps -= (int)(m->start - from) * weight;
            if (m->start < limit)
                break;
            if (m->start == m->end)
                return MATCH_NONE;
            if (m->steps <= 0 && must_pause(L, m))
                return MATCH_PAUSE;
        }
        m->at = m->start;
        m->item = m->pattern;
        m->level = 0;
        m->open = 0;
        m->depth = 0;
    resume:;
        enum match_verdict verdict = attempt(L, m);
        if (verdict == MATCH_PAUSE)
            return verdict;
        m->state = MATCH_SEARCHING;
        if (verdict == MATCH_FOUND && m->at != m->avoid)
            return verdict;
        if (m->anchored || m->start == m->end)
            return MATCH_NONE;
        m->start++;
    }
}

/* --- Beginning and keeping -------------------------------------------------------------------- */

void match_begin(struct match *m, const char *subject, size_t length, const char *pattern, size_t pattern_length,
                 int slot)
{
    m->subject = m->start = (const uint8_t *)subject;
    m->end = m->subject + length;
    m->pattern = (const uint8_t *)pattern;
    m->pattern_end = m->pattern + pattern_length;
    m->avoid = NULL;
    m->owner = NULL;
    m->lead = m->lead_end = NULL;
    m->choices = m->inline_choices;
    m->room = MATCH_INLINE;
    m->depth = 0;
    m->steps = match_steps;
    m->slot = slot;
    m->state = MATCH_SEARCHING;
    m->anchored = false;
    m->moved = false;
}

void match_begin_anchored(struct match *m, const char *subject, size_t length, const char *pattern,
                          size_t pattern_length, int slot)
{
    bool anchored = *pattern == '^';
    match_begin(m, subject, length, pattern + anchored, pattern_length - anchored, slot);
    m->anchored = anchored;
}

struct match *match_keep(lua_State *L, struct match *m)
{
    if (m->moved)
        return m;
    make_slots(L, m);
    struct match *kept = lua_newuserdatauv(L, sizeof *kept, 0);
    *kept = *m;
    kept->moved = true;
    if (m->choices == m->inline_choices)
        kept->choices = kept->inline_choices;
    lua_replace(L, m->slot + 1);
    return kept;
}

/* Whether the string at an index ends at `end`, and `begin` is in it. */
static bool is_string_of(lua_State *L, int index, const uint8_t *begin, const uint8_t *end)
{
    size_t length;
    const uint8_t *text = (const uint8_t *)lua_tolstring(L, index, &length);
    return text && begin >= text && end == text + length;
}

void match_check(lua_State *L, const struct match *m, int subject, int pattern)
{
    if (!is_string_of(L, subject, m->subject, m->end) || !is_string_of(L, pattern, m->pattern, m->pattern_end) ||
        (m->choices != m->inline_choices && m->choices != lua_touserdata(L, m->slot)))
        luaL_error(L, "the stack was changed while a pattern was being matched");
}

struct match *match_kept(lua_State *L, int slot, lua_KContext kept, int subject, int pattern)
{
    struct match *m = lua_touserdata(L, slot + 1);
    if (m && (lua_KContext)m == kept)
        match_check(L, m, subject, pattern);
    else
        luaL_error(L, "the stack was changed while a pattern was being matched");
    return m;
}
