/*
 * Where failures go that nobody has seen: to the host's function, or as text to the log, with the
 * chain of tasks from the one at the top down to the one in which the error arose.
 */
#include "exec/sink.h"

#include "exec/runtime.h"
#include "exec/scope.h"

#include <stdio.h>
#include <string.h>

static const size_t CHAIN_ENDS = 6; /* names shown at either end of a long chain */

/* The beginning of a line.  What does not fit is replaced by dots. */
struct text {
    char bytes[480];
    size_t length;
    bool full;
};

static void text_add(struct text *text, const char *more)
{
    enum { DOTS = 3 };
    size_t room = sizeof text->bytes - DOTS - text->length;
    if (text->full)
        return;
    int wanted = snprintf(text->bytes + text->length, room, "%s", more);
    text->full = (size_t)wanted >= room;
    text->length += text->full ? room - 1 : (size_t)wanted;
    if (text->full)
        memcpy(text->bytes + text->length, "...", DOTS + 1);
}

static const char *name_of(const struct orr_task *task)
{
    return task->name ? task->name : "(unnamed)";
}

static const char *words_of(const struct orr_result *result)
{
    return result->message ? result->message : strerror(-result->error);
}

static void describe_chain(struct text *text, const struct orr_task *task)
{
    size_t length = 0, i = 0;
    for (const struct orr_task *at = task; at; at = orr_task_cause(at))
        length++;
    for (const struct orr_task *at = task; at; at = orr_task_cause(at), i++) {
        if (i == CHAIN_ENDS && length > 2 * CHAIN_ENDS) {
            char skipped[48];
            snprintf(skipped, sizeof skipped, " > ... %zu more ...", length - 2 * CHAIN_ENDS);
            text_add(text, skipped);
        }
        if (i >= CHAIN_ENDS && i + CHAIN_ENDS < length)
            continue;
        text_add(text, i ? " > " : "");
        text_add(text, name_of(at));
    }
}

enum { ERRORS_SHOWN = 16 }; /* errors shown of one failure, the first included */

struct errors {
    const struct log *log;
    unsigned count;
    bool first_told;
};

/* Logs an error, whose text may have many lines, after the name of its task. */
static void log_error(const struct log *log, const char *before, const struct text *name, const char *after,
                      const struct orr_result *result)
{
    char head[sizeof name->bytes + 32];
    snprintf(head, sizeof head, "%s%s%s", before, name->bytes, after);
    log_text(log, ORR_LOG_ERROR, head, words_of(result));
}

static void log_secondary(void *data, struct orr_task *origin, const struct orr_result *result)
{
    struct errors *errors = data;
    if ((errors->count++ || !errors->first_told) && errors->count <= ERRORS_SHOWN) {
        struct text name = { 0 };
        text_add(&name, name_of(origin));
        log_error(errors->log, "  and in task ", &name, ": ", result);
    }
}

static void log_failure(const struct log *log, struct orr_task *task)
{
    struct text text = { 0 };
    describe_chain(&text, task);
    struct errors errors = { .log = log, .first_told = task->failed };
    if (task->failed)
        log_error(log, "task ", &text, " failed: ", outcome_of(task));
    else
        log_line(log, ORR_LOG_ERROR, "task %s ended, with errors below it:", text.bytes);
    orr_task_errors(task, log_secondary, &errors);
    if (errors.count > ERRORS_SHOWN)
        log_line(log, ORR_LOG_ERROR, "  and %u more errors", errors.count - ERRORS_SHOWN);
}

void sink_report(struct orr_task *task)
{
    const struct orr_runtime *rt = task->worker->runtime;
    task->observed = true;
    struct log log = log_for(&rt->log, task->share->name);
    if (rt->sink)
        rt->sink(rt->sink_data, task);
    else
        log_failure(&log, task);
}
