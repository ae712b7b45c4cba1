/*
 * What the layers above have opened on a worker, and must be closed at the latest when the worker
 * closes: streams, listeners, sockets.  Each is on the worker's list, oldest first, with a label
 * that says where it was opened, and counts on an account.
 *
 * Also the spree: how many of their operations ended at once, without waiting, in the poll under
 * way.  A task whose operations never have to wait would hold up all others.
 *
 * All of it belongs to the worker's owner.
 */
#ifndef ORR_EXEC_OPENED_H
#define ORR_EXEC_OPENED_H

#include "base/list.h"
#include "exec/opened_list.h"

struct opened;

struct opened_kind {
    /* Says what it is; false if it is closed, and only its memory is left. */
    bool (*info)(const struct opened *opened, struct orr_open_info *info);
    void (*end)(struct opened *opened); /* closes and frees it; no task is left */
};

/* What is kept of a struct orr_open. */
struct opened_for {
    const struct orr_account *account;
    const char *label;
    const struct orr_gate *gate;
};

/* The first member of everything that can be opened. */
struct opened {
    struct orr_link in_worker;
    const struct opened_kind *kind;
    struct worker *worker;
    struct opened_for open;
    size_t size; /* bytes of the whole struct, on the account */
};

/* Charge an account, which may be NULL.  0 or what it answered. */
static inline int account_charge(const struct orr_account *account, size_t bytes)
{
    return account && account->charge ? account->charge(account->data, bytes) : 0;
}

static inline void account_uncharge(const struct orr_account *account, size_t bytes)
{
    if (account && account->uncharge)
        account->uncharge(account->data, bytes);
}

/*
 * Makes zeroed memory of the calling thread's worker that begins with a struct opened, on its list;
 * `open` may be NULL.  -EPERM without a worker, -ENOMEM, or what the account answered.
 */
int opened_new(size_t size, const struct opened_kind *kind, const struct orr_open *open, void *out);

/* Takes it off the list and frees the memory. */
void opened_free(struct opened *opened);

/* Ends everything on the list. */
void opened_end_all(struct opened_list *list);

#endif
