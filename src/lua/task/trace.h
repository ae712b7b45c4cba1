/*
 * The trace of an error: its text, and the stacks of the tasks that it came through, as people read
 * them.
 *
 * A trace is kept beside the error value, never inside it: the value that a task raised is the
 * value that arrives.  The message handler at the bottom of a task makes the trace before the stack
 * unwinds, so only a task that fails pays for it.  From then on the core keeps it with the error,
 * as long as the failed task.  The task's finalizer keeps that of a task that fails because of a
 * child.
 *
 * A trace stands alone: it has copies of all stacks that it shows, TRACE_ENDS at each end of a long
 * chain.  So no chain of traces can grow, and nothing keeps a task that was awaited.  The block is
 * charged to the isolate.
 *
 * The isolate's worker's thread.  Nothing here runs Lua or the collector.
 */
#ifndef ORR_LUA_TASK_TRACE_H
#define ORR_LUA_TASK_TRACE_H

#include <stddef.h>

struct orr_isolate;
struct orr_task;

enum {
    TRACE_ENDS = 5,
    TRACE_SECTIONS = 2 * TRACE_ENDS,
    TRACE_AWAIT_MAX = 2048, /* bytes of the stack of a task that only awaited the error */
};

/* A piece of text that somebody else owns. */
struct piece {
    const char *text;
    size_t length;
};

/* How a task has come by an error. */
enum trace_how {
    TRACE_RAISED,  /* it raised the error; its name follows the stack */
    TRACE_AWAITED, /* it awaited a task that had failed */
    TRACE_BECAUSE, /* a child's failure, which nobody awaited, made it fail */
    TRACE_WRITTEN, /* the text is a section of another trace, names included */
};

/* One task in a list of sections. */
struct trace_section {
    struct piece stack;
    const struct orr_task *task; /* its name is shown; NULL for none */
    const char *created;         /* where it was made; NULL if that was not remembered */
    enum trace_how how;
};

/* Sections in the order in which an error went through tasks; of many, the ends. */
struct trace_sections {
    struct trace_section items[TRACE_SECTIONS];
    unsigned count;
    unsigned left_out; /* tasks in the middle, behind the first TRACE_ENDS sections */
};

/* Where a section is in a text. */
struct trace_part {
    unsigned start, length;
};

struct trace {
    size_t size;              /* of the block */
    size_t message;           /* bytes of the error's own text */
    unsigned count, left_out; /* a count of 0: the stack is part of the error's text */
    struct trace_part parts[TRACE_SECTIONS];
    char text[]; /* ends with a NUL */
};

/* Adds a section; of a full list, the first one after the first TRACE_ENDS is left out. */
void trace_add(struct trace_sections *self, const struct trace_section *section);

/* Adds the sections of a task's trace.  If there is only one, `task` is the task. */
void trace_add_all(struct trace_sections *self, const struct trace *trace, const struct orr_task *task,
                   const char *created);

/*
 * Writes a message and sections.  Answers how many bytes they take, without a NUL.  Writes nothing
 * if `out` is NULL, and notes each section in `parts` if that is not NULL.
 */
size_t trace_write(const struct trace_sections *self, struct piece message, char *out, struct trace_part *parts);

/* The error's own text. */
static inline struct piece trace_message(const struct trace *self)
{
    return (struct piece){ self->text, self->message };
}

/* Makes a trace; NULL for lack of memory. */
struct trace *trace_new(struct orr_isolate *iso, struct piece message, const struct trace_sections *sections);

/* Frees a trace, and sets the pointer to NULL.  It may be NULL. */
void trace_free(struct orr_isolate *iso, struct trace **trace);

#endif
