/*
 * The fate of an errand.  Its thread ends it under the pool's mutex: it posts the letter, or finds
 * that the worker takes none any more.  In that case the errand stays `stranded` until the owner
 * frees the work, which happens before the worker is gone.
 *
 * Only the owner's thread looks at `owner`.  A letter that reaches another worker, which holds the
 * same waker table now, finds another identity: then the owner has freed the work long ago.
 */
#include "io/file_work.h"

#include "exec/virtual.h"

#include <stdio.h>

struct file_errand {
    struct blocking_job job;
    struct mail mail;
    struct waker_table *table;
    uint64_t identity;           /* of the worker */
    struct orr_file_work *owner; /* NULL once that is freed */
    bool stranded;
    struct file_call call;
    char room[];
};

static struct file_errand *errand_of(struct blocking_job *job)
{
    return container_of(job, struct file_errand, job);
}

static void free_errand(struct file_errand *errand)
{
    file_call_end(&errand->call);
    free(errand);
}

/* --- On a thread of the pool ------------------------------------------------------------------ */

static void run(struct blocking_job *job)
{
    file_call_run(&errand_of(job)->call);
}

static void over(struct blocking_job *job)
{
    struct file_errand *errand = errand_of(job);
    /* Once it is posted, the worker may free it. */
    if (!waker_table_post(errand->table, &errand->mail.letter))
        errand->stranded = true;
}

static void drop(struct blocking_job *job)
{
    free_errand(errand_of(job));
}

static const struct blocking_kind errand_kind = { .run = run, .over = over, .drop = drop };

/* --- On the worker's thread ------------------------------------------------------------------- */

static void arrives(struct worker *worker, struct mail *mail)
{
    struct file_errand *errand = container_of(mail, struct file_errand, mail);
    struct orr_file_work *work = worker->identity == errand->identity ? errand->owner : NULL;
    if (!work) {
        free_errand(errand);
        return;
    }
    virtual_ends_outside(worker);
    work->over = true;
    while (wait_grant_first(&work->line))
        continue;
    if (work->notify)
        work->notify(work, work->data);
}

/* Parts with the errand: `leave` it to be done, or give it up if it has not begun. */
static void part(struct orr_file_work *work, bool leave)
{
    struct file_errand *errand = work->errand;
    work->errand = NULL;
    if (work->over) {
        free_errand(errand);
        return;
    }
    virtual_ends_outside(work->opened.worker);
    errand->owner = NULL;
    enum blocking_state state = leave ? blocking_detach(&file_pool, &errand->job) ? BLOCKING_RUNNING : BLOCKING_ENDED
                                      : blocking_abandon(&file_pool, &errand->job);
    if (state == BLOCKING_WAITING || (state == BLOCKING_ENDED && errand->stranded))
        free_errand(errand);
}

static void free_work(struct orr_file_work *work, bool leave)
{
    while (wait_grant_first(&work->line)) /* its task has to look for itself */
        continue;
    part(work, leave);
    account_uncharge(work->opened.open.account, work->charged);
    opened_free(&work->opened);
}

static bool work_info(const struct opened *opened, struct orr_open_info *info)
{
    (void)opened;
    (void)info;
    return false; /* an operation is nothing that a script has opened */
}

static void work_end(struct opened *opened)
{
    free_work(container_of(opened, struct orr_file_work, opened), false);
}

static const struct opened_kind opened_work = { .info = work_info, .end = work_end };

static struct file_errand *new_errand(const struct worker *worker, const struct orr_file_request *request,
                                      struct open_file *file, struct open_file *other, size_t room, int *error)
{
    struct file_errand *errand = malloc(sizeof *errand + room);
    *error = -ENOMEM;
    if (!errand)
        return NULL;
    memset(errand, 0, sizeof *errand);
    list_init(&errand->job.in_line);
    errand->mail.arrive = arrives;
    errand->table = worker->table;
    errand->identity = worker->identity;
    *error = file_call_init(&errand->call, request, file, other, errand->room);
    if (!*error)
        return errand;
    free(errand);
    return NULL;
}

/* Gives the work its errand. */
static int prepare(struct orr_file_work *work, const struct orr_file_request *request, struct open_file *file,
                   struct open_file *other, size_t room)
{
    const struct orr_account *account = work->opened.open.account;
    size_t size = sizeof *work->errand + room;
    int error = account_charge(account, size);
    if (error)
        return error;
    work->errand = new_errand(work->opened.worker, request, file, other, room, &error);
    if (!work->errand) {
        account_uncharge(account, size);
        return error;
    }
    work->charged = size;
    work->errand->owner = work;
    return 0;
}

int file_work_start(const struct orr_file_request *request, struct open_file *file, struct open_file *other,
                    const struct orr_open *open, struct orr_file_work **out)
{
    ssize_t room = file_call_room(request);
    struct orr_file_work *work;
    int error = room < 0 ? (int)room : opened_new(sizeof *work, &opened_work, open, &work);
    if (error)
        return error;
    error = prepare(work, request, file, other, (size_t)room);
    if (error) {
        opened_free(&work->opened);
        return error;
    }
    const void *client = work->opened.open.account;
    error = blocking_start_for(&file_pool, client ? client : work->opened.worker, &work->errand->job, &errand_kind);
    if (error) {
        free_errand(work->errand);
        account_uncharge(work->opened.open.account, work->charged);
        opened_free(&work->opened);
        return error;
    }
    virtual_begins_outside(work->opened.worker);
    *out = work;
    return 0;
}

struct file_call *file_work_call(const struct orr_file_work *work)
{
    return &work->errand->call;
}

void file_work_leave(struct orr_file_work *work)
{
    free_work(work, true);
}

/* --- Waiting ---------------------------------------------------------------------------------- */

static void work_withdraw(struct orr_wait *wait, bool granted)
{
    struct orr_file_work *work = wait->source;
    if (!granted)
        ring_remove(&work->line, &wait->in_source);
}

static const struct orr_wait_kind work_kind = {
    .name = "an operation on a file",
    .withdraw = work_withdraw,
    .ends_by_itself = true,
};

int orr_file_await(struct orr_task *task, struct orr_wait *wait, struct orr_file_work *work)
{
    int answer = work && task && work->opened.worker != task->worker ? -EPERM : wait_poll(task, wait, work, &work_kind);
    if (answer != 1)
        return answer;
    if (work->over)
        return wait_at_once(wait);
    return wait_in_line(task, wait, work, &work_kind, &work->line);
}

const struct orr_file_answer *orr_file_answer(const struct orr_file_work *work)
{
    return work && work->over ? &work->errand->call.answer : NULL;
}

void orr_file_work_free(struct orr_file_work *work)
{
    if (work && work->opened.worker == worker_current)
        free_work(work, false);
}
