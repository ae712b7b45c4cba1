/*
 * A mailbox takes letters from any thread and gives them to one: a lock-free stack that its owner
 * empties whole, and turns around, so letters come out in the order in which they went in.
 *
 * Once closed it takes nothing more, and a sender is told; so a letter is either refused or will be
 * found by the owner's last take.  Since the owner always takes the whole stack, no element can
 * leave and come back between a sender's look and its compare-and-swap: there is no ABA.
 */
#ifndef ORR_BASE_MAILBOX_H
#define ORR_BASE_MAILBOX_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

struct letter {
    struct letter *next;
};

struct mailbox {
    _Atomic(struct letter *) top;
};

/* Takes letters again, or for the first time.  Zeroed is open, too. */
static inline void mailbox_open(struct mailbox *box)
{
    atomic_store(&box->top, NULL);
}

/*
 * False if the mailbox is closed; the letter is the sender's still.  Any thread, signal handlers
 * too.
 */
bool mailbox_post(struct mailbox *box, struct letter *letter);

/* All letters, oldest first; NULL if there are none.  The owner's thread. */
struct letter *mailbox_take(struct mailbox *box);

/* Takes all letters, and refuses what comes after them.  The owner's thread. */
struct letter *mailbox_close(struct mailbox *box);

/*
 * Sequentially consistent, as the posting is: see the argument in exec/waker_table.h for why the owner
 * may sleep after this said that the box is empty.
 */
static inline bool mailbox_empty(struct mailbox *box)
{
    return !atomic_load(&box->top);
}

#endif
