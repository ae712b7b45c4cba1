#include "lua/sandbox/source.h"

#include "lua/limits/preempt.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

enum {
    PIECE = 64,    /* what the parser is given at a time: with some texts it needs long for every one of them */
    BUFFER = 4096, /* what is read of a file at a time */
};

static int loaded(lua_State *L, int status)
{
    if (status == LUA_OK)
        return 0;
    if (status != LUA_ERRMEM)
        return -EPROTO;
    lua_pop(L, 1);
    return -ENOMEM;
}

/* --- Text ----------------------------------------------------------------------------------------------------- */

struct text {
    struct orr_isolate *iso;
    const char *at;
    size_t left;
};

static const char *read_text(lua_State *L, void *data, size_t *size)
{
    struct text *text = data;
    const char *piece = text->at;
    preempt_check(text->iso, L);
    *size = text->left < PIECE ? text->left : PIECE;
    text->at += *size;
    text->left -= *size;
    return piece;
}

int source_load_text(lua_State *L, const char *text, size_t size, const struct source_options *options)
{
    if (options->limit && size > options->limit)
        return -EFBIG;
    struct text source = { options->iso, text, size };
    return loaded(L, lua_load(L, read_text, &source, options->name, options->mode));
}

/* --- Files ---------------------------------------------------------------------------------------------------- */

struct file {
    struct orr_isolate *iso;
    int fd, error;
    size_t size, limit;
    bool begun, in_comment; /* the first line, if it is one for the shell */
    size_t next, end;       /* what is in the buffer and has not been given out */
    char buffer[BUFFER];
};

/* False at the end. */
static bool fill_buffer(struct file *file)
{
    ssize_t size;
    do
        size = read(file->fd, file->buffer, BUFFER);
    while (size < 0 && errno == EINTR);
    if (size < 0)
        file->error = -errno;
    else if (file->limit && (file->size += (size_t)size) > file->limit)
        file->error = -EFBIG;
    file->next = 0;
    file->end = size > 0 ? (size_t)size : 0;
    return size > 0 && !file->error;
}

/* Answers how many bytes the next piece has, 0 at the end. */
static size_t next_piece(struct file *file, const char **piece)
{
    if (file->next == file->end && !fill_buffer(file))
        return 0;
    size_t left = file->end - file->next;
    size_t size = left < PIECE ? left : PIECE;
    *piece = file->buffer + file->next;
    file->next += size;
    return size;
}

static const char *read_file(lua_State *L, void *data, size_t *size)
{
    static const char mark[] = "\xEF\xBB\xBF"; /* that editors put before UTF-8 */
    struct file *file = data;
    const char *start;
    do {
        preempt_check(file->iso, L);
        size_t length = next_piece(file, &start);
        if (!length)
            return NULL;
        const char *end = start + length;
        if (!file->begun && length >= strlen(mark) && !memcmp(start, mark, strlen(mark)))
            start += strlen(mark);
        if (!file->begun)
            file->in_comment = start < end && *start == '#';
        file->begun = true;
        *size = (size_t)(end - start);
        if (file->in_comment) {
            const char *newline = memchr(start, '\n', *size);
            file->in_comment = !newline;
            start = newline ? newline : end; /* the end of the line stays, for the lines to be counted right */
            *size = (size_t)(end - start);
        }
    } while (!*size);
    return start;
}

int source_load_file(lua_State *L, int fd, const struct source_options *options)
{
    struct file file = { .iso = options->iso, .fd = fd, .limit = options->limit };
    int error = loaded(L, lua_load(L, read_file, &file, options->name, options->mode));
    if (!file.error)
        return error;
    if (error != -ENOMEM)
        lua_pop(L, 1);
    return file.error;
}
