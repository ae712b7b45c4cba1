/*
 * Lua's patterns, matched without recursion, so that a match can be left at any step and gone on with later.
 *
 * What is to be tried when the present attempt fails is on a stack of choices: one for each repetition that could take
 * fewer or more, however many characters it spans.  As patterns have no loops over groups, it is never deeper than the pattern has
 * repetitions.  Which captures are begun or ended at a place in a pattern depends on that place alone, so a choice
 * notes just that; the bounds of captures are right whenever they are begun and ended.
 *
 * A match begins on the C stack.  When it has to pause, it moves into a userdata on the Lua stack; when it has more choices than
 * it has room for, those move into another.  So errors leave nothing behind, and the memory is in the state's account.
 *
 * The subject and the pattern are Lua strings, which must stay reachable.
 */
#ifndef ORR_LUA_PATTERN_PATTERN_H
#define ORR_LUA_PATTERN_PATTERN_H

#include "lua/isolate.h"

#include <stdint.h>

enum {
    MATCH_STEPS = 4096, /* between two questions whether to pause */
    MATCH_INLINE = 12,  /* choices that need no userdata */
    MATCH_CHOICES_MAX = 200000,
    CAPTURES_MAX = 32,
};

enum match_verdict {
    MATCH_NONE,
    MATCH_FOUND,
    MATCH_PAUSE,
};

enum match_state {
    MATCH_SEARCHING, /* between two attempts */
    MATCH_AT_ITEM,
    MATCH_IN_SPAN,
    MATCH_IN_BALANCE,
};

struct match_choice {
    const uint8_t *next;  /* what follows the repetition in the pattern */
    const uint8_t *at;    /* the place in the subject from which it was tried last */
    const uint8_t *bound; /* greedy: the first such place; lazy: the repeated item in the pattern */
    uint32_t open;
    uint8_t level;
    bool lazy;
    int16_t needed; /* the character without which what follows fails; or one of below */
};

enum { NEEDED_NONE = -1, NEEDED_UNKNOWN = -2 };

struct match_capture {
    const uint8_t *start, *end; /* no end: it is a position */
};

struct match {
    const uint8_t *subject, *end;
    const uint8_t *pattern, *pattern_end; /* without an anchor */
    const uint8_t *start;                 /* of the present attempt, and then of the match */
    const uint8_t *at;                    /* how far the attempt has come, and then the end of the match */
    const uint8_t *avoid;                 /* no match may end here; NULL for nowhere */
    const uint8_t *item;                  /* how far the attempt has come in the pattern */
    const uint8_t *low;                   /* in a span: the least that it may take */
    const uint8_t *lead, *lead_end;       /* the item that a match must begin with; NULL if not known, empty for none */
    const void *owner;                    /* for the caller's use; NULL at first */
    size_t nesting;                       /* in a %b */
    struct match_choice *choices;
    uint32_t depth, room; /* of the choices */
    uint32_t open;        /* captures that are begun and not ended, a bit for each */
    int level;            /* captures that are begun */
    int steps;            /* until the next question */
    int slot;             /* on the Lua stack, for choices; the match itself goes into the next */
    uint8_t state;        /* enum match_state */
    bool anchored;
    bool moved; /* into the userdata */
    struct match_capture captures[CAPTURES_MAX];
    struct match_choice inline_choices[MATCH_INLINE];
};

/* Begins.  `slot` and the next of the Lua stack, and all above, belong to the match. */
void match_begin(struct match *m, const char *subject, size_t length, const char *pattern, size_t pattern_length,
                 int slot);

/*
 * Searches on from `m->start`, or goes on where it paused.  If it finds a match, that is from `m->start` to `m->at`.  If it says
 * MATCH_PAUSE the caller suspends itself, with what match_keep() answers.  Raises if the pattern is malformed, when
 * it gets there, as Lua's does.
 */
enum match_verdict match_search(lua_State *L, struct match *m);

/* Moves a match into a userdata at its slot, if it is not there yet.  May raise. */
struct match *match_keep(lua_State *L, struct match *m);

/* Raises if somebody, with the debug library, has put something else in the place of a match's strings or choices. */
void match_check(lua_State *L, const struct match *m, int subject, int pattern);

/* The match that was kept at a slot.  Raises as match_check() does, and if something else is there. */
struct match *match_kept(lua_State *L, int slot, lua_KContext kept, int subject, int pattern);

/* One capture of a match, from 0; the first is the whole match if there are none.  NULL: the integer is a position.  Raises if
 * there is no such. */
const char *match_capture(lua_State *L, const struct match *m, int index, size_t *length, lua_Integer *position);

/* Pushes that. */
void match_push_capture(lua_State *L, const struct match *m, int index);

/* Pushes all; answers how many.  If there are none: the whole match, if `whole`. */
int match_push_captures(lua_State *L, const struct match *m, bool whole);

/* Where a function is to begin: the index that its argument `init` means, from 0. */
size_t match_init_index(lua_Integer init, size_t length);

/* Registers find, match, gmatch and gsub into the table at the top; the second is its part that is gsub. */
void pattern_open(struct orr_isolate *iso, lua_State *L);
void gsub_open(struct orr_isolate *iso, lua_State *L);

/* MATCH_STEPS; tests make it smaller. */
extern int match_steps;

#endif
