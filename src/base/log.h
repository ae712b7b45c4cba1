/*
 * Where a runtime says, in words, what has no caller to be returned to.  Any thread; never blocks
 * on us.
 */
#ifndef ORR_BASE_LOG_H
#define ORR_BASE_LOG_H

#include "orrery.h"

struct log {
    orr_log_fn *fn;
    void *data;
};

/* The host's function, or stderr for warnings and errors where the host gave none. */
struct log log_to(orr_log_fn *fn, void *data);

void log_line(const struct log *log, enum orr_log level, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* A text of several lines, one by one. */
void log_text(const struct log *log, enum orr_log level, const char *text);

#endif
