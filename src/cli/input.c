#include "cli/input.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void input_open(struct input *input, edit_complete_fn *complete, void *data)
{
    const char *kind = getenv("TERM");
    *input = (struct input){ .terminal = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) };
    if (input->terminal && kind && strcmp(kind, "dumb") != 0)
        input->edit = edit_open(complete, data);
}

void input_close(struct input *input)
{
    edit_close(input->edit);
    free(input->text);
    *input = (struct input){ .end = true };
}

static void write_prompt(const char *prompt)
{
    ssize_t written = write(STDOUT_FILENO, prompt, strlen(prompt));
    (void)written; /* without a terminal to show it, lines are read all the same */
}

void input_begin(struct input *input, const char *prompt)
{
    input->prompt = prompt;
    if (input->edit)
        edit_begin(input->edit, prompt);
    else if (input->terminal)
        write_prompt(prompt);
}

void input_stop(struct input *input)
{
    input->prompt = NULL;
    if (input->edit)
        edit_stop(input->edit);
}

/* --- Without editing -------------------------------------------------------------------------- */

/* Reads the bytes that are there. */
static void fill(struct input *input)
{
    enum { PIECE = 4096, GROWTH = 2 * PIECE };
    memmove(input->text, input->text + input->given, input->length - input->given);
    input->length -= input->given;
    input->given = 0;
    if (input->room - input->length <= PIECE) {
        char *text = realloc(input->text, input->room + GROWTH);
        if (!text) {
            input->end = true;
            return;
        }
        input->text = text;
        input->room += GROWTH;
    }
    ssize_t size = read(STDIN_FILENO, input->text + input->length, PIECE);
    if (size > 0)
        input->length += (size_t)size;
    else if (size == 0 || (errno != EINTR && errno != EAGAIN))
        input->end = true;
}

/* Returns the next line of what was read; at the end of input, the rest. */
static const char *take_line(struct input *input)
{
    char *start = input->text + input->given;
    size_t left = input->length - input->given;
    char *newline = left ? memchr(start, '\n', left) : NULL;
    if (!newline && (!input->end || !left))
        return NULL;
    if (!newline)
        newline = start + left; /* the buffer always has room for one more byte */
    *newline = '\0';
    input->given = (size_t)(newline - input->text) + 1;
    if (input->given > input->length)
        input->given = input->length;
    return start;
}

static const char *read_plain(struct input *input)
{
    const char *line = input->text ? take_line(input) : NULL;
    if (line)
        return line;
    if (!input->end) {
        if (!input->text && !(input->text = calloc(1, input->room = 1)))
            input->end = true;
        else
            fill(input);
    }
    return input->text ? take_line(input) : NULL;
}

/* --- With or without -------------------------------------------------------------------------- */

bool input_waiting(const struct input *input)
{
    return !input->edit && input->text &&
           memchr(input->text + input->given, '\n', input->length - input->given) != NULL;
}

/* Returns whether there is another key.  A terminal that is gone counts as the end. */
static bool readable(struct input *input)
{
    struct pollfd fd = { .fd = STDIN_FILENO, .events = POLLIN };
    bool any = poll(&fd, 1, 0) > 0;
    if (fd.revents & (POLLHUP | POLLERR | POLLNVAL))
        input->end = true;
    return any;
}

const char *input_read(struct input *input)
{
    const char *line = NULL;
    if (!input->edit)
        line = read_plain(input);
    else
        do
            line = edit_key(input->edit, &input->end);
        while (!line && !input->end && readable(input) && !input->end);
    if (line)
        input->prompt = NULL;
    return line;
}

void input_hide(struct input *input)
{
    if (input->edit)
        edit_hide(input->edit);
}

void input_show(struct input *input)
{
    if (input->edit)
        edit_show(input->edit);
    else if (input->prompt && input->terminal)
        write_prompt(input->prompt);
}

void input_renew(struct input *input)
{
    if (input->edit)
        edit_renew(input->edit);
}

void input_remember(struct input *input, const char *line)
{
    if (input->edit)
        edit_remember(input->edit, line);
}
