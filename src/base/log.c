#include "base/log.h"

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

void log_line(const struct log *log, enum orr_log level, const char *format, ...)
{
    char line[512];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    log->fn(log->data, level, line);
}

void log_text(const struct log *log, enum orr_log level, const char *text)
{
    while (*text) {
        size_t length = strcspn(text, "\n");
        log_line(log, level, "%.*s", (int)length, text);
        text += length + (text[length] == '\n');
    }
}
