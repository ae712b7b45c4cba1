/*
 * The log of a runtime: messages for people that no caller can be given as an error.
 *
 * The host's function gets one line in each call, of at most LOG_LINE bytes.  A longer line ends
 * with the number of bytes that are left out, and a text of more than LOG_LINES lines with the
 * number of lines: nothing is cut without a word.  So what scripts can write to the log in one
 * message is bounded.  Nothing here allocates.  Any thread.
 */
#ifndef ORR_BASE_LOG_H
#define ORR_BASE_LOG_H

#include "orrery.h"

enum { LOG_LINE = 1000, LOG_LINES = 100 };

struct log {
    orr_log_fn *fn;
    void *data;
    const char *who; /* whose lines these are: each begins with it; NULL for the runtime's own */
};

/* The host's function; without one, warnings and errors go to stderr. */
struct log log_to(orr_log_fn *fn, void *data);

/* The same log, for the lines of `who`, which must live as long as the answer; NULL for none. */
struct log log_for(const struct log *log, const char *who);

/* Logs a formatted message of at most LOG_LINE bytes, which may have several lines. */
void log_line(const struct log *log, enum orr_log level, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Logs a text of any length; `head` comes before its first line. */
void log_text(const struct log *log, enum orr_log level, const char *head, const char *text);

#endif
