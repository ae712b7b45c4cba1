/*
 * A monster: a place on the field, and a script of its own in a state of its own, which nobody trusts.  The script sees
 *
 *     monster.name()        who it is
 *     monster.look()        how far the hero is: columns, negative to the left
 *     monster.step(dx)      one column to a side, for each frame at most one; answers where it is now
 *     monster.say(text)
 *
 * and all of Orrery, for waiting above all.  It is called from the thread of the game's loop, in the turns that the loop gives.
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
    char name[32]; /* of the file, without its folder and ending */
    int column;
    unsigned stepped; /* the frame of its last step, so that it takes no two in one */
    unsigned steps, timeouts;
    struct orr_script *script;
};

/* Its script is started, and runs in the next turns.  A negative errno if it cannot be loaded; the log has said why. */
int monster_load(struct monster *monster, struct field *field, const char *path, int column);

/* All that its script has made ends. */
void monster_unload(struct monster *monster);

#endif
