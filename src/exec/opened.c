#include "exec/opened.h"

#include "exec/worker.h"

#include <errno.h>
#include <string.h>

int opened_new(size_t size, const struct opened_kind *kind, const struct orr_open *open, void *out)
{
    struct worker *worker = worker_current;
    if (!worker)
        return -EPERM;
    const struct orr_account *account = open ? open->account : NULL;
    int error = account_charge(account, size);
    if (error)
        return error;
    struct opened *opened = alloc_zeroed(&worker->alloc, size);
    if (!opened) {
        account_uncharge(account, size);
        return -ENOMEM;
    }
    opened->kind = kind;
    opened->worker = worker;
    opened->size = size;
    if (open)
        opened->open = (struct opened_for){ .account = open->account, .label = open->label, .gate = open->gate };
    list_append(&worker->opened.all, &opened->in_worker);
    *(void **)out = opened;
    return 0;
}

void opened_free(struct opened *opened)
{
    list_remove(&opened->in_worker);
    account_uncharge(opened->open.account, opened->size);
    alloc_free(&opened->worker->alloc, opened, opened->size);
}

void opened_end_all(struct opened_list *list)
{
    while (!list_empty(&list->all)) {
        struct opened *opened = container_of(list->all.next, struct opened, in_worker);
        list_remove(&opened->in_worker);
        opened->kind->end(opened);
    }
}

int orr_open_visit(const struct orr_account *account, void (*each)(void *data, const struct orr_open_info *info),
                   void *data)
{
    struct worker *worker = worker_current;
    if (!each)
        return -EINVAL;
    if (!worker)
        return -EPERM;
    int count = 0;
    struct orr_link *all = &worker->opened.all;
    for (struct orr_link *link = all->next, *next; link != all; link = next) {
        next = link->next;
        struct opened *opened = container_of(link, struct opened, in_worker);
        if (account && opened->open.account != account)
            continue;
        struct orr_open_info info = { .label = opened->open.label, .account = opened->open.account };
        if (!opened->kind->info(opened, &info))
            continue;
        count++;
        each(data, &info);
    }
    return count;
}
