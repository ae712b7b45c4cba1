/*
 * Whether an idle worker looks for news for a moment before it sleeps.
 *
 * To sleep and to be woken takes longer than many an answer of another thread, above all where the
 * other core has to be woken first.  With cores to spare, a worker always looks.  With two or
 * three, looking may take the core that the answer is made on.  So the worker tries: it looks when
 * the last sleeps were short.  Each time that it looked in vain, it takes twice as many short
 * sleeps before it looks again.  So vain looks cost little in the long run: after the tenth in a
 * row, SPIN_TRY_NS in a thousand sleeps.
 *
 * The worker's thread only.
 */
#ifndef ORR_EXEC_SPIN_H
#define ORR_EXEC_SPIN_H

#include <stdbool.h>
#include <stdint.h>

enum {
    SPIN_TRY_NS = 50000,     /* how long a try looks: waking a core takes that long */
    SPIN_SHORT_NS = 100000,  /* a sleep is short if another thread ends it by then */
    SPIN_MOST_SLEEPS = 1024, /* short sleeps before the next try, at most */
};

struct spin {
    uint64_t ns; /* how long to look; 0: never */
    bool tries;  /* only when it seems worth it */
    unsigned short_sleeps;
    unsigned needed; /* short sleeps before the next look */
};

/* `io`: only the reactor can tell of some news, so looking elsewhere is no try. */
static inline bool spin_is_worth_it(const struct spin *spin, bool io)
{
    return spin->ns && (!spin->tries || (!io && spin->short_sleeps > spin->needed));
}

/* The worker has looked. */
static inline void spin_over(struct spin *spin, bool in_vain)
{
    if (!in_vain) {
        spin->needed = 0;
        return;
    }
    spin->short_sleeps = 0;
    spin->needed = spin->needed < SPIN_MOST_SLEEPS / 2 ? 2 * spin->needed + 1 : SPIN_MOST_SLEEPS;
}

/* The worker has slept. */
static inline void spin_slept(struct spin *spin, uint64_t ns)
{
    spin->short_sleeps = ns < SPIN_SHORT_NS ? spin->short_sleeps + 1 : 0;
}

#endif
