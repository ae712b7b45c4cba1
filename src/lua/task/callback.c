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

void callback_unanchor(const struct callback *self, lua_State *runner)
{
    if (runner)
        isolate_unanchor_near(self->iso, runner, self->anchor);
    else
        isolate_unanchor(self->iso, self->iso->L, self->anchor);
}

void callback_release(struct due *due, lua_State *runner)
{
    struct callback *self = due->callback;
    due->callback = NULL;
    if (due != &self->due) {
        alloc_free(&self->iso->alloc, due, sizeof *due);
        charge_give(self->iso, sizeof *due);
    }
    if (!--self->pending)
        self->kind->let_go(self, runner);
}

void callback_skip(struct due *due)
{
    struct callback *self = due->callback;
    if (self->kind->skip)
        self->kind->skip(self);
    callback_release(due, NULL);
}
