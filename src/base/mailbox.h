/*
 * A mailbox takes letters from any thread and gives them to one: a lock-free stack that its owner
 * takes whole and reverses, so letters come out in the order in which they went in.
 *
 * A closed mailbox refuses letters, and the sender is told; so a letter is either refused or found
 * by the owner's last take.  Since the owner always takes the whole stack, no element can leave and
 * come back between a sender's look and its compare-and-swap: there is no ABA.
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

/* Opens the mailbox, for the first time or again.  A zeroed one is open, too. */
static inline void mailbox_open(struct mailbox *box)
{
    atomic_store(&box->top, NULL);
}

/*
 * False if the mailbox is closed; then the sender still owns the letter.  Any thread, signal
 * handlers too.
 */
bool mailbox_post(struct mailbox *box, struct letter *letter);

/* Takes all letters, oldest first; NULL if there are none.  The owner. */
struct letter *mailbox_take(struct mailbox *box);

/* Takes all letters, and refuses those that come after.  The owner. */
struct letter *mailbox_close(struct mailbox *box);

/*
 * Sequentially consistent, as posting is: exec/waker_table.h has the argument why the owner may
 * sleep if this says that the mailbox is empty.
 */
static inline bool mailbox_empty(struct mailbox *box)
{
    return !atomic_load(&box->top);
}

#endif
