#include "base/log.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void log_stderr(void *data, enum orr_log level, const char *message)
{
    (void)data;
    if (level <= ORR_LOG_WARNING)
        fprintf(stderr, "orrery: %s\n", message);
}

struct log log_to(orr_log_fn *fn, void *data)
{
    return (struct log){ .fn = fn ? fn : log_stderr, .data = data };
}

struct log log_for(const struct log *log, const char *who)
{
    return (struct log){ .fn = log->fn, .data = log->data, .who = who };
}

/* Ends a line that did not fit: says how many of its `wanted` bytes are left out. */
static void cut(char line[LOG_LINE + 1], size_t wanted)
{
    enum { MARK_ROOM = 40 };
    size_t shown = LOG_LINE - MARK_ROOM;
    /* Not inside a UTF-8 character. */
    while (shown > 1 && ((unsigned char)line[shown] & 0xc0) == 0x80)
        shown--;
    snprintf(line + shown, LOG_LINE + 1 - shown, "... (%zu bytes more)", wanted - shown);
}

static void pass_line(const struct log *log, enum orr_log level, const char *head, const char *text, size_t length)
{
    char line[LOG_LINE + 1];
    const char *who = log->who ? log->who : "";
    int shown = length < INT_MAX / 2 ? (int)length : INT_MAX / 2;
    int wanted = snprintf(line, sizeof line, "%s%s%s%.*s", who, *who ? ": " : "", head, shown, text);
    if (wanted > LOG_LINE)
        cut(line, (size_t)wanted);
    log->fn(log->data, level, line);
}

static size_t count_lines(const char *text)
{
    size_t count = 0;
    for (; *text; count++) {
        size_t length = strcspn(text, "\n");
        text += length + (text[length] == '\n');
    }
    return count;
}

void log_text(const struct log *log, enum orr_log level, const char *head, const char *text)
{
    size_t lines = 0;
    do {
        if (lines++ == LOG_LINES) {
            log_line(log, level, "... (%zu lines more)", count_lines(text));
            return;
        }
        size_t length = strcspn(text, "\n");
        pass_line(log, level, head, text, length);
        text += length + (text[length] == '\n');
        head = "";
    } while (*text);
}

void log_line(const struct log *log, enum orr_log level, const char *format, ...)
{
    char text[LOG_LINE + 1];
    va_list args;
    va_start(args, format);
    int wanted = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (wanted > LOG_LINE)
        cut(text, (size_t)wanted);
    log_text(log, level, "", text);
}
