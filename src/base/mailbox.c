#include "base/mailbox.h"

#include <stddef.h>

static struct letter closed; /* its address alone matters */

bool mailbox_post(struct mailbox *box, struct letter *letter)
{
    struct letter *top = atomic_load_explicit(&box->top, memory_order_relaxed);
    do {
        if (top == &closed)
            return false;
        letter->next = top;
    } while (
        !atomic_compare_exchange_weak_explicit(&box->top, &top, letter, memory_order_seq_cst, memory_order_relaxed));
    return true;
}

static struct letter *oldest_first(struct letter *top)
{
    struct letter *reversed = NULL;
    while (top && top != &closed) {
        struct letter *next = top->next;
        top->next = reversed;
        reversed = top;
        top = next;
    }
    return reversed;
}

struct letter *mailbox_take(struct mailbox *box)
{
    if (!atomic_load_explicit(&box->top, memory_order_relaxed))
        return NULL;
    /* Acquire pairs with the release half of the post: the letters' contents are visible. */
    return oldest_first(atomic_exchange_explicit(&box->top, NULL, memory_order_acquire));
}

struct letter *mailbox_close(struct mailbox *box)
{
    return oldest_first(atomic_exchange_explicit(&box->top, &closed, memory_order_acquire));
}
