/*
 * The log of a runtime: messages for people that no caller can be given as an error.  Any thread.
 */
#ifndef ORR_BASE_LOG_H
#define ORR_BASE_LOG_H

#include "orrery.h"

struct log {
    orr_log_fn *fn;
    void *data;
};

/* The host's function; without one, warnings and errors go to stderr. */
struct log log_to(orr_log_fn *fn, void *data);

void log_line(const struct log *log, enum orr_log level, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Logs a text of several lines, each as a line of its own. */
void log_text(const struct log *log, enum orr_log level, const char *text);

#endif
