#include "step_task.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static char note_text[4096];
static uint64_t opened_at;

void note(const char *format, ...)
{
    size_t length = strlen(note_text);
    va_list args;
    va_start(args, format);
    if (length)
        note_text[length++] = ' ';
    vsnprintf(note_text + length, sizeof note_text - length, format, args);
    va_end(args);
}

const char *notes(void)
{
    return note_text;
}

void notes_clear(void)
{
    note_text[0] = '\0';
}

static enum orr_poll step_task_poll(struct orr_task *task, void *data)
{
    struct step_task *self = data;
    self->polls++;
    int error = self->body(task, self);
    if (error == -EAGAIN)
        return ORR_PENDING;
    self->error = error;
    self->ended_at = orr_runtime_now(orr_task_runtime(task));
    return error ? orr_task_fail(task, error) : ORR_DONE;
}

static void step_task_drop(void *data)
{
    struct step_task *self = data;
    self->done_at = orr_runtime_now(self->rt);
}

void step_task_start_with(struct orr_runtime *rt, struct step_task *self, struct orr_spawn what)
{
    self->rt = rt;
    what.poll = step_task_poll;
    what.data = self;
    what.drop = step_task_drop;
    what.name = self->name;
    what.task = &self->task;
    assert_int_equal(orr_spawn(rt, &what), 0);
}

void step_task_start(struct orr_runtime *rt, struct step_task *self)
{
    step_task_start_with(rt, self, (struct orr_spawn){ 0 });
}

void step_task_start_children(struct step_task *self)
{
    for (int i = 0; i < STEP_TASK_CHILDREN && self->children[i]; i++)
        step_task_start(self->rt, self->children[i]);
}

void step_task_unref_children(struct step_task *self)
{
    for (int i = 0; i < STEP_TASK_CHILDREN && self->children[i]; i++)
        orr_task_unref(self->children[i]->task);
}

void step_tasks_unref(struct step_task **tasks)
{
    for (; *tasks; tasks++)
        orr_task_unref((*tasks)->task);
}

struct orr_runtime *fixture_open(void)
{
    notes_clear();
    struct orr_runtime *rt = runtime_on(ORR_CLOCK_VIRTUAL, 1);
    opened_at = orr_runtime_now(rt);
    assert_int_equal(orr_runtime_enter(rt), 0);
    return rt;
}

void fixture_run(struct orr_runtime *rt)
{
    assert_int_equal(orr_runtime_leave(rt), 0);
    assert_int_equal(orr_runtime_run(rt), 0);
    assert_int_equal(orr_runtime_enter(rt), 0);
}

void fixture_close(struct orr_runtime *rt)
{
    assert_int_equal(orr_runtime_leave(rt), 0);
    assert_int_equal(orr_runtime_free(rt), 0);
}

unsigned long long fixture_ms(struct orr_runtime *rt)
{
    return (orr_runtime_now(rt) - opened_at) / MS;
}

int note_end(const struct step_task *self, int error)
{
    note("%s:%d@%llu", self->name, error, fixture_ms(self->rt));
    return error;
}

/* --- Bodies that many tests use --------------------------------------------------------------- */

int do_nothing(struct orr_task *task, struct step_task *self)
{
    (void)task;
    (void)self;
    return 0;
}

int sleep_for(struct orr_task *task, struct step_task *self)
{
    return note_end(self, AWAIT(orr_sleep(task, &self->wait, (uintptr_t)self->data * MS)));
}

int fail_after(struct orr_task *task, struct step_task *self)
{
    int error = AWAIT(orr_sleep(task, &self->wait, (uintptr_t)self->data * MS));
    return error ? error : -EIO;
}

int start_children(struct orr_task *task, struct step_task *self)
{
    (void)task;
    step_task_start_children(self);
    note("%s:done", self->name);
    return 0;
}

int start_and_sleep(struct orr_task *task, struct step_task *self)
{
    if (!self->step++)
        step_task_start_children(self);
    return note_end(self, AWAIT(orr_sleep(task, &self->wait, 100 * MS)));
}

int clean_up(struct orr_task *task, struct step_task *self)
{
    STEPS(self)
    {
        STEP(self, 1);
        self->caught = AWAIT(orr_sleep(task, &self->wait, 1000 * MS));
        orr_scope_enter(task, &self->scope, &(struct orr_scope_options){ .shield = true });
        assert_null(orr_task_cancelled(task));
        STEP(self, 2);
        int cleaned = AWAIT(orr_sleep(task, &self->wait, 30 * MS));
        note("cleaned:%d@%llu", cleaned, fixture_ms(self->rt));
        STEP(self, 3);
        AWAIT(orr_scope_leave(task, &self->wait, &self->scope, 0));
        note("then:%s", strerrorname_np(-orr_checkpoint(task)));
    }
    return self->caught;
}
