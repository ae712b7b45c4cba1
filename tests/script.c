#include "script.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static char told[4096];
static uint64_t opened_at;

void note(const char *format, ...)
{
    size_t length = strlen(told);
    va_list args;
    va_start(args, format);
    if (length)
        told[length++] = ' ';
    vsnprintf(told + length, sizeof told - length, format, args);
    va_end(args);
}

const char *notes(void)
{
    return told;
}

void notes_clear(void)
{
    told[0] = '\0';
}

static enum orr_poll actor_poll(struct orr_task *task, void *data)
{
    struct actor *self = data;
    self->polls++;
    int error = self->act(task, self);
    if (error == -EAGAIN)
        return ORR_PENDING;
    self->error = error;
    self->ended_at = orr_runtime_now(orr_task_runtime(task));
    return error ? orr_task_fail(task, error) : ORR_DONE;
}

static void actor_drop(void *data)
{
    struct actor *self = data;
    self->done_at = orr_runtime_now(self->rt);
}

void actor_start_with(struct orr_runtime *rt, struct actor *actor, struct orr_spawn what)
{
    actor->rt = rt;
    what.poll = actor_poll;
    what.data = actor;
    what.drop = actor_drop;
    what.name = actor->name;
    what.task = &actor->task;
    assert_int_equal(orr_spawn(rt, &what), 0);
}

void actor_start(struct orr_runtime *rt, struct actor *actor)
{
    actor_start_with(rt, actor, (struct orr_spawn){ 0 });
}

struct orr_runtime *stage_open(void)
{
    notes_clear();
    struct orr_runtime *stage = runtime_on(ORR_CLOCK_VIRTUAL, 1);
    opened_at = orr_runtime_now(stage);
    assert_int_equal(orr_runtime_enter(stage), 0);
    return stage;
}

void stage_run(struct orr_runtime *rt)
{
    assert_int_equal(orr_runtime_leave(rt), 0);
    assert_int_equal(orr_runtime_run(rt), 0);
    assert_int_equal(orr_runtime_enter(rt), 0);
}

void stage_close(struct orr_runtime *rt)
{
    assert_int_equal(orr_runtime_leave(rt), 0);
    assert_int_equal(orr_runtime_free(rt), 0);
}

unsigned long long stage_ms(struct orr_runtime *rt)
{
    return (orr_runtime_now(rt) - opened_at) / MS;
}

/* --- Stock ------------------------------------------------------------------------------------------------- */

int sleep_for(struct orr_task *task, struct actor *self)
{
    int error = AWAIT(orr_sleep(task, &self->wait, (uintptr_t)self->extra * MS));
    note("%s:%d@%llu", self->name, error, stage_ms(orr_task_runtime(task)));
    return error;
}

int start_children(struct orr_task *task, struct actor *self)
{
    for (int i = 0; i < ACTOR_CHILDREN && self->children[i]; i++)
        actor_start(orr_task_runtime(task), self->children[i]);
    note("%s:done", self->name);
    return 0;
}

int fail_after(struct orr_task *task, struct actor *self)
{
    int error = AWAIT(orr_sleep(task, &self->wait, (uintptr_t)self->extra * MS));
    return error ? error : -EIO;
}

int start_and_sleep(struct orr_task *task, struct actor *self)
{
    if (!self->step++)
        for (int i = 0; i < ACTOR_CHILDREN && self->children[i]; i++)
            actor_start(orr_task_runtime(task), self->children[i]);
    int error = AWAIT(orr_sleep(task, &self->wait, 100 * MS));
    note("%s:%d@%llu", self->name, error, stage_ms(orr_task_runtime(task)));
    return error;
}

int do_sum(struct orr_task *task, struct actor *self)
{
    (void)task;
    (void)self;
    return 0;
}

/* When it is cancelled, it cleans up behind a shield, for 30 ms. */
int clean_up(struct orr_task *task, struct actor *self)
{
    SCRIPT(self)
    {
        STEP(self, 1);
        self->caught = AWAIT(orr_sleep(task, &self->wait, 1000 * MS));
        orr_scope_enter(task, &self->scope, &(struct orr_scope_options){ .shield = true });
        assert_null(orr_task_cancelled(task));
        STEP(self, 2);
        int cleaned = AWAIT(orr_sleep(task, &self->wait, 30 * MS));
        note("cleaned:%d@%llu", cleaned, stage_ms(orr_task_runtime(task)));
        STEP(self, 3);
        AWAIT(orr_scope_leave(task, &self->wait, &self->scope, 0));
        note("then:%s", strerrorname_np(-orr_checkpoint(task)));
    }
    return self->caught;
}
