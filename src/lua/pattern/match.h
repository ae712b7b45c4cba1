/*
 * Lua's patterns, matched without recursion, so that a match can pause at any step and go on later.
 *
 * A stack of choices says what to try next when the present attempt fails.  There is one choice for
 * each repetition that could take fewer or more characters, however many it spans.  Patterns have
 * no loops over groups, so the stack is never deeper than the pattern has repetitions.  Which
 * captures are open at a place in a pattern depends on that place alone, so a choice notes only
 * that; the bounds of a capture are right whenever it is begun and ended.
 *
 * A match begins on the C stack.  When it has to pause, it moves into a userdata on the Lua stack. 
 * When it has more choices than it has room for, they move into another userdata.  So errors leave
 * nothing behind, and the memory is charged to the state.
 *
 * The subject and the pattern are Lua strings, which must stay reachable.  The thread of L.
 */
#ifndef ORR_LUA_PATTERN_MATCH_H
#define ORR_LUA_PATTERN_MATCH_H

#include "lua/isolate.h"

#include <stdint.h>

enum {
    MATCH_STEPS = 4096, /* between two checks whether to pause */
    MATCH_INLINE = 12,  /* choices that need no userdata */
    MATCH_CHOICES_MAX = 200000,
    CAPTURES_MAX = 32,
};

enum match_verdict {
    MATCH_NONE,
    MATCH_FOUND,
    MATCH_PAUSE, /* the caller is to suspend itself, and to search on later */
};

/* Where a match has paused. */
enum match_state {
    MATCH_SEARCHING,  /* between two attempts */
    MATCH_AT_ITEM,    /* before an item of the pattern */
    MATCH_IN_SPAN,    /* in a greedy repetition */
    MATCH_IN_BALANCE, /* in a %b */
};

struct match_choice {
    const uint8_t *next;  /* the item after the repetition, in the pattern */
    const uint8_t *at;    /* the place in the subject where `next` was tried last */
    const uint8_t *bound; /* greedy: the first such place; lazy: the repeated item in the pattern */
    uint32_t open;        /* as in a match */
    uint8_t level;        /* as in a match */
    bool lazy;
    int16_t needed; /* the character without which `next` fails; or one of those below */
};

enum { NEEDED_NONE = -1, NEEDED_UNKNOWN = -2 };

struct match_capture {
    const uint8_t *start, *end; /* without an end it is a position */
};

struct match {
    const uint8_t *subject, *end;
    const uint8_t *pattern, *pattern_end; /* without an anchor */
    const uint8_t *start;                 /* of the present attempt; in the end, of the match */
    const uint8_t *at;                    /* how far the attempt is; in the end, the match's end */
    const uint8_t *avoid;                 /* no match may end here; NULL for nowhere */
    const uint8_t *item;                  /* how far the attempt is in the pattern */
    const uint8_t *low;                   /* in a span: the least that it may take */
    const uint8_t *lead, *lead_end;       /* every match begins with this item; NULL if not known */
    const void *owner;                    /* for the caller's use; NULL at first */
    size_t nesting;                       /* in a %b */
    struct match_choice *choices;
    uint32_t depth, room; /* how many choices there are, and have room */
    uint32_t open;        /* a bit for each capture that is begun and not ended */
    int level;            /* captures that are begun */
    int steps;            /* left until the next check whether to pause */
    int slot;             /* of the Lua stack, for choices; the match itself goes into the next */
    uint8_t state;        /* enum match_state */
    bool anchored;
    bool moved; /* it is in its userdata */
    struct match_capture captures[CAPTURES_MAX];
    struct match_choice inline_choices[MATCH_INLINE];
};

/*
 * Begins a match without an anchor.  `slot` and all above it on the Lua stack belong to the match.
 */
void match_begin(struct match *m, const char *subject, size_t length, const char *pattern, size_t pattern_length,
                 int slot);

/* Begins a match.  A ^ at the start of the pattern is an anchor. */
void match_begin_anchored(struct match *m, const char *subject, size_t length, const char *pattern,
                          size_t pattern_length, int slot);

/*
 * Searches from `m->start`, or goes on where it paused.  A match that it finds is from `m->start`
 * to `m->at`.  After MATCH_PAUSE the caller suspends itself, and keeps the match with
 * match_keep().  Raises for a malformed pattern, when it gets to the mistake, as Lua does.
 */
enum match_verdict match_search(lua_State *L, struct match *m);

/* Moves a match into its userdata, if it is not there yet.  May raise. */
struct match *match_keep(lua_State *L, struct match *m);

/* Raises if the debug library has replaced the strings or the choices of a match. */
void match_check(lua_State *L, const struct match *m, int subject, int pattern);

/* The match that was kept.  Raises as match_check() does, and if the match was replaced. */
struct match *match_kept(lua_State *L, int slot, lua_KContext kept, int subject, int pattern);

/*
 * A capture of a match, from 0.  Without captures, 0 is the whole match.  NULL: the capture is
 * `*position`.  Raises if there is no such capture.
 */
const char *match_capture(lua_State *L, const struct match *m, int index, size_t *length, lua_Integer *position);

/* Pushes a capture, as match_capture() finds it. */
void match_push_capture(lua_State *L, const struct match *m, int index);

/* Pushes all captures, or without any, if `whole`, the whole match.  Answers how many. */
int match_push_captures(lua_State *L, const struct match *m, bool whole);

/* MATCH_STEPS; tests make it smaller. */
extern int match_steps;

#endif
