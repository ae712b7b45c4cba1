#include "lua/task/trace.h"

#include "exec/extend.h"
#include "lua/isolate/charge.h"

#include <stdio.h>
#include <string.h>

/* --- Sections --------------------------------------------------------------------------------- */

void trace_add(struct trace_sections *self, const struct trace_section *section)
{
    if (self->count == TRACE_SECTIONS) {
        struct trace_section *middle = &self->items[TRACE_ENDS];
        memmove(middle, middle + 1, (TRACE_ENDS - 1) * sizeof *middle);
        self->count--;
        self->left_out++;
    }
    self->items[self->count++] = *section;
}

void trace_add_all(struct trace_sections *self, const struct trace *trace, const struct orr_task *task,
                   const char *created)
{
    for (unsigned i = 0; i < trace->count; i++)
        trace_add(self,
                  &(struct trace_section){ .stack = { trace->text + trace->parts[i].start, trace->parts[i].length },
                                           .task = task,
                                           .created = created,
                                           .how = trace->count > 1 ? TRACE_WRITTEN : TRACE_RAISED });
    if (!trace->count)
        trace_add(self, &(struct trace_section){ .task = task, .created = created, .how = TRACE_RAISED });
    self->left_out += trace->left_out;
}

/* --- Writing ---------------------------------------------------------------------------------- */

/* Text that grows in a block; without a block, it is only measured. */
struct writer {
    char *out;
    size_t length;
};

static void put(struct writer *to, const char *text, size_t length)
{
    if (to->out && length)
        memcpy(to->out + to->length, text, length);
    to->length += length;
}

static void put_text(struct writer *to, const char *text)
{
    put(to, text, strlen(text));
}

static void put_heading(struct writer *to, const struct trace_section *section)
{
    static const char *const verbs[] = {
        [TRACE_RAISED] = "'", [TRACE_AWAITED] = "' awaited it", [TRACE_BECAUSE] = "' failed because of it"
    };
    const char *name = orr_task_name(section->task);
    put_text(to, "task '");
    put_text(to, name ? name : "(unnamed)");
    put_text(to, verbs[section->how]);
    if (section->created) {
        put_text(to, ", created at ");
        put_text(to, section->created);
    }
}

static void put_section(struct writer *to, const struct trace_section *section)
{
    bool named_first = section->how == TRACE_AWAITED || section->how == TRACE_BECAUSE;
    bool named_last = section->how == TRACE_RAISED && section->task;
    if (named_first)
        put_heading(to, section);
    if (named_first && section->stack.length)
        put_text(to, "\n");
    put(to, section->stack.text, section->stack.length);
    if (named_last && section->stack.length)
        put_text(to, "\n");
    if (named_last)
        put_heading(to, section);
}

size_t trace_write(const struct trace_sections *self, struct piece message, char *out, struct trace_part *parts)
{
    struct writer to = { 0 };
    to.out = out;
    put(&to, message.text, message.length);
    for (unsigned i = 0; i < self->count; i++) {
        if (i == TRACE_ENDS && self->left_out) {
            char more[48];
            snprintf(more, sizeof more, "\n... (%u more tasks)", self->left_out);
            put_text(&to, more);
        }
        put_text(&to, "\n");
        size_t start = to.length;
        put_section(&to, &self->items[i]);
        if (parts)
            parts[i] = (struct trace_part){ (unsigned)start, (unsigned)(to.length - start) };
    }
    return to.length;
}

/* --- Traces ----------------------------------------------------------------------------------- */

struct trace *trace_new(struct orr_isolate *iso, struct piece message, const struct trace_sections *sections)
{
    struct alloc alloc = charge_alloc(iso);
    size_t length = trace_write(sections, message, NULL, NULL);
    struct trace *self = alloc_zeroed(&alloc, sizeof *self + length + 1);
    if (!self)
        return NULL;
    self->size = sizeof *self + length + 1;
    self->message = message.length;
    self->count = sections->count;
    self->left_out = sections->left_out;
    trace_write(sections, message, self->text, self->parts);
    return self;
}

void trace_free(struct orr_isolate *iso, struct trace **trace)
{
    struct alloc alloc = charge_alloc(iso);
    if (*trace)
        alloc_free(&alloc, *trace, (*trace)->size);
    *trace = NULL;
}
