/*
 * A monster: a position on the field, and an untrusted script in its own state.  The script has
 *
 *     monster.name()        its name
 *     monster.look()        the distance to the hero: columns, negative to the left
 *     monster.step(dx)      one column to a side, at most once in a frame; returns the new column
 *     monster.say(text)
 *
 * and all of Orrery, mainly for waiting.  It runs on the thread of the game's loop, in the turns
 * that the loop gives.
 */
#ifndef MONSTER_H
#define MONSTER_H

#include <orrery.h>

enum { FIELD = 60 }; /* columns */

struct field {
    struct orr_runtime *rt;
    int hero; /* the hero's column */
    unsigned frame;
};

struct monster {
    struct field *field;
    char name[32]; /* the name of the file, without its folder and ending */
    int column;
    unsigned stepped; /* the frame of its last step: one step in each frame */
    unsigned steps, timeouts;
    struct orr_script *script;
};

/*
 * Starts its script, which runs in the next turns.  Returns a negative errno if it cannot be
 * loaded; the log has the reason.
 */
int monster_load(struct monster *monster, struct field *field, const char *path, int column);

/* Ends everything that its script has created. */
void monster_unload(struct monster *monster);

#endif
