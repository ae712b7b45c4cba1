#include "cli/screen.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct input *asking; /* NULL while it is not open */
static FILE *before;         /* the original stdout */
static bool in_a_line;       /* the last output did not end with a newline */

static size_t write_all(int fd, const char *bytes, size_t size)
{
    size_t done = 0;
    while (done < size) {
        ssize_t written = write(fd, bytes + done, size - done);
        if (written > 0)
            done += (size_t)written;
        else if (errno != EINTR)
            break;
    }
    return done;
}

static size_t write_above(int fd, const char *bytes, size_t size)
{
    bool prompted = asking && asking->prompt;
    bool whole = size && bytes[size - 1] == '\n';
    if (prompted)
        input_hide(asking);
    size_t done = write_all(fd, bytes, size);
    if (prompted && !whole)
        write_all(fd, "\n", 1);
    if (prompted)
        input_show(asking);
    else if (size)
        in_a_line = !whole;
    return done;
}

static ssize_t on_write(void *cookie, const char *bytes, size_t size)
{
    (void)cookie;
    return (ssize_t)write_above(STDOUT_FILENO, bytes, size); /* 0 means an error for such streams */
}

void screen_open(struct input *input)
{
    if (!input->terminal)
        return;
    FILE *stream = fopencookie(NULL, "w", (cookie_io_functions_t){ .write = on_write });
    if (!stream)
        return;
    setvbuf(stream, NULL, _IOLBF, BUFSIZ);
    fflush(stdout);
    asking = input;
    before = stdout;
    stdout = stream;
}

void screen_close(void)
{
    if (!asking)
        return;
    FILE *stream = stdout;
    stdout = before;
    asking = NULL;
    fclose(stream);
}

void screen_complain(const char *text)
{
    fflush(stdout);
    write_above(STDERR_FILENO, text, strlen(text));
}

void screen_fresh_line(void)
{
    fflush(stdout);
    if (asking && in_a_line)
        write_all(STDOUT_FILENO, "\n", 1);
    in_a_line = false;
}
