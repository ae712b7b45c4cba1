#include "lua/task/callback.h"

#include "lua/isolate.h"
#include "lua/isolate/charge.h"

struct due *callback_expect(struct callback *self)
{
    struct due *due = &self->due;
    if (due->callback) { /* a timer that is due again before its callback has begun */
        due = alloc_new(&self->iso->alloc, sizeof *due);
        if (!due)
            return NULL;
        charge_force(self->iso, sizeof *due);
    }
    *due = (struct due){ .callback = self };
    self->pending++;
    return due;
}

void callback_release(struct due *due)
{
    struct callback *self = due->callback;
    due->callback = NULL;
    if (due != &self->due) {
        alloc_free(&self->iso->alloc, due, sizeof *due);
        charge_give(self->iso, sizeof *due);
    }
    if (!--self->pending)
        self->kind->let_go(self);
}

void callback_skip(struct due *due)
{
    struct callback *self = due->callback;
    if (self->kind->skip)
        self->kind->skip(self);
    callback_release(due);
}
